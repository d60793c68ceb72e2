"""Prepare what a terminal shows for all forms of one wait's condition.

Typed lines are left out. The line with the cursor may still grow, so it is *open* until no output
has come for a moment or the command has ended; then it is an ordinary line. A line is at most as
long as one look (256 KiB).
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from taskmem_hookspecs import Frame
from taskmem_terminal.frames import remove_typed_lines

STILL_SECONDS: Final = 0.3
"""Time without output after which an unfinished line counts as finished. Seconds."""
TRACE: Final = re.compile(r"\++ \S")
_QUOTE_CHARS: Final = 200
"""Maximum length of a quoted line. Characters."""


class View:
    """One frame without its typed lines, plus state from earlier frames."""

    def __init__(self, frame: Frame, *, changed_at: datetime, cursor: str) -> None:
        """Set the frame.

        `cursor` is the text before the cursor on its line, typed or not.
        """
        self.frame = frame
        self.cursor = cursor
        self.changed_at = changed_at
        self.over = frame.exit_status is not None or frame.gone is not None
        self.still_seconds = (frame.seen_at - changed_at).total_seconds()
        self.settled = self.over or self.still_seconds >= STILL_SECONDS or not cursor
        """True if the line with the cursor is final."""
        self.lines = ""
        """New lines that are final."""
        self.open = ""
        """The line that may still grow; empty: there is none."""
        self.tail = ""
        """The frame's `tail`: the last lines since the wait's start; typed ones are empty."""
        self.screen = (frame.tail or "") if frame.screen is None else frame.screen
        """The visible text, including typed lines and output from before the wait."""
        self.visible = ""
        """The visible text; typed lines are empty."""
        self.first_screen = ""
        """The visible text when the wait began."""
        self.traced = ""
        """Commands that `set -x` showed, which count as typed."""
        self.look_again_seconds: float | None = None

    @property
    def last_line(self) -> str:
        """The last line that is not blank."""
        return read_last_line(self.tail or self.lines).strip()

    def is_at_rest(self) -> bool:
        """Return whether no output has come for a moment; if not, request a look then."""
        left = 0.0 if self.over else STILL_SECONDS - self.still_seconds
        if left > 0:
            self.look_again(left)
        return left <= 0

    def look_again(self, seconds: float) -> None:
        """Request a look after `seconds` even if nothing changes; the shortest request wins."""
        known = self.look_again_seconds
        self.look_again_seconds = seconds if known is None else min(known, seconds)


class ViewBuilder:
    """Makes views of the frames of one wait, in order."""

    def __init__(self) -> None:
        self._cursor = ""
        self._rows: frozenset[str] = frozenset()
        """Rows that were visible at the last look."""
        self._known: frozenset[str] = frozenset()
        """Visible rows that have already been added as lines."""
        self._printed = ("", "")
        """The last two texts that were not empty."""
        self._changed_at: datetime | None = None
        self._first_screen: str | None = None

    def build_view(self, frame: Frame) -> View:
        """Return the view of the next frame."""
        text, tail = frame.text or "", frame.tail or ""
        if text:
            self._cursor = text[text.rfind("\n") + 1 :]
        if text or self._changed_at is None:
            self._changed_at = frame.seen_at
        changed_at = frame.changed_at or self._changed_at
        view = View(frame, changed_at=changed_at, cursor=self._cursor)
        if not (text or self._printed[1]):
            # Nothing came since the wait began; a question may stand there already.
            view.cursor = read_last_line(view.screen)
        typed = {line.strip() for line in frame.echoes}
        view.traced = "\n".join(filter(TRACE.match, frame.echoes))
        view.lines = _remove_typed(text[: text.rfind("\n") + 1], typed)
        if self._cursor.strip() not in typed:
            if view.settled:
                view.lines += self._cursor
            else:
                view.open = self._cursor
                view.look_again(STILL_SECONDS)
        view.tail = _remove_typed(tail, typed)
        view.visible = view.tail if frame.screen is None else remove_typed_lines(view.screen)
        if self._first_screen is None:
            self._first_screen = view.screen
        view.first_screen = self._first_screen
        self._printed = (self._printed[1], text) if text else self._printed
        if tail and tail not in text:
            self._add_rows(view)
        return view

    def _add_rows(self, view: View) -> None:
        """Add rows of a painted screen that were never printed as lines.

        While a program paints, a row may be incomplete; it counts at its second look.
        """
        rows = frozenset(view.tail.split("\n")) - {self._cursor.rstrip(), ""}
        whole = rows if view.settled else rows & self._rows
        fresh = [
            row
            for row in sorted(whole - self._known, key=view.tail.find)
            if not any(row in printed for printed in self._printed)
        ]
        if fresh:
            view.lines += "\n" + "\n".join(fresh)
        if rows - whole:
            view.look_again(STILL_SECONDS)
        self._known = (self._known | whole) & rows
        self._rows = rows


def read_last_line(text: str) -> str:
    """Return the last line that is not blank."""
    text = text.rstrip()
    return text[text.rfind("\n") + 1 :]


def clip_line(line: str) -> str:
    """Shorten a line for a quotation."""
    line = " ".join(line[: 4 * _QUOTE_CHARS].split())
    return line if len(line) <= _QUOTE_CHARS else f"{line[: _QUOTE_CHARS - 1]}…"


def _remove_typed(text: str, typed: set[str]) -> str:
    if not typed:
        return text
    kept = ("" if line.strip() in typed else line for line in text.split("\n"))
    return "\n".join(kept)

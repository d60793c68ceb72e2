"""tmux's panes: find the one that a target names, place a mark, and keep what it shows.

tmux itself matches prefixes of names, so that a wait on `work` could watch `workshop`; here names
match exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from asyncio.subprocess import PIPE
from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2s
from typing import Final, NamedTuple

from taskmem_hookspecs import TargetNotFound
from taskmem_terminal.frames import is_bare_prompt
from taskmem_terminal.recording import SHELL_CARRIERS, SHELLS
from taskmem_terminal.render import mask_strings, render_lines

ANSWER_SECONDS: Final = 5.0
"""Time limit of one answer. Seconds."""


class TmuxError(Exception):
    """tmux refused or failed; the message is tmux's."""


def build_tmux_command() -> list[str]:
    """Return the command that reaches the user's tmux server.

    `TASKMEM_TMUX_SOCKET` is the path of another server's socket; otherwise tmux uses TMUX and
    TMUX_TMPDIR.
    """
    socket = os.environ.get("TASKMEM_TMUX_SOCKET")
    # -u: without a locale, as in services, tmux replaces tabs and prints only ASCII.
    return ["tmux", "-u", *(["-S", socket] if socket else [])]


async def run_tmux_command(*arguments: str) -> str:
    """Return the output of a tmux command.

    Raises:
        TmuxError: It failed, with tmux's message; empty if it timed out.
        FileNotFoundError: tmux is not installed.
    """
    process = await asyncio.create_subprocess_exec(
        *build_tmux_command(), *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE,
        stderr=PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            out, trouble = await process.communicate()
    except TimeoutError:
        raise TmuxError("") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise TmuxError(trouble.decode(errors="replace").strip())
    return out.decode(errors="replace")


_MOST_NAMES: Final = 8
_FIELDS: Final = (
    "pane_id", "session_id", "session_name", "window_id", "window_index",
    "pane_index", "window_active", "pane_active", "pane_dead", "pane_dead_status",
    "pane_dead_signal", "pane_pid", "history_size", "cursor_x", "cursor_y",
    "pane_width", "pane_height", "pid", "start_time",
)  # fmt: skip
_WORDS: Final = ("pane_current_command", "window_name", "pane_start_command")
"""Fields in which programs and users may write any text."""
FORMAT: Final = "\t".join(
    (
        *(f"#{{{field}}}" for field in _FIELDS),
        *(f"#{{s/[\x01-\x1f\x7f]/ /:{field}}}" for field in _WORDS),
    )
)
"""Format string for tmux; `Pane.parse` reads its lines."""
_SPECIAL_TARGET: Final = re.compile(r"[:.]=?(?:[!^$+-]|\{[a-z-]+\})")


class Pane(NamedTuple):
    """One pane, as of one query."""

    id: str
    session: str
    """Id of its session."""
    session_name: str
    window: str
    window_index: str
    number: str
    """Its index within the window."""
    in_front: bool
    """True if it is the active pane of its window."""
    window_in_front: bool
    dead: bool
    status: int | None
    """Exit status; the negative number of the signal that ended it; None: unknown or running."""
    pid: int
    command: str
    """Program in the foreground."""
    history: int
    """Number of lines above the screen."""
    column: int
    row: int
    """Position of the cursor, with `column`."""
    columns: int
    rows: int
    server: str
    """Identifies this tmux server."""
    window_name: str
    started_with: str
    """The command it was started with; empty: a shell."""

    @classmethod
    def parse(cls, line: str) -> Pane:
        """Parse a line of FORMAT.

        Raises:
            ValueError: It is not such a line.
        """
        names = (*_FIELDS, *_WORDS)
        fields = dict(zip(names, line.split("\t", len(names) - 1), strict=True))
        status = fields["pane_dead_status"]
        if not status and fields["pane_dead_signal"]:
            status = f"-{fields['pane_dead_signal']}"
        return cls(
            id=fields["pane_id"],
            session=fields["session_id"],
            session_name=fields["session_name"],
            window=fields["window_id"],
            window_index=fields["window_index"],
            number=fields["pane_index"],
            in_front=fields["pane_active"] == "1",
            window_in_front=fields["window_active"] == "1",
            dead=fields["pane_dead"] == "1",
            status=int(status) if status else None,
            pid=int(fields["pane_pid"] or 0),
            command=fields["pane_current_command"],
            history=int(fields["history_size"] or 0),
            column=int(fields["cursor_x"] or 0),
            row=int(fields["cursor_y"] or 0),
            columns=int(fields["pane_width"] or 80),
            rows=int(fields["pane_height"] or 24),
            server=f"{fields['pid']}-{fields['start_time']}",
            window_name=fields["window_name"],
            started_with=fields["pane_start_command"],
        )

    def __str__(self) -> str:
        """Return the target that names the pane."""
        return f"pty:tmux:{self.session_name}:{self.window_index}.{self.number}"

    @property
    def server_pid(self) -> int:
        """Process id of the tmux server."""
        return int(self.server.partition("-")[0])

    @property
    def prompt(self) -> bool | None:
        """True if a shell is in the foreground; None: unknown."""
        if self.command in SHELL_CARRIERS or self.dead:
            return None
        if self.command in SHELLS:
            first = self.started_with.strip('"').split(" ", 1)
            # `tmux new-session 'sh build.sh'`: a shell that shows no prompt.
            named = first[0].rpartition("/")[2]
            waits = not named or (named in SHELLS and len(first) == 1)
            return True if waits else None
        return False


async def list_panes() -> list[Pane]:
    """Return all panes of the server; none: no server runs.

    Raises:
        TargetNotFound: tmux is not installed.
        TmuxError: tmux does not answer, so the panes are unknown.
    """
    try:
        answer = await run_tmux_command("list-panes", "-a", "-F", FORMAT)
    except TmuxError as words:
        if not str(words) or "temporarily" in str(words):
            raise
        return []
    except FileNotFoundError:
        raise TargetNotFound(
            "tmux is not installed here; install it (apt-get install tmux, or brew "
            "install tmux), or run the command by taskmem run --name NAME -- CMD."
        ) from None
    panes: list[Pane] = []
    for line in answer.split("\n"):
        # An unreadable line must not hide the other panes.
        with contextlib.suppress(ValueError):
            panes.append(Pane.parse(line))
    return panes


async def find_pane(name: str) -> Pane:
    """Return the pane that a target names.

    Raises:
        TargetNotFound: There is none; the message names the existing panes.
    """
    try:
        panes = await list_panes()
    except TmuxError:
        raise TargetNotFound(
            f"tmux does not answer, so pty:tmux:{name} was not found; see that "
            "tmux list-panes -a works."
        ) from None
    found = _find_named(name.removeprefix("="), panes)
    if found is None and _SPECIAL_TARGET.search(name):
        # `work:!`, `work:.{bottom}`: only tmux can resolve these.
        try:
            id_ = await run_tmux_command("display-message", "-p", "-t", name, "#{pane_id}")
        except TmuxError:
            id_ = ""
        found = next((pane for pane in panes if pane.id == id_.strip()), None)
    if found is None:
        raise TargetNotFound(_describe_missing_pane(name, panes))
    return found


def _find_named(name: str, panes: list[Pane]) -> Pane | None:
    if name.startswith("%"):
        return next((pane for pane in panes if pane.id == name), None)
    if name.startswith("@"):
        return _find_front([pane for pane in panes if pane.window == name])
    session, colon, rest = name.partition(":")
    mine = [pane for pane in panes if session in (pane.session_name, pane.session)]
    if colon:
        return _find_within(rest.removeprefix("="), mine)
    if not mine and "." in name:
        # tmux takes `work.1` for a pane of the session's active window.
        session, _, index = name.rpartition(".")
        mine = [pane for pane in panes if session in (pane.session_name, pane.session)]
        mine = [pane for pane in mine if pane.window_in_front and pane.number == index]
    return _find_front(mine)


def _find_within(rest: str, mine: list[Pane]) -> Pane | None:
    """Return the pane of a session that `window.pane` names."""
    whole = [pane for pane in mine if rest in _list_window_names(pane)]
    if whole or "." not in rest:
        return _find_front(whole if rest else mine)
    window, _, index = rest.rpartition(".")
    return next(
        (
            pane
            for pane in mine
            if index in (pane.number, pane.id)
            and (window in _list_window_names(pane) if window else pane.window_in_front)
        ),
        None,
    )


def _list_window_names(pane: Pane) -> tuple[str, str, str]:
    return pane.window_index, pane.window_name, pane.window


def _find_front(panes: list[Pane]) -> Pane | None:
    """Return the active pane among those of a session or window."""
    ranked = sorted(panes, key=lambda pane: (pane.window_in_front, pane.in_front))
    return ranked[-1] if ranked else None


def _describe_missing_pane(name: str, panes: list[Pane]) -> str:
    if not panes:
        return (
            f"There is no pane pty:tmux:{name}: no tmux server runs that can be "
            "reached; start one, or set TASKMEM_TMUX_SOCKET to the path of its socket."
        )
    named = ", ".join(f"{pane} ({pane.command})" for pane in panes[:_MOST_NAMES])
    more = len(panes) - _MOST_NAMES
    return (
        f"There is no pane pty:tmux:{name}; there are {named}"
        f"{f' and {more} more' if more > 0 else ''}."
    )


# --- scrollback ---------------------------------------------------------------


MARK_LINES: Final = 3
"""Finished lines that identify a place."""


class CursorPosition(NamedTuple):
    """Position of a pane's cursor."""

    row: int
    """Counted from the beginning of the scrollback."""
    column: int
    above: str
    """Fingerprint of the lines above; empty: there are none."""

    def __str__(self) -> str:
        """Format for `parse`."""
        return f"{self.row},{self.column},{self.above}"

    @classmethod
    def parse(cls, text: str) -> CursorPosition:
        """Parse what `__str__` wrote.

        Raises:
            ValueError: It is not a position.
        """
        row, column, above = text.split(",")
        return cls(int(row), int(column), above)


class Scrollback:
    """Lines of a pane at one moment, up to the cursor's."""

    def __init__(self, pane: Pane, captured: list[bytes], above: int) -> None:
        """Set the output of `capture-pane -J`, which begins `above` lines above the screen.

        Wrapped lines are joined.
        """
        first = pane.history - min(pane.history, above)
        self._rows: list[int] = []
        self.lines: list[bytes] = []
        self._below: list[bytes] = []
        self._pane = pane
        at = first
        for line in captured:
            if at > pane.history + pane.row:
                self._below.append(line.rstrip(b" "))
                continue
            self._rows.append(at)
            self.lines.append(line.rstrip(b" "))
            at += max(1, -(-_count_columns(line) // pane.columns))

    def get_cursor_position(self) -> CursorPosition:
        """Return the position of the cursor."""
        pane = self._pane
        return CursorPosition(
            pane.history + pane.row, pane.column, self._fingerprint_above(len(self.lines) - 1)
        )

    def format_screen(self) -> str:
        """Return the whole screen, with typed lines."""
        rows = zip(self._rows, self.lines, strict=True)
        lines = [line for row, line in rows if row >= self._pane.history]
        return b"\n".join(lines + self._below).decode(errors="replace").rstrip()

    def get_cursor_line(self) -> str:
        """Return the text before the cursor on its line."""
        if not self.lines:
            return ""
        text = self.lines[-1].decode(errors="replace")
        before = self._pane.column
        before += max(0, (len(text) - 1)) // self._pane.columns * self._pane.columns
        return text[:before]

    def to_bytes(self) -> bytes:
        """Return bytes that would show these lines."""
        if not self.lines:
            return b""
        pane = self._pane
        row = pane.history + pane.row - self._rows[-1]
        after = row * pane.columns + pane.column - _count_columns(self.lines[-1])
        # The cursor may be before or after the end of its line.
        at = f"\r\x1b[{pane.column}C".encode() if pane.column else b"\r"
        return b"\r\n".join(self.lines) + (at if after < 0 else b" " * after)

    def find_position(self, mark: CursorPosition) -> tuple[int, int]:
        """Return line and offset where the output after a mark begins.

        The offset is into `to_bytes()`. If no line matches the mark, everything is new.
        """
        index = self._find_index(mark)
        offset = self.find_offset(index)
        if index < len(self.lines):
            begin = self.lines[index].decode(errors="replace")[: mark.column]
            offset += len(begin.encode())
        return index, min(offset, len(self.to_bytes()))

    def find_line_after(self, shown: Sequence[str]) -> int | None:
        """Return the index of the line after the last occurrence of `shown`; None: not found."""
        lines = [
            (index, text)
            for index, line in enumerate(self.lines)
            if (text := line.decode(errors="replace"))
        ]
        for end in range(len(lines), len(shown) - 1, -1) if shown else ():
            if [text for _, text in lines[end - len(shown) : end]] == [*shown]:
                return lines[end - 1][0] + 1
        return None

    def find_offset(self, index: int) -> int:
        """Return the offset of a line in `to_bytes()`."""
        return sum(len(line) + 2 for line in self.lines[: max(0, index)])

    def _find_index(self, mark: CursorPosition) -> int:
        rows = range(len(self.lines))
        same = next((n for n in reversed(rows) if self._rows[n] <= mark.row), 0)
        if not self.lines or self._fingerprint_above(same) == mark.above:
            return same
        # The scrollback lost its first lines, or its lines wrap differently now.
        moved = [n for n in rows if mark.above and self._fingerprint_above(n) == mark.above]
        return max(moved, default=0)

    def _fingerprint_above(self, index: int) -> str:
        lines = [line for line in self.lines[:index] if line][-MARK_LINES:]
        return blake2s(b"\n".join(lines), digest_size=8).hexdigest() if lines else ""


def _count_columns(line: bytes) -> int:
    if line.isascii():
        return len(line)
    from unicodedata import east_asian_width

    text = render_lines([line])[0][0]
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


# --- output -------------------------------------------------------------------


_KEPT_BYTES: Final = 4 << 20
"""Bytes of a pane's output retained at least, for waits that have not read it; at most twice."""
_SHOWN_BYTES: Final = 16_384
_UNSEEN_BYTES: Final = 256
"""How far in front of a line's text its escape sequences may begin. Bytes."""
_LONGEST_PROMPT: Final = 256
"""Maximum size of a line that is taken for a prompt. Bytes."""
_EDITOR: Final = re.compile(rb"\x1b\[\?2004([hl])")
"""A line editor begins or ends to read: it wants pasted text in brackets, or no more."""


class PaneBuffer:
    """The bytes of a pane, of which the oldest may be lost."""

    def __init__(self, scrollback: Scrollback) -> None:
        self.scrollback = scrollback
        self._data = bytearray(scrollback.to_bytes())
        self.begin = 0
        """Offset of the first retained byte."""
        self._untyped: list[tuple[int, int]] = []
        """Ranges of offsets, in order, in which nobody typed."""
        self._run_began: int | None = None
        """Where a line editor ended, so that a command may run since then; None: unknown."""

    @property
    def end(self) -> int:
        """Offset after the last byte."""
        return self.begin + len(self._data)

    def append(self, data: bytes, can_be_typed: tuple[bool, bool] = (True, True)) -> None:
        """Append output of the pane.

        `can_be_typed`: whether somebody could type there before it came, and can now.
        """
        begin = self.end
        self._data += data
        self._heed_editor(begin, data)
        before, now = can_be_typed
        end = self._find_prompt()
        if self._run_began is not None:
            if not now:
                self._note_untyped(self._run_began, end)
            if end < self.end:
                self._run_began = self.end
        if not before:
            # Of what ended meanwhile, the last line may be a prompt.
            self._note_untyped(begin, begin + data.rfind(b"\n") + 1 if now else end)
        if len(self._data) > 2 * _KEPT_BYTES:
            lost = len(self._data) - _KEPT_BYTES
            del self._data[:lost]
            self.begin += lost
            self._untyped = [part for part in self._untyped if part[1] > self.begin]

    def read(self, at: int, size: int) -> bytes:
        """Return up to `size` bytes from an offset."""
        begin = max(0, at - self.begin)
        return bytes(self._data[begin : begin + size])

    def read_last_lines(self) -> Sequence[str]:
        """Return the last finished lines, as shown."""
        raw = mask_strings(bytes(self._data[-_SHOWN_BYTES:])).split(b"\n")[:-1]
        lines = [line for lines in render_lines(raw) for line in lines if line]
        return lines[-MARK_LINES:]

    def is_untyped(self, begin: int, end: int) -> bool:
        """Return whether nobody can have typed what is between two offsets."""
        at = bisect_right(self._untyped, (begin, sys.maxsize)) - 1
        return at >= 0 and self._untyped[at][0] <= begin and end <= self._untyped[at][1]

    def forget_run(self) -> None:
        """Forget where the last command began: somebody can type while it runs."""
        self._run_began = None

    def _heed_editor(self, begin: int, data: bytes) -> None:
        for found in _EDITOR.finditer(data):
            if found[1] == b"l":
                self._run_began = begin + found.end()
            elif self._run_began is not None:
                self._note_untyped(self._run_began, begin + found.start())
                self._run_began = None

    def _find_prompt(self) -> int:
        """Return where the last line begins, if it looks like a prompt; otherwise the end.

        A program may begin to read after it has shown its prompt, and what is typed there may come
        when it has been read. So two looks at which nobody read do not tell who wrote the line.
        """
        last = bytes(self._data[-_LONGEST_PROMPT:]).rpartition(b"\n")[2]
        shown = render_lines([mask_strings(last)])[0] if last else ()
        return self.end - len(last) if any(map(is_bare_prompt, shown)) else self.end

    def _note_untyped(self, begin: int, end: int) -> None:
        if begin >= end:
            return
        # A line that has shown nothing yet begins here.
        at = begin - self.begin
        line = max(self._data.rfind(b"\n", 0, at) + 1, at - _UNSEEN_BYTES)
        if not any(render_lines([mask_strings(bytes(self._data[line:at]))])[0]):
            begin = self.begin + line
        while self._untyped and self._untyped[-1][1] >= begin:
            first, last = self._untyped.pop()
            begin, end = min(first, begin), max(last, end)
        self._untyped.append((begin, end))

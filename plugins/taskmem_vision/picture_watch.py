"""Base of the watches on screens and windows: when they look again, and their frames."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from taskmem_hookspecs import Frame, TargetGone
from taskmem_vision.desktop import Privacy, Window, describe_window
from taskmem_vision.pictures import Look, LookHistory

LOOK_GAP: Final = 0.2
"""Minimum time between two looks. Seconds."""
POLL_GAP: Final = 2.0
"""Time between two looks where no paint events are available. Seconds."""
LIVELY_SECONDS: Final = 10.0
"""How long after a change polling uses `LOOK_GAP` instead. Seconds."""
_ONLY_PLACE: Final = "now"
"""The only place of a picture, which has no past."""


class LookThrottle:
    """Tells one watch when to look again: after an event, at most once in `LOOK_GAP` seconds."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stirred = asyncio.Event()
        self._looked_at = float("-inf")
        self._moved_at = float("-inf")
        self._stale = True

    def note_event(self) -> None:
        """Note that something happened."""
        self._stale = True
        self._stirred.set()

    def is_due(self) -> bool:
        """Return whether to look again; an event within `LOOK_GAP` stays pending."""
        return self._stale and self._loop.time() >= self._looked_at + LOOK_GAP

    def record_look(self) -> float:
        """Record a look, and return its time in monotonic seconds."""
        self._stale = False
        self._looked_at = self._loop.time()
        return self._looked_at

    def record_motion(self) -> None:
        """Record that the last look showed something new."""
        self._moved_at = self._looked_at

    async def wait_for_event(self) -> None:
        """Wait for an event, and until the last look is `LOOK_GAP` ago."""
        await self._stirred.wait()
        await self._wait_since_look(LOOK_GAP)
        self._stirred.clear()

    async def wait_for_poll(self) -> None:
        """Wait until the next look is due where no events are available."""
        lively = self._loop.time() < self._moved_at + LIVELY_SECONDS
        await self._wait_since_look(LOOK_GAP if lively else POLL_GAP)
        self._stale = True

    async def _wait_since_look(self, seconds: float) -> None:
        # Another wait may have looked meanwhile, which postpones the next look.
        while (left := self._looked_at + seconds - self._loop.time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)


class PictureWatch(ABC):
    """`Watch` without `wait_for_change`, which subclasses add; it has one place."""

    def __init__(self, note: str | None) -> None:
        """Set the note about the target for the first frame; None: none."""
        self._note = note
        self._track = LookHistory()
        self._look: Look | None = None
        self._gone: str | None = None
        self._throttle = LookThrottle()
        self._loop = asyncio.get_running_loop()

    async def here(self) -> Frame:
        """Return the current frame, with the note about the target.

        Raises:
            TargetGone: The target went away.
        """
        frame = await self._build_frame()
        if frame.gone is not None:
            raise TargetGone(frame.gone)
        notes = " ".join(filter(None, (self._note, frame.note)))
        return frame.model_copy(update={"note": notes or None})

    async def end(self) -> str:
        """Return the only place."""
        return _ONLY_PLACE

    async def look(self, place: str, start: str) -> Frame:
        """Return the current frame."""
        del place, start
        return await self._build_frame()

    async def close(self) -> None:
        """Close the connection to the display."""
        self._disconnect()

    @abstractmethod
    async def _refresh_look(self) -> str | None:
        """Look if something may be new; return why nothing can be seen."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection to the display, if it is open."""

    @property
    def _text(self) -> str | None:
        """The target's titles; None: it has no name, or it is unknown."""
        return None

    async def _build_frame(self) -> Frame:
        note = await self._refresh_look()
        return Frame(
            seen_at=datetime.now(UTC),
            place=_ONLY_PLACE,
            text=self._text,
            picture=self._look,
            note=note,
            gone=self._gone,
        )


PRIVATE_TITLE: Final = "The window has a title that is private now; it is not looked at."


def list_titles(windows: Sequence[Window]) -> str:
    """Return the titles of windows, one a line, each once."""
    titles = (" ".join(each.title.split()) for each in windows)
    return "\n".join(dict.fromkeys(filter(None, titles)))


def describe_loss(window: Window, privacy: Privacy, how: str) -> str:
    """Return the sentence on a window that went away; a private one is not named."""
    called = "" if privacy.covers(window) else f" {describe_window(window)}"
    return f"The window{called} {how}."

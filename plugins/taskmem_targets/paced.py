"""Look at targets that tell of nothing again and again, more seldom the longer they are watched."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from taskmem_hookspecs import Frame, NotAllowed
from taskmem_hookspecs.conditions import State
from taskmem_targets.beginnings import write_beginning

LONGEST_REST: Final = 60.0
"""Longest rest between two looks, in seconds."""
_REST_SHARE: Final = 1 / 20
"""Share of the time since which a target is watched for which it rests between two looks."""
_FRESH_SECONDS: Final = 1.0
"""Age up to which a look tells how a target is when a wait begins."""
_FIRST_LOOK_SECONDS: Final = 8.0
"""How long the first look at a target is awaited when a wait begins; the core waits 10 s."""

_START_SEPARATOR: Final = ":"
"""In the start of a wait, between its place and what was there."""


def compute_rest(age: float, duration: float, shortest: float) -> float:
    """Return the seconds until the next look; `duration`: those that the last one took."""
    return max(min(max(age * _REST_SHARE, shortest), LONGEST_REST), duration)


class PacedWatch:
    """Plays Watch on a target that is looked at at a pace."""

    def __init__(self, find: Callable[[], Awaitable[Frame]], shortest_rest: float) -> None:
        """Start to look.

        `find` looks once; its frame's place names all that was found. It raises `NotAllowed` if the
        target may not be looked at. `shortest_rest`: between two looks, in seconds.
        """
        self._find, self._shortest_rest = find, shortest_rest
        self._found: Frame | Exception | None = None
        """The finding of the last look, or why it failed; None: none has ended."""
        self._first_start = ""
        """Start of a wait that began at the first finding; empty: there is none."""
        self._found_at = self._began = asyncio.get_running_loop().time()
        """When it ended, and when the first wait began, as the loop counts."""
        self._hurry = asyncio.Event()
        self._looked = asyncio.Event()
        """Set at the end of each look."""
        self._changed = asyncio.Event()
        self._looks = asyncio.create_task(self._look_on())

    rest_seconds: Final = 3600.0

    async def here(self) -> Frame:
        """Return what is found when a wait begins.

        Raises:
            NotAllowed: The target may not be looked at.
        """
        now = asyncio.get_running_loop().time()
        if self._found is None or now - self._found_at > _FRESH_SECONDS:
            self._looked.clear()
            self._hurry.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_LOOK_SECONDS):
                    await self._looked.wait()
        if isinstance(self._found, Exception):
            raise self._found
        frame = self._found or _build_unknown_frame("")
        told = {
            "place": _write_start(frame),
            "text": None,
            "states": frozenset[State](),
        }
        return frame.model_copy(update=told)

    async def end(self) -> str:
        """Return the place of what was found last."""
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:
        """Return what the last look found; raise why it failed.

        A start is the first place, with what was there for judges that look for what is new.
        """
        if isinstance(self._found, Exception) and not isinstance(self._found, NotAllowed):
            raise self._found
        if self._found is None or isinstance(self._found, NotAllowed):
            return _build_unknown_frame(place, str(self._found or ""))
        # A wait that began before the first finding counts from it.
        first, _, before = (start or self._first_start).partition(_START_SEPARATOR)
        changed = {State.CHANGED} if self._found.place != first else set[State]()
        return self._found.model_copy(
            update={"before": before, "states": self._found.states | changed}
        )

    async def wait_for_change(self) -> None:
        """Return when a look has found something else."""
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        """Look no more; a look that goes on is given up."""
        self._looks.cancel()
        await asyncio.wait((self._looks,))

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            self._hurry.clear()
            try:
                found: Frame | Exception = await self._find()
            except Exception as failure:  # noqa: BLE001 - it is raised where the look is asked for
                found = failure
            is_other = _build_key(found) != _build_key(self._found)
            self._found, self._found_at = found, loop.time()
            if isinstance(found, Frame):
                self._first_start = self._first_start or _write_start(found)
            self._looked.set()
            if is_other:
                self._changed.set()
            age, duration = loop.time() - self._began, loop.time() - began
            with suppress(TimeoutError):
                async with asyncio.timeout(compute_rest(age, duration, self._shortest_rest)):
                    await self._hurry.wait()


def _write_start(found: Frame) -> str:
    """Return the start of a wait: the place of what is found, and the digests of its lines."""
    beginning = write_beginning(found)
    return f"{found.place}{_START_SEPARATOR}{beginning}" if beginning else found.place


def _build_unknown_frame(place: str, note: str = "") -> Frame:
    """Return the frame of a target of which nothing is known."""
    return Frame(seen_at=datetime.now(UTC), place=place, note=note or "It has not answered yet.")


def _build_key(found: Frame | Exception | None) -> object:
    """Return what differs between two looks that found something else."""
    if isinstance(found, Frame):
        return found.place, found.note, found.exit_status, found.numbers
    return str(found)

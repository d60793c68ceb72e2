"""Watch one target for all waits on it.

There is one watch and one poll for a target, and one look for each place that waits read from,
however many waits share it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from openclaw_taskmem.daemon.judge_panel import Blame, build_frame_key
from openclaw_taskmem.daemon.plugin_loops import PluginLoop
from openclaw_taskmem.domain.text.redaction import scrub, scrub_cut
from openclaw_taskmem.plugin_host import validation
from taskmem_hookspecs import Clock, Frame, Target, TargetGone, TaskmemError, Watch

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_SECONDS: Final = 10.0
"""Time limit of one look."""
FIRST_GAP: Final = 0.02
"""Seconds between two looks at a target that keeps changing; doubled up to `LONGEST_GAP`."""
LONGEST_GAP: Final = 0.16
KEPT_FRAMES: Final = 8
"""Number of frames cached for waits that read from the same place."""
FRESH_SECONDS: Final = 0.02
"""How long a cached frame counts as current."""


class LookFailed(TaskmemError):
    """A sensor could not look; says why. It is asked again."""


class Watcher:
    """Looks at one target and shares its frames."""

    def __init__(
        self, target: Target, watch: Watch, plugin_loop: PluginLoop, clock: Clock, blame: Blame
    ) -> None:
        """Take a watch; `blame` is called when it fails."""
        self._blame = blame
        self.target: Final = target
        self._watch = watch
        self._plugin_loop = plugin_loop
        self._clock = clock
        self._polls: dict[str, float] = {}
        self._frames: dict[tuple[str, str], tuple[float, asyncio.Task[Frame]]] = {}
        self._polled: Frame | None = None
        self.spent = False
        """True if the target was seen to be gone; a new wait then gets a new watcher."""
        self._closed = False
        self._joined = asyncio.Event()
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._watch_for_news())

    # --- who waits ----------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True if no wait uses the target."""
        return not self._polls

    def join(self, wait_id: str, poll_seconds: float) -> None:
        """Look for one more wait, at least every `poll_seconds`."""
        self._polls[wait_id] = poll_seconds
        self._joined.set()

    def leave(self, wait_id: str) -> None:
        """Stop looking for a wait."""
        self._polls.pop(wait_id, None)

    # --- what there is ------------------------------------------------------

    async def here(self) -> Frame:
        """Return the place from which a new wait reads, in a frame.

        Raises:
            TargetGone: The target went away.
            LookFailed: The sensor could not look.
        """
        return await self._run_limited(
            self._plugin_loop.call(self._watch.here), validation.require_frame
        )

    async def end(self) -> str:
        """Return the place after everything that is there now.

        Raises:
            TargetGone: The target went away.
            LookFailed: The sensor could not look.
        """
        return await self._run_limited(
            self._plugin_loop.call(self._watch.end), validation.require_place
        )

    async def look(self, place: str, start: str) -> Frame:
        """Return what appeared since a place; a lost target gives a frame with `gone`.

        Raises:
            LookFailed: The sensor could not look.
        """
        key, now = (place, start), self._clock.monotonic()
        begun, looking = self._frames.get(key, (float("-inf"), None))
        if looking is None or now - begun > FRESH_SECONDS:
            looking = asyncio.create_task(self._read_frame(place, start))
            while len(self._frames) >= KEPT_FRAMES:
                del self._frames[next(iter(self._frames))]
            self._frames[key] = (now, looking)
            looking.add_done_callback(_consume_exception)
        return await asyncio.shield(looking)

    @property
    def news(self) -> asyncio.Event:
        """Event that is set at the next change; get it before looking."""
        return self._changed

    async def close(self) -> None:
        """Release the target; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._task.cancel()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._plugin_loop.call(self._watch.close)

    # --- looking ------------------------------------------------------------

    async def _read_frame(self, place: str, start: str) -> Frame:
        try:
            frame = await self._run_limited(
                self._plugin_loop.call(lambda: _scrub_frame(self._watch.look(place, start))),
                validation.require_frame,
            )
        except TargetGone as gone:
            now = self._clock.now()
            frame = Frame(seen_at=now, place=place, text="", gone=scrub(str(gone)))
        self.spent = self.spent or frame.gone is not None
        return frame

    async def _run_limited(self, looking: Awaitable[object], checked: Callable[[object], T]) -> T:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return checked(await looking)
        except TimeoutError:
            said = f"{self.target} could not be seen within {LOOK_SECONDS:g} s"
            raise LookFailed(f"{said}; it is looked at again.") from None
        except TargetGone:
            self.spent = True
            raise
        except Exception as error:
            self._blame(self._watch, "wait_sensor", error)
            said = f"{type(error).__name__}: {error}"
            raise LookFailed(f"{self.target} could not be seen: {said}") from error

    async def _watch_for_news(self) -> None:
        """Set the event of changes whenever the sensor or a poll finds a change."""
        changed: asyncio.Task[None] | None = None
        gap = FIRST_GAP
        try:
            while True:
                changed = changed or asyncio.create_task(self._wait_for_change())
                if await self._wait_for_news_or_poll(changed):
                    changed = None
                    self._notify_waiters()
                    await asyncio.sleep(gap)
                    gap = min(gap * 2, LONGEST_GAP)
                    continue
                gap = FIRST_GAP
                if self._polls and await self._poll():
                    self._notify_waiters()
        finally:
            if changed is not None:
                changed.cancel()

    async def _wait_for_news_or_poll(self, changed: asyncio.Task[None]) -> bool:
        """Return True when something changed, False when a poll is due."""
        while True:
            self._joined.clear()
            longest = min(self._polls.values(), default=LOOK_SECONDS)
            poll = asyncio.create_task(self._clock.sleep(longest))
            joined = asyncio.create_task(self._joined.wait())
            try:
                await asyncio.wait((changed, poll, joined), return_when=asyncio.FIRST_COMPLETED)
                if changed.done():
                    return True
                if poll.done():
                    return False
            finally:
                poll.cancel()
                joined.cancel()

    async def _wait_for_change(self) -> None:
        """Return when the sensor reports a change; never if it fails, so that it is only polled."""
        try:
            await self._plugin_loop.call(self._watch.wait_for_change)
        except TargetGone:
            return
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            self._blame(self._watch, "wait_sensor", error)
            log.warning("%s is only polled from now on", self.target)
            await asyncio.Event().wait()

    async def _poll(self) -> bool:
        """Look from the end of the last poll; return True if anything is new or the look failed."""
        before = self._polled
        try:
            if before is None:
                self._polled = await self.here()
                return True
            self._polled = await self._read_frame(before.place, before.place)
        except (TargetGone, LookFailed):
            return True
        if self._polled.picture is not before.picture:
            return True
        return build_frame_key(self._polled) != build_frame_key(before)

    def _notify_waiters(self) -> None:
        self._frames.clear()
        waited, self._changed = self._changed, asyncio.Event()
        waited.set()


async def _scrub_frame(looking: Awaitable[object]) -> Frame:
    """Return the frame without credentials, since a judge may send it to a remote model.

    Lines that are echoes stay equal to their echoes.
    """
    frame = validation.require_frame(await looking)
    return frame.model_copy(
        update={
            "text": frame.text and scrub_cut(frame.text),
            "tail": frame.tail and scrub_cut(frame.tail),
            "screen": frame.screen and scrub_cut(frame.screen),
            "echoes": tuple(map(scrub, frame.echoes)),
            "note": frame.note and scrub(frame.note),
            "gone": frame.gone and scrub(frame.gone),
        }
    )


def _consume_exception(looking: asyncio.Task[Frame]) -> None:
    """Read the exception, so that asyncio does not report it as never retrieved."""
    if not looking.cancelled():
        looking.exception()

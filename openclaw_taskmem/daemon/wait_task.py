"""Watch one wait until its condition holds, its target is lost, or its deadline passes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from openclaw_taskmem.daemon.judges import JudgePanel
from openclaw_taskmem.daemon.snapshots import SeenPicture, WaitSnapshots, find_seen_picture
from openclaw_taskmem.daemon.target_watchers import Watcher
from openclaw_taskmem.domain.changes import waits
from openclaw_taskmem.domain.conditions import several
from openclaw_taskmem.domain.conditions.several import PartEnd
from openclaw_taskmem.domain.conditions.verdicts import (
    UnjudgedPeriod,
    clip_observation,
    compute_retry_delay,
    describe_timeout,
    describe_unjudged,
)
from openclaw_taskmem.domain.text.redaction import scrub_cut
from taskmem_hookspecs import (
    Clock,
    Frame,
    InvalidArguments,
    TargetGone,
    TargetNotFound,
    TaskmemError,
    Wait,
    WaitStatus,
)
from taskmem_hookspecs.errors import NotAllowed

log = logging.getLogger(__name__)

_LAST_LOOK_SECONDS: Final = 0.4
"""Time limit at the deadline for each of: a look in progress, the last look, and the reading of
what the target showed before."""
_LATE_LOOK_SECONDS: Final = 5.0
"""Time limit for a look in progress if the deadline passed before the wait could be watched."""

_SLOW_LOOK: Final = timedelta(seconds=1)
"""How long before the deadline a look must have begun to count as one that sees nothing."""


class WaitEnd(NamedTuple):
    """The status and observation with which a wait ends."""

    status: WaitStatus
    observation: str
    met: Mapping[int, str] = MappingProxyType({})
    """The observations of its parts that have been met, by their numbers."""


class WaitTask:
    """Watches one wait, which ends by its deadline whatever fails."""

    def __init__(
        self,
        wait: Wait,
        clock: Clock,
        *,
        watcher: Callable[[], Awaitable[Watcher]],
        panel: Callable[[str], Awaitable[JudgePanel]],
        snapshots: WaitSnapshots,
        notify_change: Callable[[], None],
    ) -> None:
        """Create the task of a wait.

        `watcher` finds that of its target, `panel` creates judges who read from a place, and
        `notify_change` is called when `observation` changes.
        """
        self.wait = wait
        self.watcher: Watcher | None = None
        """None: the target is not watched yet."""
        self.observation: str | None = None
        """The last observation; None: nothing was seen yet."""
        self.tail: str | None = None
        """The text of the target at the last look; None: it has no text, or was not looked at."""
        self.rests_on: SeenPicture | None = None
        """Picture on which the observation is based; None: none yet."""
        self.met = False
        """True if its condition was found to hold."""
        self.snapshots: Final = snapshots
        seconds = (wait.deadline_at - clock.now()).total_seconds()
        self._due = clock.monotonic() + seconds
        self._clock = clock
        self._began_at = clock.now()
        self._find_watcher = watcher
        self._make_panel = panel
        self._notify_change = notify_change
        self._panel: JudgePanel | None = None
        self._changed: asyncio.Event | None = None
        """Set when there is more than the last look saw; None: not watched."""
        self.looked = asyncio.Event()
        """Set after the first look, even if that failed."""
        self._resting = asyncio.Event()
        """Set between two looks."""
        self._start = ""
        self._unjudged: UnjudgedPeriod | None = None
        """The last period in which nothing could judge it; None: there was none."""
        self._silent = False
        """True if the target has lines, but none since the wait began."""

    @property
    def watched_parts(self) -> Sequence[WaitTask]:
        """The tasks that watch a target each."""
        return (self,)

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline; negative after it.

        Measured by the monotonic clock, so it does not count sleep of the machine or changes of the
        wall clock.
        """
        return self._due - self._clock.monotonic()

    async def run(self) -> WaitEnd:
        """Return how the wait ends, at the latest at its deadline plus the last looks' limits."""
        patience = _LAST_LOOK_SECONDS if self.seconds_left > 0 else _LATE_LOOK_SECONDS
        watching = asyncio.create_task(self._watch())
        timer = asyncio.create_task(self._clock.sleep(max(0.0, self.seconds_left)))
        try:
            await asyncio.wait((watching, timer), return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                await self._finish_current_look(watching, patience)
            if watching.done():
                return watching.result()
            watching.cancel()
            return await self._take_last_look()
        finally:
            watching.cancel()
            timer.cancel()

    async def _watch(self) -> WaitEnd:
        """Look again at each change, until the wait ends."""
        failures = 0
        while True:
            try:
                again, ending = await self._look_once()
                failures = 0
            except Exception as trouble:
                if not isinstance(trouble, TaskmemError):
                    log.exception("%s cannot be watched", self.wait.target)
                failures += 1
                words = clip_observation(str(trouble)) or type(trouble).__name__
                self._note_unseen(words)
                again, ending = compute_retry_delay(failures), None
            self.looked.set()
            if ending is not None:
                return ending
            self._resting.set()
            await self._wait_for_news(again)
            self._resting.clear()

    async def _look_once(self) -> tuple[float | None, WaitEnd | None]:
        """Ask the judges; return when to look again, and how the wait ends (None: it goes on).

        When: in how many seconds, even without a change; None: only at a change.
        """
        if self.watcher is None:
            try:
                await self._join_watcher()
            except NotAllowed as refusal:
                return None, WaitEnd(WaitStatus.ERROR, clip_observation(str(refusal)))
            except (TargetNotFound, TargetGone, InvalidArguments) as gone:
                if isinstance(gone, TargetNotFound) and not gone.sure:
                    raise
                lost = clip_observation(f"{self.wait.target} is gone. {gone}")
                return None, WaitEnd(WaitStatus.ERROR, lost)
        panel = self._panel = self._panel or await self._make_panel(self._start)
        self._changed = self.watcher.news if self.watcher else None
        finding = await panel.ask_judges(self._read_frame)
        self.met = finding.met
        if isinstance(finding.rests_on, SeenPicture):
            self.rests_on = finding.rests_on
        self._note_unjudged(finding.unjudged)
        self._observe(finding.observation)
        if finding.met:
            return None, WaitEnd(WaitStatus.RESOLVED, finding.observation)
        if finding.lost:
            return None, WaitEnd(WaitStatus.ERROR, finding.observation)
        return finding.again, None

    async def _join_watcher(self) -> None:
        watcher = await self._find_watcher()
        self._start = waits.find_reading_position(self.wait) or (await watcher.here()).place
        watcher.join(self.wait.wait_id, self.wait.poll_seconds)
        self.watcher = watcher

    async def _read_frame(self, place: str) -> Frame:
        assert self.watcher is not None  # noqa: S101 - it was joined before
        if self._panel is not None:
            self.watcher.note_places(self.wait.wait_id, self._panel.places)
        frame = await self.watcher.look(place, self._start)
        self._silent = frame.tail is not None and not frame.tail.strip()
        self.tail = frame.screen or frame.tail
        self.snapshots.show(find_seen_picture(frame))
        return frame.model_copy(update={"seconds_left": self.seconds_left})

    async def _wait_for_news(self, again: float | None) -> None:
        """Return at the next change, or after `again` seconds (None: only at a change)."""
        changed = self._changed
        if again == 0:
            await asyncio.sleep(0)
            return
        if again is None:
            if changed is not None:
                await changed.wait()
            return
        waiting: list[asyncio.Task[object]] = [asyncio.create_task(self._clock.sleep(again))]
        if changed is not None:
            waiting.append(asyncio.create_task(changed.wait()))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    async def _finish_current_look(self, watching: asyncio.Task[WaitEnd], seconds: float) -> None:
        """Wait for a look in progress, at most that many seconds."""
        rests = asyncio.create_task(self._resting.wait())
        try:
            await asyncio.wait(
                (watching, rests), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            rests.cancel()

    async def _take_last_look(self) -> WaitEnd:
        """Look once more at the deadline, since the condition may hold by now."""
        try:
            async with asyncio.timeout(_LAST_LOOK_SECONDS):
                _, ending = await self._look_once()
                if ending is not None:
                    return ending
        except Exception as error:  # noqa: BLE001 - it ends as it would have anyway
            log.debug("%s could not be looked at last: %s", self.wait.wait_id, error)
            since = self.watcher.unseen_since if self.watcher else self._began_at
            if since is not None and since + _SLOW_LOOK < self.wait.deadline_at:
                words = f"{self.wait.target} was still being looked at when time was up"
                self._note_unseen(clip_observation(str(error)) or words)
        tail = await self._read_earlier_tail()
        observation = describe_timeout(self.observation, tail)
        if self._unjudged is not None:
            now = self._clock.now()
            observation = describe_unjudged(self._unjudged, observation, now)
        return WaitEnd(WaitStatus.TIMEOUT, observation)

    async def _read_earlier_tail(self) -> str | None:
        """Return what the target showed before the wait; None: it has newer lines, or no answer."""
        if self.watcher is None or not self._silent:
            return None
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LAST_LOOK_SECONDS):
                return scrub_cut((await self.watcher.here()).tail or "")
        return None

    def _note_unseen(self, why: str) -> None:
        """Record that the target cannot be seen, since its first look without success."""
        since = self.watcher.unseen_since if self.watcher else self._began_at
        self._note_unjudged(UnjudgedPeriod(since=since or self._clock.now(), why=why))
        self._observe(why)

    def _note_unjudged(self, found: UnjudgedPeriod | None) -> None:
        """Record the start, reason or end of a period in which nothing could judge the wait."""
        known, now = self._unjudged, self._clock.now()
        if found is None:
            if known is not None and known.until is None:
                self._unjudged = known.model_copy(update={"until": now})
        elif known is not None and known.until is None:
            self._unjudged = known.model_copy(update={"why": found.why})
        else:
            self._unjudged = found

    def _observe(self, observation: str) -> None:
        if observation != self.observation:
            self.observation = observation
            self.snapshots.observe(self.rests_on)
            self._notify_change()


class SeveralWaitTask:
    """Watches one wait on several targets, by a task for each."""

    def __init__(
        self,
        wait: Wait,
        parts: Sequence[WaitTask],
        *,
        note_met: Callable[[int, str], Awaitable[None]],
    ) -> None:
        """Take the tasks of the parts, in order.

        `note_met` keeps that a part was met, where all are needed.
        """
        self.wait = wait
        self.watched_parts: Final = parts
        self._note_met = note_met

    @property
    def observation(self) -> str | None:
        """The last observation of each part; None: nothing was seen yet."""
        seen = {
            index: task.observation
            for index, task in enumerate(self.watched_parts)
            if task.observation is not None
        }
        return several.observe_parts(self.wait.parts, seen) if seen else None

    @property
    def tail(self) -> str | None:
        """The text of the first target that has some; None: none has."""
        return next((task.tail for task in self.watched_parts if task.tail is not None), None)

    @property
    def seconds_left(self) -> float:
        """As of one wait."""
        return self.watched_parts[0].seconds_left

    async def run(self) -> WaitEnd:
        """Return how the wait ends, once its parts decide it."""
        needs_all = self.wait.needs_all
        ends: dict[int, PartEnd] = {}
        running: dict[asyncio.Task[WaitEnd], int] = {}
        for index, part in enumerate(self.wait.parts):
            if needs_all and part.met is not None:
                ends[index] = PartEnd(WaitStatus.RESOLVED, part.met)
            else:
                running[asyncio.create_task(self.watched_parts[index].run())] = index
        try:
            while (
                ending := several.decide_end(self.wait.parts, ends, needs_all=needs_all)
            ) is None:
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    index, end = running.pop(task), task.result()
                    ends[index] = PartEnd(end.status, end.observation)
                    if needs_all and end.status is WaitStatus.RESOLVED:
                        await self._note_met(index, end.observation)
        finally:
            for task in running:
                task.cancel()
        met = {i: e.observation for i, e in ends.items() if e.status is WaitStatus.RESOLVED}
        return WaitEnd(*ending, met)

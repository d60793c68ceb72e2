"""Watch targets: each once for all waits on it, and closed soon after its last wait.

There is one watch and one poll for a target, and one look for each place that waits read from,
however many waits share it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from openclaw_taskmem.daemon.judges import Blame, build_frame_key
from openclaw_taskmem.daemon.plugin_loops import PluginLoop, PluginLoops
from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.domain.conditions import targets
from openclaw_taskmem.domain.errors import LookFailed
from openclaw_taskmem.domain.text.redaction import scrub, scrub_cut
from openclaw_taskmem.plugin_host.isolation import require_part, require_value
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import (
    Clock,
    Frame,
    NotAllowed,
    Output,
    Sensor,
    Target,
    TargetGone,
    TargetNotFound,
    TaskmemError,
    Watch,
)
from taskmem_hookspecs.errors import NoProvider
from taskmem_hookspecs.watching import Feed, PlaceListener, TellingWatch

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_SECONDS: Final = 10.0
"""Time limit of one look."""
_FIRST_GAP: Final = 0.02
"""Seconds between two looks at a target that keeps changing; doubled up to `LONGEST_GAP`."""
LONGEST_GAP: Final = 0.16
_KEPT_FRAMES: Final = 8
"""Number of frames cached for waits that read from the same place."""
_FRESH_SECONDS: Final = 0.02
"""How long a cached frame counts as current."""
_OPEN_SECONDS: Final = 10.0
"""Time limit of a sensor to start watching."""
LINGER_SECONDS: Final = 5.0
"""How long a target is still watched after its last wait ended."""
CLOSE_SECONDS: Final = 1.0
"""Time limit for closing all watchers when the daemon stops."""


class Watcher:
    """Looks at one target and shares its frames."""

    def __init__(
        self,
        target: Target,
        watch: Watch,
        plugin_loop: PluginLoop,
        clock: Clock,
        *,
        blame: Blame,
        machine: Clock,
    ) -> None:
        """Take a watch; `blame` is called when it fails; `machine` dates its frames."""
        self._blame = blame
        self._machine = machine
        self.target: Final = target
        self._watch = watch
        self._plugin_loop = plugin_loop
        self._clock = clock
        self._polls: dict[str, float] = {}
        self._places: dict[str, Collection[str]] = {}
        """From where the judges of each wait read on."""
        self._frames: dict[tuple[str, str], tuple[float, asyncio.Task[Frame]]] = {}
        self._polled: Frame | None = None
        self.spent = False
        """True if the target was seen to be gone; a new wait then gets a new watcher."""
        self.unseen_since: datetime | None = None
        """When the first look began since which none succeeded; None: the last one did."""
        self._asked = 0
        """How many answers of the sensor are awaited."""
        self.answered_at = float("-inf")
        """When the last came, as the loop counts."""
        self._closed = False
        self._joined = asyncio.Event()
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._watch_for_news())

    # --- who waits ----------------------------------------------------------

    @property
    def has_waits(self) -> bool:
        """True if a wait uses the target."""
        return bool(self._polls)

    @property
    def is_asked(self) -> bool:
        """True if an answer of the sensor is awaited, as before a wait begins."""
        return self._asked > 0

    def join(self, wait_id: str, poll_seconds: float) -> None:
        """Look for one more wait, at least every `poll_seconds`."""
        self._polls[wait_id] = poll_seconds
        self._joined.set()

    def leave(self, wait_id: str) -> None:
        """Stop looking for a wait."""
        self._polls.pop(wait_id, None)
        self._places.pop(wait_id, None)

    def note_places(self, wait_id: str, places: Collection[str]) -> None:
        """Keep from where the judges of a wait read on, for watches that ask for it."""
        if wait_id in self._polls:
            self._places[wait_id] = places

    # --- what there is ------------------------------------------------------

    async def here(self) -> Frame:
        """Return the place from which a new wait reads, in a frame.

        Raises:
            TargetGone: The target went away.
            LookFailed: The sensor could not look.
        """
        return await self._run_limited(
            self._plugin_loop.call(self._watch.here), partial(require_value, kind=Frame)
        )

    async def end(self) -> str:
        """Return the place after everything that is there now.

        Raises:
            TargetGone: The target went away.
            LookFailed: The sensor could not look.
        """
        return await self._run_limited(
            self._plugin_loop.call(self._watch.end), partial(require_part, kind=str)
        )

    async def look(self, place: str, start: str) -> Frame:
        """Return what appeared since a place; a lost target gives a frame with `gone`.

        Raises:
            LookFailed: The sensor could not look.
        """
        key, now = (place, start), self._clock.monotonic()
        begun, looking = self._frames.get(key, (float("-inf"), None))
        if looking is None or now - begun > _FRESH_SECONDS:
            looking = asyncio.create_task(self._read_frame(place, start))
            while len(self._frames) >= _KEPT_FRAMES:
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
        places = frozenset[str]().union(*self._places.values())

        async def read_frame() -> Frame:
            if isinstance(self._watch, PlaceListener):
                self._watch.note_places(places)
            return await _scrub_frame(self._watch.look(place, start))

        try:
            frame = await self._run_limited(
                self._plugin_loop.call(read_frame),
                partial(require_value, kind=Frame),
            )
        except TargetGone as gone:
            now = self._machine.now()
            frame = Frame(seen_at=now, place=place, text="", gone=scrub(str(gone)))
        self.spent = self.spent or frame.gone is not None
        return frame

    async def _run_limited(self, looking: Awaitable[object], checked: Callable[[object], T]) -> T:
        self.unseen_since = self.unseen_since or self._clock.now()
        self._asked += 1
        limit = asyncio.timeout(LOOK_SECONDS)
        try:
            async with limit:
                answer = checked(await looking)
        except TargetGone:
            self.spent, self.unseen_since = True, None
            raise
        except NotAllowed:
            self.unseen_since = None
            raise
        except Exception as error:
            late = TimeoutError(f"no answer within {LOOK_SECONDS:g} s") if limit.expired() else None
            self._blame(self._watch, "wait_sensor", late or error)
            reason = late or f"{type(error).__name__}: {error}"
            raise LookFailed(f"{self.target} could not be seen: {reason}") from error
        finally:
            self._asked -= 1
            self.answered_at = asyncio.get_running_loop().time()
        self.unseen_since = None
        return answer

    async def _watch_for_news(self) -> None:
        """Set the event of changes whenever the sensor or a poll finds a change."""
        changed: asyncio.Task[None] | None = None
        gap = _FIRST_GAP
        try:
            while True:
                changed = changed or asyncio.create_task(self._wait_for_change())
                if await self._wait_for_news_or_poll(changed):
                    changed = None
                    self._notify_waiters()
                    await asyncio.sleep(gap)
                    gap = min(gap * 2, LONGEST_GAP)
                    continue
                gap = _FIRST_GAP
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
            if isinstance(self._watch, TellingWatch):
                longest = max(longest, self._watch.rest_seconds)
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
            log.warning(
                "the sensor of %s failed to wait for a change; polling from now on", self.target
            )
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
    frame = require_value(await looking, Frame)
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


class Watchers:
    """Shares one watcher among all waits on the same target."""

    def __init__(
        self,
        plugin_host: PluginHost,
        clock: Clock,
        plugin_loops: PluginLoops,
        run_in_thread: OffLoopCaller,
        *,
        own: Mapping[str, Sensor],
        machine: Clock,
    ) -> None:
        """Create watchers; `own`: by scheme, the sensors of the core itself."""
        self._machine = machine
        self._plugin_host = plugin_host
        self._own = own
        self._clock = clock
        self._plugin_loops = plugin_loops
        self._run_in_thread = run_in_thread
        self._loop = asyncio.get_running_loop()
        self._opening: dict[Target, asyncio.Task[Watcher]] = {}
        self._watchers: dict[Target, Watcher] = {}
        self._alive: set[Watcher] = set()
        """All open watchers, including those of lost targets that still have waits."""
        self._closing: set[asyncio.Task[None]] = set()

    async def get_watcher(self, target: Target) -> Watcher:
        """Return the watcher of a target; create it if there is none.

        Raises:
            TargetNotFound: It does not exist; the sentence names the targets that do.
            InvalidArguments: No target of its kind can have such a name.
            NoProvider: No plug-in can watch such a target.
        """
        watcher = self._watchers.get(target)
        if watcher is not None and not watcher.spent:
            return watcher
        if target not in self._opening:
            opening = asyncio.create_task(self._open_watcher(target))
            self._opening[target] = opening
            opening.add_done_callback(lambda done: self._register_watcher(target, done))
        return await asyncio.shield(self._opening[target])

    def close_later(self, watcher: Watcher) -> None:
        """Close a watcher after `LINGER_SECONDS` if it has no waits then, and is asked nothing."""
        self._loop.call_later(LINGER_SECONDS, self._close_idle, watcher)

    async def feed(self, target: Target, output: Output) -> None:
        """Pass pushed output to the target's sensor.

        Raises:
            NoProvider: No plug-in takes the output of such a target.
        """
        sensors: Sequence[object] = await self._run_in_thread(
            self._plugin_host.find_sensors, target
        )
        sensor = next((each for each in sensors if isinstance(each, Feed)), None)
        if sensor is None:
            raise NoProvider(
                f"Nothing here takes the output of {target}; install a plug-in that does."
            )
        try:
            await self._plugin_loops.get_loop(sensor).call(lambda: sensor.feed(target, output))
        except OSError as error:
            raise NoProvider(
                f"The output of {target} could not be kept whole ({error.strerror}); "
                "see that there is room."
            ) from error

    async def close(self) -> None:
        """Close all watchers, within `CLOSE_SECONDS`."""
        alive, self._alive = self._alive, set()
        ends = (*self._closing, *(watcher.close() for watcher in alive))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*ends)

    def _register_watcher(self, target: Target, opening: asyncio.Task[Watcher]) -> None:
        del self._opening[target]
        if not opening.cancelled() and opening.exception() is None:
            watcher = self._watchers[target] = opening.result()
            self._alive.add(watcher)
            # The caller may have given up.
            self.close_later(watcher)

    async def _open_watcher(self, target: Target) -> Watcher:
        found, plugin_loop = await self._find_watch(target)
        if isinstance(found, Target):
            found, plugin_loop = await self._find_watch(found)
        watch = _require_watch(found)
        blame = self._plugin_host.record_failure
        clock, machine = self._clock, self._machine
        return Watcher(target, watch, plugin_loop, clock, blame=blame, machine=machine)

    async def _find_watch(self, target: Target) -> tuple[Watch | Target, PluginLoop]:
        """Ask the sensors in order until one finds the target, or its other name.

        Raises:
            TargetNotFound: No sensor finds it; the sentence combines theirs.
            NoProvider: There is no sensor, or one that may know the target failed.
        """
        sensors: Sequence[Sensor]
        if (own := self._own.get(target.scheme)) is not None:
            sensors = (own,)
        else:
            sensors = await self._run_in_thread(self._plugin_host.find_sensors, target)
        if not sensors:
            forms = await self._run_in_thread(self._plugin_host.list_target_forms)
            added = f": {'; '.join(forms)}" if forms else ""
            raise NoProvider(
                f"Nothing here can watch {target.scheme}; install a plug-in that does. "
                f"{targets.TARGET_FORMS}{added}."
            )
        missing: list[TargetNotFound] = []
        failed: NoProvider | None = None
        for sensor in sensors:
            plugin_loop = self._plugin_loops.get_loop(sensor)
            try:
                async with asyncio.timeout(_OPEN_SECONDS):
                    found = await plugin_loop.call(partial(sensor.watch, target))
                return found if isinstance(found, Target) else _require_watch(found), plugin_loop
            except TargetNotFound as error:
                missing.append(error)
            except TaskmemError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
                self._plugin_host.record_failure(sensor, "wait_sensor", error)
                reason = str(error) or "no answer"
                failed = NoProvider(
                    f"{target} cannot be watched now ({reason}); see taskmem plugins."
                )
                failed.__cause__ = error
        if failed is not None:
            raise failed
        # The last sensor asked knows most about such targets.
        words = " ".join(filter(None, map(str, reversed(missing))))
        raise TargetNotFound(words, sure=all(each.sure for each in missing))

    def _close_idle(self, watcher: Watcher) -> None:
        if watcher not in self._alive or watcher.has_waits:
            return
        idle = self._loop.time() - watcher.answered_at
        if watcher.is_asked or idle < LINGER_SECONDS:
            self.close_later(watcher)
            return
        if self._watchers.get(watcher.target) is watcher:
            del self._watchers[watcher.target]
        self._alive.discard(watcher)
        closing = asyncio.create_task(watcher.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _require_watch(answer: object) -> Watch:
    """Return a sensor's answer if it is a watch; the error names the methods that it lacks."""
    methods = ("here", "end", "look", "wait_for_change", "close")
    lacks = [method for method in methods if not callable(getattr(answer, method, None))]
    if lacks and len(lacks) < len(methods):
        raise TypeError(
            f"{type(answer).__name__} lacks {', '.join(lacks)}; a Watch has {', '.join(methods)}"
        )
    return require_part(answer, Watch)

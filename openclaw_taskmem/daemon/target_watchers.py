"""Create one watcher for each target when needed, and close it soon after its last wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Final

from openclaw_taskmem.daemon.plugin_loops import PluginLoop, PluginLoops
from openclaw_taskmem.daemon.target_watcher import Watcher
from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.domain.conditions import targets
from openclaw_taskmem.domain.conditions.role_queue_target import SCHEME
from openclaw_taskmem.plugin_host import validation
from openclaw_taskmem.plugin_host.facade import PluginHost
from taskmem_hookspecs import Clock, Output, Sensor, Target, TargetNotFound, TaskmemError, Watch
from taskmem_hookspecs.errors import NoProvider
from taskmem_hookspecs.watching import Feed

OPEN_SECONDS: Final = 10.0
"""Time limit of a sensor to start watching."""
LINGER_SECONDS: Final = 5.0
"""How long a target is still watched after its last wait ended."""
CLOSE_SECONDS: Final = 1.0
"""Time limit for closing all watchers when the daemon stops."""


class Watchers:
    """Shares one watcher among all waits on the same target."""

    def __init__(
        self,
        plugin_host: PluginHost,
        clock: Clock,
        plugin_loops: PluginLoops,
        apart: OffLoopCaller,
        queues: Sensor | None,
    ) -> None:
        self._plugin_host = plugin_host
        self._queues = queues
        self._clock = clock
        self._plugin_loops = plugin_loops
        self._apart = apart
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
        known = self._watchers.get(target)
        if known is not None and not known.spent:
            return known
        if target not in self._opening:
            opening = asyncio.create_task(self._open_watcher(target))
            self._opening[target] = opening
            opening.add_done_callback(lambda done: self._register_watcher(target, done))
        return await asyncio.shield(self._opening[target])

    def close_later(self, watcher: Watcher) -> None:
        """Close a watcher after `LINGER_SECONDS` if no wait uses it then."""
        self._loop.call_later(LINGER_SECONDS, self._close_idle, watcher)

    async def feed(self, target: Target, output: Output) -> None:
        """Pass pushed output to the target's sensor.

        Raises:
            NoProvider: No plug-in takes the output of such a target.
        """
        sensors: Sequence[object] = await self._apart(self._plugin_host.find_sensors, target)
        sensor = next((each for each in sensors if isinstance(each, Feed)), None)
        if sensor is None:
            raise NoProvider(f"Nothing here takes the output of {target}.")
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
        watch = validation.require_watch(found)
        return Watcher(target, watch, plugin_loop, self._clock, self._plugin_host.record_failure)

    async def _find_watch(self, target: Target) -> tuple[Watch | Target, PluginLoop]:
        """Ask the sensors in order until one finds the target, or its other name.

        Raises:
            TargetNotFound: No sensor finds it; the sentence combines theirs.
            NoProvider: There is no sensor, or one that may know the target failed.
        """
        sensors: Sequence[Sensor]
        if target.scheme == SCHEME and self._queues is not None:
            sensors = (self._queues,)
        else:
            sensors = await self._apart(self._plugin_host.find_sensors, target)
        if not sensors:
            raise NoProvider(
                f"Nothing here can watch {target.scheme}; install a plug-in that does. "
                f"{targets.FORMS}."
            )
        missing: list[TargetNotFound] = []
        failed: NoProvider | None = None
        for sensor in sensors:
            plugin_loop = self._plugin_loops.get_loop(sensor)
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    found = await plugin_loop.call(partial(sensor.watch, target))
                return found if isinstance(found, Target) else validation.require_watch(
                    found
                ), plugin_loop
            except TargetNotFound as error:
                missing.append(error)
            except TaskmemError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
                self._plugin_host.record_failure(sensor, "wait_sensor", error)
                said = str(error) or "no answer"
                failed = NoProvider(f"{target} cannot be watched now ({said}).")
                failed.__cause__ = error
        if failed is not None:
            raise failed
        # The last sensor asked knows most about such targets.
        words = " ".join(filter(None, map(str, reversed(missing))))
        raise TargetNotFound(words, sure=all(each.sure for each in missing))

    def _close_idle(self, watcher: Watcher) -> None:
        if not watcher.is_idle or watcher not in self._alive:
            return
        if self._watchers.get(watcher.target) is watcher:
            del self._watchers[watcher.target]
        self._alive.discard(watcher)
        closing = asyncio.create_task(watcher.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

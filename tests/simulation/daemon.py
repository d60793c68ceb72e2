"""The daemon, put together as `openclaw_taskmem/daemon/main.py` does, on a machine's loop.

What differs: threads are the loop's, plug-ins run on the daemon's own loop, and there is no socket.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cache, partial
from typing import Any, TypeVar

from openclaw_taskmem.config import Settings, load_settings
from openclaw_taskmem.daemon.background_loops import BackgroundLoops
from openclaw_taskmem.daemon.dispatcher import Dispatcher
from openclaw_taskmem.daemon.main import _join_database
from openclaw_taskmem.daemon.plugin_loops import _run_guarded
from openclaw_taskmem.daemon.readers import Readers
from openclaw_taskmem.daemon.role_queues import Queues
from openclaw_taskmem.daemon.server import RelayExits
from openclaw_taskmem.daemon.session_watches import SessionSensor
from openclaw_taskmem.daemon.task_watches import TaskSensor
from openclaw_taskmem.daemon.thread_pool import ThreadPool, _log_failure
from openclaw_taskmem.daemon.wait_supervisor import WaitSupervisor
from openclaw_taskmem.domain.callers import GatewayPresence
from openclaw_taskmem.engine.context import LOCK_COUNT, Context, DueWork, Policies, ScopedStore
from openclaw_taskmem.plugin_host.isolation import TriedToEnd
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import AgentHost, WakeTransport
from tests.simulation.event_loop import SimulatedLock, SimulatedLoop
from tests.simulation.machine import Machine, MortalStore
from tests.support.owners import SESSIONS

T = TypeVar("T")
log = logging.getLogger(__name__)


class Daemon:
    """One life of the daemon."""

    def __init__(
        self,
        machine: Machine,
        *,
        plugins: Sequence[tuple[str, Any]],
        transport: WakeTransport,
        host: AgentHost,
        lives: Callable[[str], bool | None],
    ) -> None:
        """Start it; it runs while its machine's loop does."""
        self.loop = machine.start_loop()
        with self.loop.enter_loop():
            self._put_together(machine, plugins, transport, host, lives)

    def _put_together(
        self,
        machine: Machine,
        plugins: Sequence[tuple[str, Any]],
        transport: WakeTransport,
        host: AgentHost,
        lives: Callable[[str], bool | None],
    ) -> None:
        loop, clock, settings = self.loop, machine.clock, read_settings()
        store: Any = MortalStore(machine, machine.database.open_store(), loop)
        scoped = ScopedStore(store, "home_1", sole=True)
        plugin_host = PluginHost(entries=[], extra=plugins)
        plugin_loops: Any = _OwnLoop()
        readers = Readers((machine.reader,), plugin_host, plugin_loops, clock, seconds=20.0)
        supervisor = _Supervisor(
            plugin_host,
            clock,
            plugin_loops,
            judge_seconds=20.0,
            readers=readers,
            queues=Queues(clock, lambda: context),
            tasks=TaskSensor(clock, lambda: context),
            sessions=SessionSensor(clock, lambda: context),
        )
        loops: BackgroundLoops | None = None

        def list_gateways() -> Sequence[GatewayPresence]:
            return dispatcher.gateways.presences

        def nudge(due: DueWork) -> None:
            supervisor.follow(due)
            dispatcher.note_commit(due)
            if loops is not None:
                loops.wake_loops(due)

        def free() -> None:
            if loops is not None:
                loops.recheck_holds()

        context = Context(
            store=scoped,
            plugin_host=plugin_host,
            clock=clock,
            policies=Policies(
                stuck=machine.stuck,
                outbox=machine.outbox,
                runs=machine.runs,
                retention=machine.keep,
            ),
            sessions=SESSIONS,
            is_alive=lives,
            new_id=machine.new_id,
            wait_watcher=supervisor,
            run_later=partial(_run_later, loop),
            nudge=nudge,
            reaches=transport.reaches,
            locks=tuple(_locks(loop, machine.weather.preempts)),
        )
        dispatcher = Dispatcher(context, settings, supervisor, free, readers)
        passes = ThreadPool(4, "loops")
        loops = BackgroundLoops(
            context,
            transport,
            passes,
            longest=machine.weather.longest,
            holds=dispatcher.gateways.build_hold_finder,
            gateways=list_gateways,
            agent_hosts=(host,),
        )
        self.context, self.supervisor, self.dispatcher = context, supervisor, dispatcher
        self.readers, self.relay_exits = readers, RelayExits(context, passes)
        self.up = False
        self._serving = loop.create_task(self._serve(context, readers, loops))

    async def _serve(self, context: Context, readers: Readers, loops: BackgroundLoops) -> None:
        await asyncio.to_thread(_join_database, context, readers)
        self.up = True
        async with asyncio.TaskGroup() as group:
            group.create_task(loops.run())
            group.create_task(self.supervisor.run(context))

    @property
    def failure(self) -> str | None:
        """Why it does not serve any more; None: it does."""
        if not self._serving.done():
            return None
        return repr(self._serving.exception())


class _Supervisor(WaitSupervisor):
    """Waits in simulated threads."""

    def _run_on_loop(self, answering: Coroutine[Any, Any, T], otherwise: str) -> T:
        del otherwise
        loop: Any = self._loop
        answer: T = loop.join(self._track_answer(answering))
        return answer


class _OwnLoop:
    """Runs the coroutines of plug-ins on the daemon's own loop."""

    def get_loop(self, _part: object) -> _OwnLoop:
        return self

    async def call(self, begin: Callable[[], Awaitable[T]]) -> T:
        return await _run_guarded(begin)

    def close(self) -> None:
        """There is nothing to close."""


def _locks(loop: SimulatedLoop, preempts: float) -> list[Any]:
    return [SimulatedLock(loop, preempts) for _ in range(LOCK_COUNT)]


def _run_later(loop: SimulatedLoop, seconds: float, work: Callable[[], None]) -> None:
    pool = _run_later
    loop.call_later(max(0.0, seconds), loop.run_in_executor, pool, _log_failure, work)


def run_inline(call: Callable[[], T], seconds: float, name: str) -> T:
    """Make a plug-in's call at once: those of the simulation do not hang."""
    del seconds, name
    loop = asyncio._get_running_loop()
    asyncio._set_running_loop(None)  # as in a thread of its own
    try:
        return call()
    except (SystemExit, KeyboardInterrupt) as error:
        raise TriedToEnd(repr(error)) from error
    finally:
        asyncio._set_running_loop(loop)


@cache
def read_settings() -> Settings:
    """Return the settings of the simulated home, which is no folder anywhere."""
    return load_settings({"TASKMEM_HOME": "/simulated"})

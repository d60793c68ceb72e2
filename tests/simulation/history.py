"""One history: operations on one machine, from an empty database to rest."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from openclaw_taskmem.domain.text import redaction
from openclaw_taskmem.engine import runs
from openclaw_taskmem.plugin_host import plugin_host
from taskmem_hookspecs import TaskmemError
from tests.simulation.daemon import Daemon, run_inline
from tests.simulation.drawing import BY_NAME, Operation
from tests.simulation.event_loop import LoopSpins, SimulatedLoop
from tests.simulation.machine import FAULTS, Broken, Machine, Weather
from tests.simulation.outside import GATEWAYS, Gateway, Outside
from tests.simulation.rules import Rules

REST_SECONDS: Final = 900.0
"""How long nothing fails before all must have come to its end."""
DAEMON_LOG: Final = logging.getLogger("openclaw_taskmem")
_SCRUB: Final = lru_cache(100_000)(redaction.scrub)
GIVES: Final = {"task_register": "task_id", "smart_wait": "wait_id", "task_claim": "task_id"}
"""Tools that give their caller's agent what only their answers name, and where."""
MOVES: Final = (
    "task_claim",
    "task_handoff",
    "task_resume",
    "task_reset",
    "task_update",
    "smart_wait",
    "wait_update",
)
"""Tools that may give the task or wait that they name to their caller's agent."""
Answering = Callable[[], Awaitable[Any]]


class Outcome(NamedTuple):
    """How a history ended."""

    broken: Broken | None
    """The first invariant that did not hold; None: all held."""
    lines: tuple[str, ...]
    """What happened, an operation a line."""
    operations: int
    commits: int
    answers: int
    seconds: float
    """Simulated seconds."""
    deaths: int


class UnexpectedErrors(logging.Handler):
    """Keeps the errors that the daemon logs and that the simulation did not make."""

    def __init__(self, play: Play) -> None:
        super().__init__(logging.ERROR)
        self._play = play
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        made = isinstance(error, FAULTS) or "The simulation" in str(error)
        if not (made or self._play.loop.halted):
            self.errors.append(f"{record.name} says: {record.getMessage()} ({error!r})")


class Play:
    """A history while it is played."""

    def __init__(self, seed: int, rules: Rules, store: str = "sqlite") -> None:
        self.machine = Machine(Weather.draw(Random(seed)), rules, store)
        self.outside = Outside(self.machine.clock)
        self.machine.targets = self.outside.targets
        hosts = GATEWAYS if self.machine.weather.two_gateways else (None,)
        self.outside.hosts, self.gateways = hosts, [Gateway(host) for host in hosts]
        self.log = UnexpectedErrors(self)
        DAEMON_LOG.addHandler(self.log)
        self.operations = self.answers = self.deaths = 0
        self.workers = ["1:1", "2:1", "3:1"]
        """The processes of agents that have no gateway."""
        self.lines: list[str] = []
        self._number = 0
        self._calls: list[Any] = []
        self.start_daemon()

    @property
    def loop(self) -> SimulatedLoop:
        """The loop of the daemon that runs."""
        return self.machine.loop

    def number(self) -> int:
        """Return the next number for texts that differ."""
        self._number += 1
        return self._number

    def start_daemon(self) -> None:
        """Start a daemon on what the last one left, until it lives long enough to serve."""
        for gateway in self.gateways:
            gateway.connected, gateway.calls = False, []
        while True:
            self.daemon = Daemon(
                self.machine,
                plugins=[("outside", self.outside)],
                transport=self.outside,
                host=self.outside,
                lives=self.outside.is_alive,
            )
            self.loop.choose = Random(self.number())
            while not (self.daemon.up or self.loop.halted or self.daemon.failure):
                self.loop.run_ready()
            if self.daemon.up or self.machine.broken:
                return
            self._bury()

    def begin(
        self, answer: Answering, tool: str, given: Any, gateway: Gateway | None = None
    ) -> None:
        """Have the daemon answer a call, of an agent in a gateway or of somebody else."""
        named = given.get("task_id") or given.get("wait_id")
        if gateway is not None and named is not None:
            if tool in MOVES:
                self.outside.gateways_of[named].add(gateway.host)
        elif gateway is not None and tool in GIVES:
            self.outside.unanswered[gateway.host] += 1
        with self.loop.enter_loop():
            greeted = None if gateway is None else gateway.greeted
            call = self.loop.create_task(self._answer(answer, tool, given, gateway, greeted))
            if gateway is not None and gateway.greeted.is_set():
                gateway.calls.append(call)

    def greet(self, gateway: Gateway, answering: Answering) -> None:
        """Have a gateway say that it is there; its plug-in says nothing else until it is heard."""
        with self.loop.enter_loop():
            gateway.connected, gateway.greeted = True, asyncio.Event()
            greeting = self._greet(gateway, gateway.greeted, answering)
            gateway.calls.append(self.loop.create_task(greeting))

    def hang_up(self, gateway: Gateway) -> None:
        """End a gateway's connection: its calls are handled first, as the daemon's server does."""
        with self.loop.enter_loop():
            self.loop.create_task(self._hang_up(gateway.connection, gateway.calls))

    async def _hang_up(self, connection: str, calls: Sequence[asyncio.Task[None]]) -> None:
        if calls:
            await asyncio.wait(calls)
        self.daemon.dispatcher.forget_gateway(connection)

    async def _greet(self, gateway: Gateway, greeted: asyncio.Event, answering: Answering) -> None:
        try:
            await answering()
        except TaskmemError:
            gateway.connected = gateway.connected and gateway.greeted is not greeted
        else:
            greeted.set()

    async def _answer(
        self,
        answering: Answering,
        tool: str,
        given: Any,
        gateway: Gateway | None,
        greeted: asyncio.Event | None,
    ) -> None:
        if greeted is not None:
            await greeted.wait()
        given_to = gateway if tool in GIVES and "task_id" not in given else None
        try:
            answer = await answering()
        except TaskmemError:
            answer = None
        if given_to is not None:
            self.outside.unanswered[given_to.host] -= 1
            if answer is not None:
                self.outside.gateways_of[answer[GIVES[tool]]].add(given_to.host)
        if answer is None:
            return
        self.answers += 1
        self.machine.rules.check_answer(self.machine, tool, given, answer)

    def perform(self, operation: Operation) -> None:
        """Let one thing happen, and all or some of what follows from it."""
        self.operations += 1
        choose = Random(operation.seed)
        self.loop.choose = choose
        self.lines.append(BY_NAME[operation.kind](self, choose))
        if choose.random() < self.machine.weather.settles:
            self.loop.run_ready()
            self.machine.clock.read_before = None
        else:
            self.loop.run_some(choose.randrange(40))
        if self.loop.halted and self.machine.broken is None:
            self._bury()
            self.start_daemon()
        self.machine.rules.check_play(self)

    def rest(self) -> None:
        """Let nothing fail any more, and everything come to its end."""
        machine, outside = self.machine, self.outside
        machine.fault = machine.fate = None
        machine.rests_at = machine.clock.monotonic()
        outside.mood = "takes"
        for target in outside.targets.values():
            target.mood = "works"
        for gateway in self.gateways:
            self.hang_up(gateway)
        self.lines.append("nothing fails any more")
        self.loop.advance(REST_SECONDS)
        if machine.broken is None:
            machine.rules.check_play(self)
            machine.rules.check_rest(self)
            machine.rules.check_database(machine, machine.database.open_store())

    def _bury(self) -> None:
        """Drop a dead daemon, and see that the database holds what was committed."""
        self.deaths += 1
        self.loop.bury()
        self.outside.forget_daemon(self.machine.mirror)
        self.machine.reader.refused_at = None
        store = self.machine.database.open_store()
        self.machine.rules.check_database(self.machine, store)

    def end(self) -> None:
        """Drop everything."""
        self.loop.bury()
        self.machine.database.drop()


def play_history(
    seed: int, operations: Sequence[Operation], rules: Rules, store: str = "sqlite"
) -> Outcome:
    """Play operations until the last one, or until an invariant is broken."""
    logging.disable(logging.WARNING)
    gc.disable()
    DAEMON_LOG.propagate = False
    try:
        with (
            patch.object(plugin_host, "run_with_timeout", run_inline),
            patch.object(redaction, "scrub", _SCRUB),
            patch.object(runs, "random", Random(seed)),
        ):
            play = Play(seed, rules, store)
            try:
                for operation in operations:
                    play.perform(operation)
                    if play.machine.broken is not None:
                        break
                else:
                    play.rest()
            except LoopSpins as spins:
                play.machine.report("the_daemon_comes_to_rest", str(spins))
            broken, machine = play.machine.broken, play.machine
            play.end()
    finally:
        for handler in [*DAEMON_LOG.handlers]:
            if isinstance(handler, UnexpectedErrors):
                DAEMON_LOG.removeHandler(handler)
        DAEMON_LOG.propagate = True
        gc.enable()
        logging.disable(logging.NOTSET)
    return Outcome(
        broken=broken,
        lines=tuple(play.lines),
        operations=play.operations,
        commits=machine.commits,
        answers=play.answers,
        seconds=machine.clock.monotonic(),
        deaths=play.deaths,
    )

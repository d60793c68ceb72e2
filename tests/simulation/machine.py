"""A machine on which one daemon after another runs: its disk, its clock, and what is around it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import datetime
from random import Random
from typing import Any, Final, NamedTuple

from openclaw_taskmem.domain.policies import KeepPolicy, OutboxPolicy, RunPolicy, StuckPolicy
from taskmem_hookspecs import (
    Change,
    Owner,
    RunState,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    TaskStore,
)
from tests.simulation.database import STORES, Durable
from tests.simulation.event_loop import SimulatedClock, SimulatedLoop
from tests.simulation.mirror import Commit, Mirror
from tests.simulation.outside import ScriptedTarget
from tests.simulation.reader import ScriptedReader
from tests.simulation.rules import Rules

FAULTS: Final = (StoreBusy, StoreFull, StoreUnavailable)


class Died(BaseException):
    """The process has ended: whoever still runs in it reaches nothing."""


class Broken(NamedTuple):
    """An invariant that does not hold."""

    rule: str
    why: str


class Weather(NamedTuple):
    """What a seed decides for a whole history."""

    in_order: bool
    """Callbacks run in order, as in asyncio; else in any."""
    settles: float
    """Chance that all that an operation begins has ended before the next."""
    preempts: float
    """Chance that a thread pauses before it reaches the store."""
    threshold: float
    cooldown: float
    lease: float
    ack: float
    longest: float
    two_gateways: bool
    keep_hours: float
    """After how many hours what has ended is dropped."""

    @classmethod
    def draw(cls, choose: Random) -> Weather:
        """Choose the weather of a history."""
        return cls(
            in_order=choose.random() < 0.5,
            settles=choose.choice((0.05, 0.2, 0.5)),
            preempts=choose.choice((0.0, 0.1, 0.5)),
            threshold=choose.choice((30.0, 120.0, 300.0)),
            cooldown=choose.choice((180.0, 600.0, 900.0)),
            lease=choose.choice((120.0, 600.0)),
            ack=choose.choice((60.0, 600.0)),
            longest=choose.choice((60.0, 600.0, 600.0)),
            two_gateways=choose.random() < 0.3,
            keep_hours=choose.choice((1.0, 3.0, 2_160.0)),
        )


class Machine:
    """What outlives a daemon."""

    def __init__(self, weather: Weather, rules: Rules, store: str) -> None:
        self.weather = weather
        self.rules = rules
        self.clock = SimulatedClock()
        self.database: Durable = STORES[store]()
        self.mirror = Mirror()
        self.loop = SimulatedLoop(in_order=weather.in_order)
        self.clock.loop = self.loop
        self.stuck = StuckPolicy(
            threshold_seconds=weather.threshold, cooldown_seconds=weather.cooldown
        )
        self.outbox = OutboxPolicy(ack_seconds=weather.ack)
        self.runs = RunPolicy(lease_seconds=weather.lease)
        self.keep = KeepPolicy(days=weather.keep_hours / 24)
        self.reader = ScriptedReader(self)
        self.broken: Broken | None = None
        self.fate: tuple[str, int] | None = None
        """Where the daemon dies, and in how many commits; None: it lives."""
        self.fault: tuple[type[Exception], int] | None = None
        """With what the store fails, and how many times more."""
        self.rests_at: float | None = None
        """Since when nothing fails any more, by the monotonic clock; None: something may."""
        self.commits = 0
        self.seen_at: dict[str, tuple[float, float]] = {}
        """When each wake was first written, by the monotonic clock, and by how much the wall clock
        had been set forward by then."""
        self.armed: dict[tuple[str, int], tuple[float, int]] = {}
        """When each round of a wait began, by the monotonic clock, and how often the wall clock had
        been set by then."""
        self.holders: dict[tuple[str, int], Owner] = {}
        """Who first held each token of a task."""
        self.targets: Mapping[str, ScriptedTarget] = {}
        self.queued: dict[str | None, float] = {}
        """When a run was last seen to be queued for each role, by the monotonic clock."""
        self.uncounted = 0
        """Questions to readers that the store did not take down."""
        self._numbers = itertools.count(1)

    def new_id(self, kind: str, _now: datetime) -> str:
        """Return an id that sorts by its age."""
        return f"{kind}_{next(self._numbers):05d}"

    def start_loop(self) -> SimulatedLoop:
        """Return a loop that goes on at the time of the last."""
        self.loop = SimulatedLoop(self.clock.monotonic(), in_order=self.weather.in_order)
        self.clock.loop = self.loop
        return self.loop

    def note_instants(self, commit: Commit) -> None:
        """Note when a commit was made, and when what it writes was first seen."""
        commit.now, commit.monotonic = self.clock.now(), self.clock.monotonic()
        commit.decided = max(commit.now, self.clock.read_before or commit.now)
        for wake in commit.change.wakes:
            self.seen_at.setdefault(wake.wake_id, (commit.monotonic, self.clock.advanced))
        for run in (*commit.change.runs, *filter(None, commit.runs_before.values())):
            if run.state is RunState.QUEUED:
                self.queued[run.role] = commit.monotonic
        for wait in commit.change.waits:
            armed = commit.monotonic, self.clock.jumps
            self.armed.setdefault((wait.wait_id, wait.round), armed)

    def report(self, rule: str, why: str) -> None:
        """Note that an invariant is broken, and stop everything."""
        self.broken = self.broken or Broken(rule, why)
        self.loop.die()


class MortalStore:
    """The store of one daemon: it fails or ends with the daemon where the machine says so."""

    def __init__(self, machine: Machine, store: TaskStore, loop: SimulatedLoop) -> None:
        self._machine = machine
        self._store = store
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*values: Any, **named: Any) -> Any:
            self._reach()
            return method(*values, **named)

        setattr(self, name, call)
        return call

    def drop_ended(self, *values: Any) -> Any:
        self._reach()
        machine, dropped = self._machine, self._store.drop_ended(*values)
        if dropped.rows:
            before = machine.mirror
            machine.mirror = Mirror.read_store(self._store, before)
            machine.rules.check_drop(machine, before)
        return dropped

    def commit(self, change: Change) -> None:
        machine = self._machine
        try:
            self._reach()
        except FAULTS:
            machine.uncounted += any(mark.name == "readers" for mark in change.bookmarks)
            raise
        where = None
        if machine.fate is not None:
            where, left = machine.fate
            machine.fate = (where, left - 1)
            where = where if left <= 0 else None
        if where == "before":
            return self._die()
        if where == "inside":
            self._write_half(change)
            return self._die()
        self._store.commit(change)
        machine.commits += 1
        commit = machine.mirror.apply(change)
        machine.note_instants(commit)
        if change.forget_before is not None and change.forget_before > machine.clock.began:
            machine.mirror = Mirror.read_store(self._store, machine.mirror)
        machine.rules.check_commit(machine, commit)
        if where == "after":
            self._die()
        return None

    def _reach(self) -> None:
        if self._loop.halted:
            raise Died
        self._loop.pause(self._machine.weather.preempts)
        if self._machine.fault is not None:
            kind, left = self._machine.fault
            self._machine.fault = (kind, left - 1) if left > 1 else None
            raise kind("The simulation says so.")

    def _write_half(self, change: Change) -> None:
        """Begin to write, and be interrupted by the end of the process."""
        steps = self._loop.choose.randrange(20, 400)
        if self._machine.database.write_half(self._store, change, steps):
            self._machine.mirror.apply(change)

    def _die(self) -> None:
        self._machine.fate = None
        self._loop.die()

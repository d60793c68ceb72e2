"""A whole installation in one process: real store, real seams, a clock to turn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from openclaw_taskmem.domain.callers import Caller, SessionKeys
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.wakes.outbox import Delivery
from openclaw_taskmem.engine import stuck, waits, wakes
from openclaw_taskmem.engine.context import Context, Policies, ScopedStore
from openclaw_taskmem.engine.recall import StoredHistory
from openclaw_taskmem.engine.wait_watcher import TargetPreview, WaitWatcher
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from openclaw_taskmem.tools import catalog
from taskmem_hookspecs import (
    Condition,
    Message,
    Owner,
    Target,
    Task,
    TaskStore,
    Wait,
    WaitStatus,
    Wake,
    WakeQuery,
    WakeState,
)
from taskmem_hookspecs.testing import FakeClock
from tests.support.memory_store import MemoryStore
from tests.support.owners import SESSIONS

AGENT = Caller()
PERSON = Caller(person=True)
WORKER = Caller(process="7:9", owner=Owner(role="agent", process="7:9"))
POLICIES = fields(Policies)
PLAN = ["Build the image", "Push it", "Run it", "Verify the site"]


class Sights:
    """Plays `WaitWatcher`: every target is there, and whatever is asked can be judged."""

    def __init__(self) -> None:
        self.start = "0"
        """The place from which the next wait reads."""
        self.seconds: dict[tuple[str, int], float] = {}
        """What each wait has left."""

    def preview_target(self, target: Target, condition: Condition) -> TargetPreview:
        return TargetPreview(start=self.start)

    def find_target_end(self, target: Target) -> str:
        return "end"

    def list_seconds_left(self) -> dict[tuple[str, int], float]:
        return self.seconds

    def read_observation(self, wait_id: str) -> str | None:
        return None

    def read_tail(self, wait_id: str) -> str | None:
        return None


def worker(name: str) -> Caller:
    """An agent of a host that has no gateway."""
    owner = Owner(role="agent", process=f"{name}:1")
    return Caller(process=f"{name}:1", owner=owner)


class World:
    """What an agent, a daemon and a gateway do, one verb each."""

    def __init__(
        self,
        store: TaskStore | None = None,
        clock: FakeClock | None = None,
        *,
        plugins: Sequence[tuple[str, Any]] = (),
        wait_watcher: WaitWatcher | None = None,
        home: str = "home_1",
        sole: bool = False,
        sessions: SessionKeys = SESSIONS,
        **given: Any,
    ) -> None:
        """`given` has fields of the policies, and others of the context."""
        policies = {each.name: given.pop(each.name) for each in POLICIES if each.name in given}
        self.store = store or MemoryStore()
        self.clock = clock or FakeClock()
        self.received: list[Wake] = []
        self._numbers: Iterator[int] = itertools.count(1)
        scoped = ScopedStore(self.store, home, sole=sole)
        plugin_host = PluginHost(entries=[], extra=plugins, seconds=5)
        self.history = StoredHistory(scoped)
        self.context = Context(
            store=scoped,
            plugin_host=plugin_host,
            recall_sources=plugin_host.find_recall_sources(
                history=self.history, folder=Path("/nowhere"), clock=self.clock, scrub=scrub
            ),
            clock=self.clock,
            policies=Policies(**policies),
            new_id=self._id,
            wait_watcher=wait_watcher or Sights(),
            sessions=sessions,
            **given,
        )

    def _id(self, kind: str, _now: datetime) -> str:
        return f"{kind}_{next(self._numbers):04d}"

    # --- the agent ------------------------------------------------------------

    def call(self, tool: str, caller: Caller = AGENT, **given: object) -> dict[str, Any]:
        return catalog.answer_call(self.context, tool, given, caller)

    def register(self, name: str = "Deploy coursefolio", **given: object) -> str:
        plan = given.pop("plan", PLAN)
        return str(self.call("task_register", name=name, plan=plan, **given)["task_id"])

    def narrate(self, task_id: str, message: str = "Still at it.") -> dict[str, Any]:
        return self.call("task_update", task_id=task_id, message=message)

    # --- the waits, by a stand-in for whoever watches --------------------------

    def open_wait(self, task_id: str | None, timeout: float = 300.0) -> Wait:
        return waits.open_wait(
            self.context,
            [("pty:build", parse_condition("the build finishes"))],
            timeout_seconds=timeout,
            poll_seconds=2.0,
            task_id=task_id,
            caller=AGENT,
        ).wait

    def end_wait(
        self,
        wait: Wait,
        status: WaitStatus = WaitStatus.RESOLVED,
        observation: str = "Build finished.",
    ) -> bool:
        return waits.end_wait(self.context, wait, status, observation)

    # --- the daemon -------------------------------------------------------------

    def sweep(self) -> int:
        return stuck.sweep_due_tasks(self.context)

    def claim(self) -> Sequence[Delivery]:
        return wakes.claim_deliveries(self.context)

    def deliver(self) -> list[Wake]:
        """Send what is due, and return the messages that arrived."""
        arrived: list[Wake] = []
        for delivery in self.claim():
            wakes.settle_delivered(self.context, delivery, "test")
            arrived.append(delivery.message)
        self.received += arrived
        return arrived

    def daemon(self) -> list[Wake]:
        """Do what the daemon does when something is due."""
        self.sweep()
        return self.deliver()

    def pass_time(self, seconds: float, step: float = 60.0) -> list[Wake]:
        """Let time pass, the daemon looking all the while."""
        arrived: list[Wake] = []
        left = seconds
        while left > 0:
            self.clock.tick(min(step, left))
            left -= step
            arrived += self.daemon()
        return arrived

    def look_anyway(self, task_id: str) -> None:
        """Look at a task although nothing says that it is due."""
        check = partial(stuck._check_task, self.context, plain=False)
        self.context.update_task(task_id, check)

    # --- looking ----------------------------------------------------------------

    def task(self, task_id: str) -> Task:
        return self.store.read_task(task_id).task

    def thread(self, task_id: str) -> list[tuple[str, str, str]]:
        return [
            (m.role.value, m.msg_type.value, m.content)
            for m in self.store.read_records(Message, task_id)
        ]

    def wakes(self, *states: WakeState) -> list[Wake]:
        return list(self.store.find_wakes(WakeQuery(states=states or None)))


def packet_of(text: str) -> dict[str, Any]:
    """Return the packet in a message's first line."""
    line = text.splitlines()[0]
    marker, _, body = line.partition(" ")
    assert marker == "[task_stuck_resume]"
    return dict(json.loads(body))

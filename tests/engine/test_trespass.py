"""Agents of three sessions, roles and hosts try what is not theirs, at random.

500 calls; `--long` and TASKMEM_TRESPASSES make more of them, TASKMEM_SEED others.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.views.user_actions import Command
from openclaw_taskmem.engine import gateway_reports, stuck, user_actions
from taskmem_hookspecs import EventQuery, Owner, TaskmemError, WakeQuery
from taskmem_hookspecs.testing import FakeClock
from tests.support.long_tests import choose_count
from tests.support.memory_store import MemoryStore
from tests.support.rows import read_all_rows
from tests.support.world import World, worker

CALLS: Final = choose_count("TASKMEM_TRESPASSES", 500, 10_000)
SEED: Final = int(os.environ.get("TASKMEM_SEED", "1"))


def reaches(host: str | None, session_key: str | None) -> bool:
    in_gateway = host is None or host.startswith("openclaw")
    return session_key is not None and in_gateway


@dataclass
class Party:
    """An agent, what is its own, and the word that is in all of that."""

    name: str
    world: World
    caller: Caller
    tasks: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)

    @property
    def secret(self) -> str:
        return f"The secret of {self.name}."

    @property
    def word(self) -> str:
        """What it says where it trespasses."""
        return f"Words of {self.name}."

    @property
    def in_gateway(self) -> bool:
        return self.caller.gateway_owner is not None

    def call(self, tool: str, **given: object) -> dict[str, Any]:
        return self.world.call(tool, self.caller, **given)

    def registers(self, **given: object) -> str:
        plan = [f"{self.secret} Build", "Ship"]
        metadata = {"note": self.secret}
        made = {
            "name": f"Plan {len(self.tasks)}: {self.secret}",
            "plan": plan,
            "metadata": metadata,
        }
        task = str(self.call("task_register", **{**made, **given})["task_id"])
        self.tasks.append(task)
        self.call("task_update", task_id=task, message=f"Said: {self.secret}")
        return task

    def takes_up(self) -> str:
        """Register a task, and hold it, also where no gateway says so."""
        task = self.registers()
        if not self.in_gateway:
            self.call("task_claim", task_id=task)
        return task

    def waits_for(self, task: str | None = None) -> str:
        wanted = {"target": "pty:x", "wake_when": f'"{self.secret}" appears'}
        wait = str(self.call("smart_wait", task_id=task, **wanted)["wait_id"])
        self.waits.append(wait)
        return wait

    def settles(self) -> None:
        """Have tasks and waits in every state."""
        alone = self.waits_for()
        self.world.end_wait(self.world.store.read_wait(alone), observation=self.secret)
        self.waits_for()
        self.waits_for(self.registers())
        self.takes_up()
        self.call("task_update", task_id=self.takes_up(), ask=f"Ask: {self.secret}")
        self.call("task_handoff", task_id=self.takes_up(), note=self.secret)
        self.call("task_update", task_id=self.takes_up(), status="paused")
        self.registers(role="auditor", name="An audit")  # a name that its role sees
        for status in ("completed", "failed", "cancelled"):
            task = self.takes_up()
            self.call("task_update", task_id=task, status=status, message=self.secret)
        if self.in_gateway and self.name == "main":
            self.call("task_background", task_id=self.registers(), note=self.secret)


def in_gateway(role: str, session: str, home: str = "home_1", which: str = "one") -> Caller:
    boot, host = f"boot_{which}", f"openclaw:{which}"
    owner = Owner(role=role, session_key=session, boot=boot, home=home, host=host)
    return Caller(session_key=session, host=host, owner=owner, home=home)


def as_relay(host: str, process: str) -> Caller:
    return worker(process).model_copy(update={"host": f"mcp:{host}", "home": "home_1"})


@pytest.fixture
def parties() -> list[Party]:
    """Three roles and four sessions of a gateway, and two other hosts.

    Another gateway of that home, and one of another home, have a session of one's key.
    """
    store, clock = MemoryStore(), FakeClock()
    outside = {"reaches": reaches, "is_alive": lambda _: True}
    here = World(store, clock, home="home_1", **outside)
    there = World(store, clock, home="home_2", **outside)
    there._numbers = here._numbers
    made = [
        Party("main", here, in_gateway("main", "agent:main:main")),
        Party("second", here, in_gateway("main", "agent:main:two")),
        Party("builder", here, in_gateway("builder", "agent:builder:main")),
        Party("writer", here, in_gateway("writer", "agent:writer:main")),
        Party("double", here, in_gateway("main", "agent:main:main", which="two")),
        Party("twin", there, in_gateway("main", "agent:main:main", "home_2")),
        Party("claude", here, as_relay("claude-code", "1")),
        Party("codex", here, as_relay("codex", "2")),
    ]
    # An alert of each gateway's session, and then what is fresh.
    silent = [party for party in made if party.in_gateway]
    for party in silent:
        party.registers()
    clock.tick(400)
    for world in (here, there):
        stuck.sweep_due_tasks(world.context)
        world.deliver()
    for party in made:
        party.settles()
    return made


@dataclass
class Trespasser:
    """Calls whatever there is on what is another's, with words of its own."""

    dice: random.Random
    by: Party
    of: Party
    last: tuple[str, dict[str, Any]] | None = None
    """What it called last."""

    def calls(self) -> dict[str, Any] | str:
        """Make one call, and return what it answers."""
        tool, given = self.dice.choice([*self._calls()])
        if self.dice.random() < 0.2:
            given["session_key"] = self.of.caller.session_key
        if "token" in given and self.dice.random() < 0.5:
            del given["token"]
        self.last = (tool, given)
        if tool in ("packet", "command"):
            return self._of_gateway(tool, str(given["task_id"]))
        return self.by.call(tool, **given)

    def _of_gateway(self, method: str, task: str) -> str:
        """Ask as the gateway's plug-in does for its own session."""
        session, context = self.by.caller.session_key, self.by.world.context
        if session is None or not self.by.in_gateway:
            return ""
        if method == "packet":
            host = self.by.caller.host
            return str(gateway_reports.build_reminder(context, session, host=host, task_id=task))
        command = self.dice.choice([Command.RESUME, Command.CANCEL])
        caller = self.by.caller.model_copy(update={"person": True})
        words = f"{task} {self.by.word}"
        return str(user_actions.run_command(context, command, words, caller))

    def _calls(self) -> Iterator[tuple[str, dict[str, Any]]]:
        dice, word = self.dice, self.by.word
        task, wait = dice.choice(self.of.tasks), dice.choice(self.of.waits)
        own = dice.choice(self.by.tasks)
        it: dict[str, Any] = {"task_id": task}
        held = {**it, "token": dice.randint(0, 4)}
        status = dice.choice(["active", "paused", "completed", "failed", "cancelled"])
        waited = {"target": "pty:x", "wake_when": f'"{word}" appears'}
        yield "task_update", {**it, "message": word}
        yield "task_update", {**it, "query": "What is the secret?"}
        yield "task_update", {**held, "message": word, "status": status}
        yield "task_update", {**held, "completed_steps": [dice.randint(1, 2)]}
        yield "task_update", {**held, "reopened_steps": [1]}
        yield "task_update", {**held, "ask": word}
        yield "task_plan_update", {**held, "new_plan": [word], "reason": word}
        yield "task_list", {"status": dice.choice(["all", "waiting"]), "limit": 100}
        yield "task_list", {"status": dice.choice([status, "implicit"]), "limit": 100}
        yield "smart_wait", {**it, **waited}
        yield "wait_update", {"wait_id": wait, "timeout": 60, "message": word}
        yield "wait_cancel", {"wait_id": wait, "reason": word}
        yield "task_status", it
        yield "task_status", {**it, "before": "0.0.0"}
        yield "task_resume", {**it, "reopen": True}
        yield "task_resume", {**it, "answer": word}
        yield "task_step_done", {**held, "note": word}
        yield "task_step_done", {**held, "outcome": "failed", "remaining": [word]}
        yield "task_abort", {**held, "reason": word}
        yield "task_background", {**it, "note": word}
        yield "task_cancel", {**it, "reason": word}
        yield "task_claim", it
        yield "task_claim", {**it, "role": dice.choice(["main", "builder"])}
        yield "task_claim", {"task_id": own, "attach": [task]}
        yield "task_handoff", {**held, "to": "user", "note": word}
        yield "task_handoff", {**held, "to": dice.choice(["main", "x"]), "note": word}
        yield "task_reset", it
        yield "packet", it
        yield "command", it


def rows_of(party: Party, rows: dict[str, Any]) -> list[Any]:
    """Return all that a store holds of a party's tasks and waits."""
    mine = {*party.tasks, *party.waits}

    def is_its(row: Any) -> bool:
        return bool({getattr(row, "task_id", 0), getattr(row, "wait_id", 0)} & mine)

    found = (row for table in rows.values() for row in table)
    return [*filter(is_its, found)]


def test_no_call_on_what_is_anothers_succeeds(parties: list[Party]) -> None:
    dice = random.Random(SEED)  # noqa: S311 - no secret
    store = parties[0].world.store
    before = {party.name: rows_of(party, read_all_rows(store)) for party in parties}
    assert all(party.secret in str(before[party.name]) for party in parties)
    refused, faults = 0, []

    for number in range(CALLS):
        by, of = dice.sample(parties, 2)
        trespasser = Trespasser(dice, by, of)
        try:
            answer = json.dumps(trespasser.calls(), default=str)
        except TaskmemError as error:
            answer = json.dumps(error.to_json())
            refused += 1
        told = [p.name for p in parties if p is not by and p.secret in answer]
        rows = read_all_rows(store)
        changed = [p.name for p in parties if p is not by and rows_of(p, rows) != before[p.name]]
        before[by.name] = rows_of(by, rows)
        if told or changed:
            faults.append((number, trespasser.last, by.name, told, changed, answer))
            before |= {p.name: rows_of(p, rows) for p in parties}

    assert faults == [], "\n".join(map(str, faults[:20]))
    assert refused > CALLS / 2

    # What was tried reaches nobody afterwards, and what reaches them is none of it.
    assert [*parties[0].world.pass_time(3600), *parties[5].world.pass_time(3600)]
    wakes = store.find_wakes(WakeQuery())
    lines = [event for event in store.find_events(EventQuery()) if "line" in event.data]
    told = [(wake.session_key, wake.home, wake.host, wake.text) for wake in wakes]
    told += [(e.data["session_key"], e.data["home"], None, str(e.data)) for e in lines]
    for session, home, host, text in told:
        for party in parties:
            if party.word in text:
                assert session == party.caller.session_key
                assert home in (None, party.caller.home)
                assert host in (None, party.caller.host)

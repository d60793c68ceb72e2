"""Leases that have run out: what is looked at, and what became of it meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from openclaw_taskmem.engine import run_recovery
from taskmem_hookspecs import Change, Run, RunQuery, RunState
from taskmem_hookspecs.testing import a_run, a_task
from tests.support.memory_store import MemoryStore
from tests.support.sessions import Session
from tests.support.world import World

LEASE = 301


class Slow(MemoryStore):
    """Lets something happen between the look for leases and what comes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Any] = []

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        found = super().find_runs(query)
        while query.lapsed_by and self.meanwhile:
            self.meanwhile.pop()()
        return found


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_run_ending_during_the_lease_sweep_is_left_alone(
    status: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Slow()
    session = Session(World(store))
    task = session.takes_up()
    session.world.clock.tick(LEASE)
    store.meanwhile = [lambda: session.call("task_update", task_id=task, status=status)]

    with caplog.at_level(logging.WARNING):
        assert run_recovery.sweep_lapsed_runs(session.world.context, ()) == 1

    assert caplog.text == ""
    assert session.run(task).state is RunState(status)


def test_leftover_lease_of_an_ended_run_is_swept_once() -> None:
    world = World()
    ended = a_run(state=RunState.COMPLETED, lease_until=world.clock.now())
    world.store.commit(Change(tasks=(a_task(),), runs=(ended,)))
    world.clock.tick(1)

    assert run_recovery.sweep_lapsed_runs(world.context, ()) == 1
    assert run_recovery.sweep_lapsed_runs(world.context, ()) == 0

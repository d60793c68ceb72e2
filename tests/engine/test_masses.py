"""Many tasks fall silent at once: what is written, who is woken, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_taskmem.domain.changes import stuck as rules
from openclaw_taskmem.domain.policies import StuckPolicy
from openclaw_taskmem.engine import stuck
from openclaw_taskmem.engine.live_state import LiveState
from taskmem_hookspecs import Change, Wake, WakeCause
from tests.support.memory_store import MemoryStore
from tests.support.world import PERSON, World

THRESHOLD = 300
BATCH = 10
LIMITS = {"MOST_UNSENT": 8, "MOST_UNSENT_OF_SESSION": 3, "MOST_KEPT_PER_DAY": 4}
SESSIONS = ("ada", "bob", "cyd", "lost")
LOST = SESSIONS[-1]


class AlertCountingStore(MemoryStore):
    """Counts the alerts that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.alerts: list[Wake] = []
        self.commits = 0

    def commit(self, change: Change) -> None:
        super().commit(change)
        self.commits += 1
        self.alerts += [
            w for w in change.wakes if w.cause is WakeCause.STUCK and not w.version and w.text
        ]


@pytest.fixture(autouse=True, scope="module")
def _small_limits() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stuck, "BATCH", BATCH)
        for name, value in LIMITS.items():
            patch.setattr(rules, name, value)
        yield


class Masses:
    """A home of many tasks that fell silent at once."""

    def __init__(self, sessions: Sequence[str]) -> None:
        self.store = AlertCountingStore()
        self.lost = {LOST}
        self.world = World(
            self.store,
            stuck=StuckPolicy(threshold_seconds=THRESHOLD),
            reaches=lambda _, session: session not in self.lost,
        )
        self.tasks = [self.register(session) for session in sessions]
        self.sessions = dict(zip(self.tasks, sessions, strict=True))
        self.world.clock.tick(THRESHOLD)

    def register(self, session: str) -> str:
        given = {"name": "Build", "plan": ["Make"], "session_key": session}
        return str(self.world.call("task_register", PERSON, **given)["task_id"])

    def kill(self) -> None:
        """Start the daemon anew: what it kept in memory is lost."""
        self.world.context = replace(self.world.context, live=LiveState())

    def sweep_all(self) -> None:
        """Have the daemon check what is due, until nothing is."""
        while self.world.sweep() == BATCH:
            pass

    def list_alerted(self, *sessions: str) -> list[str]:
        """Return the tasks of these sessions in the order of their first alerts."""
        alerted = dict.fromkeys(wake.task_id for wake in self.store.alerts)
        return [each for each in alerted if each is not None and self.sessions[each] in sessions]


@settings(max_examples=25, deadline=None)
@given(
    sessions=st.lists(st.sampled_from(SESSIONS), min_size=1, max_size=60),
    kills=st.frozensets(st.integers(0, 40), max_size=4),
)
def test_each_is_woken_in_the_end_and_no_pass_writes_much(
    sessions: list[str], kills: frozenset[int]
) -> None:
    masses = Masses(sessions)
    reached = {task for task, session in masses.sessions.items() if session not in masses.lost}
    for step in count():
        before, commits = len(masses.store.alerts), masses.store.commits
        masses.sweep_all()
        most = LIMITS["MOST_UNSENT"] + LIMITS["MOST_KEPT_PER_DAY"]
        assert len(masses.store.alerts) - before <= most
        # Besides the alerts: those put off, many in each commit.
        together = len(sessions) // LIMITS["MOST_UNSENT_OF_SESSION"]
        assert masses.store.commits - commits <= most + together + 2 * (len(sessions) // BATCH + 1)
        if step in kills:
            masses.kill()
        masses.world.deliver()
        if reached <= {*masses.list_alerted(*SESSIONS)}:
            break
        assert step < 200
        masses.world.clock.tick(60)

    lost = masses.list_alerted(LOST)
    assert len(lost) == min(LIMITS["MOST_KEPT_PER_DAY"], sessions.count(LOST))
    assert {wake.task_id for wake in masses.world.wakes()} == reached | {*lost}


def test_who_fell_silent_first_is_told_of_first() -> None:
    masses = Masses([*SESSIONS[:2]] * 12)
    for _ in range(12):
        masses.sweep_all()
        masses.world.deliver()
        masses.world.clock.tick(60)

    for session in SESSIONS[:2]:
        its = [task for task in masses.tasks if masses.sessions[task] == session]
        assert masses.list_alerted(session) == its


def test_busy_session_and_lost_agent_keep_nobody_waiting() -> None:
    masses = Masses([LOST] * 20 + [SESSIONS[0]] * 20 + [SESSIONS[1]])
    masses.sweep_all()

    assert masses.list_alerted(SESSIONS[1]) == [masses.tasks[-1]]


def test_agents_that_are_reached_again_are_woken_at_that_pace() -> None:
    masses = Masses([LOST] * 20)
    masses.sweep_all()
    masses.lost.clear()
    for _ in range(20):
        masses.sweep_all()
        masses.world.deliver()
        masses.world.clock.tick(rules.PACE.total_seconds())

    assert masses.list_alerted(LOST) == masses.tasks


def test_a_task_that_was_touched_waits_for_no_turn_of_others() -> None:
    masses = Masses([LOST] * 40)
    masses.sweep_all()
    task = masses.world.task(masses.tasks[-1])
    assert task.stuck_due_at is not None
    assert task.stuck_due_at > masses.world.clock.now() + rules.PACE

    masses.world.narrate(task.task_id)

    due = masses.world.task(task.task_id).stuck_due_at
    assert due is not None
    assert (due - masses.world.clock.now()).total_seconds() == THRESHOLD

"""Two people who act on one task at the same moment: one wins, and the other is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import product
from threading import Barrier, Lock
from typing import Any

import pytest

from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.domain.views.user_actions import ActRequest, UserAction
from openclaw_taskmem.engine.context import LOCK_COUNT, Context, ScopedStore
from openclaw_taskmem.engine.overview import read_line
from openclaw_taskmem.engine.user_actions import act_on_task
from taskmem_hookspecs import NotAllowed, TaskStatus, TaskStore
from tests.engine.stateful import NewStore, stores
from tests.support.memory_store import MemoryStore
from tests.support.sessions import Session
from tests.support.world import World

READS = 3
"""After each of so many reads of the first to act, the second acts."""


class InterruptedStore:
    """A store at which somebody else acts after its `reads`-th look at a task."""

    def __init__(self, whole: TaskStore, reads: int, interrupt: Callable[[], None]) -> None:
        self._whole = whole
        self._left = reads
        self._interrupt = interrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def read_task(self, task_id: str) -> Any:
        facts = self._whole.read_task(task_id)
        self._left -= 1
        if self._left == 0:
            self._interrupt()
        return facts


def ask(session: Session) -> str:
    task = session.takes_up()
    session.call("task_update", task_id=task, ask="Which browser?")
    return task


def hand_over(session: Session) -> str:
    task = session.takes_up()
    session.call("task_handoff", task_id=task)
    return task


def be_refused(session: Session) -> str:
    task = session.takes_up(metadata={"artifacts": ["/nowhere/report.md"]})
    with suppress(EvidenceMissing):
        session.call("task_update", task_id=task, status="completed")
    return task


def pause(session: Session) -> str:
    task = session.takes_up()
    session.call("task_update", task_id=task, status="paused")
    return task


STATES = (ask, hand_over, be_refused, pause)


def make_request(session: Session, task: str, action: UserAction) -> ActRequest:
    """Return the request of a person who was shown the task just now."""
    asked = read_line(session.world.context, task).question_id
    return ActRequest(action=action, words="Firefox", question_id=asked)


def try_act(context: Context, task: str, request: ActRequest) -> str:
    try:
        act_on_task(context, task, request)
    except NotAllowed as refusal:
        return str(refusal).rpartition(". ")[2]
    except EvidenceMissing:
        return "not proved"
    return "done"


def describe(session: Session, task: str) -> tuple[object, ...]:
    facts = session.world.store.read_task(task)
    run = facts.run and (facts.run.state, facts.run.why)
    said = [m[2] for m in session.world.thread(task) if m[0] == "user"]
    return facts.task.status, run, said


@contextmanager
def second_daemon(context: Context, store: TaskStore) -> Iterator[Context]:
    """Another daemon of the home, as far as locks go: only the store keeps them apart."""
    scoped = ScopedStore(store, context.store.home)
    yield replace(context, store=scoped, locks=tuple(Lock() for _ in range(LOCK_COUNT)))


def interrupt_act(
    state: Callable[[Session], str], first: UserAction, second: UserAction, reads: int
) -> tuple[object, object, object]:
    """Let the second act after so many reads of the first; return what both are told."""
    session = Session(World(MemoryStore()))
    task = state(session)
    one, other = (make_request(session, task, action) for action in (first, second))
    said: list[str] = []

    def interrupt() -> None:
        said.append(try_act(session.world.context, task, other))

    store: Any = InterruptedStore(session.world.store, reads, interrupt)
    with second_daemon(session.world.context, store) as context:
        told = try_act(context, task, one)
    if not said:
        interrupt()
    return told, said[0], describe(session, task)


def act_in_turn(
    state: Callable[[Session], str], *order: UserAction
) -> tuple[object, object, object]:
    session = Session(World(MemoryStore()))
    task = state(session)
    requests = [make_request(session, task, action) for action in order]
    first, second = (try_act(session.world.context, task, request) for request in requests)
    return first, second, describe(session, task)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_two_acts_at_once_end_as_if_one_came_first(state: Callable[[Session], str]) -> None:
    for one, other, reads in product(UserAction, UserAction, range(1, READS + 1)):
        later, earlier, left = act_in_turn(state, other, one)
        serial = (act_in_turn(state, one, other), (earlier, later, left))
        assert interrupt_act(state, one, other, reads) in serial, (one, other, reads)


@stores
def test_of_four_approvals_one_counts(new_store: NewStore) -> None:
    session = Session(World(new_store()))
    task = hand_over(session)
    request, together = make_request(session, task, UserAction.APPROVE), Barrier(4)

    def approve(_: int) -> str:
        with second_daemon(session.world.context, session.world.store) as context:
            together.wait(10)
            return try_act(context, task, request)

    with ThreadPoolExecutor(4) as pool:
        said = sorted(pool.map(approve, range(4)))

    assert said == [*["Nothing was changed."] * 3, "done"]


@stores
def test_an_answer_reopens_nothing_that_was_just_cancelled(new_store: NewStore) -> None:
    session = Session(World(new_store()))
    task = ask(session)
    answer = make_request(session, task, UserAction.ANSWER)

    def cancel() -> None:
        act_on_task(session.world.context, task, ActRequest(action=UserAction.CANCEL))

    store: Any = InterruptedStore(session.world.store, 1, cancel)
    with (
        second_daemon(session.world.context, store) as context,
        pytest.raises(NotAllowed, match="is cancelled now, so you cannot answer it"),
    ):
        act_on_task(context, task, answer)

    assert session.world.task(task).status is TaskStatus.CANCELLED

"""What a change of a task means for its run, and what makes a run of a task."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import task_runs
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import RunTransition
from taskmem_hookspecs import (
    Change,
    News,
    Owner,
    Run,
    RunState,
    TaskFacts,
    TaskStatus,
    Wake,
    WakeState,
)
from taskmem_hookspecs.testing import a_task, a_wake
from tests.support import owners
from tests.support.owners import (
    LEASE,
    MAIN,
    NOW,
    POLICY,
    SESSIONS,
    WORKER,
    a_changed_run,
    a_resume_wake,
)

AGAIN: Final = MAIN.model_copy(update={"boot": "boot-2"})
THE_OWNER: Final = Caller(owner=MAIN, session_key=MAIN.session_key)
THE_OTHER: Final = Caller(owner=Owner(role="main", session_key="agent:main:x"))
A_PERSON: Final = Caller(person=True)
OPEN: Final = [state for state in RunState if not state.terminal]


def a_leased_run(**changes: object) -> Run:
    """A run that the main agent holds, and that is for its role."""
    return owners.a_leased_run(**({"role": "main"} | changes))


def an_unleased_run(state: RunState = RunState.BLOCKED, **changes: object) -> Run:
    """A run of the main agent's session of which nobody is expected to be seen."""
    owner = None if state is RunState.QUEUED else MAIN
    fields = {"state": state, "owner": owner, "lease_until": None}
    return a_leased_run(**(fields | changes))


def change_after(
    run: Run | None,
    caller: Caller = THE_OWNER,
    *wakes: Wake,
    was: TaskStatus = TaskStatus.ACTIVE,
    status: TaskStatus = TaskStatus.ACTIVE,
    marked: bool = False,
    token: int | None = None,
) -> Change:
    """Return what a call means that changes, or leaves, a task's status."""
    return task_runs.apply_call(
        TaskFacts(task=a_task(status=was), run=run, wakes=wakes),
        a_task(status=status),
        task_runs.RunCall(
            caller=caller, token=token, marked=frozenset({0}) if marked else frozenset()
        ),
        NOW,
        policy=POLICY,
        sessions=SESSIONS,
    )


def kinds(found: Change | RunTransition) -> list[str]:
    return [event.kind for event in found.events]


# --- begun ----------------------------------------------------------------------


def begin_task_run(caller: Caller, **more: Any) -> RunTransition | None:
    task = a_task(metadata=more.pop("metadata", {}))
    return task_runs.begin_for_caller(task, caller, run_id="run_7", now=NOW, policy=POLICY, **more)


def test_an_agent_of_a_gateway_holds_what_it_registers() -> None:
    caller = Caller(owner=MAIN, folder="/work")

    moved = begin_task_run(caller, segmented=True, metadata={"attached_task_ids": ["task_2"]})

    assert moved is not None
    assert moved.run == a_changed_run(
        run_id="run_7",
        state=RunState.RUNNING,
        role="main",
        owner=MAIN,
        session_key="agent:main:main",
        token=1,
        lease_until=NOW + LEASE,
        attached=("task_2",),
        segmented=True,
        folder="/work",
        created_at=NOW,
        changed_at=NOW,
        seen_at=NOW,
        started_at=NOW,
        turn_began_at=NOW,
    )
    assert kinds(moved) == ["run_changed", "run_changed", "milestone"]
    assert [event.data.get("to") for event in moved.events] == ["queued", "running", None]
    assert moved.events[2].data["name"] == "accepted"


@pytest.mark.parametrize(
    "caller",
    [
        pytest.param(Caller(), id="unknown"),
        pytest.param(A_PERSON, id="a-person"),
        pytest.param(Caller(owner=WORKER), id="a-worker"),
    ],
)
def test_everybody_else_claims(caller: Caller) -> None:
    assert begin_task_run(caller) is None


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (["task_2", "task_3"], ("task_2", "task_3")),
        (["task_2", 3, None, ["x"]], ("task_2",)),
        ("task_2", ()),
        ({"task_2": 1}, ()),
        (None, ()),
        ([], ()),
    ],
    ids=["two", "mixed", "a-text", "an-object", "null", "none"],
)
def test_only_a_list_of_ids_attaches_tasks(value: Any, named: tuple[str, ...]) -> None:
    assert task_runs.list_attached({"attached_task_ids": value}) == named
    assert task_runs.list_attached({"other": ["task_2"]}) == ()


# --- a status that changed ------------------------------------------------------


def test_a_task_without_a_run_means_nothing_to_any() -> None:
    assert change_after(None, status=TaskStatus.COMPLETED, marked=True).empty


@pytest.mark.parametrize(
    ("status", "state", "why"),
    [
        (TaskStatus.PAUSED, "blocked", "paused"),
        (TaskStatus.COMPLETED, "completed", None),
        (TaskStatus.FAILED, "failed", None),
        (TaskStatus.CANCELLED, "cancelled", None),
    ],
    ids=["paused", "completed", "failed", "cancelled"],
)
@pytest.mark.parametrize(
    "caller", [THE_OWNER, THE_OTHER, A_PERSON], ids=["its-owner", "another", "a-person"]
)
def test_run_follows_its_task_status_and_its_wake_is_superseded(
    caller: Caller, status: TaskStatus, state: str, why: str | None
) -> None:
    change = change_after(
        a_leased_run(), caller, a_resume_wake(), a_wake(wake_id="wake_2"), status=status
    )

    (run,) = change.runs
    assert (run.state, run.why, run.lease_until) == (state, why, None)
    assert [(wake.wake_id, wake.state) for wake in change.wakes] == [
        ("wake_1", WakeState.SUPERSEDED)
    ]
    assert kinds(change).count("run_changed") == 1
    assert kinds(change).count("wake_superseded") == 1


@pytest.mark.parametrize(
    ("status", "told_of"),
    [
        (TaskStatus.COMPLETED, ["completed"]),
        (TaskStatus.FAILED, ["failed"]),
        (TaskStatus.CANCELLED, []),
        (TaskStatus.PAUSED, []),
    ],
    ids=["completed", "failed", "cancelled", "paused"],
)
def test_user_is_told_only_of_completed_or_failed_tasks(
    status: TaskStatus, told_of: list[str]
) -> None:
    change = change_after(a_leased_run(), status=status)

    said = [event for event in change.events if event.kind == "milestone"]
    assert [event.data["name"] for event in said] == told_of


@pytest.mark.parametrize("state", OPEN)
@pytest.mark.parametrize("was", TaskStatus)
@pytest.mark.parametrize("status", TaskStatus)
@pytest.mark.parametrize(
    "caller",
    [THE_OWNER, THE_OTHER, A_PERSON, Caller(owner=AGAIN)],
    ids=["its-owner", "another", "a-person", "its-owner-anew"],
)
def test_no_call_leaves_a_lease_on_what_does_not_run(
    caller: Caller, was: TaskStatus, status: TaskStatus, state: RunState
) -> None:
    run = a_leased_run() if state is RunState.RUNNING else an_unleased_run(state)

    change = change_after(run, caller, was=was, status=status)

    (left,) = change.runs or (run,)
    assert left.lease_until is None or left.state is RunState.RUNNING
    assert left.token >= run.token
    assert left.state.terminal <= status.terminal


# --- an agent that works --------------------------------------------------------


def test_a_call_by_its_owner_is_a_sign_of_it() -> None:
    (run,) = change_after(a_leased_run()).runs

    assert (run.seen_at, run.lease_until) == (NOW, NOW + LEASE)
    assert run.token == 4


@pytest.mark.parametrize("caller", [THE_OTHER, A_PERSON], ids=["another", "a-person"])
def test_a_call_by_anybody_else_is_no_sign_of_its_owner(caller: Caller) -> None:
    assert change_after(a_leased_run(), caller).empty


def test_call_with_the_claim_token_counts_as_seen_from_its_owner() -> None:
    (run,) = change_after(a_leased_run(), Caller(), token=4).runs

    assert (run.seen_at, run.lease_until) == (NOW, NOW + LEASE)


def test_a_run_that_rested_goes_on_with_its_owners_first_call() -> None:
    change = change_after(an_unleased_run(why=RunReason.QUESTION), THE_OWNER, a_resume_wake())

    (run,) = change.runs
    assert (run.state, run.why) == (RunState.RUNNING, None)
    assert (run.owner, run.token) == (MAIN, 4)
    assert run.lease_until == NOW + LEASE
    assert change.wakes == ()
    assert kinds(change) == ["run_changed"]


@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.BLOCKED])
def test_restarted_owner_takes_its_run_up_with_a_new_token(state: RunState) -> None:
    (run,) = change_after(an_unleased_run(state), Caller(owner=AGAIN)).runs

    assert (run.state, run.owner, run.token) == (RunState.RUNNING, AGAIN, 5)


@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.BLOCKED])
@pytest.mark.parametrize(
    "caller",
    [
        pytest.param(A_PERSON, id="a-person"),
        pytest.param(Caller(), id="unknown"),
        pytest.param(THE_OTHER, id="another-session"),
        pytest.param(Caller(owner=MAIN.model_copy(update={"role": "builder"})), id="another-role"),
    ],
)
def test_a_run_that_rested_is_taken_up_by_no_other(caller: Caller, state: RunState) -> None:
    assert change_after(an_unleased_run(state), caller).empty


def test_a_run_for_anybody_is_taken_up_by_its_session() -> None:
    (run,) = change_after(an_unleased_run(RunState.QUEUED, role=None)).runs

    assert (run.state, run.owner, run.token) == (RunState.RUNNING, MAIN, 5)


@pytest.mark.parametrize("caller", [A_PERSON, THE_OTHER], ids=["a-person", "another"])
def test_a_task_that_is_taken_up_again_by_others_queues_its_run(caller: Caller) -> None:
    change = change_after(an_unleased_run(why=RunReason.PAUSED), caller, was=TaskStatus.PAUSED)

    (run,) = change.runs
    assert (run.state, run.why, run.owner) == (RunState.QUEUED, None, None)


@pytest.mark.parametrize(
    ("caller", "session_key", "state"),
    [
        pytest.param(A_PERSON, None, RunState.QUEUED, id="no-session"),
        pytest.param(A_PERSON, "cli", RunState.QUEUED, id="no-gateways"),
        pytest.param(A_PERSON, "agent:main:main", RunState.BLOCKED, id="a-gateways"),
        pytest.param(THE_OTHER, None, RunState.BLOCKED, id="not-the-user"),
    ],
)
def test_user_requeues_a_run_that_asks_where_no_gateway_tells_it(
    caller: Caller, session_key: str | None, state: RunState
) -> None:
    asks = an_unleased_run(why=RunReason.QUESTION, question="Which?", session_key=session_key)

    found = change_after(asks, caller).runs or (asks,)

    assert [run.state for run in found] == [state]


def test_its_owner_that_takes_a_task_up_again_goes_on_with_it() -> None:
    change = change_after(an_unleased_run(why=RunReason.PAUSED), was=TaskStatus.PAUSED)

    assert change.runs[0].state is RunState.RUNNING


@pytest.mark.parametrize("status", [TaskStatus.PAUSED, TaskStatus.COMPLETED])
def test_a_call_on_a_task_that_is_not_active_takes_nothing_up(status: TaskStatus) -> None:
    change = change_after(an_unleased_run(why=RunReason.PAUSED), was=status, status=status)

    assert change.runs == ()


# --- a step that is done --------------------------------------------------------


@pytest.mark.parametrize("caller", [THE_OWNER, A_PERSON], ids=["its-owner", "a-person"])
def test_a_step_that_is_done_is_news_and_ends_what_failed_before(caller: Caller) -> None:
    run = a_leased_run(idle_rounds=2, tries=2, provider_failures=3)

    (left,) = change_after(run, caller, marked=True).runs

    assert (left.progress.news, left.limits.idle_rounds) == (News.CALL, 0)
    assert (left.limits.tries, left.limits.provider_failures) == (0, 0)


def test_a_call_that_marks_nothing_is_no_news() -> None:
    (left,) = change_after(a_leased_run(idle_rounds=2, tries=2)).runs

    assert (left.progress.news, left.limits.idle_rounds, left.limits.tries) == (News.NONE, 2, 2)


# --- taken up -------------------------------------------------------------------


@given(
    state=st.sampled_from([RunState.QUEUED, RunState.BLOCKED]),
    owner=st.sampled_from([MAIN, AGAIN, None]),
)
def test_taking_up_a_run_gives_it_to_the_owner_if_there_is_one(
    state: RunState, owner: Owner | None
) -> None:
    run = an_unleased_run(state)

    moved = task_runs.take_up_for_caller(run, Caller(owner=owner), NOW, POLICY)

    if owner is None:
        assert moved == RunTransition(run=run, events=())
    else:
        assert (moved.run.state, moved.run.owner) == (RunState.RUNNING, owner)
        assert moved.run.token == 4 + (run.owner != owner)
        assert moved.run.lease_until == NOW + LEASE


@pytest.mark.parametrize(
    ("host", "relay"),
    [
        ("mcp:claude-code", "claude-code"),
        ("shell:codex", "codex"),
        ("openclaw:one", "openclaw"),
        ("openclaw", "openclaw"),
        ("mcp", "an agent"),
    ],
)
def test_words_of_the_user_name_the_agent_that_relays_them(host: str, relay: str) -> None:
    agent = Caller(person=host.startswith(("shell", "openclaw")), host=host)

    assert task_runs.attribute_answer("Go.", None, agent) == f"As relayed by {relay}: Go."
    assert task_runs.attribute_answer("Go.", None, A_PERSON) == "Go."

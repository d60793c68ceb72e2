"""What is decided about a task without its agent: it stands where the agent reads of the task."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.changes.questions import LEAVE_OPTION
from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.engine import gateway_reports, run_history, run_recovery, runs
from taskmem_hookspecs import Run, RunQuery
from tests.support.sessions import Session
from tests.support.world import PERSON, World, worker

HOUR: Final = 3600
GONE: Final = worker("1")
DECIDED: Final = ("system", "text")
"""Role and subject of a thread's entry for a decision."""


def is_alive(process: str) -> bool:
    return process != GONE.process


def build_session(**policy: Any) -> Session:
    """Build a session in which a turn works on its task."""
    session = Session(World(runs=RunPolicy(**policy), is_alive=is_alive))
    session.works()
    return session


def find_run(session: Session) -> Run:
    return session.world.store.find_runs(RunQuery(limit=1))[0]


def restart(session: Session, away: float = 0) -> None:
    session.world.clock.tick(away)
    session.settles(session.restarts("boot_2"))


def let_lapse(session: Session, *, known: bool) -> str:
    caller = GONE if known else GONE.model_copy(update={"process": None, "owner": None})
    task = session.world.register("Elsewhere")
    session.world.call("task_claim", caller, task_id=task)
    session.world.clock.tick(HOUR)
    run_recovery.sweep_lapsed_runs(session.world.context, ())
    return task


def change_prompt(session: Session) -> None:
    session.fingerprint = "as it is now"
    restart(session)


def answer(session: Session, key: str, words: str) -> None:
    gateway_reports.take_answer(session.world.context, key, words)


def leave(session: Session) -> None:
    restart(session, away=2 * HOUR)
    asked = runs.find_question(session.world.context, find_run(session))
    assert asked is not None
    answer(session, asked.key, LEAVE_OPTION)


def answer_late(session: Session) -> None:
    session.asks("Which port?")
    asked = runs.find_question(session.world.context, find_run(session))
    assert asked is not None
    session.begins()
    session.call("task_update", task_id=find_run(session).task_id, status="active")
    for _ in range(2):
        answer(session, asked.key, "22")


def complete(session: Session) -> str:
    task = session.world.register("Elsewhere", metadata={"artifacts": ["command:tests"]})
    with suppress(EvidenceMissing):
        session.world.call("task_update", task_id=task, status="completed", message="All done.")
    return task


def complete_unheard(session: Session) -> None:
    task = find_run(session).task_id
    session.world.call("task_update", PERSON, task_id=task, message="Blue, please.")
    session.call("task_update", task_id=task, status="completed", message="All done.")


def call(tool: str, **given: Any) -> Callable[[Session], None]:
    def call_tool(session: Session) -> None:
        session.call(tool, task_id=find_run(session).task_id, **given)

    return call_tool


def end(**turn: Any) -> Callable[[Session], None]:
    return lambda session: session.ends("", **turn)


def stall(session: Session) -> None:
    session.ends("")
    session.begins(Origin.TASKMEM)
    session.ends("")


DECISIONS: Final[dict[str, tuple[Callable[[Session], str | None], str, dict[str, Any]]]] = {
    RunReason.OWNER_GONE: (
        lambda session: let_lapse(session, known=True),
        "The process that held it before has ended, so it is queued again.",
        {},
    ),
    RunReason.LEASE_EXPIRED: (
        lambda session: let_lapse(session, known=False),
        "Whoever held it before was not seen within its lease, so it is queued again.",
        {},
    ),
    RunReason.INTERRUPTED: (restart, "turn was cut, and it is told to go on.", {}),
    "not carried on": (restart, "was cut, so it is queued again.", {"carry_on": False}),
    "interrupted too often": (
        restart,
        "Failed (interrupted): it was interrupted again after it was resumed 0 times.",
        {"tries": 0},
    ),
    RunReason.STALE: (
        lambda session: restart(session, away=2 * HOUR),
        "Not gone on with: it was interrupted 2 hours ago, so the user is asked first.",
        {},
    ),
    RunReason.PROMPT_CHANGED: (
        change_prompt,
        "Not gone on with: it was interrupted, and its agent's instructions have changed since, so",
        {},
    ),
    RunReason.STOPPED: (end(aborted=True), "turn was stopped, so it waits for the user.", {}),
    RunReason.CREDENTIALS: (
        end(error="401 unauthorized"),
        "The model's provider refuses (401 unauthorized), so it waits for the user.",
        {},
    ),
    "provider retried": (
        end(error="overloaded"),
        "turn failed (overloaded), and it is told to go on in 1 minute.",
        {},
    ),
    RunReason.PROVIDER: (end(error="400 bad request"), "Failed (provider_error): the model's", {}),
    RunReason.STALLED: (stall, "Failed (stalled_loop): 0 reminders", {"idle_pauses": ()}),
    RunReason.ROUNDS: (end(), "Failed (round_limit): its agent", {"max_rounds": 0}),
    RunReason.HOURS: (end(), "Failed (hour_limit): its agent", {"max_hours": 0}),
    RunReason.RESET: (call("task_reset"), "It was taken from its agent by a reset", {}),
    RunReason.ABORTED: (
        call("task_abort", reason="No registry."),
        "Status: active → failed. No registry.",
        {},
    ),
    "cancelled": (
        call("task_cancel", reason="Not wanted."),
        "Status: active → cancelled. Not wanted.",
        {},
    ),
    "step failed": (
        call("task_step_done", outcome="failed", note="No registry."),
        "Step 1 could not be done. No registry.",
        {},
    ),
    "completion refused": (
        complete,
        'Not completed: "tests": No plug-in that is installed can look at a command.',
        {},
    ),
    "user unheard": (complete_unheard, "Not completed: the user has spoken meanwhile", {}),
    "left": (leave, "The user was asked whether it goes on, and leaves it as it is.", {}),
    "answered late": (
        answer_late,
        'Not heard: the user answered "22" to an earlier question.',
        {},
    ),
}
"""By reason, or another name: what brings a decision about, its words, and the policy of runs.

What brings it about returns its task; None: the session's own.
"""


@pytest.mark.parametrize("case", DECISIONS)
def test_a_decision_is_read_in_query_packet_and_status(case: str) -> None:
    decide, words, policy = DECISIONS[case]
    session = build_session(**policy)

    own = find_run(session).task_id

    task, world = decide(session) or own, session.world

    told = [said for role, kind, said in world.thread(task) if (role, kind) == DECIDED]
    assert len([said for said in told if words in said]) == 1
    assert world.task(task).message_count == len(world.thread(task))
    query = world.call("task_update", PERSON, task_id=task, query="Why does it not go on?")
    assert words in query["summary"]
    assert "No blockers" not in query["summary"]
    assert world.call("task_status", PERSON, task_id=task)["message"].count(words) == 1
    facts = world.store.read_task(task)
    packet = run_history.render_resume_text(world.context, facts, "wake_1", "Go on.")
    assert json.dumps(words, ensure_ascii=False)[1:-1] in packet


def test_a_wait_that_ended_with_its_task_is_read_there_too() -> None:
    session = build_session()
    task, world = find_run(session).task_id, session.world
    wait = world.open_wait(task)
    status = {"tool": "task_status", "caller": PERSON, "task_id": task}
    assert f"It waits: {wait.wait_id}." in world.call(**status)["message"]

    session.call("task_cancel", task_id=task)

    query = world.call("task_update", PERSON, task_id=task, query="Why does it not go on?")
    for told in (query["summary"], world.call(**status)["message"]):
        assert "The last wait ended as cancelled." in told
    facts = world.store.read_task(task)
    packet = run_history.render_resume_text(world.context, facts, "wake_1", "Go on.")
    assert f"smart_wait cancelled ({wait.wait_id}): Its task is cancelled." in packet


def test_the_users_words_keep_the_step_that_they_meant() -> None:
    session = build_session()
    task, world = find_run(session).task_id, session.world
    world.call("task_update", PERSON, task_id=task, message="Use port 22 in step 2.")
    new = ["Build the image", "Log in", "Push it"]
    session.call("task_plan_update", task_id=task, new_plan=new, reason="Denied")

    told = session.call("task_update", task_id=task, message="Logged in.")
    assert told["user_said"] == ['Use port 22 in step 2. (step 2 was "Push it", now step 3)']


QUESTION_REASONS: Final = {
    RunReason.QUESTION,
    RunReason.ANSWERED,
    RunReason.PAUSED,
    RunReason.BACKGROUND,
    RunReason.HANDED_OFF,
}
"""Reasons that an agent or the user gives, and that stand in the thread in their words."""
TOLD_BY: Final = {
    events.STATUS_CHANGED: {"cancelled", RunReason.ABORTED},
    events.RUN_CHANGED: {*RunReason} - QUESTION_REASONS,
    events.RUN_STALLED: {RunReason.STALLED},
    events.PROVIDER_FAILED: {"provider retried"},
    events.COMPLETION_REFUSED: {"completion refused"},
    events.QUESTION_ANSWERED: {"left"},
}
"""By kind of log entry: the decisions that it may be about."""
NO_DECISION: Final = {
    "what agents and users do, in their own words": {
        events.TASK_REGISTERED,
        events.TURN_COVERED,
        events.TASK_UPDATED,
        events.PLAN_REVISED,
        events.WAIT_OPENED,
        events.WAIT_UPDATED,
        events.RUN_CLAIMED,
        events.COMPLETION_ACCEPTED,
        events.FAILURE_SEEN,
    },
    "has an entry of its own kind": {events.WAIT_ENDED, events.TASK_STUCK, events.TASK_RELEASED},
    "is about the way of a message, or sends it again": {
        events.WAKE_SENT,
        events.WAKE_FAILED,
        events.WAKE_LOST,
        events.WAKE_REFUSED,
        events.WAKE_ACKNOWLEDGED,
        events.WAKE_SUPERSEDED,
        events.WAKE_UNANSWERED,
        events.MILESTONE,
        events.NOTICE,
        events.TURN_STOPPED,
        events.QUESTION_LOST,
    },
    "changes nothing that the agent does": {
        events.RUN_AWAITS,
        events.RUN_SWEPT,
        events.EVIDENCE_CHECKED,
    },
}
"""By why none is: the kinds of log entries that are about no decision."""


def test_each_kind_of_log_entry_is_a_decision_or_none() -> None:
    kinds = {each for name, each in vars(events).items() if name.isupper() and type(each) is str}
    sorted_out = [*TOLD_BY, *(kind for others in NO_DECISION.values() for kind in others)]

    assert sorted(sorted_out) == sorted(kinds)
    assert {case for cases in TOLD_BY.values() for case in cases} <= {*DECISIONS}

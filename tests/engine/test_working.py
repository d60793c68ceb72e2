"""A session with several tasks: what a turn works on is judged, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import taskmem_evidence.hooks
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import set_fields
from openclaw_taskmem.engine import evidence, gateway_reports, run_recovery, turns
from openclaw_taskmem.tools import views
from taskmem_hookspecs import Owner, RunState, Wake, WakeCause, WakeQuery, WakeState
from tests.support.sessions import MAIN, Session
from tests.support.world import PERSON, World

BAD = {"error": "400 bad request: prompt too long", "reason": "format"}
EMPTY = {"origin": Origin.HEARTBEAT, "calls": 0}
WORKER = Caller(process="7:9", session_key=MAIN)


@pytest.fixture
def session() -> Session:
    """A session in a turn of its user's."""
    session = Session(World(plugins=[("evidence", taskmem_evidence.hooks)]))
    session.begins()
    return session


def registers(session: Session, name: str, **given: Any) -> str:
    """Register a task, later than any before it."""
    session.world.clock.tick(1)
    return session.register(name=name, **given)


def register_two(session: Session) -> tuple[str, str]:
    """Register two tasks; a turn works on the second, and the first is at rest."""
    first, second = registers(session, "First"), registers(session, "Second")
    session.ends()
    session.world.deliver()
    session.begins(Origin.TASKMEM)
    session.does("work on the second")
    assert session.run(first).lease_until is None
    return first, second


def owed_wakes(session: Session, task: str) -> list[Wake]:
    """The wakes that tell a task's run to go on."""
    due = session.world.store.find_wakes(WakeQuery(states=(WakeState.DUE,), task_id=task))
    return [wake for wake in due if wake.run_id == session.run(task).run_id]


# --- what waits for the user hides nothing --------------------------------------


def waits_for_review(session: Session, task: str) -> None:
    session.call("task_handoff", task_id=task)


def waits_for_an_answer(session: Session, task: str) -> None:
    del task
    session.asks("Shall I?", origin=Origin.USER)
    session.begins(Origin.OTHER)


@pytest.mark.parametrize("waits", [waits_for_review, waits_for_an_answer])
def test_calls_count_for_the_current_task_not_for_one_that_waits(
    session: Session, waits: Any
) -> None:
    first, second = registers(session, "First"), registers(session, "Second")
    waits(session, second)
    before = session.run(second)

    for number in range(4):
        session.world.clock.tick(5)
        session.does(f"make {number}")
        session.ends(f"Made {number}.")
        session.world.deliver()
        session.begins(Origin.TASKMEM)

    run = session.run(first)
    assert (run.state, run.progress.checkpoints, run.limits.idle_rounds) == (RunState.RUNNING, 8, 0)
    assert session.run(second) == before


def test_what_waits_for_the_user_hides_no_budget(session: Session) -> None:
    registers(session, "First", segmented=True)
    session.call("task_handoff", task_id=registers(session, "Second"))

    session.does("make")

    left = turns.find_step_budget(session.world.context, session.owner)
    assert left is not None
    assert left.left == 2


def test_what_waits_for_the_user_lets_no_unsupported_answer_out(
    session: Session, tmp_path: Path
) -> None:
    session.folder = str(tmp_path)
    first = registers(session, "First", plan=["Write out.md"])
    session.call("task_handoff", task_id=registers(session, "Second"))

    found = evidence.find_doubt_in_answer(session.world.context, session.owner, "I wrote out.md.")

    assert found is not None
    assert found[0] == first


def test_users_turn_leaves_a_question_open_until_the_agent_acts(session: Session) -> None:
    first, second = registers(session, "First"), registers(session, "Second")
    waits_for_an_answer(session, second)

    session.begins(Origin.USER)
    assert session.run(second).state is RunState.BLOCKED

    session.call("task_update", task_id=first, status="completed")
    session.ends("That one is done.", origin=Origin.USER)
    session.begins(Origin.USER)
    assert session.run(second).state is RunState.BLOCKED
    session.call("task_update", task_id=second, status="active")
    assert session.run(second).state is RunState.RUNNING


def test_task_held_by_another_is_not_judged_by_session_turns(session: Session) -> None:
    task = session.world.register()
    session.world.call("task_claim", WORKER, task_id=task, role="tester")
    before = session.run(task)
    assert before.session_key == MAIN

    session.does("something else")
    session.ends(**BAD)

    assert session.run(task) == before


def test_task_held_by_another_hides_neither_budget_nor_answers(
    session: Session, tmp_path: Path
) -> None:
    session.folder = str(tmp_path)
    first = registers(session, "First", segmented=True, plan=["Write out.md"])
    other = registers(session, "Other")
    session.call("task_update", task_id=other, status="failed")
    session.world.call("task_resume", PERSON, task_id=other)
    worker = Caller(process="9:1", owner=Owner(role="agent", process="9:1"))
    session.world.call("task_claim", worker, task_id=other)
    assert session.run(other).session_key == MAIN
    session.does("make")

    left = turns.find_step_budget(session.world.context, session.owner)
    found = evidence.find_doubt_in_answer(session.world.context, session.owner, "I wrote out.md.")

    assert left is not None
    assert left.left == 2
    assert found is not None
    assert found[0] == first


def test_user_message_in_a_turn_does_not_switch_the_worked_task(session: Session) -> None:
    first, second = register_two(session)
    session.world.clock.tick(1)
    session.world.call("task_update", PERSON, task_id=first, message="Hurry up.")

    session.does("more work on the second")

    assert session.run(first).progress.checkpoints == 0
    assert session.run(second).progress.checkpoints == 4


# --- only what was worked on is judged ------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        BAD,
        {"error": "401 unauthorized", "reason": "credentials"},
        {"error": "529 overloaded", "reason": "overloaded"},
        {"said": "What is next?"},
        {"said": "Nothing new."},
    ],
)
def test_next_task_is_not_judged_by_the_turn_of_another_task(
    session: Session, end: dict[str, Any]
) -> None:
    first, second = register_two(session)
    session.call("task_update", task_id=second, status="completed")
    before = session.run(first)

    session.ends(**end)

    run = session.run(first)
    told = {"rounds": before.limits.rounds + 1, "version": run.version}
    assert run == set_fields(before, {**told, "seen_at": run.seen_at})
    [wake] = owed_wakes(session, first)
    assert wake.text.startswith(f"[system] task_continue ({first}): Your task ")
    assert session.lines[-1].startswith("Second: completed")


def test_a_task_that_is_told_to_go_on_already_is_not_told_again(session: Session) -> None:
    first, second = register_two(session)
    session.world.clock.tick(1)
    session.world.call("task_reset", PERSON, task_id=first)
    [told] = owed_wakes(session, first)
    assert session.run(first).state is RunState.QUEUED
    session.call("task_update", task_id=second, status="completed")

    session.ends()

    assert owed_wakes(session, first) == [told]
    session.world.deliver()
    session.begins(Origin.TASKMEM)
    assert session.run(first).state is RunState.RUNNING


def let_lease_lapse(session: Session, task: str) -> None:
    """Let the lease of a run run out where no gateway is known."""
    session.world.clock.tick(400)
    run_recovery.sweep_lapsed_runs(session.world.context, ())
    assert session.run(task).state is RunState.QUEUED
    assert owed_wakes(session, task) == []


def test_queued_task_is_claimed_and_told_when_its_turn_comes(session: Session) -> None:
    first = registers(session, "First")
    session.does("make")
    let_lease_lapse(session, first)
    second = registers(session, "Second")
    session.call("task_update", task_id=second, status="failed")

    session.ends(**BAD)

    run = session.run(first)
    assert (run.state, run.owner, run.why) == (RunState.RUNNING, session.owner, None)
    assert len(owed_wakes(session, first)) == 1


def test_task_with_an_open_wait_yields_to_the_next_task(session: Session) -> None:
    first, waiting = registers(session, "First"), registers(session, "Waiting")
    session.world.open_wait(waiting)
    last = registers(session, "Last")
    session.ends()
    session.world.deliver()
    session.begins(Origin.TASKMEM)
    session.call("task_update", task_id=last, status="completed")

    session.ends()

    assert owed_wakes(session, waiting) == []
    assert len(owed_wakes(session, first)) == 1


def test_next_task_is_not_told_to_go_on_while_a_sub_agent_works(session: Session) -> None:
    first, second = register_two(session)
    session.call("task_update", task_id=second, status="completed")
    before = session.run(first)

    session.ends("Finished the second.", children=1)
    assert (session.run(first), owed_wakes(session, first)) == (before, [])

    session.begins(Origin.OTHER)
    session.ends()
    assert len(owed_wakes(session, first)) == 1


@pytest.mark.parametrize("waits", [waits_for_review, waits_for_an_answer])
def test_what_waits_for_the_user_is_given_no_turn(session: Session, waits: Any) -> None:
    asks = registers(session, "Asks")
    waits(session, asks)
    task = registers(session, "Task")
    session.call("task_update", task_id=task, status="completed")

    session.ends()

    assert owed_wakes(session, asks) == []


def test_a_heartbeat_without_work_takes_up_nothing(session: Session) -> None:
    task = registers(session, "Task")
    session.does("make")
    let_lease_lapse(session, task)

    session.begins(Origin.HEARTBEAT)
    session.ends("", **EMPTY)

    assert session.run(task).state is RunState.QUEUED
    worker = Caller(process="9:9", owner=Owner(role="main", process="9:9"))
    session.world.call("task_claim", worker, task_id=task, role="main")
    assert session.run(task).state is RunState.RUNNING


# --- sub-agents that work while their session rests --------------------------------


def rests(session: Session) -> str:
    """Register a task whose session rests, and a sub-agent of which works."""
    task = registers(session, "Task")
    session.ends("I wait for the sub-agent.", children=1)
    session.in_turn = False
    return task


def test_sub_agent_calls_are_recorded_and_leave_the_run_at_rest(session: Session) -> None:
    task = rests(session)

    session.world.clock.tick(50)
    session.does("make")

    run = session.run(task)
    assert (run.state, run.progress.checkpoints, run.progress.calls) == (RunState.RUNNING, 2, 1)
    assert (run.lease_until, run.seen_at) == (None, session.world.clock.now())


def test_what_a_sub_agent_reports_leaves_a_run_at_rest(session: Session) -> None:
    task = rests(session)

    session.world.clock.tick(50)
    session.call("task_update", task_id=task, message="It compiles.")
    run = session.run(task)
    assert (run.lease_until, run.seen_at) == (None, session.world.clock.now())

    session.world.clock.tick(400)
    run_recovery.sweep_lapsed_runs(session.world.context, ())
    assert session.run(task).state is RunState.RUNNING
    assert session.world.deliver() == []


def test_what_a_sub_agent_registers_rests(session: Session) -> None:
    rests(session)

    task = session.register(name="Its own")

    run = session.run(task)
    assert (run.state, run.lease_until) == (RunState.RUNNING, None)
    session.world.clock.tick(400)
    run_recovery.sweep_lapsed_runs(session.world.context, ())
    assert session.run(task).state is RunState.RUNNING


def test_a_restart_that_cuts_a_sub_agent_interrupts_its_task(session: Session) -> None:
    task = rests(session)
    session.world.clock.tick(60)

    session.settles(session.restarts("boot_2"))

    run = session.run(task)
    assert (run.state, run.why) == (RunState.QUEUED, RunReason.INTERRUPTED)
    [wake] = owed_wakes(session, task)
    assert wake.text.startswith("[task_resume]")


def test_long_call_of_a_sub_agent_is_no_interruption(session: Session) -> None:
    task = rests(session)
    call = session.calls("make")
    assert call

    session.world.clock.tick(400)
    run_recovery.sweep_lapsed_runs(session.world.context, ())

    assert session.run(task).state is RunState.RUNNING
    assert session.world.deliver() == []


def test_sub_agent_calls_renew_the_lease_after_the_turn_left(session: Session) -> None:
    task = registers(session, "Task")
    before = session.run(task)
    session.in_turn = False

    session.world.clock.tick(50)
    session.does("make")

    run = session.run(task)
    assert before.lease_until is not None
    assert run.lease_until == before.lease_until + timedelta(seconds=50)


def test_task_with_a_working_sub_agent_is_not_stuck_for_an_hour(session: Session) -> None:
    rests(session)

    assert session.world.pass_time(3540) == []

    [reminder] = session.world.pass_time(120)
    assert reminder.cause is WakeCause.RUN
    assert "1 sub-agent" in reminder.text


def test_task_of_a_sub_agent_is_not_stuck_while_it_makes_calls(session: Session) -> None:
    rests(session)
    own = session.register(name="Its own")
    for number in range(10):
        session.world.clock.tick(50)
        session.does(f"make {number}")
        assert session.world.daemon() == []

    assert session.world.pass_time(240) == []
    [alert] = session.world.pass_time(120)
    assert (alert.cause, alert.task_id) == (WakeCause.STUCK, own)


def test_a_task_is_not_stuck_while_a_turn_works_on_it(session: Session) -> None:
    """However long the one call takes that it makes."""
    task = registers(session, "Task")
    boot = session.restarts("boot_1", running=True)
    session.begins()
    session.calls("make everything")

    for _ in range(70):
        assert session.world.pass_time(50) == []
        run_recovery.sweep_lapsed_runs(session.world.context, (boot,))
    [alert] = session.world.pass_time(400)

    assert (alert.cause, alert.task_id) == (WakeCause.STUCK, task)


@pytest.mark.parametrize(
    "why",
    [
        RunReason.QUESTION,
        RunReason.STOPPED,
        RunReason.STALE,
        RunReason.PROMPT_CHANGED,
        RunReason.CREDENTIALS,
    ],
)
def test_task_waiting_for_the_user_resumes_only_by_its_agent(
    session: Session, why: RunReason
) -> None:
    task = waits_for_a_word(session, why)
    session.world.clock.tick(60)
    session.turn_since = session.world.clock.now()
    session.begins(Origin.USER)

    session.does("curl -X POST https://pay.example")
    session.call("task_update", task_id=task, message="They ask for the weather.")

    run = session.run(task)
    assert (run.state, run.why, run.progress.calls) == (RunState.BLOCKED, why, 1)
    told = gateway_reports.describe_waiting_tasks(session.world.context, MAIN)
    assert told is not None
    assert task in told
    assert "may or may not" in told

    session.ends("It rains.", origin=Origin.USER)
    assert session.world.pass_time(3600) == []
    session.begins(Origin.USER)
    session.call("task_update", task_id=task, completed_steps=[1])

    assert session.run(task).state is RunState.RUNNING
    assert gateway_reports.describe_waiting_tasks(session.world.context, MAIN) is None


def test_all_that_waits_is_put_before_what_the_user_says(session: Session) -> None:
    tasks = [session.takes_up(name=name) for name in ("Alpha", "Beta")]
    for task, ask in zip(tasks, ("Delete A?", "Push B?"), strict=True):
        session.call("task_update", task_id=task, ask=ask)

    told = gateway_reports.describe_waiting_tasks(session.world.context, MAIN) or ""

    newest, oldest = told.split("\n")
    assert tasks[1] in newest
    assert '"Push B?"' in newest
    assert tasks[0] in oldest
    assert '"Delete A?"' in oldest


def waits_for_a_word(session: Session, why: RunReason) -> str:
    """Register a task, and let its run wait for the user for a reason."""
    task = registers(session, "Task", plan=["One", "Two"])
    match why:
        case RunReason.QUESTION:
            session.asks("Shall I?", origin=Origin.USER)
        case RunReason.STOPPED:
            session.ends("", aborted=True)
        case RunReason.CREDENTIALS:
            session.ends(error="401 unauthorized", reason="credentials")
        case RunReason.STALE:
            session.world.clock.tick(2 * 3600)
            session.settles(session.restarts("boot_2"))
        case _:
            session.begins()
            session.fingerprint = "another"
            session.settles(session.restarts("boot_2"))
    assert session.run(task).why == why
    return task


def test_a_question_is_shown_wherever_its_task_is(session: Session) -> None:
    task = registers(session, "Task")
    assert "question" not in session.call("task_list")["tasks"][0]
    session.asks("Shall I?", origin=Origin.USER)

    assert session.call("task_list")["tasks"][0]["question"] == "Shall I?"
    assert session.call("task_status", task_id=task)["run"]["question"] == "Shall I?"
    shown = views.show_by_id(session.world.context, task)
    assert shown["question"] == "Shall I?"
    assert shown["line"]["says"] == "asks: Shall I?"


def test_in_the_turn_that_asks_a_mark_is_no_answer(session: Session) -> None:
    session.turn_since = session.world.clock.now()
    task = registers(session, "Task", plan=["One", "Two"])
    session.world.clock.tick(1)
    session.call("task_update", task_id=task, ask="Shall I?")

    session.call("task_update", task_id=task, completed_steps=[1])

    assert session.run(task).why == RunReason.QUESTION
    session.call("task_update", task_id=task, status="active")
    assert session.run(task).state is RunState.RUNNING


def test_of_what_was_set_aside_the_agent_is_not_reminded(session: Session) -> None:
    task = registers(session, "Task")
    session.call("task_update", task_id=task, status="paused")
    session.ends("Until tomorrow.", origin=Origin.USER)

    session.begins(Origin.USER)
    session.does("look at the weather")

    assert gateway_reports.describe_waiting_tasks(session.world.context, MAIN) is None
    assert session.run(task).progress.calls == 0


def test_the_time_for_which_a_task_waits_counts_for_no_limit(session: Session) -> None:
    task = registers(session, "Task", plan=["One", "Two"])
    session.world.clock.tick(60)
    session.asks("Shall I?", origin=Origin.USER)
    assert session.run(task).limits.worked_seconds == 60

    session.world.clock.tick(9 * 3600)
    session.begins(Origin.OTHER)
    session.call("task_update", task_id=task, status="active")
    session.world.clock.tick(60)
    session.ends(origin=Origin.OTHER)

    assert session.run(task).limits.worked_seconds < 3600


def test_what_a_sub_agent_takes_up_rests(session: Session) -> None:
    task = rests(session)
    session.world.clock.tick(1)
    session.in_turn = True
    session.begins()
    let_lease_lapse(session, task)
    session.in_turn = False

    session.does("make")

    run = session.run(task)
    assert (run.state, run.lease_until) == (RunState.RUNNING, None)


def test_a_sub_agent_does_not_answer_in_the_users_place(session: Session) -> None:
    task = registers(session, "Task")
    session.asks("Which region?", children=1)
    session.in_turn = False
    asked = session.run(task)

    session.call("task_update", task_id=task, message="It compiles.")

    assert session.run(task) == asked
    assert (asked.state, asked.why) == (RunState.BLOCKED, RunReason.QUESTION)
    assert session.world.task(task).message_count == 2


def test_a_task_that_a_sub_agent_begins_again_rests(session: Session) -> None:
    task = rests(session)
    session.call("task_update", task_id=task, status="paused")
    assert session.run(task).state is RunState.BLOCKED

    session.call("task_update", task_id=task, status="active")
    assert session.run(task).state is RunState.QUEUED
    session.call("task_update", task_id=task, message="It compiles.")

    run = session.run(task)
    assert (run.state, run.lease_until) == (RunState.RUNNING, None)


@pytest.mark.parametrize("tool", ["task_claim", "task_resume"])
def test_what_a_sub_agent_claims_or_resumes_rests(session: Session, tool: str) -> None:
    task = rests(session)
    session.call("task_update", task_id=task, status="paused")
    session.call("task_update", task_id=task, status="active")

    session.call(tool, task_id=task)

    run = session.run(task)
    assert (run.state, run.lease_until) == (RunState.RUNNING, None)
    session.world.clock.tick(400)
    run_recovery.sweep_lapsed_runs(session.world.context, ())
    assert session.run(task) == run


# --- turns that are stopped ------------------------------------------------------


def test_next_task_goes_on_when_a_turns_task_is_cancelled(session: Session) -> None:
    first, second = register_two(session)
    session.world.call("task_cancel", PERSON, task_id=second)

    session.ends("", stopped=True)

    assert session.run(first).state is RunState.RUNNING
    assert len(owed_wakes(session, first)) == 1


@pytest.mark.parametrize("end", [{}, BAD, {"said": "What is next?"}])
def test_calls_before_a_turn_is_stopped_are_not_judged(
    session: Session, end: dict[str, Any]
) -> None:
    first, second = register_two(session)
    session.world.call("task_cancel", PERSON, task_id=second)
    session.does("one more thing")

    session.ends(**end, stopped=True)

    run = session.run(first)
    assert (run.state, run.why, run.lease_until) == (RunState.RUNNING, None, None)
    assert len(owed_wakes(session, first)) == 1


@pytest.mark.parametrize(
    "end",
    [
        {"stopped": True},
        {"aborted": True},
        {"said": "Shall I?", "origin": Origin.USER},
        {"said": "Made it."},
        BAD,
        EMPTY,
    ],
)
def test_turn_end_leaves_a_run_cut_by_a_restart_to_recovery(
    session: Session, end: dict[str, Any]
) -> None:
    first, second = register_two(session)
    session.world.clock.tick(2 * 3600)
    session.restarts("boot_2")
    assert not session.begins(Origin.RECOVERY)
    assert session.run(second).state is RunState.BLOCKED
    before = session.run(first)
    assert before.lease_until is not None

    session.ends(**end)

    assert session.run(first) == before


def test_recovery_turn_after_the_run_has_failed_is_stopped(session: Session) -> None:
    task = session.register()
    for number in range(3):
        session.settles(session.restarts(f"boot_{number + 2}"))
        session.world.deliver()
        assert session.begins(Origin.TASKMEM) or number == 2
        session.does(f"try {number}")
    assert session.run(task).why == RunReason.INTERRUPTED
    assert session.run(task).state is RunState.FAILED

    assert not session.begins(Origin.RECOVERY)

    assert session.begins(Origin.USER)
    session.world.clock.tick(1)
    session.restarts("boot_5")
    assert session.begins(Origin.RECOVERY)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_recovery_that_comes_late_counts_a_crash_once(session: Session, goes_on: bool) -> None:
    task = session.register()
    session.does("work")
    for number in (1, 2):
        session.settles(session.restarts(f"boot_{number + 1}"))
        if goes_on:
            session.world.deliver()
            assert session.begins(Origin.TASKMEM)

        assert session.begins(Origin.RECOVERY)

        run = session.run(task)
        assert (run.state, run.limits.tries) == (RunState.RUNNING, number)
        session.does(f"try {number}")


def test_recovery_turn_after_the_user_was_asked_is_stopped(session: Session) -> None:
    task = session.register()
    session.does("work")
    session.world.clock.tick(2 * 3600)
    session.settles(session.restarts("boot_2"))
    assert session.run(task).why == RunReason.STALE

    assert not session.begins(Origin.RECOVERY)
    assert session.run(task).state is RunState.BLOCKED

    assert session.begins(Origin.USER)


def test_run_cut_by_a_restart_resumes_though_the_user_came_first(session: Session) -> None:
    first = registers(session, "First")
    second = registers(session, "Second")
    session.does("work on the second")
    there = session.restarts("boot_2")
    session.begins()
    session.asks("Shall I?", origin=Origin.USER)
    assert session.run(second).state is RunState.BLOCKED

    session.settles(there)

    assert session.run(first).why == RunReason.INTERRUPTED
    assert len(owed_wakes(session, first)) == 1


def test_where_the_user_stops_a_turn_nothing_else_goes_on(session: Session) -> None:
    first, second = register_two(session)
    session.call("task_update", task_id=second, status="completed")

    session.ends("", aborted=True)

    assert owed_wakes(session, first) == []


# --- what is for another role ----------------------------------------------------


def test_what_is_queued_for_another_role_is_not_the_sessions(session: Session) -> None:
    own, other = registers(session, "Own"), session.world.register()
    claims = {"task_id": other, "role": "reviewer"}
    token = session.world.call("task_claim", WORKER, **claims)["token"]
    hands = {"task_id": other, "to": "reviewer", "token": token}
    session.world.call("task_handoff", WORKER, **hands)
    session.world.call("task_claim", WORKER, **claims)
    let_lease_lapse(session, other)
    before = session.run(other)
    assert (before.role, before.session_key) == ("reviewer", MAIN)

    assert session.begins(Origin.TASKMEM)
    session.does("make")
    session.call("task_update", task_id=own, status="completed")
    session.ends()

    assert session.run(other) == before
    assert session.run(own).progress.checkpoints == 2


# --- what had a session of its own ------------------------------------------------


@pytest.mark.parametrize("origin", [Origin.TASKMEM, Origin.RECOVERY, Origin.OTHER])
def test_own_session_does_not_continue_a_task_taken_by_another(
    session: Session, origin: Origin
) -> None:
    task = registers(session, "Task")
    session.call("task_background", task_id=task)
    away = Session(session.world, key=str(session.run(task).session_key))
    session.world.clock.tick(2 * 3600)
    worker = Caller(process="9:1", owner=Owner(role="main", process="9:1"))
    session.world.call("task_claim", worker, task_id=task, role="main")

    assert not away.begins(origin)
    assert away.begins(Origin.USER)

    session.world.call("task_update", worker, task_id=task, status="completed")
    assert away.begins(origin)


def test_a_session_of_a_tasks_own_goes_on_with_it(session: Session) -> None:
    task = registers(session, "Task")
    session.call("task_background", task_id=task)
    away = Session(session.world, key=str(session.run(task).session_key))

    assert away.begins(Origin.TASKMEM)
    away.asks("Shall I?")
    assert away.begins(Origin.OTHER)
    assert Session(session.world, key="agent:main:taskmem:of-a-user").begins()

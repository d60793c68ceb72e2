from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import plan_revision
from openclaw_taskmem.domain.changes.task_update import (
    UpdateRequest,
    apply_update,
    describe_decisions,
)
from openclaw_taskmem.domain.errors import Fenced, RunHeld, RunNotReady, TaskEnded
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.tasks.thread import StepMentions
from taskmem_hookspecs import (
    Change,
    InvalidArguments,
    Owner,
    Run,
    RunState,
    TaskFacts,
    TaskStatus,
    WakeCause,
    WakeState,
)
from taskmem_hookspecs.testing import DAWN, a_run, a_task, a_wake
from tests.support.owners import SESSIONS, a_changed_run

NOW = DAWN + timedelta(minutes=1)


HOLDER = Owner(role="builder", process="7:9")
HELD = TaskFacts(task=a_task(), run=a_run(state=RunState.RUNNING, owner=HOLDER, token=2))


def change_after(request: UpdateRequest, **task: object) -> Change:
    return apply_update(TaskFacts(task=a_task(**task)), request, NOW, sessions=SESSIONS)[0]


def test_a_message_is_kept_and_touches_the_task() -> None:
    change = change_after(UpdateRequest(message="Pushing"))

    assert change.messages[0].content == "Pushing"
    assert change.messages[0].role == "agent"
    assert change.messages[0].msg_type == "text"
    assert change.tasks[0].updated_at == NOW
    assert change.tasks[0].message_count == 1


@pytest.mark.parametrize(
    ("caller", "role"),
    [
        pytest.param(Caller(), "agent", id="an-agent"),
        pytest.param(Caller(person=True, host="shell:codex"), "agent", id="its-shell"),
        pytest.param(Caller(person=True), "user", id="a-person"),
    ],
)
def test_a_message_is_filed_as_of_whoever_says_it(caller: Caller, role: str) -> None:
    change = change_after(UpdateRequest(message="Step 2 done", caller=caller))

    assert [message.role for message in change.messages] == [role]
    assert change.tasks[0].done == {1}


@pytest.mark.parametrize(
    ("host", "state", "sent_back"),
    [
        (None, RunState.REVIEW, True),
        (None, RunState.BLOCKED, True),
        (None, RunState.RUNNING, False),
        ("shell:codex", RunState.BLOCKED, False),
    ],
)
def test_only_the_user_sends_back_what_waits_for_them(
    host: str | None, state: RunState, *, sent_back: bool
) -> None:
    at_work = state is RunState.RUNNING
    status = TaskStatus.ACTIVE if at_work else TaskStatus.PAUSED
    facts = TaskFacts(task=a_task(status=status), run=a_run(state=state, owner=HOLDER, token=2))
    request = UpdateRequest(status=TaskStatus.ACTIVE, caller=Caller(person=True, host=host))

    assert apply_update(facts, request, NOW, sessions=SESSIONS)[1].sent_back is sent_back


def test_a_message_that_marks_a_step_is_progress() -> None:
    change = change_after(UpdateRequest(message="Step 2 done"))

    assert change.messages[0].msg_type == "progress"
    assert change.tasks[0].done == {1}


def hint(request: UpdateRequest, **task: object) -> str:
    return (
        apply_update(TaskFacts(task=a_task(**task)), request, NOW, sessions=SESSIONS)[1].hint or ""
    )


DENIALS = (
    "I completed nothing",
    "nothing is completed yet",
    "I could not complete step 2",
    "Step 3: not done",
    "none of it is finished",
    "I haven’t finished the tests",
    "the push never completed",
    "I failed to get it finished",
    "Built it, but nothing is pushed",
    "completed 0 of 3",
    "The image should be built",
)
"""What denies or doubts that a step is done, in words that sound like progress."""


@pytest.mark.parametrize(
    ("said", "done", "named"),
    [
        ("Pushed the image", [], "If this ended one, call task_update with completed_steps"),
        ("Pushed the image", [0], "If this ended one,"),
        ("I have completed the build", [], "If this ended one,"),
        ("I have completed the build", [0], ""),
        ("I have completed the build and the test", [0], "If this ended one,"),
        ("Step 3: deployed v1.2", [], "completed_steps: [3]."),
        ("Steps 2-3 worked", [], "If steps 2-3 are done, call"),
        ("step 1 not done", [0], "reopened_steps: [1]."),
        ("Pushed the image", [0, 1, 2], ""),
        ("Step 2 done", [], ""),
        ("Step 2: deployed again", [1], ""),
        ("Starting step 2", [], ""),
        *((denial, [], "") for denial in DENIALS),
    ],
)
def test_a_message_that_marked_nothing_earns_a_hint(said: str, done: list[int], named: str) -> None:
    told = hint(UpdateRequest(message=said), done=done)

    assert named in told
    assert bool(named) == bool(told)


def test_no_hint_is_given_for_what_the_caller_may_not_do() -> None:
    assert (
        apply_update(HELD, UpdateRequest(message="Pushed it"), NOW, sessions=SESSIONS)[1].hint
        is None
    )
    ended = a_task(status=TaskStatus.FAILED)
    assert (
        apply_update(
            TaskFacts(task=ended), UpdateRequest(message="x done"), NOW, sessions=SESSIONS
        )[1].hint
        is None
    )
    completed = a_task(status=TaskStatus.COMPLETED)
    assert (
        apply_update(TaskFacts(task=completed), UpdateRequest(message="x"), NOW, sessions=SESSIONS)[
            1
        ].hint
        is None
    )
    assert not hint(UpdateRequest(message="Pushed it", completed_steps=(1,)))


def test_all_done_marks_every_step_of_a_task_that_completes() -> None:
    done = UpdateRequest(message="All done — site is live", status=TaskStatus.COMPLETED)

    assert change_after(done).tasks[0].done == {0, 1, 2}
    assert not hint(done)
    assert change_after(UpdateRequest(message=done.message)).tasks[0].done == set()
    but = "All done\nStep 2 failed"
    request = UpdateRequest(message=but, status=TaskStatus.COMPLETED)
    assert change_after(request).tasks[0].done == {0, 2}


def test_completed_in_other_words_leaves_steps_open_and_says_so() -> None:
    request = UpdateRequest(message="The site is live", status=TaskStatus.COMPLETED)

    assert change_after(request, done=[0]).tasks[0].done == {0}
    assert "If done, call task_update with completed_steps: [2, 3]." in hint(request, done=[0])


def test_a_message_takes_a_mark_back() -> None:
    change = change_after(UpdateRequest(message="step 1 is not done after all"), done=[0, 1])

    assert change.tasks[0].done == {1}
    assert change.messages[0].msg_type == "progress"


def test_message_by_a_non_holder_is_kept_and_marks_no_step() -> None:
    change, updated = apply_update(
        HELD, UpdateRequest(message="Step 2 done"), NOW, sessions=SESSIONS
    )

    assert (updated.marked, change.tasks[0].done) == (frozenset(), frozenset())
    assert updated.passed_over == {1}
    assert (change.messages[0].content, change.messages[0].msg_type) == ("Step 2 done", "text")


def test_a_message_by_the_holder_of_the_run_marks_its_step() -> None:
    request = UpdateRequest(message="Step 2 done", caller=Caller(owner=HOLDER))

    assert apply_update(HELD, request, NOW, sessions=SESSIONS)[1].marked == {1}


def test_a_message_with_the_token_of_an_older_claim_is_refused() -> None:
    request = UpdateRequest(message="Step 2 done", token=1, caller=Caller(owner=HOLDER))

    with pytest.raises(Fenced, match="is 2, and yours is 1"):
        apply_update(HELD, request, NOW, sessions=SESSIONS)
    assert apply_update(HELD, request.model_copy(update={"token": 2}), NOW, sessions=SESSIONS)[
        1
    ].marked == {1}


def test_explicit_marks_count_from_one() -> None:
    change = change_after(UpdateRequest(completed_steps=(1, 3), reopened_steps=(2,)), done=[1])

    assert change.tasks[0].done == {0, 2}


def test_step_reopened_explicitly_is_not_marked_by_the_message() -> None:
    change = change_after(UpdateRequest(message="Step 1 done", reopened_steps=(1,)), done=[0])

    assert change.tasks[0].done == frozenset()


@pytest.mark.parametrize("number", [0, -1, 4])
@pytest.mark.parametrize("field", ["completed_steps", "reopened_steps"])
def test_one_number_out_of_range_refuses_the_whole_update(number: int, field: str) -> None:
    with pytest.raises(InvalidArguments, match="steps 1 to 3"):
        change_after(UpdateRequest.model_validate({field: (1, number), "message": "x"}))


def test_a_step_cannot_be_completed_and_reopened_at_once() -> None:
    with pytest.raises(InvalidArguments, match="Step 2"):
        change_after(UpdateRequest(completed_steps=(1, 2), reopened_steps=(2,)))


@pytest.mark.parametrize("status", [s for s in TaskStatus if s.terminal])
def test_an_ended_task_keeps_a_message_and_changes_nothing_else(status: TaskStatus) -> None:
    change = change_after(UpdateRequest(message="Step 1 done"), status=status)

    (task,) = change.tasks
    assert change.messages[0].content == "Step 1 done"
    assert task == a_task(status=status, message_count=1)


@pytest.mark.parametrize(
    ("status", "marks"),
    [
        (TaskStatus.FAILED, {"completed_steps": (1,)}),
        (TaskStatus.CANCELLED, {"completed_steps": (1,)}),
        (TaskStatus.COMPLETED, {"reopened_steps": (1,)}),
    ],
)
def test_marks_on_an_ended_task_are_refused(
    status: TaskStatus, marks: dict[str, tuple[int, ...]]
) -> None:
    with pytest.raises(TaskEnded, match="active"):
        change_after(UpdateRequest.model_validate(marks), status=status)


@pytest.mark.parametrize("status", [None, TaskStatus.COMPLETED])
def test_a_completed_task_takes_the_marks_that_were_forgotten(status: TaskStatus | None) -> None:
    request = UpdateRequest(completed_steps=(2, 3), status=status)

    (task,) = change_after(request, status=TaskStatus.COMPLETED, done=[0]).tasks

    assert task == a_task(status=TaskStatus.COMPLETED, done=[0, 1, 2])


ENDS = [status for status in TaskStatus if status.terminal]


@pytest.mark.parametrize("wanted", [*ENDS, TaskStatus.PAUSED])
@pytest.mark.parametrize("ended", ENDS)
def test_an_ended_task_does_not_end_otherwise_nor_pause(
    ended: TaskStatus, wanted: TaskStatus
) -> None:
    request = UpdateRequest(status=wanted, message="Done.")
    if wanted is ended:
        assert change_after(request, status=ended).tasks[0].status is ended
        return

    with pytest.raises(TaskEnded) as refused:
        change_after(request, status=ended)

    users = ", which only the user does where they cancelled it"
    assert str(refused.value) == (
        f"{a_task().task_id} is {ended}, so it cannot become {wanted}, and nothing was "
        'written; call task_update with status "active" first if the work goes on'
        f"{users if ended is TaskStatus.CANCELLED else ''}."
    )


def test_active_reopens_an_ended_task_and_says_so_in_the_thread() -> None:
    request = UpdateRequest(status=TaskStatus.ACTIVE, message="Step 1 done")

    change = change_after(request, status=TaskStatus.FAILED)

    assert change.tasks[0].status == "active"
    assert change.tasks[0].done == {0}
    assert change.messages[1].msg_type == "lifecycle"
    assert change.messages[1].content == "Reopened: failed → active"


def test_the_claims_of_a_reopened_task_are_asked_about_again() -> None:
    asked = ("names",)

    reopened = change_after(
        UpdateRequest(status=TaskStatus.ACTIVE), status=TaskStatus.COMPLETED, doubts=asked
    )
    paused = change_after(UpdateRequest(status=TaskStatus.PAUSED), doubts=asked)

    assert [each.tasks[0].doubts for each in (reopened, paused)] == [(), asked]


def test_a_status_change_is_logged_with_both_ends() -> None:
    change = change_after(UpdateRequest(status=TaskStatus.COMPLETED))

    (logged,) = [event for event in change.events if event.kind == "status_changed"]
    assert logged.data == {"from": "active", "to": "completed"}
    assert change.messages[0].content == "Status: active → completed"


def test_the_same_status_again_says_nothing_in_the_thread() -> None:
    assert change_after(UpdateRequest(status=TaskStatus.ACTIVE)).messages == ()


def test_task_without_session_takes_the_callers_and_keeps_it() -> None:
    caller = Caller(session_key="agent:main:work")

    assert change_after(UpdateRequest(message="x", caller=caller)).tasks[0].session_key == (
        "agent:main:work"
    )
    kept = change_after(UpdateRequest(message="x", caller=caller), session_key="agent:main:main")
    assert kept.tasks[0].session_key == "agent:main:main"


@pytest.mark.parametrize(
    ("caller", "task_session", "acknowledged"),
    [
        (Caller(), "agent:main:main", True),
        (Caller(person=True), None, True),
        (Caller(person=True), "agent:main:main", False),
        (Caller(person=True, session_key="agent:main:main"), "agent:main:main", True),
        (Caller(person=True, session_key="agent:other"), "agent:main:main", False),
    ],
)
def test_a_person_acknowledges_only_in_the_name_of_the_session(
    caller: Caller, task_session: str | None, acknowledged: bool
) -> None:
    wake = a_wake(state=WakeState.SENT, cause=WakeCause.STUCK)
    facts = TaskFacts(task=a_task(session_key=task_session), wakes=(wake,))

    change, _ = apply_update(
        facts, UpdateRequest(message="x", caller=caller), NOW, sessions=SESSIONS
    )

    assert [w.state for w in change.wakes] == ["acknowledged"] * acknowledged


def test_a_clock_that_went_back_does_not_age_a_task() -> None:
    earlier = DAWN - timedelta(hours=1)

    change, _ = apply_update(
        TaskFacts(task=a_task()), UpdateRequest(message="x"), earlier, sessions=SESSIONS
    )

    assert change.tasks[0].updated_at == DAWN


@pytest.mark.parametrize("word", ["canceled", "cancelled", " Canceled ", "cancel"])
def test_both_spellings_of_cancelled_are_one_status(word: str) -> None:
    assert lifecycle.parse_status(word) is TaskStatus.CANCELLED


@pytest.mark.parametrize(
    ("word", "status"),
    [
        *((word, "completed") for word in ("complete", "Done", "finished")),
        *((word, "active") for word in ("in_progress", "in-progress", "running")),
        *((word, "paused") for word in ("on hold", "On-Hold", "pause")),
    ],
)
def test_other_words_are_taken_for_the_statuses_they_mean(word: str, status: str) -> None:
    assert lifecycle.parse_status(word) == status


def test_an_unknown_status_is_refused_with_the_allowed_ones() -> None:
    with pytest.raises(InvalidArguments, match="active, paused, completed, failed, cancelled"):
        lifecycle.parse_status("bogus")


def test_revision_writes_task_row_plan_message_and_event() -> None:
    facts = TaskFacts(task=a_task(done=[0, 1]))

    change, revised = plan_revision.revise_plan(
        facts, ("1. Build it", "Ship it"), "no tests", NOW, caller=Caller()
    )

    task, remap = revised.task, revised.remap
    assert change.runs == ()
    assert task.done == {0}
    assert task.updated_at == NOW
    assert [step.step for step in remap.dropped] == [2]
    assert change.revisions[0].old_plan == ("Build it", "Test it", "Ship it")
    assert change.revisions[0].new_plan == ("1. Build it", "Ship it")
    assert change.revisions[0].author == "agent"
    assert change.messages[0].content == 'Plan revised: no tests\nMarks lost: "Test it".'
    assert change.messages[0].msg_type == "plan"
    assert change.messages[0].role == "system"
    assert change.events[0].kind == "plan_revised"


def test_the_plan_of_an_ended_task_is_not_revised() -> None:
    facts = TaskFacts(task=a_task(status=TaskStatus.COMPLETED))

    with pytest.raises(TaskEnded, match="active"):
        plan_revision.revise_plan(facts, ("x",), "y", NOW, caller=Caller())


def revise_run_plan(
    run: Run, *new_plan: str, token: int | None = None, **task: object
) -> tuple[Run, plan_revision.RevisionResult]:
    facts = TaskFacts(task=a_task(**task), run=run)
    change, found = plan_revision.revise_plan(
        facts, new_plan, "so", NOW, caller=Caller(owner=HOLDER), token=token
    )
    return change.runs[0], found


def test_a_plan_on_which_another_works_is_not_revised() -> None:
    with pytest.raises(RunHeld, match="so its plan stays as it is"):
        plan_revision.revise_plan(HELD, ("x",), "y", NOW, caller=Caller())
    with pytest.raises(Fenced, match="so its plan stays as it is"):
        plan_revision.revise_plan(HELD, ("x",), "y", NOW, caller=Caller(owner=HOLDER), token=1)


def test_holder_of_run_or_token_revises_the_plan_and_is_seen() -> None:
    (by_owner,) = plan_revision.revise_plan(HELD, ("x",), "y", NOW, caller=Caller(owner=HOLDER))[
        0
    ].runs
    (by_token,) = plan_revision.revise_plan(HELD, ("x",), "y", NOW, caller=Caller(), token=2)[
        0
    ].runs
    (by_person,) = plan_revision.revise_plan(HELD, ("x",), "y", NOW, caller=Caller(person=True))[
        0
    ].runs

    assert by_owner.seen_at == by_token.seen_at == NOW
    assert by_person.seen_at == DAWN


def test_step_counts_of_a_run_are_reset_when_its_plan_is_revised() -> None:
    run = a_changed_run(step=1, step_calls=3, step_bonus=True, failed_steps=(1, 2))

    left, _ = revise_run_plan(run, "Other way", "Ship it", done=[0])

    assert (left.budget.step, left.budget.step_calls, left.budget.step_bonus) == (0, 0, False)
    assert left.budget.failed_steps == ()


def test_a_step_that_stays_the_same_keeps_what_it_has_called() -> None:
    run = a_changed_run(step=1, step_calls=3, step_bonus=True, failed_steps=(1,))

    left, _ = revise_run_plan(run, "First", "Build it", "1. Test it", done=[0])
    moved, _ = revise_run_plan(run, "Build it", "Look", "Test it", done=[0])
    same, _ = revise_run_plan(run, "Build it", "1. Test it", done=[0])

    assert (left.budget.step, left.budget.step_calls) == (0, 0)
    assert (moved.budget.step, moved.budget.step_calls) == (1, 0)
    assert (same.budget.step, same.budget.step_calls, same.budget.step_bonus) == (1, 3, True)
    assert same.budget.failed_steps == ()


def test_a_segmented_plan_stays_as_long_as_is_worked_on_at_once() -> None:
    plan = ("Build it", *(f"Part {n}" for n in range(12)))

    _, cut = revise_run_plan(a_changed_run(segmented=True), *plan, done=[0])
    _, flat = revise_run_plan(a_run(), *plan, done=[0])

    # What is done at its beginning does not count.
    assert (cut.task.plan, cut.left_out) == (plan[:11], plan[11:])
    assert cut.task.done == {0}
    assert (flat.task.plan, flat.left_out) == (plan, ())


ASKS = {"ask": "Is it good?"}
REVIEWER = Owner(role="main", session_key="agent:main:main", boot="boot_1")


@pytest.mark.parametrize("status", [TaskStatus.COMPLETED, TaskStatus.ACTIVE])
@pytest.mark.parametrize("began", [-1, 1])
def test_no_turn_ends_the_review_that_it_asked_for(began: int, status: TaskStatus) -> None:
    run = a_run(state=RunState.REVIEW, owner=REVIEWER, changed_at=DAWN)
    facts = TaskFacts(task=a_task(status=TaskStatus.PAUSED), run=run)
    caller = Caller(owner=REVIEWER, turn_since=DAWN + timedelta(seconds=began))
    request = UpdateRequest(status=status, caller=caller)
    if began < 0:
        with pytest.raises(RunNotReady, match="end your turn now"):
            apply_update(facts, request, NOW, sessions=SESSIONS)
        return
    assert (
        apply_update(facts, request, NOW, sessions=SESSIONS)[0].runs[0].state is not RunState.REVIEW
    )


@pytest.mark.parametrize("fields", [{"status": each} for each in TaskStatus] + [ASKS])
def test_no_agent_without_a_gateway_ends_a_review(fields: dict[str, Any]) -> None:
    facts = TaskFacts(
        task=a_task(status=TaskStatus.PAUSED), run=a_run(state=RunState.REVIEW, owner=HOLDER)
    )
    agent = Caller(owner=HOLDER, host="mcp:claude-code")

    with pytest.raises(RunNotReady, match="with taskmem approve or send-back; or, once they"):
        apply_update(facts, UpdateRequest(**fields, caller=agent), NOW, sessions=SESSIONS)

    # The user does, and a message ends nothing.
    apply_update(facts, UpdateRequest(**fields, caller=Caller(person=True)), NOW, sessions=SESSIONS)
    apply_update(facts, UpdateRequest(message="Please look.", caller=agent), NOW, sessions=SESSIONS)


@pytest.mark.parametrize("reason", ["no longer wanted", "No longer wanted.", "Why, then?"])
def test_a_decision_ends_before_the_next_sentence(reason: str) -> None:
    change = lifecycle.enter_decision(Change(), a_task(), reason, NOW)

    assert describe_decisions(change.messages, StepMentions([], [], ())) == [
        reason if reason[-1] in ".?" else f"{reason}."
    ]

"""Which messages of a thread are read again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.tasks import lifecycle, thread
from openclaw_taskmem.domain.tasks.thread import StepMentions
from taskmem_hookspecs import Author, Message, MessageType, PlanRevision, Role, TaskStatus
from taskmem_hookspecs.testing import a_task


def message(
    content: str, role: Role = Role.AGENT, msg_type: MessageType = MessageType.TEXT
) -> Message:
    return Message(
        task_id="task_1",
        role=role,
        msg_type=msg_type,
        content=content,
        created_at=datetime(2026, 2, 13, tzinfo=UTC),
    )


def test_chatter_does_not_push_out_progress_and_failures() -> None:
    done = message("Step 1 done, v1.2.3", msg_type=MessageType.PROGRESS)
    failed = message("push denied")
    asked = message("use port 2222", Role.USER)
    chatter = [message(f"looking {number}") for number in range(20)]

    chosen = thread.choose_meaningful([done, failed, asked, *chatter])

    assert chosen == (done, failed, asked, *chatter[-2:])


def test_many_failures_leave_room_for_progress_and_the_last_word() -> None:
    done = message("Step 1 done", msg_type=MessageType.PROGRESS)
    failures = [message(f"try {number} failed") for number in range(9)]
    last = message("looking")

    chosen = thread.choose_meaningful([done, *failures, last])

    assert chosen == (done, *failures[-3:], last)


def test_alerts_and_repeated_words_are_left_out() -> None:
    alert = message("Task appears stuck", Role.SYSTEM, MessageType.STUCK)
    said = message("push denied")

    assert thread.choose_meaningful([said, alert, said]) == (said,)


@pytest.mark.parametrize(
    ("later", "ends"),
    [
        (message("Task appears stuck", Role.SYSTEM, MessageType.STUCK), False),
        (message("smart_wait resolved", Role.SYSTEM, MessageType.WAIT), False),
        (message("Resumed by the user", Role.SYSTEM, MessageType.LIFECYCLE), True),
        (message("Status: active → paused by you", Role.SYSTEM), True),
        (message("The plan was replaced", Role.SYSTEM, MessageType.PLAN), True),
        (message("Step 1 done", msg_type=MessageType.PROGRESS), True),
        (message("Go on", Role.USER), True),
    ],
    ids=lambda each: each.content if isinstance(each, Message) else "",
)
def test_a_halt_is_over_once_its_task_goes_on(later: Message, ends: bool) -> None:
    (entry,) = lifecycle.enter_halt(a_task(), [], "rate limit", later.created_at).messages
    assert lifecycle.find_halt([entry, later]) == ("" if ends else "rate limit")


def test_user_spoke_last_if_no_agent_has_spoken_since() -> None:
    said, told = message("Mend it.", Role.USER), message("Active", Role.SYSTEM)

    assert thread.has_user_spoken_last([message("Done."), said, told])
    assert not thread.has_user_spoken_last([said, message("Mending.")])
    assert not thread.has_user_spoken_last([told])


def test_what_the_user_said_as_a_task_was_completed_is_heard() -> None:
    said = message("I saw it.", Role.USER)
    _, ended = lifecycle.change_status(a_task(), TaskStatus.COMPLETED, said.created_at)
    assert ended is not None

    assert thread.has_user_spoken_last([said])
    assert not thread.has_user_spoken_last([said, ended])


def test_no_words_of_the_user_pass_for_a_completion() -> None:
    said = message("Status: active → completed is not what I see.", Role.USER)

    assert thread.has_user_spoken_last([said])


# --- step numbers of old plans ------------------------------------------------

STEPS = ("Build", "Test", "Push", "Log in", "Deploy", "Verify")


@given(st.lists(st.lists(st.sampled_from(STEPS), min_size=1, unique=True), min_size=1), st.data())
def test_a_step_number_means_the_plan_of_its_time(plans: list[list[str]], data: st.DataObject):
    said, meant, revisions = list[Message](), list[str](), list[PlanRevision]()
    for old, new in zip(plans, [*plans[1:], None], strict=True):
        step = data.draw(st.sampled_from(old))
        said.append(message(f"Step {old.index(step) + 1} failed"))
        meant.append(step)
        if new is None:
            break
        entry = f"Plan revised: step {old.index(step) + 1} failed"
        said.append(message(entry, Role.SYSTEM, MessageType.PLAN))
        meant.append(step)
        revisions.append(
            PlanRevision(
                task_id="task_1",
                old_plan=tuple(old),
                new_plan=tuple(new),
                reason="",
                author=Author.AGENT,
                created_at=said[0].created_at,
            )
        )
    numbered = [
        each.model_copy(update={"message_id": number}) for number, each in enumerate(said, 1)
    ]
    kept = data.draw(st.integers(min_value=1, max_value=len(said)))
    mentions, today = StepMentions(numbered[-kept:], revisions, plans[-1]), plans[-1]

    for each, step in [*zip(numbered, meant, strict=True)][-kept:]:
        now = today.index(step) + 1 if step in today else 0
        assert mentions.find_steps(each) == {now - 1} - {-1}
        told = mentions.describe_old_steps(each)
        assert bool(told) == (f"step {now} " not in each.content.lower())
        assert not told or f'was "{step}"' in told
        assert (f"now step {now}" in told) == bool(told and now)


def test_the_reason_of_a_revision_is_no_blocker() -> None:
    revised = message("Plan revised: the login failed", Role.SYSTEM, MessageType.PLAN)

    assert thread.find_trouble([revised]) is None


def test_a_decision_after_a_blocker_does_not_hide_it() -> None:
    blocked = message("npm install failed with EACCES; I need root.")
    reset = message("It was taken from its agent by a reset, and failed.", Role.SYSTEM)

    assert thread.find_trouble([blocked, reset]) is blocked
    assert thread.find_trouble([reset]) is None

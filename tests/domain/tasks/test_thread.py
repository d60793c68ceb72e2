"""Which messages of a thread are read again."""

from __future__ import annotations

from datetime import UTC, datetime

from openclaw_taskmem.domain.tasks import lifecycle, thread
from taskmem_hookspecs import Message, MessageType, Role, TaskStatus
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

"""Which messages of a thread are read again."""

from __future__ import annotations

from datetime import UTC, datetime

from openclaw_taskmem.domain import thread
from taskmem_hookspecs import Message, MessageType, Role


def message(content: str, role: Role = Role.AGENT) -> Message:
    return Message(
        task_id="task_1",
        role=role,
        msg_type=MessageType.TEXT,
        content=content,
        created_at=datetime(2026, 2, 13, tzinfo=UTC),
    )


def test_what_the_agent_has_narrated_is_its_own_words_in_order() -> None:
    messages = [message("a"), message("Wrote x", Role.SYSTEM), message("b")]

    assert thread.narrated(messages) == ("a", "b")


def test_of_what_was_narrated_the_newest_are_read_up_to_a_limit() -> None:
    half = "x" * (thread.NARRATED // 2)

    assert thread.narrated([message("a"), message(half), message(half)]) == (half, half)

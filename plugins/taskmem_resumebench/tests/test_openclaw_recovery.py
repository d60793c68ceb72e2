"""What OpenClaw's own restart recovery tells an agent, and when it gives a session up."""

from __future__ import annotations

import pytest

from taskmem_resumebench.agents import Knowledge, read_memory
from taskmem_resumebench.generated_task import GeneratedTask
from taskmem_resumebench.openclaw_recovery import MOST_RECOVERIES, OpenClawRecovery
from taskmem_resumebench.work_steps import Call, Kind

CALL = Call(Kind.LINE, "amber-1", "log.txt")
PAYMENT = Call(Kind.PAYMENT, "amber-2")


@pytest.fixture
def session(task: GeneratedTask) -> OpenClawRecovery:
    session = OpenClawRecovery()
    session.begin(task)
    return session


def resume(session: OpenClawRecovery) -> Knowledge:
    return read_memory(session.resume(), ("the request",), list)


def test_the_transcript_tells_results_and_a_call_without_one(
    session: OpenClawRecovery, task: GeneratedTask
) -> None:
    session.note_call_start(CALL)
    session.note_call_end(CALL, failed=False)
    session.note_call_start(PAYMENT)

    assert resume(session) == Knowledge(
        task.plan, finished_calls=(CALL.line,), cut_calls=(PAYMENT.line,)
    )


def test_a_call_whose_answer_was_lost_may_have_been_made(session: OpenClawRecovery) -> None:
    session.note_call_start(PAYMENT)
    session.note_call_end(PAYMENT, failed=True)

    assert resume(session).cut_calls == (PAYMENT.line,)


def test_a_session_that_was_recovered_too_often_is_given_up(session: OpenClawRecovery) -> None:
    session.note_call_start(CALL)
    for _ in range(MOST_RECOVERIES):
        assert resume(session).cut_calls == (CALL.line,)

    assert resume(session) == Knowledge(("the request",))
    assert resume(session).cut_calls == ()

"""A wait that is a task of MCP: its end is told once, by an answer or by a message."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import waits
from openclaw_taskmem.domain.changes.waits import PolledState, Refinement, WaitFacts
from taskmem_hookspecs import Wait, WaitOutcome, WaitStatus, WakeState
from taskmem_hookspecs.testing import DAWN, a_wait, a_wake
from tests.support.owners import SESSIONS

NOW = DAWN + timedelta(seconds=47)
LATER = NOW + timedelta(seconds=9)


def a_polled_wait(**fields: Any) -> Wait:
    return a_wait(**{"status": WaitStatus.RESOLVED, "polled": True, **fields})


@pytest.mark.parametrize(
    ("wake", "state"),
    [
        ({}, PolledState.COMPLETED),
        ({"due_at": LATER}, PolledState.COMPLETED),
        ({"due_at": None}, PolledState.COMPLETED),
        ({"attempts": 1, "due_at": LATER, "last_error": "Gone."}, PolledState.COMPLETED),
        ({"attempts": 1, "due_at": NOW}, PolledState.COMPLETED),
        ({"attempts": 1, "due_at": LATER}, PolledState.WORKING),
        ({"state": WakeState.ACKNOWLEDGED}, PolledState.COMPLETED),
        ({"state": WakeState.REFUSED}, PolledState.COMPLETED),
        ({"state": WakeState.SENT, "sends": 1}, PolledState.CANCELLED),
        ({"state": WakeState.ACKNOWLEDGED, "sends": 1}, PolledState.CANCELLED),
        ({"state": WakeState.DUE, "sends": 1}, PolledState.CANCELLED),
        ({"state": WakeState.SUPERSEDED}, PolledState.CANCELLED),
        ({"key": "wait:wait_1:0"}, PolledState.CANCELLED),
    ],
    ids=[
        *("due", "due later", "kept", "delivery failed", "claim lapsed", "on its way"),
        *("told before", "refused", "sent", "sent and read", "sent again", "answered"),
        "of an earlier round",
    ],
)
def test_the_answer_tells_the_end_unless_a_message_does(
    wake: dict[str, Any], state: PolledState
) -> None:
    known = a_wake(**{"key": "wait:wait_1:1", "wait_id": "wait_1", **wake})

    change, answered = waits.answer_poll(a_polled_wait(), [known], NOW)

    assert answered is state
    settled = [each.state for each in change.wakes]
    tells = state is PolledState.COMPLETED and known.state is WakeState.DUE
    assert settled == ([WakeState.ACKNOWLEDGED] if tells else [])


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"status": WaitStatus.WATCHING}, PolledState.WORKING),
        ({"status": WaitStatus.CANCELLED}, PolledState.CANCELLED),
        ({"status": WaitStatus.WATCHING, "polled": False}, PolledState.CANCELLED),
        ({"polled": False}, PolledState.CANCELLED),
    ],
    ids=["open", "cancelled", "open and no task", "ended and no task"],
)
def test_without_a_message_the_state_of_the_wait_is_told(
    fields: dict[str, Any], state: PolledState
) -> None:
    assert waits.answer_poll(a_polled_wait(**fields), [], NOW)[1] is state


@pytest.mark.parametrize("polled", [True, False])
def test_a_message_leaves_the_host_time_to_ask(*, polled: bool) -> None:
    watched = a_polled_wait(status=WaitStatus.WATCHING, polled=polled)
    outcome = WaitOutcome(status=WaitStatus.RESOLVED, observation="Seen.", elapsed_seconds=4)

    change = waits.close_wait(WaitFacts(wait=watched), outcome, wake_id="wake_1", now=NOW)

    assert change.wakes[0].due_at == (NOW + waits.POLL_PATIENCE if polled else NOW)


@pytest.mark.parametrize(
    ("status", "as_task", "polled"),
    [
        (WaitStatus.WATCHING, False, True),
        (WaitStatus.RESOLVED, False, False),
        (WaitStatus.RESOLVED, True, True),
    ],
)
def test_armed_again_a_wait_is_polled_while_its_host_asks(
    status: WaitStatus, *, as_task: bool, polled: bool
) -> None:
    change = waits.rearm_wait(
        WaitFacts(wait=a_polled_wait(status=status)),
        Refinement(),
        Caller(),
        awaited={},
        home=None,
        sessions=SESSIONS,
        now=NOW,
        polled=as_task,
    )

    assert change.waits[0].polled is polled

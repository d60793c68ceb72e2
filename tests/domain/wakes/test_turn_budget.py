"""How many turns of a session our messages begin, whatever its tasks ask for."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_taskmem.domain.policies import OutboxPolicy
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.domain.wakes.turn_budget import (
    ANSWER,
    HOUR,
    MINUTE,
    SentMessage,
    find_earliest_sends,
    list_sent_messages,
)
from taskmem_hookspecs import Wake, WakeCause, WakeState
from taskmem_hookspecs.testing import DAWN, a_wake
from tests.support.long_tests import choose_count

POLICY = OutboxPolicy()
KINDS = {"run": "run:run_{}:1", "wait": "wait:wait_{}:1", "answer": f"{ANSWER}wake_{{}}"}


def make_due(number: int, kind: str, at: datetime) -> Wake:
    return a_wake(
        wake_id=f"wake_{number:04d}",
        key=KINDS[kind].format(number),
        cause=WakeCause.WAIT if kind == "wait" else WakeCause.RUN,
        wait_id=f"wait_{number}" if kind == "wait" else None,
        state=WakeState.DUE,
        created_at=at,
        due_at=at,
        sent_at=None,
        delivery_id=None,
        version=1,
    )


REQUESTS = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0, 9.0, 40.0, 300.0]), st.sampled_from([*KINDS])),
    min_size=30,
    max_size=120,
)


@settings(max_examples=choose_count("TASKMEM_TURNS", 25, 500), deadline=None)
@given(asked=REQUESTS)
def test_no_task_begins_more_turns_than_the_budget(asked: list[tuple[float, str]]) -> None:
    """Play a session whose tasks ask for turns; what may be sent is sent at once."""
    now, waiting, sent = DAWN, list[Wake](), list[Wake]()
    coming = [(kind, gap) for gap, kind in asked]
    while coming or waiting:
        due = [wake for wake in waiting if wake.due_at is not None and wake.due_at <= now]
        if due:
            earliest = find_earliest_sends(list_sent_messages(sent, POLICY), now, POLICY)
            delivery_id = f"delivery_{len(sent)}"
            claimed = outbox.claim_due_wakes(
                due, {}, earliest, delivery_id=delivery_id, now=now, policy=POLICY
            )
            told = {w.wake_id for w in claimed.delivery.wakes} if claimed.delivery else set()
            later = {w.wake_id: w for w in claimed.change.wakes if w.wake_id not in told}
            update = {"sent_at": now, "delivery_id": delivery_id, "due_at": None}
            sent += [w.model_copy(update=update) for w in waiting if w.wake_id in told]
            waiting = [later.get(w.wake_id, w) for w in waiting if w.wake_id not in told]
            assert not any(w.key.startswith(ANSWER) and w.due_at > now for w in later.values())
            assert all(w.due_at is not None and w.due_at > now for w in later.values())
            if told:
                continue
        if coming:
            kind, gap = coming.pop(0)
            now += timedelta(seconds=gap)
            waiting.append(make_due(len(sent) + len(waiting), kind, now))
        else:
            now = max(now, min(w.due_at for w in waiting if w.due_at is not None))
    assert len(sent) == len(asked), "nothing is lost"
    times = [each.at for each in list_sent_messages(sent, POLICY)]
    for span, most in ((MINUTE, POLICY.turns_per_minute), (HOUR, POLICY.turns_per_hour)):
        assert all(b - a >= span for a, b in zip(times, times[most:], strict=False))
    others = [each.at for each in list_sent_messages(sent, POLICY) if not each.for_run]
    gaps = zip(others, others[POLICY.per_minute :], strict=False)
    assert all(b - a >= MINUTE for a, b in gaps)


@pytest.mark.parametrize(
    ("many", "apart", "seconds"),
    [(5, 1, None), (6, 1, 60), (59, 30, None), (60, 30, 3_600), (60, 62, None)],
)
def test_the_budget_is_six_a_minute_and_sixty_an_hour(
    many: int, apart: int, seconds: int | None
) -> None:
    sent = [SentMessage(DAWN + timedelta(seconds=apart * n), for_run=True) for n in range(many)]
    found = find_earliest_sends(sent, sent[-1].at, POLICY)
    assert found.for_runs == (None if seconds is None else DAWN + timedelta(seconds=seconds))


def test_a_users_answer_waits_for_nothing() -> None:
    earliest = find_earliest_sends([SentMessage(DAWN, for_run=True)] * 99, DAWN, POLICY)
    starts = {kind: earliest.find_start(make_due(1, kind, DAWN)) for kind in KINDS}
    assert starts == {"run": DAWN + HOUR, "wait": DAWN + HOUR, "answer": None}


def test_messages_of_the_future_do_not_count() -> None:
    sent = [SentMessage(DAWN + HOUR, for_run=True)] * 100
    assert find_earliest_sends(sent, DAWN, POLICY).for_runs is None


def test_a_message_of_several_wakes_is_one() -> None:
    wakes = [make_due(n, kind, DAWN) for n, kind in enumerate(("wait", "run", "answer"))]
    sent = [w.model_copy(update={"sent_at": DAWN, "delivery_id": "delivery_1"}) for w in wakes]
    assert list_sent_messages(sent, POLICY) == [SentMessage(DAWN, for_run=True)]


def test_each_time_that_a_wake_is_sent_counts() -> None:
    wake = make_due(1, "run", DAWN)
    sent = wake.model_copy(update={"sent_at": DAWN, "delivery_id": "delivery_1", "sends": 3})
    times = [each.at for each in list_sent_messages([sent], POLICY)]
    ack = timedelta(seconds=POLICY.ack_seconds)
    assert times == [DAWN - 3 * ack, DAWN - 2 * ack, DAWN]

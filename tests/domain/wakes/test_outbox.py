from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from openclaw_taskmem.domain.policies import OutboxPolicy
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.domain.wakes.outbox import WakeClaim
from openclaw_taskmem.domain.wakes.turn_budget import (
    MINUTE,
    EarliestSends,
    SentMessage,
    find_earliest_sends,
)
from taskmem_hookspecs import Linkage, TaskStatus, Wake, WakeCause, WakeState
from taskmem_hookspecs.testing import DAWN, a_task, a_wake

POLICY = OutboxPolicy()
NOW = DAWN + timedelta(minutes=10)


def stuck_wake(**changes: object) -> Wake:
    given = {
        "cause": WakeCause.STUCK,
        "state": WakeState.DUE,
        "task_id": "task_1",
        "wait_id": None,
        "created_at": NOW,
        "due_at": NOW,
        "version": 1,
        "text": '[task_stuck_resume] {"task_id":"task_1","name":"n","reason":"r"}',
    }
    return a_wake(**(given | changes))


def wait_wake(number: int = 1, **changes: object) -> Wake:
    given = {
        "wake_id": f"wake_w{number}",
        "key": f"wait:wait_{number}:1",
        "cause": WakeCause.WAIT,
        "wait_id": f"wait_{number}",
        "text": f"[system] smart_wait resolved (wait_{number}): done. Elapsed: 4s.",
    }
    return stuck_wake(**(given | changes))


def claim(*due: Wake, sent: tuple[datetime, ...] = (), **task: object) -> WakeClaim:
    earliest = find_earliest_sends([SentMessage(at=at, for_run=False) for at in sent], NOW, POLICY)
    return outbox.claim_due_wakes(
        due, {"task_1": a_task(**task)}, earliest, delivery_id="delivery_1", now=NOW, policy=POLICY
    )


def test_what_is_due_is_claimed_before_it_goes_out() -> None:
    claimed = claim(stuck_wake())

    (wake,) = claimed.change.wakes
    assert wake.attempts == 1
    assert wake.due_at == NOW + timedelta(seconds=POLICY.claim_seconds)
    assert wake.state is WakeState.DUE
    assert claimed.delivery is not None
    assert claimed.delivery.wakes[0].version == wake.version + 1


def test_wakes_of_a_session_share_one_message_stuck_wake_first() -> None:
    claimed = claim(wait_wake(1), stuck_wake(), wait_wake(2))

    assert claimed.delivery is not None
    lines = claimed.delivery.message.text.splitlines()
    assert [line.split("]")[0] for line in lines] == ["[task_stuck_resume", "[system", "[system"]
    assert "(wait_1)" in lines[1]
    assert "(wait_2)" in lines[2]


def test_urgent_stuck_task_leads_then_the_longest_idle_one() -> None:
    tasks = {
        f"task_{i}": a_task(task_id=f"task_{i}", updated_at=DAWN - timedelta(hours=i))
        for i in (1, 2, 3)
    }
    due = [
        stuck_wake(wake_id=f"wake_{i}", key=f"k{i}", task_id=f"task_{i}", urgent=i == 1)
        for i in (2, 3, 1)
    ]
    claimed = outbox.claim_due_wakes(
        due, tasks, EarliestSends(None, None), delivery_id="d", now=NOW, policy=POLICY
    )

    assert claimed.delivery is not None
    order = [wake.task_id for wake in claimed.delivery.wakes]
    assert order == ["task_1", "task_3", "task_2"]


@pytest.mark.parametrize(
    "moved",
    [
        {"updated_at": NOW + timedelta(seconds=1)},
        {"status": TaskStatus.COMPLETED},
        {"linkage": Linkage(active_wait_ids=("wait_1",))},
    ],
)
def test_an_alert_whose_task_moved_on_is_superseded(moved: dict[str, object]) -> None:
    claimed = claim(stuck_wake(), **moved)

    assert claimed.delivery is None
    assert [wake.state for wake in claimed.change.wakes] == ["superseded"]
    assert [event.kind for event in claimed.change.events] == ["wake_superseded"]


def test_fifth_message_of_a_minute_is_delayed_until_it_has_room() -> None:
    sent = tuple(NOW - timedelta(seconds=s) for s in (50, 40, 30, 20))

    claimed = claim(stuck_wake(), sent=sent)

    assert claimed.delivery is None
    assert claimed.change.wakes[0].due_at == sent[0] + timedelta(minutes=1)
    assert claimed.change.wakes[0].attempts == 0
    assert claim(stuck_wake(), sent=sent[1:]).delivery is not None


def test_who_is_told_to_go_on_has_room_beyond_alerts() -> None:
    sent = tuple(NOW - timedelta(seconds=s) for s in (50, 40, 30, 20))
    goes_on = wait_wake(wake_id="wake_9", key="run:run_1:1", cause=WakeCause.RUN)

    claimed = claim(stuck_wake(), goes_on, sent=sent)

    assert claimed.delivery is not None
    assert [wake.wake_id for wake in claimed.delivery.wakes] == ["wake_9"]
    assert claimed.change.wakes[0].due_at == sent[0] + timedelta(minutes=1)


def test_a_waits_wake_is_sent_three_times_then_it_is_unanswered() -> None:
    wake = wait_wake()
    gaps = []
    for _ in range(3):
        claimed = claim(wake)
        assert claimed.delivery is not None
        change = outbox.record_delivery(
            claimed.delivery, claimed.delivery.wakes, {}, transport="t", now=NOW, policy=POLICY
        )
        (wake,) = change.wakes
        assert wake.due_at is not None
        gaps.append((wake.due_at - NOW).total_seconds())

    assert gaps == [600, 1200, 2400]
    claimed = claim(wake)
    assert claimed.delivery is None
    assert claimed.change.wakes[0].state is WakeState.UNANSWERED
    assert claimed.change.wakes[0].due_at is None


def test_a_stuck_wake_is_not_sent_again_by_the_outbox() -> None:
    claimed = claim(stuck_wake())
    assert claimed.delivery is not None

    change = outbox.record_delivery(
        claimed.delivery,
        claimed.delivery.wakes,
        {"task_1": a_task()},
        transport="t",
        now=NOW,
        policy=POLICY,
    )

    assert change.wakes[0].state is WakeState.SENT
    assert change.wakes[0].due_at is None


def test_the_cooldown_counts_from_the_delivery() -> None:
    claimed = claim(stuck_wake())
    assert claimed.delivery is not None
    late = NOW + timedelta(hours=8)

    change = outbox.record_delivery(
        claimed.delivery,
        claimed.delivery.wakes,
        {"task_1": a_task(last_stuck_alert_at=NOW)},
        transport="t",
        now=late,
        policy=POLICY,
    )

    assert change.tasks[0].last_stuck_alert_at == late


@pytest.mark.parametrize("acted", [True, False])
def test_only_its_agent_answers_a_wake_superseded_in_delivery(acted: bool) -> None:
    claimed = claim(stuck_wake())
    assert claimed.delivery is not None
    (moved,) = outbox.settle_answered(claimed.delivery.wakes, acts=acted, moved=True, now=NOW)
    meanwhile = moved.model_copy(update={"version": 3})

    change = outbox.record_delivery(
        claimed.delivery, [meanwhile], {"task_1": a_task()}, transport="t", now=NOW, policy=POLICY
    )

    expected = WakeState.ACKNOWLEDGED if acted else WakeState.SUPERSEDED
    assert change.wakes[0].state is expected
    assert change.wakes[0].sent_at == NOW
    assert change.tasks == ()


def test_a_failed_delivery_stays_owed_and_waits_longer_each_time() -> None:
    waits = []
    for attempts in (1, 2, 3, 7, 60):
        change = outbox.record_delivery_failure(
            [stuck_wake(attempts=attempts)], "gateway down", NOW, POLICY
        )
        (wake,) = change.wakes
        assert wake.state is WakeState.DUE
        assert wake.last_error == "gateway down"
        assert wake.due_at is not None
        waits.append((wake.due_at - NOW).total_seconds())

    assert waits == [5, 10, 20, 300, 300]


@pytest.mark.parametrize(
    ("asked", "rests"),
    [(0.0, [5, 10, 60, 60]), (12.0, [12, 12, 60, 60]), (90.0, [90] * 4), (1e9, [300] * 4)],
)
def test_the_rest_asked_for_is_the_least_and_grows(asked: float, rests: list[float]) -> None:
    waits = []
    for attempts in (1, 2, 6, 60):
        current = [stuck_wake(attempts=attempts)]
        change = outbox.record_delivery_failure(current, "not yet", NOW, POLICY, asked)
        due = change.wakes[0].due_at
        assert due is not None
        waits.append((due - NOW).total_seconds())

    assert waits == rests


def test_a_refused_wake_is_never_tried_again() -> None:
    change = outbox.record_refusal([stuck_wake()], "no such session", NOW)

    assert change.wakes[0].state is WakeState.REFUSED
    assert change.wakes[0].due_at is None
    assert change.events[0].kind == "wake_refused"


def test_an_agent_that_acts_acknowledges_what_was_sent() -> None:
    sent = stuck_wake(state=WakeState.SENT)

    (settled,) = outbox.settle_answered([sent], acts=True, moved=False, now=NOW)

    assert settled.state is WakeState.ACKNOWLEDGED
    assert settled.acknowledged_at == NOW
    assert outbox.settle_answered([sent], acts=False, moved=True, now=NOW) == ()


def test_task_that_moves_supersedes_its_alert_still_due() -> None:
    due = stuck_wake()

    (settled,) = outbox.settle_answered([due], acts=True, moved=True, now=NOW)

    assert settled.state is WakeState.SUPERSEDED
    assert outbox.settle_answered([due], acts=True, moved=False, now=NOW) == ()
    assert outbox.settle_answered([wait_wake()], acts=True, moved=True, now=NOW) == ()


def test_more_lines_than_a_message_holds_wait_for_the_next() -> None:
    due = [wait_wake(i) for i in range(25)]

    claimed = claim(*due)

    assert claimed.delivery is not None
    assert len(claimed.delivery.wakes) == POLICY.lines


def test_a_failure_does_not_rearm_a_stuck_wake_that_was_sent() -> None:
    sent = stuck_wake(state=WakeState.SENT, due_at=None)

    assert outbox.record_delivery_failure([sent], "late", NOW, POLICY).wakes == ()


def test_messages_of_just_a_minute_ago_do_not_count() -> None:
    """Else the wake is put off until now, over and over."""
    before = (NOW - MINUTE,) * POLICY.per_minute

    assert claim(stuck_wake(), sent=before).delivery is not None


def test_first_failure_and_each_doubling_of_tries_is_news() -> None:
    told = [tries for tries in range(1, 100_000) if outbox._is_worth_logging(tries)]
    assert told == [2**n for n in range(17)]

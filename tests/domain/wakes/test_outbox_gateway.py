"""What a gateway's word does to the wakes that it was given."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.policies import OutboxPolicy
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.domain.wakes.turn_budget import EarliestSends
from taskmem_hookspecs import Change, Wake, WakeCause, WakeState
from taskmem_hookspecs.testing import DAWN, a_task, a_wake

POLICY = OutboxPolicy()
NOW = DAWN + timedelta(minutes=10)
WHY = "the turn that took it failed: overloaded"
ENDED = [s for s in WakeState if s not in (WakeState.DUE, WakeState.SENT)]


def a_sent_wake(number: int = 1, **changes: object) -> Wake:
    """A stuck wake that a transport took."""
    fields = {
        "wake_id": f"wake_{number}",
        "state": WakeState.SENT,
        "task_id": "task_1",
        "created_at": DAWN + timedelta(minutes=number),
        "due_at": None,
        "sent_at": DAWN + timedelta(minutes=number),
        "attempts": 1,
        "sends": 1,
        "transport": "openclaw-plugin",
        "delivery_id": f"delivery_{number}",
        "version": 2,
    }
    return a_wake(**(fields | changes))


def a_sent_wait_wake(number: int = 1, **changes: object) -> Wake:
    """A wait's wake that a transport took, and that is sent again one day."""
    again = {"cause": WakeCause.WAIT, "due_at": NOW + timedelta(minutes=5)}
    return a_sent_wake(number, wait_id=f"wait_{number}", **(again | changes))


def lose_wakes(*wakes: Wake, due_at: datetime | None = None) -> Change:
    return outbox.requeue_lost_wakes(wakes, WHY, NOW, POLICY, due_at=due_at)


def kinds(change: Change) -> list[str]:
    return [event.kind for event in change.events]


def deliver_wake(wake: Wake, **given: Any) -> Wake:
    """Let a wake that is due go out, and return it."""
    due = wake.model_copy(update={"state": WakeState.DUE, "due_at": NOW})
    tasks = {"task_1": a_task()}
    claimed = outbox.claim_due_wakes(
        [due], tasks, EarliestSends(None, None), delivery_id="d", now=NOW, policy=POLICY
    )
    assert claimed.delivery is not None
    change = outbox.record_delivery(
        claimed.delivery,
        claimed.delivery.wakes,
        tasks,
        transport="t",
        now=NOW,
        policy=POLICY,
        **given,
    )
    return change.wakes[0]


# --- a turn took it -----------------------------------------------------------


def test_what_a_turn_took_is_acknowledged_at_that_instant() -> None:
    change = outbox.acknowledge_wakes([a_sent_wake(), a_sent_wait_wake(2)], NOW)

    assert [wake.state for wake in change.wakes] == ["acknowledged"] * 2
    assert {(wake.acknowledged_at, wake.due_at) for wake in change.wakes} == {(NOW, None)}
    assert kinds(change) == ["wake_acknowledged"] * 2


def test_turn_faster_than_the_receipt_acknowledges_the_wake() -> None:
    claimed = outbox.claim_due_wakes(
        [a_sent_wake(state=WakeState.DUE, due_at=NOW, sends=0, created_at=NOW)],
        {"task_1": a_task()},
        EarliestSends(None, None),
        delivery_id="delivery_7",
        now=NOW,
        policy=POLICY,
    )
    assert claimed.delivery is not None
    (early,) = outbox.acknowledge_wakes(claimed.delivery.wakes, NOW).wakes
    assert early.state is WakeState.ACKNOWLEDGED
    assert early.due_at is None

    (closed,) = outbox.record_delivery(
        claimed.delivery,
        [early],
        {"task_1": a_task()},
        transport="openclaw-plugin",
        now=NOW + timedelta(seconds=1),
        policy=POLICY,
    ).wakes

    assert closed.state is WakeState.ACKNOWLEDGED
    assert closed.acknowledged_at == NOW


@pytest.mark.parametrize("state", ENDED)
def test_what_has_ended_is_neither_taken_nor_lost(state: WakeState) -> None:
    ended = a_sent_wake(state=state)

    assert outbox.acknowledge_wakes([ended], NOW).empty
    assert lose_wakes(ended).empty


# --- no model saw it ----------------------------------------------------------


def test_what_reached_no_model_is_owed_again_with_the_reason() -> None:
    change = lose_wakes(a_sent_wake(), a_sent_wait_wake(2))

    assert [wake.state for wake in change.wakes] == ["due", "due"]
    assert {wake.last_error for wake in change.wakes} == {WHY}
    assert kinds(change) == ["wake_lost", "wake_lost"]
    assert change.events[0].data["error"] == WHY
    assert change.events[0].task_id == "task_1"


def test_what_is_lost_rests_longer_after_each_try() -> None:
    rests = [
        lose_wakes(a_sent_wake(attempts=attempts)).wakes[0].due_at for attempts in (1, 2, 3, 7, 99)
    ]

    seconds = [(rest - NOW).total_seconds() for rest in rests if rest]
    assert seconds == [5, 10, 20, 300, 300]


def test_what_is_lost_goes_out_when_it_is_said_where_it_is_said() -> None:
    due = NOW + timedelta(seconds=12)

    assert lose_wakes(a_sent_wake(attempts=9), due_at=due).wakes[0].due_at == due


def test_what_is_on_its_way_cannot_be_lost() -> None:
    """Whoever delivers it writes what became of it."""
    assert lose_wakes(a_sent_wake(state=WakeState.DUE, due_at=NOW)).empty


def test_of_a_tasks_alerts_that_are_lost_only_the_newest_is_owed() -> None:
    change = lose_wakes(a_sent_wake(2), a_sent_wake(1), a_sent_wake(3, task_id="task_2"))

    states = {wake.wake_id: wake.state for wake in change.wakes}
    assert states == {"wake_1": "superseded", "wake_2": "due", "wake_3": "due"}
    assert sorted(kinds(change)) == ["wake_lost", "wake_lost", "wake_superseded"]


def test_lost_alert_is_superseded_by_a_newer_one_that_is_due() -> None:
    due = a_sent_wake(2, state=WakeState.DUE, due_at=NOW)

    (older,) = lose_wakes(a_sent_wake(1), due).wakes

    assert (older.wake_id, older.state) == ("wake_1", "superseded")


def test_an_alert_takes_no_wakes_of_waits_along() -> None:
    change = lose_wakes(a_sent_wait_wake(1), a_sent_wake(2), a_sent_wait_wake(3))

    assert {wake.state for wake in change.wakes} == {WakeState.DUE}
    assert len(change.wakes) == 3


# --- an agent that acts -------------------------------------------------------


@pytest.mark.parametrize("moved", [True, False])
def test_acting_agent_acknowledges_a_wake_lost_after_sending(moved: bool) -> None:
    (owed,) = lose_wakes(a_sent_wake()).wakes

    (settled,) = outbox.settle_answered([owed], acts=True, moved=moved, now=NOW)

    assert settled.state is WakeState.ACKNOWLEDGED
    assert (settled.acknowledged_at, settled.due_at) == (NOW, None)


def test_what_was_never_sent_is_answered_by_nobody() -> None:
    never = a_sent_wait_wake(state=WakeState.DUE, sends=0)

    assert outbox.settle_answered([never], acts=True, moved=True, now=NOW) == ()


def test_a_person_who_acts_answers_nothing_that_was_lost() -> None:
    (owed,) = lose_wakes(a_sent_wake()).wakes

    assert outbox.settle_answered([owed], acts=False, moved=False, now=NOW) == ()
    (moved,) = outbox.settle_answered([owed], acts=False, moved=True, now=NOW)
    assert (moved.state, moved.acknowledged_at) == (WakeState.SUPERSEDED, None)


# --- on its way ---------------------------------------------------------------


def test_a_message_is_known_by_its_delivery_before_it_goes_out() -> None:
    due = [
        a_sent_wait_wake(n, state=WakeState.DUE, due_at=NOW, delivery_id="before") for n in (1, 2)
    ]

    claimed = outbox.claim_due_wakes(
        due, {}, EarliestSends(None, None), delivery_id="now", now=NOW, policy=POLICY
    )

    assert claimed.delivery is not None
    assert {wake.delivery_id for wake in claimed.change.wakes} == {"now"}
    assert {wake.delivery_id for wake in claimed.delivery.wakes} == {"now"}
    assert claimed.delivery.message.delivery_id == "now"


@pytest.mark.parametrize("note", [None, "turn: heartbeat"])
def test_transport_note_replaces_the_note_before_it(note: str | None) -> None:
    assert deliver_wake(a_sent_wait_wake(note="before"), note=note).note == note


@given(sends=st.integers(0, 10_000))
def test_wake_lost_many_times_can_still_be_recorded(sends: int) -> None:
    again = deliver_wake(a_sent_wait_wake(sends=sends))

    assert again.sends == sends + 1
    assert again.due_at is not None
    longest = POLICY.ack_seconds * 2 ** (POLICY.sends - 1)
    assert again.due_at - NOW <= timedelta(seconds=longest)

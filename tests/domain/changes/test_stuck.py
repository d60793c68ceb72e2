from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.changes import stuck
from openclaw_taskmem.domain.policies import OutboxPolicy, StuckPolicy
from taskmem_hookspecs import (
    Event,
    Linkage,
    TaskFacts,
    TaskStatus,
    WaitStatus,
    WakeCause,
    WakeState,
)
from taskmem_hookspecs.testing import DAWN, a_run, a_task, a_wake

POLICY = StuckPolicy()
LATER = DAWN + timedelta(seconds=300)


def facts(**changes: object) -> TaskFacts:
    return TaskFacts(task=a_task(**changes))


def test_a_silent_active_task_is_stuck_at_the_threshold() -> None:
    verdict = stuck.judge_stuck(facts(), LATER, POLICY)

    assert verdict is not None
    assert verdict.idle_seconds == 300
    assert verdict.reason == "no updates for 5 minutes and no active wait"


def test_a_task_is_not_stuck_a_moment_before_the_threshold() -> None:
    assert stuck.judge_stuck(facts(), LATER - timedelta(milliseconds=1), POLICY) is None


@pytest.mark.parametrize("status", [s for s in TaskStatus if s != "active"])
def test_only_an_active_task_can_be_stuck(status: TaskStatus) -> None:
    assert stuck.judge_stuck(facts(status=status), LATER, POLICY) is None
    assert stuck.compute_due_time(a_task(status=status), POLICY) is None


def test_a_task_that_waits_is_never_stuck() -> None:
    waiting = Linkage(active_wait_ids=("wait_1",))

    assert stuck.judge_stuck(facts(linkage=waiting), LATER, POLICY) is None
    assert stuck.compute_due_time(a_task(linkage=waiting), POLICY) is None


@given(st.sampled_from(TaskStatus), st.booleans(), st.floats(0, 10_000), st.floats(1, 5_000))
def test_the_rule_is_the_three_conditions_and_nothing_else(
    status: TaskStatus, waiting: bool, idle: float, threshold: float
) -> None:
    linkage = Linkage(active_wait_ids=("wait_1",) if waiting else ())
    now = DAWN + timedelta(seconds=idle)
    policy = StuckPolicy(threshold_seconds=threshold)
    elapsed = (now - DAWN).total_seconds()

    verdict = stuck.judge_stuck(facts(status=status, linkage=linkage), now, policy)

    expected = status == "active" and not waiting and elapsed >= threshold
    assert (verdict is not None) is expected


def ends(*statuses: WaitStatus) -> list[Event]:
    """What the log says of waits that ended so, the last one last."""
    data = [{"status": status.value} for status in statuses]
    log = [Event(at=DAWN, kind=events.WAIT_ENDED, data=each) for each in data]
    return [*log, Event(at=DAWN, kind=events.TASK_UPDATED)]


@pytest.mark.parametrize(("failed", "urgent"), [(2, False), (3, True)])
def test_failed_waits_raise_the_urgency_and_are_named(failed: int, *, urgent: bool) -> None:
    verdict = stuck.judge_stuck(facts(), LATER, POLICY)
    assert verdict is not None

    raised = stuck.add_failures(verdict, failed, POLICY)

    assert (raised.failed_waits, raised.urgent) == (failed, urgent)
    named = f"the last {failed} waits ended without success"
    assert (named in raised.reason) is urgent


def test_failed_waits_are_counted_back_to_one_that_succeeded() -> None:
    timeout, error = WaitStatus.TIMEOUT, WaitStatus.ERROR
    cancelled, resolved = WaitStatus.CANCELLED, WaitStatus.RESOLVED

    assert stuck.count_failures(ends(timeout, resolved, error, cancelled, timeout)) == 2
    assert stuck.count_failures(ends(timeout, resolved)) == 0
    assert stuck.count_failures([]) == 0


@pytest.mark.parametrize(
    ("in_a_row", "expected"),
    [(1, 900), (2, 1800), (3, 3600), (7, 57_600), (8, 86_400), (1000, 86_400)],
)
def test_each_alert_without_effect_doubles_cooldown_up_to_a_day(
    in_a_row: int, expected: int
) -> None:
    task = a_task(alerts_in_a_row=in_a_row, last_stuck_alert_at=DAWN)

    assert stuck.compute_cooldown(task, POLICY) == timedelta(seconds=expected)
    assert stuck.compute_due_time(task, POLICY) == DAWN + timedelta(seconds=expected)


def test_a_touch_keeps_the_running_cooldown() -> None:
    touched = DAWN + timedelta(seconds=1000)
    task = a_task(
        alerts_in_a_row=2, last_stuck_alert_at=DAWN + timedelta(seconds=900), updated_at=touched
    )

    assert stuck.compute_due_time(task, POLICY) == DAWN + timedelta(seconds=900 + 1800)


@pytest.mark.parametrize(("touched", "in_a_row"), [(True, 1), (False, 3)])
def test_a_touch_resets_the_growth(touched: bool, in_a_row: int) -> None:
    alerted = DAWN + timedelta(seconds=900)
    task = a_task(
        alerts=2,
        alerts_in_a_row=2,
        last_stuck_alert_at=alerted,
        updated_at=alerted + timedelta(seconds=1) if touched else DAWN,
    )
    known = TaskFacts(task=task)
    now = DAWN + timedelta(days=1)
    verdict = stuck.judge_stuck(known, now, POLICY)
    assert verdict is not None

    change = stuck.build_alert(known, verdict, wake_id="wake_9", text="…", packet=None, now=now)

    assert change.tasks[0].alerts_in_a_row == in_a_row
    assert change.tasks[0].alerts == 3
    assert change.wakes[0].key == "stuck:task_1:3"


def test_an_alert_does_not_touch_the_task() -> None:
    known = facts()
    verdict = stuck.judge_stuck(known, LATER, POLICY)
    assert verdict is not None

    change = stuck.build_alert(known, verdict, wake_id="w", text="…", packet=None, now=LATER)

    assert change.tasks[0].updated_at == DAWN
    assert change.messages[0].msg_type == "stuck"


def test_an_alert_closes_the_one_before_that_nobody_answered() -> None:
    old = a_wake(state=WakeState.SENT, cause=WakeCause.STUCK)
    known = TaskFacts(task=a_task(), wakes=(old,))
    verdict = stuck.judge_stuck(known, LATER, POLICY)
    assert verdict is not None

    change = stuck.build_alert(known, verdict, wake_id="w", text="…", packet=None, now=LATER)

    assert [wake.state for wake in change.wakes] == ["due", "unanswered"]


@pytest.mark.parametrize("state", [WakeState.DUE, WakeState.SENT])
def test_review_wake_is_no_alert_of_an_unclaimed_task(state: WakeState) -> None:
    review = a_wake(key="review:run_1:1", cause=WakeCause.STUCK, state=state)
    task = a_task(registrar_session="agent:main:main")
    known = TaskFacts(task=task, run=a_run(role="dev"), wakes=(review,))
    verdict = stuck.judge_stuck(known, LATER, POLICY)
    assert verdict is not None

    change = stuck.alert_registrar(
        known,
        verdict,
        wake_id="wake_9",
        reaches=lambda *_: True,
        wakes=(review,),
        now=LATER,
        policy=POLICY,
    )

    assert change is not None
    assert [wake.wake_id for wake in change.wakes] == ["wake_9"]


# --- while the agent is told to go on -------------------------------------------


def facts_with_resume_wake(state: WakeState, **changes: object) -> TaskFacts:
    """A silent task whose run was told to go on by a wake in that state."""
    wake = a_wake(**({"cause": WakeCause.RUN, "state": state} | changes))
    return TaskFacts(task=a_task(), wakes=(wake,))


PATIENT = OutboxPolicy()
PATIENCE = timedelta(seconds=PATIENT.ack_seconds)
MAY_ARRIVE: dict[str, dict[str, Any]] = {
    "due": {"state": WakeState.DUE},
    "sent-just-now": {"state": WakeState.SENT, "sent_at": LATER},
    "sent-a-while-ago": {"state": WakeState.SENT, "sent_at": LATER - PATIENCE},
}
TOO_LATE: dict[str, dict[str, Any]] = {
    "sent-long-ago": {"state": WakeState.SENT, "sent_at": LATER - PATIENCE - timedelta(seconds=1)},
    "sent-by-a-clock-ahead": {"state": WakeState.SENT, "sent_at": LATER + timedelta(seconds=1)},
}


@pytest.mark.parametrize("name", MAY_ARRIVE)
def test_an_alert_rests_while_the_word_to_go_on_may_yet_arrive(name: str) -> None:
    rests = stuck.suppress_alert(facts_with_resume_wake(**MAY_ARRIVE[name]), LATER, PATIENT, 300.0)

    assert rests == a_task(held_until=LATER + stuck.RESUME_HOLD)


@pytest.mark.parametrize("name", TOO_LATE)
def test_go_on_wake_ignored_too_long_holds_no_alert_back(name: str) -> None:
    assert (
        stuck.suppress_alert(facts_with_resume_wake(**TOO_LATE[name]), LATER, PATIENT, 300.0)
        is None
    )


@pytest.mark.parametrize(
    "state", [s for s in WakeState if s not in (WakeState.DUE, WakeState.SENT)]
)
def test_a_word_that_went_its_way_holds_no_alert_back(state: WakeState) -> None:
    assert stuck.suppress_alert(facts_with_resume_wake(state), LATER, PATIENT, 300.0) is None


@pytest.mark.parametrize("cause", [WakeCause.STUCK, WakeCause.WAIT])
def test_only_the_word_to_go_on_holds_an_alert_back(cause: WakeCause) -> None:
    assert (
        stuck.suppress_alert(
            facts_with_resume_wake(WakeState.DUE, cause=cause), LATER, PATIENT, 300.0
        )
        is None
    )
    assert stuck.suppress_alert(facts(), LATER, PATIENT, 300.0) is None


def test_no_alert_is_due_before_what_holds_it_back_is_over() -> None:
    held = LATER + timedelta(seconds=60)

    assert stuck.compute_due_time(a_task(held_until=held), POLICY) == held


def test_what_held_an_alert_back_hastens_none() -> None:
    long_ago = DAWN - timedelta(days=1)
    quiet = a_task(held_until=LATER, last_stuck_alert_at=LATER)

    assert stuck.compute_due_time(a_task(held_until=long_ago), POLICY) == LATER
    assert stuck.compute_due_time(quiet, POLICY) == LATER + timedelta(seconds=900)


def test_what_holds_an_alert_back_makes_no_task_less_silent() -> None:
    held = LATER + timedelta(days=1)

    assert stuck.judge_stuck(facts(held_until=held), LATER, POLICY) == stuck.judge_stuck(
        facts(), LATER, POLICY
    )


@pytest.mark.parametrize("status", [s for s in TaskStatus if s != "active"])
def test_what_holds_an_alert_back_makes_none_due(status: TaskStatus) -> None:
    assert stuck.compute_due_time(a_task(status=status, held_until=LATER), POLICY) is None

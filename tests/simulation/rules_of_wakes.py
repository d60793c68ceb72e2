"""The invariants of wakes: who is told what, how often, and what becomes of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain.callers import OWED_STATES, is_kept
from openclaw_taskmem.domain.wakes.packet import LIMIT
from taskmem_hookspecs import TaskStatus, Wake, WakeCause, WakeState
from tests.simulation.machine import Machine
from tests.simulation.mirror import Commit

LATE: Final = 60.0
"""Seconds by which what is due may be late once nothing fails any more."""
SETTLED: Final = 300.0
"""Seconds after which what had begun to fail before is over."""
_AFTER: Final = {
    WakeState.ACKNOWLEDGED: {WakeState.ACKNOWLEDGED},
    WakeState.SUPERSEDED: {WakeState.SUPERSEDED, WakeState.ACKNOWLEDGED},
    WakeState.UNANSWERED: {WakeState.UNANSWERED},
    WakeState.REFUSED: {WakeState.REFUSED},
}
"""What becomes of a wake that is settled."""


def no_alert_for_a_terminal_task(_: Machine, commit: Commit) -> Iterator[str]:
    """A new alert is for a task that is active once it is written."""
    for wake in list_new_alerts(commit):
        task = commit.mirror.tasks[wake.task_id or ""]
        if task.status is not TaskStatus.ACTIVE:
            yield f"{wake.wake_id} alerts {task.task_id}, which is {task.status}"


def no_alert_while_a_wait_is_open(_: Machine, commit: Commit) -> Iterator[str]:
    """A new alert is for a task that waits for nothing."""
    for wake in list_new_alerts(commit):
        if commit.mirror.open_waits[wake.task_id or ""]:
            yield f"{wake.wake_id} alerts {wake.task_id}, which waits"


def at_most_one_alert_per_cooldown(machine: Machine, commit: Commit) -> Iterator[str]:
    """Two alerts of a task lie a cooldown apart by the wall clock or the machine's own.

    Of one that lies in the future, since the clock was set back, nobody knows when it was: what the
    clock was set forward since then has passed.
    """
    for wake in list_new_alerts(commit):
        own = commit.mirror.list_wakes(wake.task_id or "")
        others = [w for w in own if is_alert(w) and w.wake_id != wake.wake_id]
        if others:
            last = others[-1]
            wall = (wake.created_at - last.created_at).total_seconds()
            seen, advanced = machine.seen_at[last.wake_id]
            passed = commit.monotonic - seen
            passed += machine.clock.advanced - advanced if wall < 0 else 0.0
            if max(wall, passed) < machine.stuck.cooldown_seconds - 0.001:
                yield f"{wake.wake_id} follows {last.wake_id} after {wall:.0f} s"


def no_alert_before_the_threshold(machine: Machine, commit: Commit) -> Iterator[str]:
    """A new alert is for a task that was silent for long enough by the wall clock."""
    for wake in list_new_alerts(commit):
        task = commit.mirror.tasks[wake.task_id or ""]
        silent = (wake.created_at - task.updated_at).total_seconds()
        if silent < machine.stuck.threshold_seconds:
            yield f"{wake.wake_id} alerts {task.task_id} after {silent:.1f} s"


def settled_wakes_stay_settled(_: Machine, commit: Commit) -> Iterator[str]:
    """What the agent has acted on, or will never get, is not owed again."""
    for wake in commit.change.wakes:
        before = commit.wakes_before[wake.wake_id]
        if before is not None and wake.state not in _AFTER.get(before.state, {wake.state}):
            yield f"{wake.wake_id} was {before.state} and is {wake.state}"


def no_cause_owes_two_wakes(_: Machine, commit: Commit) -> Iterator[str]:
    """Each wake has a key of its own."""
    for wake in list_new(commit):
        subject = wake.task_id or wake.wait_id or ""
        same = [w.wake_id for w in commit.mirror.list_wakes(subject) if w.key == wake.key]
        if len(same) != 1:
            yield f"{same} have the key {wake.key}"


def only_due_wakes_are_claimed(machine: Machine, commit: Commit) -> Iterator[str]:
    """A wake goes out if it is owed and its time had come when its claim began, once at a time."""
    for wake in commit.change.wakes:
        before = commit.wakes_before[wake.wake_id]
        if before is None or wake.attempts == before.attempts:
            continue
        began = wake.due_at and wake.due_at - timedelta(seconds=machine.outbox.claim_seconds)
        come = before.due_at and began and commit.decided and before.due_at <= began
        if before.state not in OWED_STATES or wake.attempts != before.attempts + 1:
            yield f"{wake.wake_id} goes out: it was {before.state}, due {before.due_at}"
        elif not come or began > commit.decided:
            yield f"{wake.wake_id} was due {before.due_at}, and is claimed until {wake.due_at}"


def one_message_is_for_one_gateway(_: Machine, commit: Commit) -> Iterator[str]:
    """Wakes that go out together are for the same gateway, or say nothing of one."""
    hosts: defaultdict[str, set[str]] = defaultdict(set)
    for wake in commit.change.wakes:
        before = commit.wakes_before[wake.wake_id]
        if before is not None and wake.attempts > before.attempts and wake.host is not None:
            hosts[wake.delivery_id or ""].add(wake.host)
    for delivery, named in hosts.items():
        if len(named) > 1:
            yield f"{delivery} goes to {sorted(named)}"


def no_wake_goes_out_late_at_rest(machine: Machine, commit: Commit) -> Iterator[str]:
    """Once nothing fails any more, a wake goes out when it is due.

    One that was due only as the clock was set goes out once the longest sleep is over.
    """
    if machine.rests_at is None or commit.monotonic < machine.rests_at + SETTLED:
        return
    for wake in commit.change.wakes:
        before = commit.wakes_before[wake.wake_id]
        if before is not None and wake.attempts > before.attempts and commit.now is not None:
            set_to = machine.clock.set_to
            overtaken = before.due_at is not None and before.due_at <= set_to
            owed = before.model_copy(update={"due_at": set_to}) if overtaken else before
            if is_overdue(owed, commit.now, LATE + overtaken * machine.weather.longest):
                yield f"{wake.wake_id} was due {before.due_at}, and goes out at {commit.now}"


def nothing_is_sent_that_was_not_claimed(_: Machine, commit: Commit) -> Iterator[str]:
    """Each delivery that a transport took was begun before."""
    for wake in commit.change.wakes:
        if wake.sends > wake.attempts:
            yield f"{wake.wake_id} was begun {wake.attempts} times, and sent {wake.sends} times"


def owed_wakes_have_a_time(_: Machine, commit: Commit) -> Iterator[str]:
    """A due wake has a time or is kept; a settled one has none."""
    for wake in commit.change.wakes:
        if wake.state is WakeState.DUE:
            if wake.due_at is None and not is_kept(wake):
                yield f"{wake.wake_id} is due at no time"
        elif wake.state not in OWED_STATES and wake.due_at is not None:
            yield f"{wake.wake_id} is {wake.state} and due {wake.due_at}"


def packets_are_whole(_: Machine, commit: Commit) -> Iterator[str]:
    """The packet of an alert can be read, names its task, and is small enough."""
    for wake in commit.change.wakes:
        if wake.cause is not WakeCause.STUCK or not wake.text.startswith("[task_stuck_resume]"):
            continue
        packet = json.loads(wake.text.partition(" ")[2])
        if packet["task_id"] != wake.task_id or len(wake.text.encode()) > LIMIT:
            yield f"{wake.wake_id} has a packet of {len(wake.text.encode())} bytes"


def what_is_over_owes_no_wake(_: Machine, commit: Commit) -> Iterator[str]:
    """Nobody is told to go on with a task that ends."""
    for task in commit.change.tasks:
        before = commit.tasks_before[task.task_id]
        if not task.status.terminal or before is None or before.status.terminal:
            continue
        own = commit.mirror.list_wakes(task.task_id)
        due = [w.key for w in own if w.state is WakeState.DUE and w.key.startswith("run:")]
        if due:
            yield f"{task.task_id} is {task.status} and owes {due}"


def what_stops_owes_no_alert(_: Machine, commit: Commit) -> Iterator[str]:
    """Nobody is told that a task is stuck once it has ended or rests."""
    for task in commit.change.tasks:
        before = commit.tasks_before[task.task_id]
        if before is None or task.status is before.status or task.status is TaskStatus.ACTIVE:
            continue
        own = commit.mirror.list_wakes(task.task_id)
        if due := [w.wake_id for w in own if w.state is WakeState.DUE and is_alert(w)]:
            yield f"{task.task_id} is {task.status}, and owes {due}"


def no_alert_goes_out_for_what_is_over(_: Machine, commit: Commit) -> Iterator[str]:
    """An alert is not sent once its task has ended, rests, waits, or was touched.

    A message that is on its way when its task ends still arrives.
    """
    for wake in commit.change.wakes:
        before = commit.wakes_before[wake.wake_id]
        if before is None or wake.attempts == before.attempts:
            continue
        task = commit.mirror.tasks.get(wake.task_id or "")
        if is_alert(wake) and task is not None:
            if task.status is not TaskStatus.ACTIVE or commit.mirror.open_waits[task.task_id]:
                yield f"{wake.wake_id} goes out, and {task.task_id} is {task.status}"
            elif task.updated_at > wake.created_at:
                yield f"{wake.wake_id} goes out, and {task.task_id} moved at {task.updated_at}"


def nobody_is_told_to_go_on_with_what_ended(_: Machine, commit: Commit) -> Iterator[str]:
    """A wake that tells a run to go on is for a run that is open."""
    for wake in list_new(commit):
        run = commit.mirror.runs.get(wake.run_id or "")
        if wake.cause is WakeCause.RUN and run is not None and run.state.terminal:
            if not wake.key.startswith(("review:", "unclaimed:")):
                yield f"{wake.wake_id} is for {run.run_id}, which is {run.state}"


def list_new(commit: Commit) -> list[Wake]:
    """Return the wakes that this commit owes for the first time."""
    return [w for w in commit.change.wakes if commit.wakes_before[w.wake_id] is None]


def list_new_alerts(commit: Commit) -> list[Wake]:
    """Return the alerts of stuck tasks among them."""
    return [w for w in list_new(commit) if w.cause is WakeCause.STUCK and is_alert(w)]


def is_alert(wake: Wake) -> bool:
    """Whether a wake tells an agent that its task is stuck."""
    return wake.key.startswith("stuck:")


def is_overdue(wake: Wake, now: datetime, seconds: float) -> bool:
    """Whether a wake should have gone out that long ago."""
    return wake.due_at is not None and (now - wake.due_at).total_seconds() > seconds


WAKE_RULES: Final = {
    "tasks": (what_is_over_owes_no_wake, what_stops_owes_no_alert),
    "wakes": (
        no_alert_for_a_terminal_task,
        no_alert_while_a_wait_is_open,
        at_most_one_alert_per_cooldown,
        no_alert_before_the_threshold,
        settled_wakes_stay_settled,
        no_cause_owes_two_wakes,
        only_due_wakes_are_claimed,
        one_message_is_for_one_gateway,
        no_wake_goes_out_late_at_rest,
        nothing_is_sent_that_was_not_claimed,
        owed_wakes_have_a_time,
        packets_are_whole,
        no_alert_goes_out_for_what_is_over,
        nobody_is_told_to_go_on_with_what_ended,
    ),
}

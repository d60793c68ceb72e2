"""Decide when a task is stuck, and build the alert.

A task is stuck if it is active, waits for nothing, and was not touched for the threshold. Source:
docs/origins.md, "When a task is stuck".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import filterfalse
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.policies import OutboxPolicy, StuckPolicy
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.text.texts import format_count, format_duration
from openclaw_taskmem.domain.wakes import notices, outbox
from openclaw_taskmem.domain.wakes.notices import NoticeKind
from openclaw_taskmem.domain.wakes.outbox import LONGEST_TURN
from taskmem_hookspecs import (
    Change,
    Event,
    MessageType,
    Run,
    RunState,
    StuckVerdict,
    Task,
    TaskFacts,
    TaskStatus,
    WaitStatus,
    Wake,
    WakeCause,
    WakeState,
)

_HELD_FOR_USER: Final = timedelta(minutes=5)
"""How long an alert is held back at a time while its task waits for the user."""
RESUME_HOLD: Final = timedelta(seconds=60)
"""How long an alert is held back at a time while its task's run is told to go on."""
MOST_UNSENT: Final = 1_000
"""Alerts that may wait to be sent to agents that a transport reaches."""
MOST_UNSENT_OF_SESSION: Final = 100
MOST_KEPT_PER_DAY: Final = 200
"""Alerts of a day that are kept for agents that no transport reaches."""
PACE: Final = timedelta(minutes=1)
"""Interval at which tasks whose alerts could not be sent yet are judged again, as many at a time as
`MOST_UNSENT_OF_SESSION`."""
_DAY: Final = 86_400.0
_FAILED_STATES: Final = frozenset({WaitStatus.TIMEOUT, WaitStatus.ERROR})


def judge_stuck(facts: TaskFacts, now: datetime, policy: StuckPolicy) -> StuckVerdict | None:
    """Return why a task is stuck; None: it is not."""
    task = facts.task
    idle = (now - task.updated_at).total_seconds()
    if task.status is not TaskStatus.ACTIVE or task.rests or idle < policy.threshold_seconds:
        return None
    reason = f"no updates for {format_duration(idle)} and no active wait"
    return StuckVerdict(idle_seconds=idle, reason=reason)


def add_failures(verdict: StuckVerdict, failed: int, policy: StuckPolicy) -> StuckVerdict:
    """Make a verdict urgent if enough consecutive waits failed."""
    urgent = failed >= policy.urgent_failed_waits
    failures = f"; the last {format_count(failed, 'wait')} ended without success" if urgent else ""
    return verdict.model_copy(
        update={"failed_waits": failed, "urgent": urgent, "reason": f"{verdict.reason}{failures}"}
    )


def count_failures(log: Sequence[Event]) -> int:
    """Count the consecutive failed waits up to the newest log entry.

    A wait that was armed again counts each time it failed; a cancelled one is ignored.
    """
    count = 0
    for event in reversed(log):
        status = event.data.get("status") if event.kind == events.WAIT_ENDED else None
        if status in _FAILED_STATES:
            count += 1
        elif status == WaitStatus.RESOLVED:
            break
    return count


def compute_cooldown(task: Task, policy: StuckPolicy) -> timedelta:
    """Return how long no alert follows a task's last alert.

    It doubles with each further alert without effect, up to a day, or to `cooldown_seconds` if that
    is longer.
    """
    doublings = max(0, min(task.alerts_in_a_row - 1, 40))
    longest = max(_DAY, policy.cooldown_seconds)
    return timedelta(seconds=min(policy.cooldown_seconds * 2**doublings, longest))


def compute_due_time(task: Task, policy: StuckPolicy) -> datetime | None:
    """Return when to judge a task next; None: it is not active, waits or is implicit."""
    if task.status is not TaskStatus.ACTIVE or task.rests:
        return None
    if task.implicit:
        return None
    silent = task.updated_at + timedelta(seconds=policy.threshold_seconds)
    if task.held_until is not None:
        silent = max(silent, task.held_until)
    if task.last_stuck_alert_at is None:
        return silent
    return max(silent, task.last_stuck_alert_at + compute_cooldown(task, policy))


def set_due_time(task: Task, policy: StuckPolicy) -> Task:
    """Set the time at which a task is next checked for being stuck."""
    return task.model_copy(update={"stuck_due_at": compute_due_time(task, policy)})


def suppress_alert(
    facts: TaskFacts, now: datetime, policy: OutboxPolicy, threshold: float
) -> Task | None:
    """Hold a task's alert back for a while and return the task; None: nothing holds it back.

    An alert is held back while the run waits for the user; while a turn works on it, for up to an
    hour; between turns, until the owner was not seen for `threshold` seconds; and while a wake that
    tells the run to go on may still be acted on.
    """
    if facts.run is not None and facts.run.state.is_waiting:
        return facts.task.model_copy(update={"held_until": now + _HELD_FOR_USER})
    run = facts.run
    if run is not None and current_run.is_at_work(run) and run.limits.turn_began_at is not None:
        # While its gateway is connected, an expired lease is renewed.
        renewed = (run.lease_until or now) + RESUME_HOLD
        until = min(renewed, run.limits.turn_began_at + LONGEST_TURN)
        if now < until:
            return facts.task.model_copy(update={"held_until": until})
    rests = run is not None and run.state is RunState.RUNNING and not run.lease_until
    if run is not None and rests and run.seen_at <= now:
        silent = run.seen_at + timedelta(seconds=threshold)
        if now < silent:
            return facts.task.model_copy(update={"held_until": silent})
    if not outbox.has_live_continuation(facts.wakes, now, policy):
        return None
    return facts.task.model_copy(update={"held_until": now + RESUME_HOLD})


def restore_last_alert(task: Task, wakes: Sequence[Wake], now: datetime) -> Task | None:
    """Return the task with the instant of its last alert; None: it has it.

    It loses it where the clock is set back (`startup.reschedule_tasks`); once it is set forward
    again, the alerts of `wakes` still have theirs.
    """
    alerts = (wake.created_at for wake in wakes if outbox.is_alert(wake))
    latest = max((at for at in alerts if at <= now), default=None)
    if latest is None or latest <= (task.last_stuck_alert_at or latest):
        return None
    return task.model_copy(update={"last_stuck_alert_at": latest})


class AlertBacklog:
    """The alerts that wait to be sent, so that no more are written than can be sent soon."""

    def __init__(
        self, due: Iterable[Wake], reaches: Callable[[str | None, str | None], bool], now: datetime
    ) -> None:
        """Count the alerts among the wakes that are due or kept.

        `reaches` tells whether a transport reaches an agent, by its host and session.
        """
        self._reaches = reaches
        self._tasks: set[str | None] = set()
        self._sessions: Counter[tuple[str | None, str | None]] = Counter()
        """Alerts by host and session, of those that are reached."""
        self._kept = 0
        for wake in filter(outbox.is_alert, due):
            self._tasks.add(wake.task_id)
            if reaches(wake.host, wake.session_key):
                self._sessions[wake.host, wake.session_key] += 1
            else:
                self._kept += now - wake.created_at < timedelta(days=1)

    def admit(self, task_id: str, host: str | None, session_key: str | None) -> bool:
        """Tell whether a task may be alerted now, and count its alert if so.

        A task with an unsent alert may: that one is updated.
        """
        if task_id in self._tasks:
            return True
        if not self._reaches(host, session_key):
            fits = self._kept < MOST_KEPT_PER_DAY
            self._kept += fits
            return fits
        its = self._sessions[host, session_key]
        fits = its < MOST_UNSENT_OF_SESSION and self._sessions.total() < MOST_UNSENT
        self._sessions[host, session_key] += fits
        return fits


def find_alerted(task: Task, run: Run | None) -> tuple[str | None, str | None]:
    """Return the host and session that an alert of a task goes to; `run`: its open run."""
    if run is not None and current_run.is_given_away(run):
        return task.registrar_host, task.registrar_session
    return task.host, task.session_key


def build_alert(
    facts: TaskFacts,
    verdict: StuckVerdict,
    *,
    wake_id: str,
    text: str,
    packet: JsonValue,
    now: datetime,
) -> Change:
    """Build the change that wakes the agent of a stuck task.

    `packet` is what `text` carries, for the hooks; None: the minimal wake is sent. The task's
    `updated_at` stays, or the alert would hide the silence that it reports. An unanswered earlier
    alert is closed: this one replaces it.
    """
    alerted = _count_alert(facts.task, now)
    task = alerted.model_copy(update={"message_count": alerted.message_count + 1})
    wake = Wake(
        wake_id=wake_id,
        key=f"stuck:{task.task_id}:{task.alerts}",
        cause=WakeCause.STUCK,
        task_id=task.task_id,
        session_key=task.session_key,
        host=task.host,
        home=task.home,
        text=text,
        urgent=verdict.urgent,
        created_at=now,
        due_at=now,
    )
    unanswered = _close_unanswered(facts.wakes)
    entry = f"Task appears stuck: {verdict.reason}"
    return Change(
        tasks=(task,),
        messages=(lifecycle.build_system_message(task, entry, now, MessageType.STUCK),),
        wakes=(wake, *unanswered),
        events=(
            events.build_event(
                events.TASK_STUCK,
                task,
                now,
                wake_id=wake_id,
                verdict=verdict.model_dump(mode="json"),
                packet=packet,
            ),
            *outbox.build_settled_events(unanswered, now),
        ),
    )


def alert_registrar(
    facts: TaskFacts,
    verdict: StuckVerdict,
    *,
    wake_id: str,
    reaches: Callable[[str | None, str | None], bool],
    wakes: Sequence[Wake],
    now: datetime,
    policy: StuckPolicy,
) -> Change | None:
    """Build the change that tells the registrar that a role has not claimed the task.

    None: the task was not handed to a role, or a session has claimed it. A queued run has the
    threshold to be claimed first. `reaches` tells whether a host and session can be woken;
    `wakes` are the task's in any state, newest first. If the registrar cannot be
    woken, the user is notified.
    """
    run = facts.run
    if run is None or not current_run.is_given_away(run):
        return None
    task = facts.task
    claimed_by = run.changed_at + timedelta(seconds=policy.threshold_seconds)
    if run.state is RunState.QUEUED and now < claimed_by:
        return Change(tasks=(task.model_copy(update={"held_until": claimed_by}),))
    complaint, alerted = _describe_unclaimed(run, verdict, now), _count_alert(task, now)
    session = task.registrar_session
    gone = outbox.was_registrar_refused(wakes)
    if session is not None and not gone and reaches(task.registrar_host, session):
        return _wake_registrar(facts, alerted, complaint, wake_id, now)
    line = f"{notices.format_task_name(task)} {complaint}"
    notice = notices.build_notice(NoticeKind.UNCLAIMED, task, run, line, now)
    # If its session is gone, the main session is told.
    whose = {"session_key": None if gone else session, "home": task.registrar_home}
    notice = notice.model_copy(update={"data": {**notice.data, **whose}})
    return Change(tasks=(alerted,), events=(notice,))


def _wake_registrar(
    facts: TaskFacts, alerted: Task, complaint: str, wake_id: str, now: datetime
) -> Change:
    """Build the change that wakes the registrar; a due wake is updated instead.

    `alerted` is the task after it. A wake that was sent before is closed.
    """
    wake = outbox.build_unclaimed_wake(alerted, complaint, wake_id, now)
    open_ = outbox.list_registrar_wakes(facts.wakes)
    before = [*filterfalse(outbox.is_review_reminder, open_)]
    due = [old for old in before if old.state is WakeState.DUE]
    if due:
        task = facts.task.model_copy(update={"last_stuck_alert_at": now})
        # A kept wake has no due time.
        update = {"text": wake.text, "due_at": due[0].due_at or now}
        fresh = due[0].model_copy(update=update)
        return Change(tasks=(task,), wakes=(fresh,))
    unanswered = _close_unanswered(before)
    log = outbox.build_settled_events(unanswered, now)
    return Change(tasks=(alerted,), wakes=(wake, *unanswered), events=log)


def _describe_unclaimed(run: Run, verdict: StuckVerdict, now: datetime) -> str:
    """Say for how long a handed-off task has been idle, and what the user can do."""
    if run.state is RunState.RUNNING:
        idle = format_duration(verdict.idle_seconds)
        return (
            f"is with {run.role}, and nothing was noted of it for {idle}. Ask that "
            f"agent, or take it back with taskmem reset {run.task_id}."
        )
    queued = format_duration((now - run.changed_at).total_seconds())
    again = run.why in (RunReason.LEASE_EXPIRED, RunReason.OWNER_GONE)
    gone = " again: whoever worked on it is gone" if again else ""
    return (
        f"is queued for {run.role}{gone}, and nobody has claimed it for "
        f"{queued}. Start an agent of that role, or hand it to another."
    )


def _close_unanswered(wakes: Sequence[Wake]) -> tuple[Wake, ...]:
    """Close the alerts that were sent and not answered."""
    return tuple(
        old.model_copy(update={"state": WakeState.UNANSWERED, "due_at": None})
        for old in wakes
        if old.cause is WakeCause.STUCK and old.state is WakeState.SENT
    )


def _count_alert(task: Task, now: datetime) -> Task:
    """Count an alert of a task, which begins its cooldown."""
    last = task.last_stuck_alert_at
    moved = last is None or task.updated_at > last
    return task.model_copy(
        update={
            "last_stuck_alert_at": now,
            "alerts": task.alerts + 1,
            "alerts_in_a_row": 1 if moved else task.alerts_in_a_row + 1,
        }
    )


def find_due_wake(facts: TaskFacts) -> Wake | None:
    """Return the stuck wake of a task that is still due; None: none."""
    for wake in facts.wakes:
        if outbox.has_packet(wake) and wake.state is WakeState.DUE:
            return wake
    return None

"""Decide when wakes are delivered and together with which others, and record the result.

A wake is due from the commit of its cause and is delivered at least once, under one key. Besides a
task's agent, its registrar may be woken: when nobody claims the task, and when the task waits for
the user's review. A claim gives the task to the run's owner, but its registrar still relies on it.
That wake is one line and no packet, as the registrar is not to work on the task.

Source: docs/decisions/0004-wakes-at-least-once.md.

Source: docs/decisions/0024-the-registrar-is-told.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import filterfalse
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import OWED_STATES, GatewayPresence, is_kept
from openclaw_taskmem.domain.policies import OutboxPolicy
from openclaw_taskmem.domain.text.texts import clip, to_plain_line
from openclaw_taskmem.domain.wakes import packet
from openclaw_taskmem.domain.wakes.turn_budget import EarliestSends
from taskmem_hookspecs import (
    Change,
    Event,
    Run,
    Task,
    TaskStatus,
    Value,
    Wake,
    WakeCause,
    WakeState,
)
from taskmem_hookspecs.model import Instant

# --- wakes of registrars ------------------------------------------------------

_UNCLAIMED_PREFIX: Final = "unclaimed:"
"""Prefix of the keys of wakes about a task that its role has not claimed."""
_REVIEW_PREFIX: Final = "review:"
"""Prefix of the keys of wakes about a task that waits for the user's review."""
READY_PREFIX: Final = "ready:"
"""Prefix of the keys of wakes about a task that was blocked by another, which has ended."""
_NAME_BYTES: Final = 160
"""Longest excerpt of a task's name in such a line."""
_LINE_HEAD: Final = "[system] "


def is_for_registrar(wake: Wake) -> bool:
    """True if a wake is for a task's registrar."""
    return wake.key.startswith((_UNCLAIMED_PREFIX, _REVIEW_PREFIX))


def is_ready(wake: Wake) -> bool:
    """True if a wake tells of the end of a task that blocked another."""
    return wake.key.startswith(READY_PREFIX)


def is_review_reminder(wake: Wake) -> bool:
    """True if a wake reminds of a task that waits for the user's review."""
    return wake.key.startswith(_REVIEW_PREFIX)


def has_packet(wake: Wake) -> bool:
    """True if a wake carries the packet of a stuck task."""
    return wake.cause is WakeCause.STUCK and not is_for_registrar(wake)


def is_alert(wake: Wake) -> bool:
    """True if a wake is an alert: it is not sent again, as the next one replaces it.

    A review reminder is no alert: its task is paused and has none.
    """
    return wake.cause is WakeCause.STUCK and not is_review_reminder(wake)


def is_unread(wake: Wake, opened: datetime) -> bool:
    """True if a wake was sent before its session's process started, and nothing came of it."""
    sent = wake.state is WakeState.SENT and not is_alert(wake)
    return sent and wake.sent_at is not None and wake.sent_at < opened


def list_registrar_wakes(wakes: Sequence[Wake]) -> Sequence[Wake]:
    """Return the due and sent wakes of a task's registrar."""
    return [wake for wake in wakes if is_for_registrar(wake) and wake.state in OWED_STATES]


def was_registrar_refused(wakes: Sequence[Wake]) -> bool:
    """True if the newest wake about an unclaimed task was refused for good.

    Its registrar's session is gone then. `wakes`: in any state, newest first.
    """
    states = (wake.state for wake in wakes if wake.key.startswith(_UNCLAIMED_PREFIX))
    return next(states, None) is WakeState.REFUSED


def settle_registrar_wakes(wakes: Sequence[Wake]) -> tuple[Wake, ...]:
    """Supersede the open wakes of a task's registrar."""
    gone = {"state": WakeState.SUPERSEDED, "due_at": None}
    return tuple(wake.model_copy(update=gone) for wake in list_registrar_wakes(wakes))


def build_unclaimed_wake(task: Task, complaint: str, wake_id: str, now: datetime) -> Wake:
    """Build the wake that tells the registrar that nobody has claimed a task."""
    key = f"{_UNCLAIMED_PREFIX}{task.task_id}:{task.alerts}"
    return _build_wake(task, key, f"{_format_name(task)} {complaint}", wake_id, now)


def build_review_wake(task: Task, run: Run, wake_id: str, now: datetime, threshold: float) -> Wake:
    """Build the wake that reminds of a review that begins now, due after `threshold` seconds.

    It is superseded when the run leaves review.
    """
    key = f"{_REVIEW_PREFIX}{run.run_id}:{run.version}"
    sentences = (
        f"{_format_name(task)} waits for the user's review since {now:%Y-%m-%d %H:%M} UTC. "
        "Remind them; nobody works on it until they accept it or send it back."
    )
    wake = _build_wake(task, key, sentences, wake_id, now)
    return wake.model_copy(update={"due_at": now + timedelta(seconds=threshold)})


def format_registrar_line(wake: Wake) -> str:
    """Write the line that people see for such a wake: its text without the agent's prefix."""
    return wake.text.removeprefix(_LINE_HEAD)


def _format_name(task: Task) -> str:
    return f'"{clip(to_plain_line(task.name), _NAME_BYTES)}"'


def _build_wake(task: Task, key: str, sentences: str, wake_id: str, now: datetime) -> Wake:
    return Wake(
        wake_id=wake_id,
        key=key,
        cause=WakeCause.STUCK,
        task_id=task.task_id,
        session_key=task.registrar_session,
        host=task.registrar_host,
        home=task.registrar_home,
        text=f"{_LINE_HEAD}{sentences}",
        created_at=now,
        due_at=now,
    )


# --- deliveries ---------------------------------------------------------------


_KINDS: Final = {
    WakeState.ACKNOWLEDGED: events.WAKE_ACKNOWLEDGED,
    WakeState.SUPERSEDED: events.WAKE_SUPERSEDED,
    WakeState.UNANSWERED: events.WAKE_UNANSWERED,
    WakeState.REFUSED: events.WAKE_REFUSED,
}


TURN_BEGINS: Final = "its turn begins"
"""Note of a wake that a host took."""
STARTING_TIME: Final = timedelta(minutes=2)
"""How long after its start a gateway on a busy machine may not be able to begin turns yet."""


class Delivery(Value):
    """One message to one session, with its wakes."""

    delivery_id: str
    wakes: tuple[Wake, ...]
    """The wakes as stored once the delivery is claimed; the lead first."""
    message: Wake
    """The message for the transport: the lead wake with the text of all."""


class WakeClaim(Value):
    """The decision about a session's due wakes."""

    change: Change
    delivery: Delivery | None = None
    """None: send nothing now."""
    held: tuple[Wake, ...] = ()
    """Wakes of runs that wait because the session's turns have reached their limit."""


def settle_answered(
    wakes: Sequence[Wake], *, acts: bool, moved: bool, now: datetime, wait_id: str | None = None
) -> tuple[Wake, ...]:
    """Settle the wakes of a task or wait that a call on it answers; return those that changed.

    `acts`: the agent acted, so sent wakes are acknowledged. `moved`: the task was touched, so due
    alerts are superseded. `wait_id`: the call changes this wait and returns its outcome, so its due
    wakes are superseded.
    """
    settled: list[Wake] = []
    for wake in filterfalse(is_review_reminder, wakes):
        lost = moved and (
            wake.cause is WakeCause.STUCK or (wait_id is not None and wake.wait_id == wait_id)
        )
        if acts and (wake.state is WakeState.SENT or wake.sends > 0):
            settled.append(_close_wake(wake, WakeState.ACKNOWLEDGED, acknowledged_at=now))
        elif wake.state is WakeState.DUE and lost:
            # The instant records that the agent acted, in case the message still arrives.
            seen = now if acts else None
            settled.append(_close_wake(wake, WakeState.SUPERSEDED, acknowledged_at=seen))
    return tuple(settled)


def settle_stopped(wakes: Iterable[Wake], *, ended: bool) -> tuple[Wake, ...]:
    """Supersede the due alerts of a task that is not active any more.

    `ended`: it has ended, so what was kept for its agent is superseded too.
    """
    return tuple(
        _close_wake(wake, WakeState.SUPERSEDED)
        for wake in wakes
        if (ended and is_kept(wake)) or (wake.state is WakeState.DUE and is_alert(wake))
    )


def build_settled_events(wakes: Sequence[Wake], now: datetime, **data: str) -> tuple[Event, ...]:
    """Build the log entries for wakes that have reached an end, with further `data`."""
    return tuple(
        _build_event(_KINDS[wake.state], wake, now, **data)
        for wake in wakes
        if wake.state in _KINDS
    )


def claim_due_wakes(
    due: Sequence[Wake],
    tasks: Mapping[str, Task],
    earliest: EarliestSends,
    *,
    delivery_id: str,
    now: datetime,
    policy: OutboxPolicy,
) -> WakeClaim:
    """Claim a session's due wakes for one delivery, or close or postpone them.

    `tasks` has the tasks of stuck wakes that can be read; `earliest` says from when on the session
    may be sent more. The claim sets each `due_at` to its own end: other daemons leave the wakes
    alone, and after a crash they are due again.
    """
    over = tuple(filter(None, (_close_if_stale(wake, tasks) for wake in due)))
    settled = (*over, *_close_spent(due, policy))
    ended = {wake.wake_id for wake in settled}
    open_ = [wake for wake in due if wake.wake_id not in ended]
    log = build_settled_events(settled, now)
    late = {
        wake.wake_id: start for wake in open_ if (start := earliest.find_start(wake)) is not None
    }
    held = tuple(
        wake.model_copy(update={"due_at": late[wake.wake_id]})
        for wake in open_
        if wake.wake_id in late
    )
    open_ = [wake for wake in open_ if wake.wake_id not in late]
    settled += held
    told = tuple(wake for wake in held if wake.cause is WakeCause.RUN)
    if not open_:
        return WakeClaim(change=Change(wakes=settled, events=log), held=told)
    chosen = _choose_wakes(open_, tasks, policy)
    claimed = tuple(
        wake.model_copy(
            update={
                "attempts": wake.attempts + 1,
                "delivery_id": delivery_id,
                "last_error": None,
                "due_at": now + timedelta(seconds=policy.claim_seconds),
            }
        )
        for wake in chosen
    )
    stored = tuple(wake.model_copy(update={"version": wake.version + 1}) for wake in claimed)
    return WakeClaim(
        change=Change(wakes=(*settled, *claimed), events=log),
        delivery=Delivery(
            delivery_id=delivery_id,
            wakes=stored,
            message=stored[0].model_copy(update={"text": _compose_message(stored)}),
        ),
        held=told,
    )


def hasten_resting_wakes(owed: Sequence[Wake], now: datetime) -> tuple[Wake, ...]:
    """Make wakes of a session due now that rest after a failed try."""
    return tuple(
        wake.model_copy(update={"due_at": now})
        for wake in owed
        if wake.state is WakeState.DUE
        and wake.last_error is not None
        and wake.due_at is not None
        and wake.due_at > now
    )


def keep_wakes(due: Sequence[Wake], now: datetime, policy: OutboxPolicy) -> Change:
    """Build the change that keeps due wakes, also those sent before: they are not delivered now.

    Those that were sent as often as they may be are closed.
    """
    spent = _close_spent(due, policy)
    ended = {wake.wake_id for wake in spent}
    rest = {"state": WakeState.DUE, "due_at": None, "last_error": None}
    kept = (wake.model_copy(update=rest) for wake in due if wake.wake_id not in ended)
    return Change(wakes=(*spent, *kept), events=build_settled_events(spent, now))


def has_live_continuation(wakes: Iterable[Wake], now: datetime, policy: OutboxPolicy) -> bool:
    """True if a wake tells a run to go on and may still be acted on.

    It is due, or was sent within `ack_seconds`.
    """
    run_wakes = [wake for wake in wakes if wake.cause is WakeCause.RUN]
    sent = [wake.sent_at for wake in run_wakes if wake.state is WakeState.SENT]
    earliest = now - timedelta(seconds=policy.ack_seconds)
    lately = any(at is not None and earliest <= at <= now for at in sent)
    return lately or any(wake.state is WakeState.DUE for wake in run_wakes)


def is_in_flight(wake: Wake, now: datetime) -> bool:
    """True if a due wake was claimed and its delivery has neither succeeded nor failed yet."""
    claimed = wake.attempts > 0 and wake.last_error is None
    return claimed and wake.due_at is not None and wake.due_at > now


def _compose_message(wakes: Sequence[Wake]) -> str:
    """Write one message for several wakes: one packet for all stuck tasks, one line for each other.

    The packet of the first stuck wake names the other stuck tasks. A damaged one becomes a line of
    its own.
    """
    packets = [wake.text for wake in wakes if has_packet(wake)]
    stuck = [text for text in packets if packet.parse_other_task(text) is not None]
    lines = [packet.add_other_tasks(stuck[0], stuck[1:])] if stuck else []
    lines += [wake.text for wake in wakes if wake.text not in stuck]
    return "\n".join(lines)


def record_delivery(
    delivery: Delivery,
    current: Sequence[Wake],
    tasks: Mapping[str, Task],
    *,
    transport: str,
    note: str | None = None,
    now: datetime,
    policy: OutboxPolicy,
) -> Change:
    """Build the change after a transport accepted a message.

    `current` are the delivery's wakes as they are now: the agent may have acted already. An alert's
    cooldown counts from the delivery, by our own clock, so that a late delivery is not followed by
    the next alert at once.
    """
    sent: list[Wake] = []
    restamped: list[Task] = []
    for wake in current:
        taken = wake.model_copy(
            update={
                "sends": wake.sends + 1,
                "sent_at": now,
                "transport": transport,
                "note": wake.note if is_noted(wake) else _read_remark(note),
                "delivery_id": delivery.delivery_id,
                "last_error": None,
            }
        )
        if wake.state in OWED_STATES:
            alert = is_alert(wake)
            due = None if alert else now + policy.resend_after(taken)
            rests = {"state": WakeState.SENT, "due_at": due}
            sent.append(taken.model_copy(update=rests))
            task = tasks.get(wake.task_id or "")
            if alert and task is not None:
                restamped.append(task.model_copy(update={"last_stuck_alert_at": now}))
        elif wake.state in (WakeState.SUPERSEDED, WakeState.ACKNOWLEDGED):
            seen = wake.acknowledged_at is not None
            state = WakeState.ACKNOWLEDGED if seen else WakeState.SUPERSEDED
            sent.append(_close_wake(taken, state))
    return Change(
        tasks=tuple(restamped),
        wakes=tuple(sent),
        events=tuple(_build_event(events.WAKE_SENT, wake, now) for wake in sent),
    )


def record_delivery_failure(
    current: Sequence[Wake],
    error: str,
    now: datetime,
    policy: OutboxPolicy,
    retry_seconds: float | None = None,
    *,
    waits: bool = False,
    gateway_started_at: datetime | None = None,
) -> Change:
    """Build the change after a failed delivery: the wakes stay due, with the error.

    `retry_seconds`: after how many the transport expects to work; None: not known. The rests do not
    grow while a gateway is `STARTING`; `gateway_started_at` None: none has started. `waits`: the
    wakes wait for what `error` names, and nothing is wrong.
    """
    starting = gateway_started_at and gateway_started_at <= now < gateway_started_at + STARTING_TIME
    due_again = tuple(
        wake.model_copy(
            update={
                "due_at": now + policy.retry_after(1 if starting else wake.attempts, retry_seconds),
                "last_error": error,
                "note": _read_remark(error) if waits else None,
            }
        )
        for wake in current
        if wake.state is WakeState.DUE or (wake.state is WakeState.SENT and not is_alert(wake))
    )
    log = tuple(
        _build_event(events.WAKE_FAILED, wake, now, error=error)
        for wake in due_again
        if _is_worth_logging(wake.attempts)
    )
    return Change(wakes=due_again, events=log)


def _read_remark(remark: str | None) -> str | None:
    """Return what a transport says; None: nothing, or it would pass for our own note."""
    return None if remark == TURN_BEGINS else remark


def _is_worth_logging(attempts: int) -> bool:
    """True for the 1st, 2nd, 4th, 8th … failed attempt, so that the log stays short."""
    return attempts & (attempts - 1) == 0


def record_refusal(current: Sequence[Wake], error: str, now: datetime) -> Change:
    """Build the change after a refusal: the wakes are not sent again."""
    closed = tuple(
        _close_wake(wake, WakeState.REFUSED, last_error=error)
        for wake in current
        if wake.state in OWED_STATES
    )
    return Change(wakes=closed, events=build_settled_events(closed, now))


def acknowledge_wakes(current: Sequence[Wake], now: datetime, **data: str) -> Change:
    """Build the change after a turn or a command took a message.

    It counts even if the transport has not confirmed the delivery. `data` goes into the log.
    """
    closed = tuple(
        _close_wake(wake, WakeState.ACKNOWLEDGED, acknowledged_at=now)
        for wake in current
        if wake.state in OWED_STATES
    )
    return Change(wakes=closed, events=build_settled_events(closed, now, **data))


def receive_wakes(current: Sequence[Wake], now: datetime, taken_at: datetime) -> Change:
    """Build the change after a host took messages; a note says so until the turn is known to go on.

    A host that is killed before may have lost them. Alerts have no note, as the next replaces them.
    """
    change = acknowledge_wakes(current, now)
    note = {"note": TURN_BEGINS, "acknowledged_at": taken_at}
    noted = tuple(wake if is_alert(wake) else wake.model_copy(update=note) for wake in change.wakes)
    return change.model_copy(update={"wakes": noted})


def drop_notes(current: Sequence[Wake]) -> Change:
    """Build the change after the turn of messages that a host took has gone on, or is over."""
    return Change(
        wakes=tuple(wake.model_copy(update={"note": None}) for wake in current if is_noted(wake))
    )


def is_noted(wake: Wake) -> bool:
    """True if a host took a wake whose turn is not known to have gone on."""
    return wake.state is WakeState.ACKNOWLEDGED and wake.note == TURN_BEGINS


def find_received_deliveries(prompt: str, wakes: Iterable[Wake]) -> frozenset[str]:
    """Return the deliveries whose message is the prompt of a turn; empty: it is no message of ours.

    Only a whole message counts, so a person who quotes one in words of their own has not sent it.
    `wakes`: those of the turn's session, with all of each delivery.
    """
    given = prompt.strip()
    deliveries: defaultdict[str | None, list[Wake]] = defaultdict(list)
    for wake in wakes:
        deliveries[wake.delivery_id].append(wake)
    return frozenset(
        name for name, own in deliveries.items() if name is not None and _is_message(given, own)
    )


def _is_message(prompt: str, wakes: Sequence[Wake]) -> bool:
    """Tell whether a text is the message of wakes, in whatever order it tells them."""
    lines = Counter(prompt.split("\n"))
    told = Counter(line for wake in wakes if not has_packet(wake) for line in wake.text.split("\n"))
    stuck = {wake.wake_id for wake in wakes if has_packet(wake)}
    others = [*(lines - told).elements()]
    if told - lines or len(others) != bool(stuck):
        return False
    return not others or packet.read_wake_id(others[0]) in stuck


def withdraw_receipts(
    current: Sequence[Wake], why: str, now: datetime, policy: OutboxPolicy
) -> Change:
    """Build the change after the turn failed that began with a message: it is due again.

    It is tried until a turn takes it, as a limit of use may last for hours. Alerts are left, as the
    next one replaces them.
    """
    lost = [
        wake.model_copy(update={"state": WakeState.SENT, "acknowledged_at": None})
        for wake in current
        if wake.state is WakeState.ACKNOWLEDGED and not is_alert(wake)
    ]
    return requeue_lost_wakes(lost, why, now, policy)


def requeue_lost_wakes(
    current: Sequence[Wake],
    why: str,
    now: datetime,
    policy: OutboxPolicy,
    *,
    due_at: datetime | None = None,
) -> Change:
    """Build the change that makes sent wakes due again because no model got them.

    `due_at`: when to send them; None: after a rest that grows with the attempts. Of a task's alerts
    only the newest is sent again.
    """
    newest = {
        wake.task_id: wake.wake_id
        for wake in sorted(current, key=lambda wake: wake.created_at)
        if is_alert(wake)
    }
    again: list[Wake] = []
    for wake in current:
        if wake.state is not WakeState.SENT:
            continue
        alert = is_alert(wake)
        if alert and newest[wake.task_id] != wake.wake_id:
            again.append(_close_wake(wake, WakeState.SUPERSEDED))
            continue
        rest = due_at or now + policy.retry_after(wake.attempts)
        again.append(
            wake.model_copy(
                update={"state": WakeState.DUE, "due_at": rest, "last_error": why, "note": None}
            )
        )
    due = [wake for wake in again if wake.state is WakeState.DUE]
    return Change(
        wakes=tuple(again),
        events=(
            *build_settled_events(again, now),
            *(_build_event(events.WAKE_LOST, wake, now, error=why) for wake in due),
        ),
    )


def _close_spent(due: Iterable[Wake], policy: OutboxPolicy) -> tuple[Wake, ...]:
    """Close the wakes that nobody answered, though they were sent as often as they may be."""
    return tuple(
        _close_wake(wake, WakeState.UNANSWERED)
        for wake in due
        if wake.state is WakeState.SENT and wake.sends >= policy.sends
    )


def _close_if_stale(wake: Wake, tasks: Mapping[str, Task]) -> Wake | None:
    if not is_alert(wake) or wake.state is not WakeState.DUE:
        return None
    task = tasks.get(wake.task_id or "")
    if (
        task is not None
        and task.status is TaskStatus.ACTIVE
        and not task.rests
        and task.updated_at <= wake.created_at
    ):
        return None
    return _close_wake(wake, WakeState.SUPERSEDED)


def _choose_wakes(
    wakes: Sequence[Wake], tasks: Mapping[str, Task], policy: OutboxPolicy
) -> list[Wake]:
    """Order a message's wakes: stuck tasks first, the most urgent and then the oldest leading."""

    def rank(wake: Wake) -> tuple[bool, datetime, str]:
        task = tasks.get(wake.task_id or "")
        since = task.updated_at if task is not None else wake.created_at
        return not wake.urgent, since, wake.wake_id

    stuck = sorted((w for w in wakes if w.cause is WakeCause.STUCK), key=rank)
    others = [wake for wake in wakes if wake.cause is not WakeCause.STUCK]
    return [*stuck, *others[: policy.lines]]


def _close_wake(wake: Wake, state: WakeState, **fields: object) -> Wake:
    return wake.model_copy(update={"state": state, "due_at": None, **fields})


def _build_event(kind: str, wake: Wake, at: datetime, **data: str) -> Event:
    return events.build_event(kind, wake, at, wake_id=wake.wake_id, key=wake.key, **data)


# --- wakes that are held ------------------------------------------------------


GATEWAY_RECOVERY_TIME: Final = timedelta(seconds=12)
"""How long a gateway that has just started is left to its own recovery."""
LONGEST_TURN: Final = timedelta(hours=1)
"""Age at which a turn whose end was not reported no longer holds wakes back. If it still runs, the
wake waits in the gateway."""
LONGEST_YIELD: Final = timedelta(minutes=2)
"""Age at which a turn of a chat no longer holds back the work that goes on in its background."""


class Hold(Value):
    """Why no wake may go to a session now."""

    why: str
    until: Instant | None = None
    """When it ends by itself at the latest; None: it does not."""


def find_hold(
    gateways: Iterable[GatewayPresence],
    session_key: str | None,
    now: datetime,
    chat: str | None = None,
) -> Hold | None:
    """Return why no wake may go to a session now; None: it may.

    Without a connected gateway there is no hold. A clock that is set back ends a hold. `chat`: the
    session whose turns go first; None: none do.
    """
    for gateway in gateways:
        settled = gateway.started_at + GATEWAY_RECOVERY_TIME
        if gateway.started_at <= now < settled:
            why = "the gateway has just started, and resumes its own turns first"
            return Hold(why=why, until=settled)
        since = gateway.running.get(session_key or gateway.main_session)
        if since is not None and since <= now < since + LONGEST_TURN:
            why = "a turn of the session is running"
            return Hold(why=why, until=since + LONGEST_TURN)
        since = gateway.running.get(chat) if chat is not None else None
        if since is not None and since <= now < since + LONGEST_YIELD:
            why = "a turn of its chat is running, and goes first"
            return Hold(why=why, until=since + LONGEST_YIELD)
    return None

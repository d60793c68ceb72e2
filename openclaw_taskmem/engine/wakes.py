"""Claim due wakes, deliver them and record the result; tell which agents can be woken."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.callers import AGENT, Unreached
from openclaw_taskmem.domain.changes import rights
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.wakes import notices, outbox, turn_budget
from openclaw_taskmem.domain.wakes.notices import WakeFacts
from openclaw_taskmem.domain.wakes.outbox import Delivery, Hold
from openclaw_taskmem.domain.wakes.turn_budget import EarliestSends
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.run_history import get_session_key
from taskmem_hookspecs import (
    Change,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskQuery,
    TaskStatus,
    Wake,
    WakeCause,
    WakeQuery,
    WakeState,
)
from taskmem_hookspecs.errors import Conflict, WaitNotFound
from taskmem_hookspecs.roles import FOREVER

log = logging.getLogger(__name__)
BATCH: Final = 500
"""Due wakes that one pass reads; more only if the sessions of all of them are on hold."""
MOST_DELIVERIES: Final = 4
"""Messages in delivery at the same time; each may be a process that uses a core."""
MOST_AGENT_DELIVERIES: Final = 3
"""How many of these one agent may have, so that others get a place."""


Holds = Callable[[str | None], Hold | None]


def hold_nothing(session_key: str | None) -> None:
    """Put no session on hold."""
    del session_key


def claim_deliveries(
    context: Context, holds: Holds = hold_nothing, on_the_way: Collection[str | None] = ()
) -> Sequence[Delivery]:
    """Claim the messages to send now, at most one per session and host, and return them.

    Args:
        context: The context of the use case.
        holds: Returns why a session must not be disturbed now; None: it may be.
        on_the_way: The sessions to which a message is in delivery.
    """
    now = context.clock.now()
    due = _find_due_wakes(context, now, holds)
    try:
        unreached = [wake for wake in due if not _is_reached(context, wake)]
        context.commit(outbox.keep_wakes(unreached, now, context.policies.outbox))
    except Conflict:
        # One was fetched or superseded meanwhile: the next pass looks again.
        log.debug("another writer was first; the next pass looks at the undelivered wakes again")
    sessions: defaultdict[str | None, list[Wake]] = defaultdict(list)
    for wake in due:
        if _is_reached(context, wake) and holds(wake.session_key) is None:
            sessions[wake.session_key].append(wake)
    for key in sessions:
        sessions[key] = _hasten_resting_wakes(context, sessions[key], now)
    claimed: list[Delivery] = []
    under_way = Counter(map(context.sessions.find_agent, on_the_way))
    # Read before anything is claimed: what is claimed must be returned.
    messages = [own for each in sessions.values() for own in _split_by_host(context, each)]
    for wakes in messages:
        key = wakes[0].session_key
        if under_way.total() >= MOST_DELIVERIES:
            break
        if under_way[context.sessions.find_agent(key)] >= MOST_AGENT_DELIVERIES:
            continue
        try:
            delivery = _claim_delivery(context, key, wakes, now)
        except Exception:
            # Deliver what was claimed so far; this session's wakes stay due.
            log.exception("the wakes of session %s could not be claimed", key)
            continue
        if delivery is not None:
            claimed.append(delivery)
            under_way[context.sessions.find_agent(key)] += 1
    return claimed


def _hasten_resting_wakes(context: Context, due: Sequence[Wake], now: datetime) -> list[Wake]:
    """Make wakes that rest after a failure due with the others of their session, and return all.

    Else what came later would be told first.
    """
    key = due[0].session_key
    if key is None:
        return [*due]
    owed = context.store.find_wakes(WakeQuery(states=(WakeState.DUE,), session_key=key))
    brought = outbox.hasten_resting_wakes(owed, now)
    try:
        context.commit(Change(wakes=brought))
    except Conflict:
        return [*due]
    stored = (wake.model_copy(update={"version": wake.version + 1}) for wake in brought)
    return sorted((*due, *stored), key=lambda wake: (wake.created_at, wake.wake_id))


def _split_by_host(context: Context, wakes: Sequence[Wake]) -> Iterator[Sequence[Wake]]:
    """Yield a session's wakes by host; those that name none are of their task's."""
    if len(wakes) > 1 and any(wake.host is None for wake in wakes):
        found = (wake.host or _find_host(_read_wake_facts(context, wake)) for wake in wakes)
        pairs = zip(wakes, found, strict=True)
        wakes = [wake.model_copy(update={"host": host}) for wake, host in pairs]
    return callers.split_by_host(wakes)


def _is_reached(context: Context, wake: Wake) -> bool:
    return context.reaches(wake.host, wake.session_key)


def find_next_due(context: Context, holds: Holds, horizon: timedelta) -> datetime | None:
    """Return when to look for due wakes again.

    None: no wake will be due, or only once a hold ends whose end is not known before it is
    reported. `horizon`: how far ahead to look for wakes of sessions that are not on hold.
    """
    now = context.clock.now()
    first = find_first_due(context)
    if first is None or first > now:
        return first
    instants: list[datetime] = []
    for wake in _find_due_wakes(context, now + horizon, holds):
        held = holds(wake.session_key)
        due = wake.due_at if held is None else held.until
        if due is not None:
            instants.append(due)
    return min(instants, default=None)


def find_first_due(context: Context) -> datetime | None:
    """Return when the first wake is due, on hold or not; None: no wake will be due."""
    query = WakeQuery(due_by=FOREVER, limit=1)
    return next((wake.due_at for wake in context.store.find_wakes(query)), None)


def _find_due_wakes(context: Context, instant: datetime, holds: Holds) -> Sequence[Wake]:
    """Return the wakes that are due by `instant`, first due first.

    Reads on until it finds a wake whose session is not on hold.
    """
    limit = BATCH
    while True:
        due = context.store.find_wakes(WakeQuery(due_by=instant, limit=limit))
        if len(due) < limit or any(holds(wake.session_key) is None for wake in due):
            return due
        limit *= 4


def _find_earliest_sends(context: Context, session_key: str | None, now: datetime) -> EarliestSends:
    """Return from when on a session may be sent more."""
    since = now - turn_budget.HOUR
    sent = context.store.find_wakes(WakeQuery(sent_since=since, session_key=session_key))
    messages = turn_budget.list_sent_messages(sent, context.policies.outbox)
    return turn_budget.find_earliest_sends(messages, now, context.policies.outbox)


def _claim_delivery(
    context: Context, session_key: str | None, wakes: Sequence[Wake], now: datetime
) -> Delivery | None:
    decided = outbox.claim_due_wakes(
        wakes,
        _read_stuck_tasks(context, wakes),
        _find_earliest_sends(context, session_key, now),
        delivery_id=context.new_id("delivery", now),
        now=now,
        policy=context.policies.outbox,
    )
    delivery = decided.delivery and _add_wake_line(context, decided.delivery)
    try:
        context.commit(decided.change)
    except Conflict:
        # Another daemon claimed them, or the agent acted: look again.
        return None
    if decided.held:
        _tell_of_hold(context, decided.held[0], now)
    return delivery


def _tell_of_hold(context: Context, held: Wake, now: datetime) -> None:
    """Tell a session's user, at most once an hour, that what is due there waits for the budget."""
    told, session = context.live.told_holds, held.session_key
    if session in told and now - turn_budget.HOUR < told[session] <= now:
        return
    facts = context.find_task(held.task_id) if held.task_id else None
    if facts is None or facts.run is None or held.due_at is None:
        return
    told[session] = now
    notice = notices.build_held_notice(facts.task, facts.run, held.due_at, now)
    context.commit(Change(events=(notice,)))


def _add_wake_line(context: Context, delivery: Delivery) -> Delivery:
    """Add to a delivery's message the line that people see, and its host."""
    found = [_read_wake_facts(context, wake) for wake in delivery.wakes]
    line = notices.describe_wakes(found)
    fields = {"line": line, "host": next(filter(None, map(_find_host, found)), None)}
    message = delivery.message.model_copy(update=fields)
    return delivery.model_copy(update={"message": message})


def _find_host(found: WakeFacts) -> str | None:
    """Return the host of the agent that a wake is for; the task's host if the wake has none."""
    task, wake = found.task, found.wake
    same = task is not None and task.session_key == wake.session_key
    return wake.host or (task.host if task is not None and same else None)


def _read_wake_facts(context: Context, wake: Wake) -> WakeFacts:
    wait, task = None, None
    with suppress(WaitNotFound):
        wait = context.store.read_wait(wake.wait_id) if wake.wait_id else None
    if wake.task_id is not None:
        task = context.find_task(wake.task_id)
    if task is None:
        return WakeFacts(wake=wake, wait=wait)
    return WakeFacts(wake=wake, task=task.task, run=task.run, wait=wait)


def settle_delivered(
    context: Context, delivery: Delivery, transport: str, note: str | None = None
) -> None:
    """Record that a transport accepted a message, with its note."""
    _settle_delivery(
        context,
        delivery,
        lambda current, now: outbox.record_delivery(
            delivery,
            current,
            _read_stuck_tasks(context, current),
            transport=transport,
            note=note,
            now=now,
            policy=context.policies.outbox,
        ),
    )


def settle_failed(
    context: Context,
    delivery: Delivery,
    error: str,
    retry_seconds: float | None = None,
    *,
    waits: bool = False,
) -> None:
    """Record that a delivery failed; its wakes stay due.

    `retry_seconds`: in how many seconds the transport expects to work again; None: unknown.
    `waits`: nothing is wrong; they wait for what `error` names.
    """
    starts, host = context.live.gateway_starts, delivery.message.host
    latest = max(starts.values(), default=None)
    started_at = starts.get(host or "") if callers.is_named_gateway(host) else latest

    def decide_failure(current: Sequence[Wake], now: datetime) -> Change:
        change = outbox.record_delivery_failure(
            current,
            error,
            now,
            context.policies.outbox,
            retry_seconds,
            waits=waits,
            gateway_started_at=started_at,
        )
        if change.events:
            log.warning("wake %s was not delivered: %s", delivery.message.key, error)
        return change

    _settle_delivery(context, delivery, decide_failure)


def settle_refused(context: Context, delivery: Delivery, error: str) -> None:
    """Record that a message can never be delivered."""
    log.warning("wake %s was refused: %s", delivery.message.key, error)
    _settle_delivery(
        context, delivery, lambda current, now: outbox.record_refusal(current, error, now)
    )


def settle_resume_wakes(context: Context, session_key: str, open_: Sequence[Run]) -> None:
    """Acknowledge the resume wakes sent to a session, since a turn of it has ended.

    For gateways that do not report which messages a turn took; the others have settled them.

    Args:
        context: The context of the use case.
        session_key: The session whose turn has ended.
        open_: Its open runs.
    """
    for run in open_:
        sent = WakeQuery(states=(WakeState.SENT,), task_id=run.task_id, limit=BATCH)
        for wake in context.store.find_wakes(sent):
            if wake.cause is WakeCause.RUN and wake.session_key == session_key:
                update_wakes(context, run.task_id, [wake.wake_id], outbox.acknowledge_wakes)


def update_wakes(
    context: Context,
    subject: str,
    wake_ids: Sequence[str],
    decided: Callable[[Sequence[Wake], datetime], Change],
) -> None:
    """Read wakes of one task or wait anew, decide about them, and commit."""
    query = WakeQuery(wake_ids=tuple(wake_ids))
    context.update(
        subject,
        partial(context.store.find_wakes, query),
        lambda current, now: (decided(current, now), None),
    )


def _settle_delivery(
    context: Context, delivery: Delivery, decided: Callable[[Sequence[Wake], datetime], Change]
) -> None:
    message = delivery.message
    subject = message.task_id or message.wait_id or ""
    update_wakes(context, subject, [wake.wake_id for wake in delivery.wakes], decided)


def _read_stuck_tasks(context: Context, wakes: Iterable[Wake]) -> dict[str, Task]:
    ids = {
        wake.task_id for wake in wakes if wake.cause is WakeCause.STUCK and wake.task_id is not None
    }
    found = (context.find_task(task_id) for task_id in ids)
    return {facts.task.task_id: facts.task for facts in found if facts is not None}


# --- whether an agent can be woken ---------------------------------------------------------


MOST_COUNTED_TASKS: Final = 500
"""How many of the active tasks, the newest, are looked at."""


def find_unreached(context: Context, facts: TaskFacts) -> Unreached | None:
    """Return why nobody can wake the agent that a task is left to; None: somebody can.

    An agent at work need not be woken, nor a role that looks into its queue.
    """
    task, run = facts.task, facts.run
    if run is not None:
        queued = run.state is RunState.QUEUED and run.session_key is None
        if current_run.is_at_work(run) or (queued and run.role not in (None, AGENT)):
            return None
    host = task.host if run is None else rights.find_host(task, run)
    session = get_session_key(task, run) or None
    reached = context.reaches(host, session)
    connected = context.plugin_host.sessions.find_variables(session, host)
    closed = session is not None and connected is None
    newest = next(reversed(facts.wakes), None)
    if newest is None and reached and task.status is TaskStatus.ACTIVE:
        found = context.store.find_wakes(WakeQuery(task_id=task.task_id, limit=1))
        newest = next(iter(found), None)
    now = context.clock.now()
    return callers.find_unreached(task.task_id, host, newest, now, reached=reached, closed=closed)


def count_hostless(context: Context) -> int:
    """Count the active tasks, if of none a host or a way to wake its agent is known; else 0.

    Only the newest are looked at.
    """
    query = TaskQuery(status=TaskStatus.ACTIVE, limit=MOST_COUNTED_TASKS, implicit=False)
    found = context.store.find_tasks(query)
    hostless = all(
        not callers.is_named_host(task.host) and not context.reaches(task.host, task.session_key)
        for task in found
    )
    if not hostless:
        return 0
    return (
        len(found)
        if len(found) < MOST_COUNTED_TASKS
        else context.store.count().tasks[TaskStatus.ACTIVE]
    )

"""Handle a gateway's reports, and build reminders, cards and questions for its sessions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import Final

from openclaw_taskmem.domain import callers, events
from openclaw_taskmem.domain.callers import OWED_STATES, Caller, CallerKind, GatewayPresence
from openclaw_taskmem.domain.changes import continuation, questions
from openclaw_taskmem.domain.changes.recovery import describe_cut
from openclaw_taskmem.domain.changes.rights import Act
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.tasks import lifecycle, thread
from openclaw_taskmem.domain.text import texts
from openclaw_taskmem.domain.wakes import outbox, packet
from openclaw_taskmem.engine import run_history, run_recovery, runs, turns, wakes
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.run_guards import (
    AWAY_TEXT,
    guard_task,
    list_background_runs,
    list_own_tasks,
)
from openclaw_taskmem.engine.run_handoff import note_heard
from taskmem_hookspecs import (
    Change,
    Event,
    EventQuery,
    Message,
    RunState,
    Task,
    TaskFacts,
    TaskNotFound,
    TaskStatus,
    WaitQuery,
    WaitStatus,
    Wake,
    WakeQuery,
    WakeState,
)
from taskmem_hookspecs.errors import RunNotFound

_NOT_TAKEN: Final = "the answer was not taken"


def take_answer(context: Context, key: str, answer: str, relay: Caller | None = None) -> None:
    """Take a user's answer to the question with a key.

    If that question is over, only the thread tells of the answer.

    For an interrupted run, the answer resumes it or leaves it. Any other answer is delivered to the
    agent, in a turn of its session. `relay`: the agent whose host brings the answer, and who must
    have the right to take up the task; None: a gateway brings it.

    Raises:
        TaskmemError: The relay has not that right.
    """
    with suppress(RunNotFound, TaskNotFound):
        task_id = context.store.read_run(key.partition("-")[0]).task_id
        if relay is not None:
            facts = context.store.read_task(task_id)
            guard_task(context, Act.TAKE_UP, facts, relay, consequence=_NOT_TAKEN)
        entry = context.update_task(task_id, partial(_record_answer, context, key, answer))
        note_heard(context, task_id, answer, Caller(person=True))
        if entry is not None:
            # The question stays open until its run goes on.
            runs.take_up_task(context, task_id, Caller(person=True))
            context.commit(Change(events=(entry,)))


def _record_answer(
    context: Context, key: str, answer: str, facts: TaskFacts, now: datetime
) -> Decision[Event | None]:
    """Record an answer; if it resumes the run, return its event uncommitted instead."""
    question = runs.find_question(context, facts.run)
    if facts.run is None or question is None or question.key != key:
        return _record_late_answer(context, key, answer, facts, now), None
    goes_on = questions.parse_resume_answer(facts.run, answer)
    if goes_on is None:
        return runs.build_answer_delivery(context, facts, answer, now), None
    entry = questions.close_question(facts, question, answer, now)
    if goes_on:
        return Change(), entry
    return questions.leave_run(facts, entry, now), None


def _record_late_answer(
    context: Context, key: str, answer: str, facts: TaskFacts, now: datetime
) -> Change:
    """Enter an answer to a question that is over; empty: it was taken, or is entered already."""
    task_id = facts.task.task_id
    log = context.store.find_events(EventQuery(task_id=task_id, limit=runs.READ_EVENTS))
    sentence = questions.describe_late_answer(key, answer, log)
    newest = context.store.read_records(Message, task_id, 1)
    if not sentence or sentence in (each.content for each in newest):
        return Change()
    return lifecycle.enter_decision(Change(), facts.task, sentence, now)


# --- reports -------------------------------------------------------------------------------


BOOT: Final = "gateway_boot"
_FAILURE_BYTES: Final = 300
"""Bytes stored of the reason why a turn failed."""


def handle_gateway_start(
    context: Context, presence: GatewayPresence, others: Collection[str] = ()
) -> None:
    """Requeue the wakes that an earlier start of a gateway took without beginning a turn.

    Wakes whose delivery failed while it was away become due soon. Runs of the earlier start are
    given time to be resumed by the gateway (`give_gateway_runs_recovery_time`), answers on which
    no agent has acted are sent again, and users are notified of what waits for them. A known boot
    has only reconnected; only its start is noted. `others`: boots of other connected gateways,
    whose runs are left alone.
    """
    context.live.gateway_starts[presence.host] = presence.started_at
    known = (context.store.read_bookmark(BOOT) or "").splitlines()
    if presence.boot in known:
        return
    due = presence.started_at + outbox.GATEWAY_RECOVERY_TIME
    open_wakes = run_recovery.find_owed_wakes(context, *OWED_STATES)
    sent = [
        wake
        for wake in open_wakes
        if wake.state is WakeState.SENT and wake.transport == presence.transport
    ]
    why = "the gateway was restarted before a turn took it"
    _update_by_subject(
        context,
        sent,
        lambda current, now: outbox.requeue_lost_wakes(
            current, why, now, context.policies.outbox, due_at=due
        ),
    )
    resting = [wake for wake in open_wakes if wake.last_error is not None]
    _update_by_subject(context, resting, lambda current, _: _cap_due_time(current, due))
    run_recovery.give_gateway_runs_recovery_time(context, presence, others)
    # Notices are committed with the bookmark, so a repeat sends them only once.
    boots = "\n".join([*known, presence.boot][-callers.MOST_BOOTS :])
    bookmark = context.store.make_bookmark(BOOT, boots)
    waiting = run_recovery.find_gateway_runs(context, (RunState.BLOCKED, RunState.REVIEW))
    for run in waiting:
        turns.remind_of_answer(context, run)
    now = context.clock.now()
    reminders = (
        *run_recovery.build_waiting_notices(context),
        *(
            events.build_event(events.QUESTION_LOST, run, now)
            for run in waiting
            if runs.find_question(context, run) is not None
        ),
    )
    context.commit(Change(events=reminders, bookmarks=(bookmark,)))


def settle_turn_wakes(
    context: Context,
    session_key: str,
    deliveries: Collection[str],
    error: str | None,
    take: Callable[[Sequence[Wake], datetime], Change] = outbox.acknowledge_wakes,
) -> None:
    """Settle the wakes that a turn took; make the session's failed deliveries due.

    `error`: why no model answered; None: one did. `take`: builds the change for those it took.
    """
    open_wakes = run_recovery.find_owed_wakes(context, *OWED_STATES)
    carried = [wake for wake in open_wakes if wake.delivery_id in deliveries]
    if error is not None:
        failure = texts.clip(texts.to_plain_line(error), _FAILURE_BYTES)
        why = f"its turn failed: {failure}"
        _update_by_subject(
            context,
            carried,
            lambda w, now: outbox.requeue_lost_wakes(w, why, now, context.policies.outbox),
        )
        return
    _update_by_subject(context, carried, take)
    waiting = [
        wake
        for wake in open_wakes
        # A wake without a session may have waited for the main session.
        if wake.session_key in (session_key, None)
        and wake.state is WakeState.DUE
        and wake.delivery_id not in deliveries
        and wake.last_error is not None
    ]
    _update_by_subject(context, waiting, _cap_due_time)


_SETTLED_STATES: Final = (WakeState.ACKNOWLEDGED, WakeState.SUPERSEDED, WakeState.UNANSWERED)
_ACTS: Final = frozenset({events.TASK_UPDATED, events.WAIT_OPENED, events.WAIT_UPDATED})
"""Kinds of entries in a task's log that an agent's calls make."""
_NEWEST_EVENTS: Final = 200
"""Newest entries of a task's log that are searched for them."""
_NEWEST_WAKES: Final = 200
"""Newest wakes of a session that are searched for those that a turn took."""
_CUT: Final = "its session was closed before the turn had gone on"
_NO_DELAY: Final = timedelta()


WasAnswered = Callable[[str], bool]
"""Tells whether a session's agent has answered a message with a text."""


def _know_no_answer(_text: str) -> bool:
    return False


def settle_prompt(
    context: Context,
    session_key: str,
    prompt: str,
    ago: timedelta = _NO_DELAY,
    was_answered: WasAnswered = _know_no_answer,
) -> None:
    """Acknowledge the wakes of a session whose message is the prompt of its turn, which begins.

    A message may also tell of wakes that the agent's calls have settled since it was sent. `ago`:
    when the turn began; its session may have been closed and opened since.
    """
    query = WakeQuery(states=OWED_STATES, session_key=session_key, limit=run_recovery.MOST_ROWS)
    owed = context.store.find_wakes(query)
    names = {wake.delivery_id for wake in owed}
    query = WakeQuery(states=_SETTLED_STATES, session_key=session_key, limit=_NEWEST_WAKES)
    settled = context.store.find_wakes(query) if owed else ()
    told = (*owed, *(wake for wake in settled if wake.delivery_id in names))
    received = outbox.find_received_deliveries(prompt, told)
    if not received:
        return

    def take(current: Sequence[Wake], now: datetime) -> Change:
        return outbox.receive_wakes(current, now, now - ago)

    try:
        settle_turn_wakes(context, session_key, received, None, take)
    finally:
        context.live.heard_sessions.pop(session_key, None)
    now, opened = context.clock.now(), context.live.session_starts.get(session_key)
    if ago and opened is not None and now - ago <= opened <= now:
        # It was told after the opening.
        _withdraw_noted(context, session_key, _CUT, now - opened, was_answered)


def close_turn(
    context: Context, session_key: str, prompt: str = "", ago: timedelta = _NO_DELAY
) -> None:
    """Note that a session's turn has gone on or is over, so that its agent has its messages.

    `prompt`: that of the next turn; what it tells is yet to be heard. `ago`: when that was; what
    the session took later belongs to a later turn.
    """
    heard = context.live.heard_sessions
    if session_key in heard:
        return
    if not (prompt or ago):
        # Before it reads, as a prompt may be settled meanwhile.
        context.live.remember(heard, session_key, entry=True)
    try:
        noted = _find_noted(context, session_key, ago)
        told = [wake for wake in noted if wake.text not in prompt]
        _update_by_subject(context, told, lambda current, _: outbox.drop_notes(current))
    except Exception:
        heard.pop(session_key, None)
        raise


def open_session(
    context: Context,
    session_key: str,
    ago: timedelta,
    was_answered: WasAnswered = _know_no_answer,
) -> None:
    """Make the wakes due again that a session's last process took, if their turn was cut.

    `ago`: when the session was opened.
    """
    opened = context.clock.now() - ago
    context.live.remember(context.live.session_starts, session_key, opened)
    _withdraw_noted(context, session_key, _CUT, ago, was_answered)


def _withdraw_noted(
    context: Context,
    session_key: str,
    why: str,
    ago: timedelta = _NO_DELAY,
    was_answered: WasAnswered = _know_no_answer,
) -> None:
    """Make the noted wakes of a session due again whose agent has neither acted nor answered.

    `ago`: not those that were taken since.
    """
    noted = _find_noted(context, session_key, ago)
    lost = [w for w in noted if not (_has_acted(context, w) or was_answered(w.text))]
    policy = context.policies.outbox
    _update_by_subject(
        context, lost, lambda current, now: outbox.withdraw_receipts(current, why, now, policy)
    )


def _find_noted(context: Context, session_key: str, ago: timedelta) -> list[Wake]:
    """Return the noted wakes of a session.

    `ago`: when the event was; not those that were taken since.
    """
    query = WakeQuery(
        states=(WakeState.ACKNOWLEDGED,), session_key=session_key, limit=_NEWEST_WAKES
    )
    noted = filter(outbox.is_noted, context.store.find_wakes(query))
    until = context.clock.now() - ago
    # All, if the event is now: the clock may have been set back since.
    return [w for w in noted if not ago or w.acknowledged_at is None or w.acknowledged_at <= until]


def list_unfinished_tasks(context: Context, session_key: str) -> Iterator[tuple[Task, str]]:
    """Yield a session's tasks that are not over, and what its agent is told if it ends its turn.

    If there is none, it may end it: all that is open waits for something, or agents are not to be
    told to go on.
    """
    watched = WaitQuery(status=WaitStatus.WATCHING, limit=run_recovery.MOST_ROWS)
    if not context.policies.runs.carry_on or any(
        wait.session_key == session_key and wait.task_id is None
        for wait in context.store.find_waits(watched)
    ):
        return
    for task in list_own_tasks(context, session_key, None, (TaskStatus.ACTIVE,)):
        messages = context.store.read_records(Message, task.task_id, thread.MOST_READ_MESSAGES)
        why = continuation.refuse_end(context.store.read_task(task.task_id), messages)
        if why is not None:
            yield task, why


def record_halt(context: Context, session_key: str, kind: str, words: str) -> None:
    """Enter into a session's latest task why its host has ended the turn of its agent.

    The wakes whose message began it are due again, unless the agent has acted since.
    """
    why = lifecycle.shorten_halt(kind, words)
    _withdraw_noted(context, session_key, why)
    own = list_own_tasks(context, session_key, None, (TaskStatus.ACTIVE,))
    task = continuation.find_open_task(own, session_key, None)

    def enter(facts: TaskFacts, now: datetime) -> Decision[None]:
        task_id = facts.task.task_id
        newest = context.store.read_records(Message, task_id, thread.MOST_READ_MESSAGES)
        return lifecycle.enter_halt(facts.task, newest, why, now), None

    if task is not None and why:
        context.update_task(task.task_id, enter)


def _has_acted(context: Context, wake: Wake) -> bool:
    """Tell whether an agent acted on a wake's task since its receipt, or the task is over."""
    facts = context.find_task(wake.task_id) if wake.task_id else None
    if facts is None or wake.acknowledged_at is None:
        return False
    log = context.store.find_events(EventQuery(task_id=wake.task_id, limit=_NEWEST_EVENTS))
    return facts.task.status.terminal or any(
        event.kind in _ACTS
        and event.at >= wake.acknowledged_at
        and lifecycle.read_caller_kind(event.data) is not CallerKind.USER
        for event in log
    )


def describe_waiting_tasks(
    context: Context, session_key: str, host: str | None = None
) -> str | None:
    """Return the text that tells a session's agent which tasks wait for its user; None: none do.

    It goes with the user's next message, which may or may not be the answer.
    """
    open_ = context.find_session_runs(session_key, host)
    waiting = filter(current_run.needs_word, open_)
    found = ((context.find_task(run.task_id), run) for run in waiting)
    sentences = (
        continuation.describe_waiting_task(facts.task, run)
        for facts, run in found
        if facts is not None and not facts.task.implicit
    )
    return "\n".join(sentences) or None


def prepend_waiting_tasks(
    context: Context, session_key: str, text: str | None, host: str | None = None
) -> str | None:
    """Return a packet preceded by what the session's tasks wait for; None: there is neither."""
    waiting = describe_waiting_tasks(context, session_key, host)
    return "\n\n".join(filter(None, (waiting, text))) or None


def is_resumed_by_word(
    context: Context, session_key: str, task_id: str, host: str | None = None
) -> bool:
    """Tell whether a task goes on because the user says so in a session, without its name.

    Not if the session has another open task, which may be meant, or if its agent has asked the
    user: what they say may be no answer to that.
    """
    run = context.store.read_task(task_id).run
    if run is not None and current_run.has_open_question(run):
        return False
    own = list_own_tasks(context, session_key, host, (TaskStatus.ACTIVE,))
    return all(task.task_id == task_id for task in own)


def build_reminder(
    context: Context,
    session_key: str,
    *,
    host: str | None = None,
    task_id: str | None = None,
    boot: str | None = None,
    since: datetime | None = None,
    plain: bool = False,
) -> tuple[str, str] | None:
    """Return the id and the packet of a session's open task.

    None: it has none, or its agent has touched it after `since`.

    Args:
        context: The context of the use case.
        session_key: The session.
        host: Its gateway's host; None: unknown.
        task_id: The task to show; None: the session's latest.
        boot: The gateway's boot; None: unknown.
        since: When the agent may have lost its context; None: the user asks.
        plain: Skip the plug-ins, for a caller who cannot wait for them.

    Raises:
        TaskNotFound: No task has that id.
        NotAllowed: It is another session's.
    """
    found = task_id or _find_latest_task(context, session_key, host, since)
    if found is None:
        return None
    facts = context.store.read_task(found)
    guard_task(context, Act.READ, facts, Caller(session_key=session_key, host=host))
    wake_id = f"reminder_{found}"
    if facts.run is not None and facts.run.told_session == session_key:
        question = continuation.describe_away_question(facts.run)
        return found, packet.build_away_reminder(facts.task, wake_id, question or AWAY_TEXT)
    reason = f"This task was asked for; it is {facts.task.status}."
    if facts.task.implicit:
        reason = describe_cut(facts.run, boot) or "The user asked for this."
    elif facts.task.status is TaskStatus.ACTIVE:
        reason = "This is your open task; your context may have lost it."
    text = run_history.render_resume_text(context, facts, wake_id, reason, plain=plain)
    return found, text


def _find_latest_task(
    context: Context, session_key: str, host: str | None, since: datetime | None
) -> str | None:
    """Return a session's latest active task; an implicit one only if there is no other.

    If there is none and the user asks, a background task that waits for the user is returned.
    """
    active = (TaskStatus.ACTIVE,)
    covered = list_own_tasks(context, session_key, host, active, implicit=True)
    own = [*islice(chain(list_own_tasks(context, session_key, host, active), covered), 1)]
    if own or since is not None:
        task = continuation.find_open_task(own, session_key, since)
        return task.task_id if task else None
    every = list_background_runs(context, session_key, host)
    waiting = (run.task_id for run in every if run.state.is_waiting)
    return next(waiting, None)


def _cap_due_time(current: Sequence[Wake], instant: datetime) -> Change:
    """Return the change that makes later wakes due at `instant`."""
    return Change(
        wakes=tuple(
            wake.model_copy(update={"due_at": instant})
            for wake in current
            if wake.state is WakeState.DUE and wake.due_at is not None and wake.due_at > instant
        )
    )


def _update_by_subject(
    context: Context, found: Sequence[Wake], decided: Callable[[Sequence[Wake], datetime], Change]
) -> None:
    """Read wakes anew, decide about them and commit, one task or wait at a time."""
    subjects: dict[str, list[str]] = {}
    for wake in found:
        subject = wake.task_id or wake.wait_id or ""
        subjects.setdefault(subject, []).append(wake.wake_id)
    for subject, ids in subjects.items():
        wakes.update_wakes(context, subject, ids, decided)

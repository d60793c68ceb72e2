"""Guard and prepare use cases on runs: rights, owners, new runs, wakes and leases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import continuation, handoff, rights, task_runs
from openclaw_taskmem.domain.changes.rights import Act, TaskHolder, Tie
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import OPEN_STATES, RunReason
from openclaw_taskmem.domain.runs.machine import RunTransition, UserHeard, apply_events, begin_run
from openclaw_taskmem.domain.tasks import lifecycle, thread
from openclaw_taskmem.domain.tasks.lifecycle import OPEN_STATUSES
from openclaw_taskmem.engine import run_history, run_recovery
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.run_history import find_last_run, find_last_runs
from taskmem_hookspecs import (
    Change,
    EventQuery,
    Message,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskFacts,
    TaskQuery,
    TaskStatus,
    Wake,
)
from taskmem_hookspecs.errors import RunNotFound

RESUME_REASON: Final = "You are to go on with this task now."
"""The reason that a packet gives to an agent that takes a task up."""
AWAY_TEXT: Final = (
    "This task goes on in the background, in a session of its own, which is told so. "
    "Do not work on it here; tell the user."
)
"""The reason that a packet gives to the parent session of a background run."""
MOST_RUNS: Final = 10_000
SEARCHED_ROWS: Final = 50
"""Tasks of a session, newest first, that are searched for one it can go on with."""
_OWN_WAKES_ONLY: Final = (Tie.HOST, Tie.REGISTRAR)
"""Ties of callers who are not the agent that a task's wakes are for."""
_RENEWALS_PER_LEASE: Final = 10
"""How often per lease a call that changes nothing may renew it."""


def list_background_runs(
    context: Context, session: str | None = None, host: str | None = None
) -> Sequence[Run]:
    """Return this home's open background runs, newest first.

    `session`: only those whose parent is this session of `host`; None: all.
    """
    return [
        run
        for run in context.store.find_runs(RunQuery(states=OPEN_STATES, limit=MOST_RUNS))
        if run.told_session is not None
        and session in (None, run.told_session)
        and not context.is_elsewhere(run, host)
    ]


def find_preceding_chat(context: Context, session_key: str | None) -> str | None:
    """Return the chat whose turns go before those of a background session.

    None: it is no such session, or its first turn is still to come.
    """
    run_id = context.sessions.find_background_run(session_key or "")
    if run_id is None:
        return None
    with suppress(RunNotFound):
        run = context.store.read_run(run_id)
        return None if run.why == RunReason.BACKGROUND else run.told_session
    return None


def list_tasks(
    context: Context,
    session: str,
    host: str | None,
    statuses: Iterable[TaskStatus],
    *,
    implicit: bool | None = False,
) -> Iterator[Task]:
    """Yield a session's latest tasks, status by status; `implicit`: None: both kinds.

    `host` is the session's gateway: another gateway may use the same session key.
    """
    for status in statuses:
        for task in context.store.find_tasks(
            TaskQuery(status=status, limit=SEARCHED_ROWS, session_key=session, implicit=implicit)
        ):
            if not callers.is_other_gateway(task.host, host):
                yield task


def list_own_tasks(
    context: Context,
    session: str,
    host: str | None,
    statuses: Iterable[TaskStatus] = OPEN_STATUSES,
    *,
    implicit: bool | None = False,
) -> Iterator[Task]:
    """Yield a session's tasks that it works on itself and has not handed off."""
    for task in list_tasks(context, session, host, statuses, implicit=implicit):
        going = RunQuery(states=OPEN_STATES, task_id=task.task_id, limit=1)
        if all(run.session_key == session for run in context.store.find_runs(going)):
            yield task


def require_own_run(
    context: Context, facts: TaskFacts, caller: Caller, consequence: str, token: int | None = None
) -> Run:
    """Return the open run of a task; refuse a caller who may not write for that run.

    `consequence` says in a refusal what was not done.

    Raises:
        TaskEnded: The task has ended.
        RunNotFound: The task has no open run.
        TaskmemError: What `guard_task` and `current_run.guard_write` refuse.
    """
    guard_task(context, Act.WRITE, facts, caller, token=token, consequence=consequence)
    lifecycle.require_open(facts.task, consequence)
    if facts.run is None:
        raise RunNotFound(
            f"Nobody holds {facts.task.task_id}, and {consequence}: this needs a claim, by "
            "task_claim. A call of task_update needs none."
        )
    current_run.guard_write(facts.run, caller, token, consequence)
    return facts.run


def guard_reopen(context: Context, task: Task, caller: Caller) -> None:
    """Refuse an agent that would reopen a task the user has cancelled.

    Raises:
        NotAllowed: The user has cancelled it; the text says whom to ask.
    """
    if task.status is TaskStatus.CANCELLED:
        newest = context.store.find_events(EventQuery(task_id=task.task_id, limit=SEARCHED_ROWS))
        lifecycle.guard_reopen(task, newest, caller)


def guard_task(
    context: Context,
    act: Act,
    facts: TaskFacts,
    caller: Caller,
    *,
    token: int | None = None,
    consequence: str = "nothing was written",
) -> TaskFacts:
    """Refuse an act on a task that the caller has no right to. Source: docs/who-may-do-what.md.

    Return the facts with the wakes that this call acknowledges: for a mere registrar, and for
    another session of the task's host, only those sent to it.

    Raises:
        TaskmemError: What `rights.guard_act` refuses.
    """
    if caller.person:
        return facts
    here, held = fill_in_home(context, caller), _find_present_holder(context, facts)
    task, sessions = facts.task, context.sessions
    tie = rights.find_tie(here, task, held, sessions, token)
    if tie not in _OWN_WAKES_ONLY and rights.is_allowed(act, tie, held):
        return facts
    # Who held the last run may do all, but few calls need it to be read.
    held = _add_last_run(context, facts, held)
    tie = rights.guard_act(act, here, task, held, sessions, token=token, consequence=consequence)
    if tie not in _OWN_WAKES_ONLY:
        return facts
    own = (
        w for w in facts.wakes if rights.is_agent_of(here, w.session_key, w.host, w.home, sessions)
    )
    return facts.model_copy(update={"wakes": tuple(own)})


def may_take_along(context: Context, facts: TaskFacts, other: TaskFacts, caller: Caller) -> bool:
    """Tell whether a hand-off may take along an attached task.

    It may if the attached task is the caller's, or has the same registrar as the task itself.
    """
    held = find_holder(context, other)
    tie = rights.find_tie(fill_in_home(context, caller), other.task, held, context.sessions)
    same = rights.get_registrar(facts.task) == rights.get_registrar(other.task)
    return same or rights.is_allowed(Act.WRITE, tie, held)


def fill_in_home(context: Context, caller: Caller) -> Caller:
    """Set the caller's home to this one if it is unset."""
    return caller.model_copy(update={"home": caller.home or context.store.home})


def find_holder(context: Context, facts: TaskFacts) -> TaskHolder:
    """Return who owns a task's run, or last did, and whether that owner is gone."""
    return _add_last_run(context, facts, _find_present_holder(context, facts))


def _add_last_run(context: Context, facts: TaskFacts, held: TaskHolder) -> TaskHolder:
    """Add to a task's holder the last run of a task that has no open one."""
    if facts.run is not None:
        return held
    return held.model_copy(update={"last": find_last_run(context, facts.task.task_id)})


def _find_present_holder(context: Context, facts: TaskFacts) -> TaskHolder:
    """Return who owns a task's open run, and whether that owner is gone; not who did last."""
    task, run = facts.task, facts.run
    if run is not None:
        queued = run.state is RunState.QUEUED
        ended = run_recovery.has_holder_ended if run.state.is_waiting else run_recovery.is_abandoned
        gone = (queued and run.why == RunReason.OWNER_GONE) or ended(context, run)
        unheard = run_recovery.is_unheard(context, run)
        return TaskHolder(run=run, gone=gone, unheard=unheard, away=_is_away(context, run))
    waits = task.status is not TaskStatus.ACTIVE or task.rests
    if waits or context.reaches(task.host, task.session_key):
        return TaskHolder()
    silent = (context.clock.now() - task.updated_at).total_seconds()
    silence = context.policies.stuck.threshold_seconds
    return TaskHolder(gone=silent >= silence, silence=silence)


def find_holders(context: Context, task_ids: Sequence[str]) -> Mapping[str, TaskHolder]:
    """Return by task id who owns its run, or last did. Tasks without runs are left out.

    Whether an owner is gone is not determined.
    """
    return {
        task_id: TaskHolder(last=run)
        if run.state.terminal
        else TaskHolder(run=run, away=_is_away(context, run))
        for task_id, run in find_last_runs(context, task_ids).items()
    }


def _is_away(context: Context, run: Run) -> bool:
    """Tell whether a run is queued for a background session that is still expected to take it."""
    if run.state is not RunState.QUEUED or run.told_session is None:
        return False
    return not current_run.is_left_behind(run, context.clock.now(), context.policies.runs)


def begin_caller_run(
    context: Context, caller: Caller, now: datetime, task: Task, *, asks: bool = False
) -> RunTransition | None:
    """Begin a caller's run on a task; None: the caller cannot own one.

    For a user, a run is queued for the role of the last one (`_begin_run_for_last_role`). If the
    call `asks` the user something, the task gets a run that keeps the question, whoever calls.
    """
    if asks and caller.gateway_owner is None:
        begun = begin_session_run(context, task, now)
        words = context.store.read_records(Message, task.task_id, 1)
        event = UserHeard(heard_until=words[-1].message_id if words else 0)
        return apply_events(begun, event, now=now)
    if caller.is_user:
        return _begin_run_for_last_role(context, task, now)
    if caller.gateway_owner is None:
        return None
    return task_runs.begin_for_caller(
        task,
        caller,
        run_id=context.new_id("run", now),
        now=now,
        policy=context.policies.runs,
        last=find_last_run(context, task.task_id),
    )


def begin_session_run(context: Context, task: Task, now: datetime) -> RunTransition:
    """Begin a run of a task for the task's session, which does not work on it yet."""
    return begin_run(
        task,
        run_id=context.new_id("run", now),
        now=now,
        session_key=task.session_key,
        home=task.home,
        last=find_last_run(context, task.task_id),
    )


def _begin_run_for_last_role(context: Context, task: Task, now: datetime) -> RunTransition | None:
    """Begin a new run of a task without an open run, queued for the role of its last run.

    None: it had no run, or its last run was of a gateway's session, which is woken instead.
    """
    last = find_last_run(context, task.task_id)
    if last is None or context.sessions.is_own(last.session_key):
        return None
    if last.role is None and last.started_at is None:
        return None  # it only kept a question
    messages = context.store.read_records(Message, task.task_id, thread.MOST_READ_MESSAGES)
    heard = max(last.dialogue.heard_until, handoff.find_completion_id(messages))
    return task_runs.queue_for_role(
        task,
        last.role,
        run_id=context.new_id("run", now),
        now=now,
        segmented=last.budget.segmented,
        last=apply_events(last, UserHeard(heard_until=heard), now=now).run,
    )


def make_resume_wake(
    context: Context, facts: TaskFacts, run: Run, now: datetime, answer: str | None = None
) -> Wake | None:
    """Return the wake that tells a run's session to go on; None: it has no gateway session.

    `answer` is what the user says to the task, though it asked nothing; None: nothing.
    """
    if not context.sessions.is_own(run.session_key):
        return None
    wake_id = context.new_id("wake", now)
    text = run_history.render_resume_text(context, facts, wake_id, RESUME_REASON, answer=answer)
    return continuation.make_wake(run, wake_id, text, now)


def renew_lease(context: Context, task_id: str, caller: Caller, token: int | None) -> None:
    """Renew the lease of a run whose owner has called, unless it was renewed a moment ago.

    Most calls renew nothing, so the first look takes no lock of the task. `Context.update` looks
    again, as another thread may have renewed the lease in between.
    """
    running = RunQuery(states=(RunState.RUNNING,), task_id=task_id, limit=1)
    read = partial(context.store.find_runs, running)

    def renew(runs: Sequence[Run], now: datetime) -> Decision[None]:
        fresh = timedelta(seconds=context.policies.runs.lease_seconds / _RENEWALS_PER_LEASE)
        renewed = tuple(
            task_runs.note_call(run, caller, token, now, context.policies.runs)
            for run in runs
            if current_run.has_claim(run, caller, token) and now - run.seen_at >= fresh
        )
        return Change(runs=renewed), None

    if not renew(read(), context.clock.now())[0].empty:
        context.update(task_id, read, renew)

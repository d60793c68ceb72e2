"""Open an implicit task on the third call of a user's turn that works on no task.

Earlier calls are kept in memory only: a turn of one or two calls writes nothing.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.changes import implicit_tasks
from openclaw_taskmem.domain.changes.implicit_tasks import UncoveredCallEntry
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.turns import Origin
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.turns import ReportContext
from taskmem_hookspecs import Change, Owner, Run, TaskFacts

MOST_SESSIONS: Final = 1_000
"""Sessions whose first calls are kept in memory; the end of a turn may never be reported."""


def end_left_tasks(context: Context, report: ReportContext, origin: Origin) -> None:
    """Forget the calls of a session's earlier turns, and end the implicit tasks of those turns.

    Only a user's turn ends them: other turns may belong to the same work. A task that waits to be
    resumed stays, as does one that this turn has already taken up.
    """
    forget_calls(context, report)
    if origin is not Origin.USER:
        return
    for run in context.find_session_runs(report.session, report.owner.host):
        if run.state in current_run.WORKABLE_STATES and not _is_held(run, report.owner):
            context.update_task(run.task_id, partial(_end_left_task, run))


def _end_left_task(found: Run, facts: TaskFacts, now: datetime) -> Decision[None]:
    """End an implicit task whose run has not changed since it was found."""
    if not facts.task.implicit or facts.run != found:
        return Change(), None
    return implicit_tasks.end_task(facts, found, now), None


def note_call(
    context: Context, report: ReportContext, entry: CallStartEntry, request: str | None
) -> None:
    """Note a call that belongs to no task; the third call of a user's turn opens one.

    `request` is what the user said in the turn; None: no user began it. Nothing is noted then, in a
    background session, or if the setting `implicit_tasks` is off.
    """
    own = context.sessions.find_background_run(report.session) is not None
    if request is None or not context.policies.runs.implicit_tasks or own:
        return
    now = context.clock.now()
    seen = (
        *context.live.uncovered_calls.get(report.session_address, ()),
        UncoveredCallEntry(at=now, entry=entry),
    )
    if not implicit_tasks.needs_task(seen):
        if len(context.live.uncovered_calls) >= MOST_SESSIONS:
            context.live.uncovered_calls.pop(next(iter(context.live.uncovered_calls)))
        context.live.uncovered_calls[report.session_address] = seen
        return
    change = implicit_tasks.open_task(
        seen,
        request,
        report.owner,
        task_id=context.new_id("task", now),
        run_id=context.new_id("run", now),
        folder=report.folder,
        fingerprint=report.fingerprint,
        now=now,
        policy=context.policies.runs,
    )
    context.commit(report.add_cursor(context, change))
    forget_calls(context, report)


def note_call_end(context: Context, report: ReportContext, entry: CallEndEntry) -> None:
    """Note the end of a call that belongs to no task."""
    seen = context.live.uncovered_calls.get(report.session_address, ())
    if implicit_tasks.has_seen_start(seen, entry):
        now = context.clock.now()
        context.live.uncovered_calls[report.session_address] = (
            *seen,
            UncoveredCallEntry(at=now, entry=entry),
        )


def forget_calls(context: Context, report: ReportContext) -> None:
    """Forget a turn's calls, since it is over, has a task now, or another turn begins."""
    context.live.uncovered_calls.pop(report.session_address, None)


def find_covering_task(context: Context, caller: Caller) -> tuple[TaskFacts, Run] | None:
    """Return the implicit task that was opened in the caller's turn, and its run; else None."""
    owner = caller.gateway_owner
    if owner is None or owner.session_key is None:
        return None
    for found in context.find_session_runs(owner.session_key, owner.host):
        facts = context.store.read_task(found.task_id)
        run = facts.run  # read anew: a heartbeat may have changed it
        if run is None or not _is_held(run, owner):
            continue
        if implicit_tasks.is_task_of_turn(facts.task, run):
            return facts, run
    return None


def _is_held(run: Run, owner: Owner) -> bool:
    """Whether a turn of an owner works on a run now."""
    return current_run.is_at_work(run) and run.owner == owner

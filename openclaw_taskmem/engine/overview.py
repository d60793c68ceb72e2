"""Read the overview of a home's tasks: where each stands, and which need the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import CallerKind
from openclaw_taskmem.domain.changes.handoff import find_review_note
from openclaw_taskmem.domain.effects.checkpoints import PastCall, parse_history
from openclaw_taskmem.domain.reader_budget import WAITS_BOOKMARK, ReaderUsage, load_waits, sum_usage
from openclaw_taskmem.domain.runs.current_run import OPEN_STATES, WAITING_STATES
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.tasks.lifecycle import OPEN_STATUSES
from openclaw_taskmem.domain.tasks.proofs import Proof, list_proofs
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.views import overview
from openclaw_taskmem.domain.views.overview import Section, TaskLine, TaskNews
from openclaw_taskmem.engine import evidence, runs
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.lookup import find_failure, is_failure_seen
from openclaw_taskmem.engine.run_history import find_last_run
from openclaw_taskmem.engine.run_recovery import is_unheard
from openclaw_taskmem.engine.wakes import find_unreached
from taskmem_hookspecs import (
    Checkpoint,
    Event,
    EventQuery,
    LedgerEntry,
    Message,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskFacts,
    TaskQuery,
    TaskStatus,
    Value,
    WaitQuery,
    WaitStatus,
)
from taskmem_hookspecs.doctor import is_trial
from taskmem_hookspecs.roles import CheckedStore

SHOWN_TASKS: Final = 50
"""Tasks of each status, latest first, that are read besides those with an open run or wait."""
MOST_OPEN_ROWS: Final = 500
"""Open runs, and open waits, whose tasks are read at most."""
_COUNTED_TASKS: Final = 2_000
"""Tasks of a status that are counted at most, where homes share a database."""
_ENDED_AGE: Final = timedelta(days=1)
"""How long a task that has ended is shown."""
_FAILED_AGE: Final = timedelta(days=14)
"""How long a failed task is listed as one that needs its user; older ones are counted."""
_NEWEST_CHECKPOINTS: Final = 12
"""Checkpoints of a run in which its current call is looked for; a call has two."""
_READ_ENTRIES: Final = 1_000
"""Entries of a task's ledger that are read for its line."""
_REVIEW_MESSAGES: Final = 50
"""Messages of a task in which the note of its review is looked for."""
_LOOK_SECONDS: Final = 0.5
"""How long a look for damage in the database may take, as a person waits for it."""
_LOOK_REST: Final = timedelta(minutes=1)
"""How long what such a look has found is told."""
_NEWEST_EVENTS: Final = 20
"""Log entries of a task among which its completion is looked for."""
_NEWEST_MESSAGES: Final = 6
"""Messages of a task in which the last words are looked for."""
_SEARCHED_EVENTS: Final = 200
"""Log entries of a task in which the reason of a refused completion is looked for."""


class Overview(Value):
    """The tasks of a home, by section."""

    now: datetime
    sections: Mapping[Section, Sequence[TaskLine]]
    unlisted: int
    """Number of active tasks that are not listed."""
    unlisted_failed: int = 0
    """Number of failed tasks that are not listed."""
    all_ended: bool = False
    """True if nothing is listed although there are tasks: all have ended some time ago."""
    loss: str | None = None
    """The sentences on what is gone from the database or damaged, and what to do; None: nothing."""


def read_overview(context: Context) -> Overview:
    """Return the overview: what needs the user, what is worked on, awaited, idle, and has ended.

    Implicit tasks and the doctor's trials are left out.
    """
    now = context.clock.now()
    lines = (_build_line(context, facts) for facts in _iterate_tasks(context, now))
    ended = now - _ENDED_AGE
    found = [each for each in lines if each.section is not Section.ENDED or each.since >= ended]
    counted = _count_tasks(context)
    listed = Counter(line.status for line in found)
    active, failed = (
        max(0, counted.get(status, 0) - listed[status])
        for status in (TaskStatus.ACTIVE, TaskStatus.FAILED)
    )
    any_task = TaskQuery(limit=1, implicit=False)
    return Overview(
        now=now,
        sections=overview.sort_lines(found),
        unlisted=active,
        unlisted_failed=failed,
        all_ended=not found and bool(context.store.find_tasks(any_task)),
        loss=read_database_faults(context),
    )


def read_database_faults(context: Context) -> str | None:
    """Say what is gone from the database or damaged, and what to do; None: nothing."""
    loss, look, now = context.find_loss(), context.live.damage, context.clock.now()
    store = context.store.whole
    fresh = look.at is not None and look.at <= now < look.at + _LOOK_REST
    if isinstance(store, CheckedStore) and not fresh:
        look.at = now  # first, so that others who ask meanwhile do not look, too
        look.found = store.find_damage(_LOOK_SECONDS)
    return " ".join(filter(None, (loss and str(loss), look.found))) or None


def _count_tasks(context: Context) -> Mapping[TaskStatus, int]:
    """Count the tasks of this home, by status; of one that shares its database, up to a limit."""
    if not context.store.is_shared:
        return context.store.count().tasks
    counted: dict[TaskStatus, int] = {}
    for status in (TaskStatus.ACTIVE, TaskStatus.FAILED):
        query = TaskQuery(status=status, limit=_COUNTED_TASKS, implicit=False)
        counted[status] = len(context.store.find_tasks(query))
    return counted


def list_lines(
    context: Context,
    limit: int,
    *,
    ended_too: bool = False,
    implicit: bool = False,
    ready: bool = False,
) -> Sequence[TaskLine]:
    """Return the lines of tasks: those that need the user, then the latest.

    Args:
        context: The context of the use case.
        limit: Number of lines, at most.
        ended_too: True to include tasks that have ended.
        implicit: True for implicit tasks instead.
        ready: True for active tasks alone that no other blocks.
    """
    now, store = context.clock.now(), context.store
    if ready:
        found = store.find_tasks(TaskQuery(limit=limit, implicit=False, ready=True))
        facts_of = map(context.find_task, (task.task_id for task in found))
        return [_build_line(context, each) for each in facts_of if each is not None]
    waiting = RunQuery(states=WAITING_STATES, implicit=implicit, limit=limit)
    named = dict.fromkeys(run.task_id for run in store.find_runs(waiting))
    for status in (None,) if ended_too else (*OPEN_STATUSES, TaskStatus.FAILED):
        query = TaskQuery(status=status, limit=limit, implicit=implicit)
        named |= dict.fromkeys(
            task.task_id
            for task in store.find_tasks(query)
            if ended_too or task.status in OPEN_STATUSES or task.updated_at >= now - _FAILED_AGE
        )
    facts = [found for found in map(context.find_task, named) if found is not None]
    facts.sort(key=lambda each: each.task.updated_at, reverse=True)
    lines = [_build_line(context, each) for each in facts]
    # The sort is stable, so the latest stay first on each side.
    lines.sort(key=lambda line: line.section is not Section.NEEDS_YOU)
    return lines[:limit]


def search_lines(context: Context, words: str, limit: int) -> Sequence[TaskLine]:
    """Return the lines of tasks whose name or thread contains some words, the latest first."""
    query = TaskQuery(holding=words, limit=limit, implicit=False)
    found = map(context.find_task, (task.task_id for task in context.store.find_tasks(query)))
    return [_build_line(context, facts) for facts in found if facts is not None]


def read_line(context: Context, task_id: str) -> TaskLine:
    """Return the overview's line of one task.

    Raises:
        TaskNotFound: No task has that id.
    """
    return read_standing(context, task_id)[0]


def read_standing(context: Context, task_id: str) -> tuple[TaskLine, TaskFacts]:
    """Return the overview's line of one task, and the facts that it was made from.

    Raises:
        TaskNotFound: No task has that id.
    """
    facts = context.store.read_task(task_id)
    return _build_line(context, facts), facts


def _iterate_tasks(context: Context, now: datetime) -> Iterator[TaskFacts]:
    """Yield the tasks of the overview, each once."""
    store = context.store
    named = dict.fromkeys(
        run.task_id
        # Those that wait for the user are read first: others may be newer, and too many.
        for states in (WAITING_STATES, OPEN_STATES)
        for run in store.find_runs(RunQuery(states=states, implicit=False, limit=MOST_OPEN_ROWS))
    )
    for wait in store.find_waits(WaitQuery(status=WaitStatus.WATCHING, limit=MOST_OPEN_ROWS)):
        if wait.task_id is not None and not is_trial(wait.session_key):
            named[wait.task_id] = None
    for status in TaskStatus:
        since = _FAILED_AGE if status is TaskStatus.FAILED else _ENDED_AGE
        for task in store.find_tasks(TaskQuery(status=status, limit=SHOWN_TASKS, implicit=False)):
            if not status.terminal or task.updated_at >= now - since:
                named[task.task_id] = None
    for task_id in named:
        facts = context.find_task(task_id)
        if facts is not None and not facts.task.implicit:
            yield facts


def _build_line(context: Context, facts: TaskFacts) -> TaskLine:
    news, now = _read_news(context, facts), context.clock.now()
    threshold = context.policies.stuck.threshold_seconds
    return overview.build_line(news, now, threshold, context.sessions)


def _read_news(context: Context, facts: TaskFacts) -> TaskNews:
    task, store = facts.task, context.store
    run = facts.run or find_last_run(context, task.task_id)
    question = runs.find_question(context, facts.run)
    observed = (
        (w.wait_id, context.wait_watcher.read_observation(w.wait_id) or w.last_observation)
        for w in facts.waits
        if w.status is WaitStatus.WATCHING
    )
    calls = _read_newest_calls(context, task, run)
    newest = store.read_records(Message, task.task_id, _NEWEST_MESSAGES)
    log = _read_completion_log(context, task)
    refused = (event for event in log if event.kind == events.COMPLETION_REFUSED)
    ended = (event for event in log if event.kind == events.STATUS_CHANGED)
    note = ""
    if _is_in_review(facts):
        note = find_review_note(store.read_records(Message, task.task_id, _REVIEW_MESSAGES))
    used = ReaderUsage()
    if facts.waits:
        usage = load_waits(store.read_bookmark(WAITS_BOOKMARK))
        used = sum_usage(usage, (wait.wait_id for wait in facts.waits))
    return TaskNews(
        facts=facts,
        run=run,
        failure=find_failure(context, task, run),
        unreached=find_unreached(context, facts),
        turn_ended=context.live.turn_ends.get(task.session_key or ""),
        unheard=facts.run is not None and is_unheard(context, facts.run),
        doubt=next((str(event.data.get("missing") or "") for event in refused), ""),
        question=None if question is None else (run and run.dialogue.question) or question.text,
        question_id=question.key if question else None,
        files_id=evidence.read_files_id(context, facts),
        options=question.options if question else (),
        seen={wait_id: scrub(observation) for wait_id, observation in observed if observation},
        used=used,
        note=note,
        proofs=read_proofs(context, facts),
        accepted=bool(task.doubts) and any(e.kind == events.COMPLETION_ACCEPTED for e in log),
        approved=not task.doubts
        and any(event.data.get("by") == CallerKind.USER for event in islice(ended, 1)),
        seen_failed=is_failure_seen(context, task),
        calls=calls,
        words=_find_last_words(newest, task, calls),
        blockers=tuple(_name_task(context, each) for each in task.blocked_by),
        halt=lifecycle.find_halt(newest),
        paused_by=lifecycle.find_pauser(newest) if task.status is TaskStatus.PAUSED else "",
    )


def _name_task(context: Context, task_id: str) -> str:
    facts = context.find_task(task_id)
    return task_id if facts is None else facts.task.name


def _read_completion_log(context: Context, task: Task) -> Sequence[Event]:
    """Return the log, newest first, that tells of a completion or its refusal; empty: of neither.

    A task without doubts has ended among its last entries.
    """
    completed = task.status is TaskStatus.COMPLETED
    if not completed and (task.status.terminal or not task.doubts):
        return ()
    limit = _SEARCHED_EVENTS if task.doubts else _NEWEST_EVENTS
    found = context.store.find_events(EventQuery(task_id=task.task_id, limit=limit))
    told = {events.COMPLETION_ACCEPTED, events.STATUS_CHANGED}
    kinds = told if completed else {events.COMPLETION_REFUSED}
    return [event for event in reversed(found) if event.kind in kinds]


def _is_in_review(facts: TaskFacts) -> bool:
    return facts.run is not None and facts.run.state is RunState.REVIEW


def _read_newest_calls(context: Context, task: Task, run: Run | None) -> tuple[PastCall, ...]:
    """Return the newest calls of a run that is at work or stopped; empty: of any other."""
    states = (RunState.RUNNING, RunState.BLOCKED)
    if run is None or not (run.state in states or task.status is TaskStatus.FAILED):
        return ()
    checkpoints = context.store.read_records(Checkpoint, run.run_id, _NEWEST_CHECKPOINTS)
    found = parse_history(checkpoints)
    return found.calls if found else ()


def _find_last_words(
    newest: Sequence[Message], task: Task, calls: Sequence[PastCall]
) -> Message | None:
    """Return the newest words about a task; None: there are none, or its calls tell more.

    Of a failure, a failed call does. Of one that is active, the user's words are not what is done;
    of others, a reason counts, too.
    """
    failed, active = task.status is TaskStatus.FAILED, task.status is TaskStatus.ACTIVE
    if any(call.ok is False for call in calls) if failed else active and calls:
        return None
    return overview.find_last_words(newest, is_active=active)


def read_proofs(context: Context, facts: TaskFacts) -> tuple[Proof, ...] | None:
    """Return what a task made that has ended or is to be reviewed; None: of any other."""
    if not (facts.task.status.terminal or _is_in_review(facts) or facts.task.doubts):
        return None
    entries = context.store.read_records(LedgerEntry, facts.task.task_id, _READ_ENTRIES)
    return tuple(list_proofs(entries, facts.artifacts))

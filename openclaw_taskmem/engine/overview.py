"""Read the overview of a home's tasks: where each stands, and which need the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.changes.handoff import find_review_note
from openclaw_taskmem.domain.effects.checkpoints import PastCall, parse_history
from openclaw_taskmem.domain.reader_budget import (
    WAITS_BOOKMARK,
    ReaderUsage,
    load_waits,
    sum_usage,
)
from openclaw_taskmem.domain.runs.current_run import OPEN_STATES
from openclaw_taskmem.domain.tasks.ledger import Proof, list_proofs
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.views import overview
from openclaw_taskmem.domain.views.overview import Section, TaskLine, TaskNews
from openclaw_taskmem.engine import evidence, runs
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.lookup import find_failure
from openclaw_taskmem.engine.run_history import find_last_run
from openclaw_taskmem.engine.wakes import find_unreached
from taskmem_hookspecs import (
    Checkpoint,
    EventQuery,
    LedgerEntry,
    Message,
    Role,
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
_NEWEST_EVENTS: Final = 20
"""Log entries of a task among which its completion is looked for."""
_NEWEST_MESSAGES: Final = 4
"""Messages of a task in which its agent's last words are looked for."""
_OPEN_STATUSES: Final = (TaskStatus.ACTIVE, TaskStatus.PAUSED)
_WAITING_STATES: Final = tuple(state for state in RunState if state.is_waiting)
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


def read_overview(context: Context) -> Overview:
    """Return the overview: what needs the user, what is worked on, awaited, idle, and has ended.

    Implicit tasks and the doctor's trials are left out.
    """
    now = context.clock.now()
    found = [
        overview.build_line(news, now, context.policies.stuck.threshold_seconds)
        for news in (_read_news(context, facts) for facts in _iterate_tasks(context, now))
    ]
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
    )


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
    context: Context, limit: int, *, ended_too: bool = False, implicit: bool = False
) -> Sequence[TaskLine]:
    """Return the lines of tasks: those that need the user, then the latest.

    Args:
        context: The context of the use case.
        limit: Number of lines, at most.
        ended_too: True to include tasks that have ended.
        implicit: True for implicit tasks instead.
    """
    now, store = context.clock.now(), context.store
    waiting = RunQuery(states=_WAITING_STATES, implicit=implicit, limit=limit)
    named = dict.fromkeys(run.task_id for run in store.find_runs(waiting))
    for status in (None,) if ended_too else (*_OPEN_STATUSES, TaskStatus.FAILED):
        query = TaskQuery(status=status, limit=limit, implicit=implicit)
        named |= dict.fromkeys(
            task.task_id
            for task in store.find_tasks(query)
            if ended_too or task.status in _OPEN_STATUSES or task.updated_at >= now - _FAILED_AGE
        )
    facts = [found for found in map(context.find_task, named) if found is not None]
    facts.sort(key=lambda each: each.task.updated_at, reverse=True)
    lines = [
        overview.build_line(
            _read_news(context, each), now, context.policies.stuck.threshold_seconds
        )
        for each in facts
    ]
    # The sort is stable, so the latest stay first on each side.
    lines.sort(key=lambda line: line.section is not Section.NEEDS_YOU)
    return lines[:limit]


def search_lines(context: Context, words: str, limit: int) -> Sequence[TaskLine]:
    """Return the lines of tasks whose name or thread contains some words, the latest first."""
    query = TaskQuery(holding=words, limit=limit, implicit=False)
    found = map(context.find_task, (task.task_id for task in context.store.find_tasks(query)))
    now, seconds = context.clock.now(), context.policies.stuck.threshold_seconds
    return [
        overview.build_line(_read_news(context, facts), now, seconds)
        for facts in found
        if facts is not None
    ]


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
    news = _read_news(context, facts)
    now, seconds = context.clock.now(), context.policies.stuck.threshold_seconds
    return overview.build_line(news, now, seconds), facts


def _iterate_tasks(context: Context, now: datetime) -> Iterator[TaskFacts]:
    """Yield the tasks of the overview, each once."""
    store = context.store
    named = dict.fromkeys(
        run.task_id
        # Those that wait for the user are read first: others may be newer, and too many.
        for states in (_WAITING_STATES, OPEN_STATES)
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


def _read_news(context: Context, facts: TaskFacts) -> TaskNews:
    task = facts.task
    run = facts.run or find_last_run(context, task.task_id)
    question = runs.find_question(context, facts.run)
    observed = (
        (w.wait_id, context.wait_watcher.read_observation(w.wait_id) or w.last_observation)
        for w in facts.waits
        if w.status is WaitStatus.WATCHING
    )
    return TaskNews(
        facts=facts,
        run=run,
        failure=find_failure(context, task, run),
        unreached=find_unreached(context, facts),
        doubt=_find_doubt(context, facts),
        question=None if question is None else (run and run.dialogue.question) or question.text,
        question_id=question.key if question else None,
        files_id=evidence.read_files_id(context, facts),
        options=question.options if question else (),
        seen={wait_id: scrub(observation) for wait_id, observation in observed if observation},
        used=_sum_usage(context, facts),
        note=_find_review_note(context, facts),
        proofs=read_proofs(context, facts),
        accepted=_is_accepted(context, task),
        approved=_is_approved(context, task),
        calls=(calls := _read_newest_calls(context, task, run)),
        words=None if _tell_more(task, calls) else _find_last_words(context, task),
    )


def _tell_more(task: Task, calls: Sequence[PastCall]) -> bool:
    """Tell whether an agent's calls tell more than its last words; of a failure, a failed one."""
    if task.status is TaskStatus.FAILED:
        return any(call.ok is False for call in calls)
    return bool(calls)


def _read_newest_calls(context: Context, task: Task, run: Run | None) -> tuple[PastCall, ...]:
    """Return the newest calls of a run that is at work or stopped; empty: of any other."""
    states = (RunState.RUNNING, RunState.BLOCKED)
    if run is None or not (run.state in states or task.status is TaskStatus.FAILED):
        return ()
    checkpoints = context.store.read_records(Checkpoint, run.run_id, _NEWEST_CHECKPOINTS)
    found = parse_history(checkpoints)
    return found.calls if found else ()


def read_proofs(context: Context, facts: TaskFacts) -> tuple[Proof, ...] | None:
    """Return what a task made that has ended or is to be reviewed; None: of any other."""
    reviewed = facts.run is not None and facts.run.state is RunState.REVIEW
    if not (facts.task.status.terminal or reviewed or facts.task.doubts):
        return None
    entries = context.store.read_records(LedgerEntry, facts.task.task_id, _READ_ENTRIES)
    return tuple(list_proofs(entries, facts.artifacts))


def _sum_usage(context: Context, facts: TaskFacts) -> ReaderUsage:
    """Return what readers used for a task's waits, as far as it is kept."""
    if not facts.waits:
        return ReaderUsage()
    waits = load_waits(context.store.read_bookmark(WAITS_BOOKMARK))
    return sum_usage(waits, (wait.wait_id for wait in facts.waits))


def _find_review_note(context: Context, facts: TaskFacts) -> str:
    """Return what an agent wrote to the user who is to review its task; empty: nothing."""
    if facts.run is None or facts.run.state is not RunState.REVIEW:
        return ""
    newest = context.store.read_records(Message, facts.task.task_id, _REVIEW_MESSAGES)
    return find_review_note(newest)


def _is_accepted(context: Context, task: Task) -> bool:
    """Tell whether a person completed a task whose completion had been refused."""
    if task.status is not TaskStatus.COMPLETED or not task.doubts:
        return False
    newest = context.store.find_events(EventQuery(task_id=task.task_id, limit=_SEARCHED_EVENTS))
    return any(event.kind == events.COMPLETION_ACCEPTED for event in newest)


def _is_approved(context: Context, task: Task) -> bool:
    """Tell whether a person completed a task whose completion had not been refused."""
    if task.status is not TaskStatus.COMPLETED or task.doubts:
        return False
    newest = context.store.find_events(EventQuery(task_id=task.task_id, limit=_NEWEST_EVENTS))
    ended = (e for e in reversed(newest) if e.kind == events.STATUS_CHANGED)
    return next((event.data.get("by") is not None for event in ended), False)


def _find_last_words(context: Context, task: Task) -> Message | None:
    """Return the newest message of an agent whose calls nobody reports; None: there is none."""
    if task.status not in (TaskStatus.ACTIVE, TaskStatus.FAILED):
        return None
    newest = context.store.read_records(Message, task.task_id, _NEWEST_MESSAGES)
    return next((each for each in reversed(newest) if each.role is Role.AGENT), None)


def _find_doubt(context: Context, facts: TaskFacts) -> str:
    """Return why the completion of an open task was refused last; empty: it was not."""
    if not facts.task.doubts or facts.task.status.terminal:
        return ""
    newest = context.store.find_events(
        EventQuery(task_id=facts.task.task_id, limit=_SEARCHED_EVENTS)
    )
    refused = (e for e in reversed(newest) if e.kind == events.COMPLETION_REFUSED)
    return next((str(event.data.get("missing") or "") for event in refused), "")

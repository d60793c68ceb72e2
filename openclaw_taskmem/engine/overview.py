"""Read the overview of a home's tasks: where each stands, and which need the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain import events, overview
from openclaw_taskmem.domain.overview import Section, TaskLine, TaskNews
from openclaw_taskmem.domain.redaction import scrub
from openclaw_taskmem.domain.run_calls import OPEN_STATES
from openclaw_taskmem.engine import runs
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.run_history import find_last_run
from openclaw_taskmem.engine.task_standing import find_failure
from taskmem_hookspecs import (
    EventQuery,
    RunQuery,
    RunState,
    TaskFacts,
    TaskQuery,
    TaskStatus,
    Value,
    WaitQuery,
    WaitStatus,
    is_trial,
)

SHOWN: Final = 50
"""Tasks of each status, latest first, that are read besides those with an open run or wait."""
MOST: Final = 500
"""Open runs, and open waits, whose tasks are read at most."""
ENDED_AGE: Final = timedelta(days=1)
"""How long a task that has ended is shown."""
FAILED_AGE: Final = timedelta(days=3)
"""How long a failed task counts as one that needs its user."""
WAITING_STATES: Final = tuple(state for state in RunState if state.is_waiting)
NEWEST: Final = 200
"""Log entries of a task in which the reason of a refused completion is looked for."""


class Overview(Value):
    """The tasks of a home, by section."""

    now: datetime
    sections: Mapping[Section, Sequence[TaskLine]]
    unlisted: int
    """Number of active tasks that are not listed."""


def read_overview(context: Context) -> Overview:
    """Return the overview: what needs the user, what is worked on, awaited, idle, and has ended.

    Implicit tasks and the doctor's trials are left out.
    """
    now = context.clock.now()
    found = [
        overview.build_line(news, now, context.stuck.threshold_seconds)
        for news in (_read_news(context, facts) for facts in _iterate_tasks(context, now))
    ]
    active = context.store.count().tasks.get(TaskStatus.ACTIVE, 0)
    listed = sum(line.status is TaskStatus.ACTIVE for line in found)
    sections = overview.sort_lines(found)
    return Overview(now=now, sections=sections, unlisted=max(0, active - listed))


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
    now, store = context.clock.now(), context.store.whole
    waiting = RunQuery(states=WAITING_STATES, implicit=implicit, limit=limit)
    named = dict.fromkeys(run.task_id for run in store.find_runs(waiting))
    for status in (None,) if ended_too else (TaskStatus.ACTIVE, TaskStatus.PAUSED):
        query = TaskQuery(status=status, limit=limit, implicit=implicit)
        named |= dict.fromkeys(task.task_id for task in store.find_tasks(query))
    facts = [found for found in map(context.find_task, named) if found is not None]
    facts.sort(key=lambda each: each.task.updated_at, reverse=True)
    lines = [
        overview.build_line(_read_news(context, each), now, context.stuck.threshold_seconds)
        for each in facts
    ]
    # The sort is stable, so the latest stay first on each side.
    lines.sort(key=lambda line: line.section is not Section.NEEDS_YOU)
    return lines[:limit]


def search_lines(context: Context, words: str, limit: int) -> Sequence[TaskLine]:
    """Return the lines of tasks whose name or thread contains some words, the latest first."""
    query = TaskQuery(holding=words, limit=limit, implicit=False)
    found = map(context.find_task, (task.task_id for task in context.store.find_tasks(query)))
    now, seconds = context.clock.now(), context.stuck.threshold_seconds
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
    news = _read_news(context, context.store.read_task(task_id))
    return overview.build_line(news, context.clock.now(), context.stuck.threshold_seconds)


def _iterate_tasks(context: Context, now: datetime) -> Iterator[TaskFacts]:
    """Yield the tasks of the overview, each once."""
    store = context.store
    named = dict.fromkeys(
        run.task_id
        for run in store.find_runs(RunQuery(states=OPEN_STATES, implicit=False, limit=MOST))
    )
    for wait in store.find_waits(WaitQuery(status=WaitStatus.WATCHING, limit=MOST)):
        if wait.task_id is not None and not is_trial(wait.session_key):
            named[wait.task_id] = None
    for status in TaskStatus:
        since = FAILED_AGE if status is TaskStatus.FAILED else ENDED_AGE
        for task in store.find_tasks(TaskQuery(status=status, limit=SHOWN, implicit=False)):
            if not status.terminal or task.updated_at >= now - since:
                named[task.task_id] = None
    for task_id in named:
        facts = context.find_task(task_id)
        if facts is not None and not facts.task.implicit:
            yield facts


def _read_news(context: Context, facts: TaskFacts) -> TaskNews:
    task = facts.task
    run = facts.run or find_last_run(context, task.task_id)
    asked = runs.find_question(context, facts.run)
    observed = (
        (w.wait_id, context.watching.read_observation(w.wait_id) or w.last_observation)
        for w in facts.waits
        if w.status is WaitStatus.WATCHING
    )
    return TaskNews(
        facts=facts,
        run=run,
        failure=find_failure(context, task, run),
        doubt=_find_doubt(context, facts),
        question=None if asked is None else (run and run.dialogue.question) or asked.text,
        options=asked.options if asked else (),
        seen={wait_id: scrub(said) for wait_id, said in observed if said},
    )


def _find_doubt(context: Context, facts: TaskFacts) -> str:
    """Return why the completion of an open task was refused last; empty: it was not."""
    if not facts.task.doubts or facts.task.status.terminal:
        return ""
    newest = context.store.find_events(EventQuery(task_id=facts.task.task_id, limit=NEWEST))
    refused = (e for e in reversed(newest) if e.kind == events.COMPLETION_REFUSED)
    return next((str(event.data.get("missing") or "") for event in refused), "")

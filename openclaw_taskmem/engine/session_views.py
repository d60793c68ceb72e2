"""Build the card and questions that a session's user sees, and take their answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.changes import questions
from openclaw_taskmem.domain.views import cards
from openclaw_taskmem.engine import runs, user_questions
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.run_guards import MOST, list_background_runs, list_own_tasks
from openclaw_taskmem.engine.run_handoff import note_heard
from openclaw_taskmem.engine.run_history import find_last_run
from taskmem_hookspecs import (
    Change,
    Event,
    EventQuery,
    Run,
    RunQuery,
    RunState,
    SessionView,
    Task,
    TaskFacts,
    TaskNotFound,
    UserQuestion,
)
from taskmem_hookspecs.errors import RunNotFound

_WAITING: Final = tuple(state for state in RunState if state.is_waiting)


def find_viewing_session(context: Context, task_id: str) -> str | None:
    """Return the session whose user sees a task; None: no gateway session does."""
    with suppress(TaskNotFound):
        facts = context.store.read_task(task_id)
        task, run = facts.task, facts.run or find_last_run(context, task_id)
        if task.implicit or not context.store.serves(run.home if run else task.home):
            return None
        session = (run.told_session or run.session_key) if run else None
        session = session or task.session_key or ""
        return session if context.sessions.is_own(session) else None
    return None


def draw_session_view(context: Context, session: str, task_id: str) -> SessionView:
    """Return the card and questions of a session, after a task has changed.

    The card shows the session's newest open task, else one of its background tasks, else the
    changed task, which has ended.
    """
    newest = context.store.find_events(EventQuery(limit=1))
    shown = next(_list_open_tasks(context, session), task_id)
    facts = context.store.read_task(shown)
    waiting = context.store.find_runs(RunQuery(states=_WAITING, limit=MOST))
    asked = (
        user_questions.find_question(context, run)
        for run in waiting
        if (run.told_session or run.session_key) == session
    )
    return SessionView(
        session_key=session,
        card=cards.build_card(facts, facts.run or find_last_run(context, shown)),
        questions=tuple(each for each in asked if each is not None),
        newest_event=newest[-1].event_id if newest else 0,
    )


def find_open_question(context: Context, run_id: str | None) -> UserQuestion | None:
    """Return the open question of a run to its user; None: there is none."""
    with suppress(RunNotFound):
        return user_questions.find_question(context, context.store.read_run(run_id or ""))
    return None


def take_answer(context: Context, key: str, said: str) -> None:
    """Take a user's answer to the question with a key; ignore it if that question is over.

    For an interrupted run, the answer resumes it or leaves it. Any other answer is delivered to the
    agent, in a turn of its session.
    """
    with suppress(RunNotFound, TaskNotFound):
        task_id = context.store.read_run(key.partition("-")[0]).task_id
        entry = context.update_task(task_id, partial(_record_answer, context, key, said))
        note_heard(context, task_id, said, Caller(person=True))
        if entry is not None:
            # The question stays open until its run goes on.
            runs.take_up_task(context, task_id, Caller(person=True))
            context.commit(Change(events=(entry,)))


def build_lost_questions(context: Context, waiting: Sequence[Run]) -> tuple[Event, ...]:
    """Return the events that ask again the questions lost with a gateway."""
    now = context.clock.now()
    return tuple(
        Event(at=now, kind=events.QUESTION_LOST, task_id=run.task_id, run_id=run.run_id)
        for run in waiting
        if user_questions.find_question(context, run) is not None
    )


def _record_answer(
    context: Context, key: str, said: str, facts: TaskFacts, now: datetime
) -> Decision[Event | None]:
    """Record an answer; if it resumes the run, return its event uncommitted instead."""
    question = user_questions.find_question(context, facts.run)
    if facts.run is None or question is None or question.key != key:
        return Change(), None
    goes_on = questions.parse_resume_answer(facts.run, said)
    if goes_on is None:
        return user_questions.build_answer_delivery(context, facts, said, now), None
    entry = questions.close_question(facts, question, said, now)
    return (Change(), entry) if goes_on else (Change(events=(entry,)), None)


def _list_open_tasks(context: Context, session: str) -> Iterator[str]:
    """Yield the open tasks of a session, newest first, then its background tasks."""
    own = sorted(list_own_tasks(context, session, None), key=_age_key, reverse=True)
    yield from (task.task_id for task in own)
    yield from (run.task_id for run in list_background_runs(context, session))


def _age_key(task: Task) -> tuple[float, str]:
    return task.created_at.timestamp(), task.task_id

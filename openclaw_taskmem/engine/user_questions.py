"""Find what a run asks its user, and deliver the answer to its agent."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from openclaw_taskmem.domain.changes import continuation, questions
from openclaw_taskmem.domain.text.texts import quote_line, to_plain_line
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import Change, EventQuery, Run, TaskFacts, UserQuestion
from taskmem_hookspecs.errors import InvalidArguments

NEWEST: Final = 200
"""Log entries of a task that are read first when looking for its question to the user."""


def find_question(context: Context, run: Run | None) -> UserQuestion | None:
    """Return the question that a run's user has not answered; None: there is none."""
    if run is None or not run.state.is_waiting:
        return None
    task = context.store.read_task(run.task_id).task
    if task.implicit:
        return None
    limit = NEWEST
    newest = context.store.find_events(EventQuery(task_id=run.task_id, limit=limit))
    while len(newest) == limit and not questions.has_run_change(run, newest):
        limit *= 2
        newest = context.store.find_events(EventQuery(task_id=run.task_id, limit=limit))
    return questions.build_user_question(task, run, newest)


def build_answer_delivery(
    context: Context, facts: TaskFacts, answer: str | None, now: datetime
) -> Change:
    """Return the change that delivers an answer to the agent that asked.

    Raises:
        InvalidArguments: There is no answer.
    """
    task, run = facts.task, facts.run
    if answer is None:
        asked = quote_line(
            to_plain_line((run and run.dialogue.question) or ""), continuation.QUESTION_BYTES
        )
        raise InvalidArguments(
            f"{task.task_id} has asked the user: {asked} Give what they answer to that "
            "as answer. Nothing was changed."
        )
    question = find_question(context, run)
    wake_id = context.new_id("wake", now)
    return questions.build_answer_change(
        facts, question, answer, wake_id=wake_id, sessions=context.sessions, now=now
    )

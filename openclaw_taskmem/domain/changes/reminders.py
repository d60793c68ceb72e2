"""Choose the task to remind an agent of, and write the line that tells it to go on.

The agent still has its context, so it needs no packet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.policy import RunReason
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import clip, quote_line, quote_step, to_plain_line
from taskmem_hookspecs import Run, Task, TaskStatus

NAME_BYTES: Final = 160
"""Longest excerpt of a task's or a step's name."""
RUNNING_BYTES: Final = 400
"""Longest list of what runs in the background."""
QUESTION_BYTES: Final = 1000
"""Longest excerpt of a question to the user."""
_ELSE: Final = (
    "If only the user can help, call task_update with ask, your question to them. If "
    'it waits for something, call smart_wait. If it is to rest, set status "paused"; '
    "if it is over, report how it ended."
)
"""What an agent should do if it does not go on."""


def remind_to_go_on(task: Task) -> str:
    """Write the message that tells an agent to go on at once."""
    said = f"Your task {_format_name(task)} is not done: {_describe_next(task)} Go on now."
    return _format_line(task, said)


def remind_of_end(task: Task, before: str) -> str:
    """Write the message that something has ended and the agent should go on.

    It says that a question to the user is still open, in case the last words were one.
    """
    return _format_line(
        task,
        f"{before} Your task {_format_name(task)} is not done: {_describe_next(task)} Go on from "
        "where you were; what you have asked the user is not answered by this.",
    )


def remind_of_no_progress(task: Task) -> str:
    """Write the reminder after a turn without progress, or one that ended in a question mark."""
    return _format_line(
        task,
        f"Your task {_format_name(task)} is open, and your last turn ended without progress "
        "or with a question. If you asked only for leave to carry on with your own "
        "plan, carry on.",
    )


def remind_of_awaited(task: Task, awaited: Sequence[str]) -> str:
    """Write the reminder for an agent that has waited long for its gateway's work."""
    running = clip(to_plain_line("; ".join(awaited)), RUNNING_BYTES)
    return _format_line(
        task,
        f"Your task {_format_name(task)} is open, and for an hour nothing has come of what "
        f"runs or is scheduled: {running}. See how far it is, and go on with what does "
        "not need it.",
    )


def describe_waiting_task(task: Task, run: Run) -> str:
    """Write what an agent reads before the user's next words: what its task waits for."""
    asks = "ask you to go on with it" if run.dialogue.question is None else "answer it"
    return (
        f"[system] task_question ({task.task_id}): your task {_format_name(task)} waits "
        f"{describe_waiting_reason(run)} What follows may or may not {asks}. If it "
        'does, call task_update with status "active" before you act on it, or with '
        "what else it means for the task; if it does not, leave the task as it is."
    )


def describe_waiting_reason(run: Run) -> str:
    """Say to an agent why its task waits for the user."""
    if run.dialogue.question is not None:
        asked = quote_line(to_plain_line(run.dialogue.question), QUESTION_BYTES)
        return f"because you had asked the user: {asked}"
    return f"because {_WHY.get(run.why or '', 'the user has the next word')}."


def describe_away_question(run: Run) -> str | None:
    """Say to an agent what a task in the background asks the user; None: nothing."""
    if run.dialogue.question is None or not current_run.has_open_question(run):
        return None
    asked = quote_line(to_plain_line(run.dialogue.question), QUESTION_BYTES)
    return (
        f"This task waits in the background, for it has asked the user: {asked} Once "
        "they answer that, call task_resume with answer. Do not work on it here; tell "
        "the user."
    )


_WHY: Final[Mapping[str, str]] = {
    RunReason.ANSWERED: "you had not acted on the user's answer yet",
    RunReason.STOPPED: "somebody stopped your turn",
    RunReason.STALE: "it was interrupted long ago",
    RunReason.PROMPT_CHANGED: "it was interrupted, and your instructions have changed",
    RunReason.CREDENTIALS: "the model's provider wants another key, or to be paid",
}
"""Why a task waits for the user although its agent asked nothing."""


def _describe_next(task: Task) -> str:
    """Say which step of a task is next."""
    place = compute_progress(task)
    if place.current is None:
        return "all its steps are marked done. Check the result, then complete it."
    step = quote_step(to_plain_line(task.plan[place.current]), NAME_BYTES)
    return f"step {place.current + 1} of {len(task.plan)}, {step}, is next."


def _format_name(task: Task) -> str:
    return quote_step(to_plain_line(task.name), NAME_BYTES)


def _format_line(task: Task, said: str) -> str:
    return f"[system] task_continue ({task.task_id}): {said} {_ELSE}"


def find_open_task(tasks: Iterable[Task], session_key: str, since: datetime | None) -> Task | None:
    """Return the active task to remind a session's agent of; None: there is none.

    It is the one touched last. `since` is when the agent may have forgotten it: if the task was
    touched later, no reminder is needed. None: the agent asked for a reminder.
    """
    open_ = [
        task
        for task in tasks
        if task.session_key == session_key and task.status is TaskStatus.ACTIVE
    ]
    latest = max(open_, key=lambda task: (task.updated_at, task.task_id), default=None)
    if latest is not None and since is not None and latest.updated_at > since:
        return None
    return latest

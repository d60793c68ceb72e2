"""What an agent reads that is told to go on with its task: one line each.

Its context is still there, so that it needs no packet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from openclaw_taskmem.domain import working
from openclaw_taskmem.domain.plan import progress
from openclaw_taskmem.domain.run_policy import Why
from openclaw_taskmem.domain.texts import clip, plain, quoted, step_name
from taskmem_hookspecs import Run, Task

NAME_BYTES: Final = 160
"""Shown of a task's or a step's name."""
RUNNING_BYTES: Final = 400
"""Shown of what runs in the background."""
QUESTION_BYTES: Final = 1000
"""Shown of a question to the user."""
_ELSE: Final = (
    "If only the user can help, call task_update with ask, your question to them. If "
    'it waits for something, call smart_wait. If it is to rest, set status "paused"; '
    "if it is over, report how it ended."
)
"""What an agent that does not carry on does instead."""


def go_on(task: Task) -> str:
    """Tell an agent to go on at once."""
    said = f"Your task {_name(task)} is not done: {_next(task)} Go on now."
    return _line(task, said)


def tell_end(task: Task, before: str) -> str:
    """Tell an agent of an end, after which it takes up what it was at.

    Its last words may have been a question to the user that is not answered yet.
    """
    return _line(
        task,
        f"{before} Your task {_name(task)} is not done: {_next(task)} Go on from where "
        "you were; what you have asked the user is not answered by this.",
    )


def ask_what_was_meant(task: Task) -> str:
    """Remind an agent whose last turn brought nothing, or ended in a question mark."""
    return _line(
        task,
        f"Your task {_name(task)} is open, and your last turn ended without progress "
        "or with a question. If you asked only for leave to carry on with your own "
        "plan, carry on.",
    )


def name_awaited(task: Task, awaited: Sequence[str]) -> str:
    """Remind an agent that has long waited for what its gateway runs."""
    running = clip(plain("; ".join(awaited)), RUNNING_BYTES)
    return _line(
        task,
        f"Your task {_name(task)} is open, and for an hour nothing has come of what "
        f"runs or is scheduled: {running}. See how far it is, and go on with what does "
        "not need it.",
    )


def tell_what_waits(task: Task, run: Run) -> str:
    """Tell an agent, before the user's next words, what its task waits for."""
    asks = "ask you to go on with it" if run.question is None else "answer it"
    return (
        f"[system] task_question ({task.task_id}): your task {_name(task)} waits "
        f"{say_why(run)} What follows may or may not {asks}. If it "
        'does, call task_update with status "active" before you act on it, or with '
        "what else it means for the task; if it does not, leave the task as it is."
    )


def say_why(run: Run) -> str:
    """Say to an agent why its task waits for the user."""
    if run.question is not None:
        asked = quoted(plain(run.question), QUESTION_BYTES)
        return f"because you had asked the user: {asked}"
    return f"because {_WHY.get(run.why or '', 'the user has the next word')}."


def tell_what_is_asked_away(run: Run) -> str | None:
    """Tell an agent what a task in the background asks; None: nothing."""
    if run.question is None or not working.asks(run):
        return None
    asked = quoted(plain(run.question), QUESTION_BYTES)
    return (
        f"This task waits in the background, for it has asked the user: {asked} Once "
        "they answer that, call task_resume with answer. Do not work on it here; tell "
        "the user."
    )


_WHY: Final[Mapping[str, str]] = {
    Why.ANSWERED: "you had not acted on the user's answer yet",
    Why.STOPPED: "somebody stopped your turn",
    Why.STALE: "it was interrupted long ago",
    Why.PROMPT_CHANGED: "it was interrupted, and your instructions have changed",
    Why.CREDENTIALS: "the model's provider wants another key, or to be paid",
}
"""Why a task waits for its user, whose agent has asked nothing."""


def _next(task: Task) -> str:
    """Say what is left to do of a task."""
    place = progress(task)
    if place.current is None:
        return "all its steps are marked done. Check the result, then complete it."
    step = step_name(plain(task.plan[place.current]), NAME_BYTES)
    return f"step {place.current + 1} of {len(task.plan)}, {step}, is next."


def _name(task: Task) -> str:
    return step_name(plain(task.name), NAME_BYTES)


def _line(task: Task, said: str) -> str:
    return f"[system] task_continue ({task.task_id}): {said} {_ELSE}"

"""The actions of a person on a task: on the page, the command line and in the chat."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain.callers.reachability import Unreached
from openclaw_taskmem.domain.conditions.targets import describe_target
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import format_duration, to_plain_line
from taskmem_hookspecs import (
    NotAllowed,
    Run,
    RunState,
    TaskFacts,
    TaskStatus,
    Value,
    Wait,
    WaitStatus,
)


class UserAction(StrEnum):
    """An act of a person on a task."""

    ANSWER = "answer"
    """Answer its agent's question; takes words."""
    APPROVE = "approve"
    """Accept its work in a review, which completes it."""
    SEND_BACK = "send_back"
    """Send it back from a review; takes words."""
    ACCEPT = "accept"
    """Complete it although its completion was refused."""
    RESUME = "resume"
    """Let its agent go on."""
    PAUSE = "pause"
    """Set it aside."""
    CANCEL = "cancel"
    """Call it off."""


class ActRequest(Value):
    """An action that a person wants done with a task."""

    action: UserAction
    words: str | None = None
    """The answer, the reason or the instructions; None: none."""
    question_id: str | None = None
    """Id of the question that the person was shown and answers; None: they were shown none."""
    files_id: str | None = None
    """Id of the files that the person was shown and approves; None: they were shown none."""
    process: str | None = None
    """The calling process, as `Owner.process`; None: unknown."""


READ_ONLY: Final = (
    "Read only, because it was not started by a person in a terminal; run taskmem ui in a terminal."
)
"""Why pages offer none of that."""
NEEDED_WORDS: Final = {
    UserAction.ANSWER: "your answer",
    UserAction.SEND_BACK: "what is to be changed",
}
"""Actions that mean nothing without words, and what these are."""
_DONE_SENTENCES: Final = {
    UserAction.ANSWER: "its agent is told your answer",
    UserAction.APPROVE: "approved, and completed",
    UserAction.SEND_BACK: "sent back, with your words",
    UserAction.ACCEPT: "completed, as you say",
    UserAction.RESUME: "its agent is told to go on",
    UserAction.PAUSE: "paused",
    UserAction.CANCEL: "cancelled; what was done so far is kept",
}
_KEPT_SENTENCES: Final = {
    UserAction.ANSWER: "your answer is kept for its agent",
    UserAction.SEND_BACK: "your words are kept for its agent",
    UserAction.RESUME: "it is open again",
}
"""The effects of acts that tell an agent to go on, where nobody can wake it."""


def list_actions(facts: TaskFacts, *, asks: bool) -> tuple[UserAction, ...]:
    """Return what a person may do with a task, the likeliest first.

    `asks`: True if its question to the user is open.
    """
    task, run = facts.task, facts.run
    if task.status is TaskStatus.COMPLETED:
        return ()
    if task.status.terminal:
        return (UserAction.RESUME,)
    found: list[UserAction] = []
    if run is not None and run.state is RunState.REVIEW:
        found += (UserAction.APPROVE, UserAction.SEND_BACK)
    elif asks and run is not None and current_run.has_open_question(run):
        found.append(UserAction.ANSWER)
    elif task.status is TaskStatus.PAUSED or (run is not None and _is_stopped(run)):
        found.append(UserAction.RESUME)
    if task.doubts:
        found.append(UserAction.ACCEPT)
    if task.status is TaskStatus.ACTIVE:
        found.append(UserAction.PAUSE)
    return (*found, UserAction.CANCEL)


def describe_state(facts: TaskFacts, *, asks: bool) -> str:
    """Say how a task stands, for a person who wanted something that it does not allow."""
    run = facts.run
    if run is not None and run.state is RunState.REVIEW:
        return "in your review"
    answerable = asks and run is not None and current_run.has_open_question(run)
    return "asking you something" if answerable else str(facts.task.status)


def describe_done(action: UserAction, unreached: Unreached | None) -> str:
    """Say what an act has brought about; `unreached`: why its agent cannot be woken now."""
    if unreached is None or action not in _KEPT_SENTENCES:
        return f"{_DONE_SENTENCES[action]}."
    return f"{_KEPT_SENTENCES[action]}, but {to_plain_line(unreached.why)}. {unreached.cure}"


def describe_effect(
    facts: TaskFacts, action: UserAction, unreached: Unreached | None = None
) -> str:
    """Say in a sentence or two what an act would bring about now.

    Args:
        facts: The task.
        action: The act.
        unreached: Why its agent cannot be woken; None: it can.
    """
    mend = ""
    if action is UserAction.RESUME and facts.task.status is TaskStatus.FAILED:
        mend = "First mend what made it fail; then "
    if unreached is not None and action in _KEPT_SENTENCES:
        effect = describe_done(action, unreached)
        return mend + (effect if mend else f"{effect[0].upper()}{effect[1:]}")
    run = facts.run
    in_turn = run is not None and current_run.is_at_work(run)
    holder = run.owner if run is not None else None
    stops = in_turn and holder is not None and holder.session_key is not None
    waits = _describe_waits(facts, unreached)
    match action:
        case UserAction.APPROVE:
            effect = f"Its work is accepted, and the task is completed.{waits}"
        case UserAction.ACCEPT:
            effect = (
                "The task is completed, though its proof is missing. Your word is stored with it."
                f"{waits}"
            )
        case UserAction.RESUME:
            current = compute_progress(facts.task).current
            where = "" if current is None else f" with step {current + 1}"
            effect = f"{mend}{'its' if mend else 'Its'} agent is told to go on{where}."
        case UserAction.PAUSE:
            turn = " What its agent does right now is not stopped." if in_turn else ""
            effect = f"Its agent is not told to go on any more.{turn}{waits}"
        case UserAction.CANCEL:
            turn = " What its agent does right now is stopped." if stops else ""
            watched = _count_open_waits(facts)
            whose = " Its wait is" if watched == 1 else " Its waits are"
            ended = f"{whose} cancelled with it." if watched else ""
            effect = f"The task ends; what was done so far is kept.{turn}{ended}"
        case UserAction.SEND_BACK:
            effect = "Its agent is told your words, and goes on."
        case UserAction.ANSWER:
            effect = "Its agent is told your answer, and goes on."
    return effect


def _describe_waits(facts: TaskFacts, unreached: Unreached | None) -> str:
    """Say what becomes of the open waits of a task that rests or ends."""
    watched = _count_open_waits(facts)
    if not watched:
        return ""
    whose, their = ("Its wait goes", "it ends") if watched == 1 else ("Its waits go", "they end")
    woken = "" if unreached else f", and its agent is woken when {their}"
    return f" {whose} on{woken}."


def _count_open_waits(facts: TaskFacts) -> int:
    return sum(wait.status is WaitStatus.WATCHING for wait in facts.waits)


def describe_wait_cancelling(target: str) -> str:
    """Say what the cancelling of a wait on a target would bring about."""
    return f"{describe_target(target)} is not watched for it any more. Its task stays as it is."


def guard_wait(wait: Wait, now: datetime) -> None:
    """Refuse to cancel a wait that has ended.

    Raises:
        NotAllowed: It has ended; the text says how.
    """
    if wait.status is WaitStatus.WATCHING:
        return
    ago = format_duration((now - (wait.ended_at or wait.changed_at)).total_seconds())
    seen = to_plain_line(wait.last_observation or "")
    raise NotAllowed(
        f"The wait for {to_plain_line(wait.target)} had ended {ago} ago: "
        f"{', '.join(filter(None, (wait.status, seen)))}. Nothing was changed."
    )


def describe_cancelled_wait(wait: Wait) -> str:
    """Say what the cancelling of a wait has brought about."""
    told = "the thread of its task says so" if wait.task_id else "its agent learns it when it asks"
    what = f"The wait for {to_plain_line(wait.target)} is cancelled."
    return f"{what} No agent is woken by that; {told}."


def _is_stopped(run: Run) -> bool:
    """True if a run is blocked, and its agent does not have the user's answer already."""
    return run.state is RunState.BLOCKED and not current_run.can_take_answer(run)

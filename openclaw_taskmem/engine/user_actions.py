"""Act on a task or wait in the user's place: on the page, at the command line, in a tab."""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.task_update import UpdateRequest
from openclaw_taskmem.domain.texts import quote_line, to_plain_line
from openclaw_taskmem.domain.user_actions import NEEDS_WORDS, UserAction, list_actions
from openclaw_taskmem.engine import run_handoff, runs, tasks, waits
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import InvalidArguments, NotAllowed, TaskStatus, Wait

_DONE: Final = {
    UserAction.ANSWER: "its agent is told your answer",
    UserAction.APPROVE: "approved, and completed",
    UserAction.SEND_BACK: "sent back, with your words",
    UserAction.ACCEPT: "completed, as you say",
    UserAction.RESUME: "goes on",
    UserAction.PAUSE: "paused",
    UserAction.CANCEL: "cancelled; what was done so far is kept",
}
_WORDS: Final = {UserAction.ANSWER: "your answer", UserAction.SEND_BACK: "what is to be changed"}


def act_on_task(
    context: Context,
    task_id: str,
    action: UserAction,
    words: str | None = None,
    process: str | None = None,
) -> str:
    """Do for a person what they want with a task; return a sentence that says what was done.

    Whether the task allows it is read before the use case commits: a change in between is not
    seen.

    Args:
        context: The context of the use case.
        task_id: Id of the task.
        action: What to do.
        words: The answer, the reason or the instructions; None: none.
        process: The calling process, as `Owner.process`; None: unknown.

    Raises:
        TaskNotFound: No task has that id.
        NotAllowed: The task does not allow that now, perhaps because somebody else was first.
        InvalidArguments: The action takes words, and there are none.
        EvidenceMissing: It is to be completed, and its proof is missing.
        TaskmemError: What else the use case refuses.
    """
    facts = context.store.read_task(task_id)
    asks = runs.find_question(context, facts.run) is not None
    name = quote_line(to_plain_line(facts.task.name), 80)
    allowed = list_actions(facts, asks=asks)
    if action not in allowed:
        can = ", ".join(allowed).replace("_", " ") or "nothing"
        raise NotAllowed(
            f"{name} is {_describe_state(facts.task.status, asks=asks)} now, so you cannot "
            f"{action.replace('_', ' ')} it; you can: {can}. Nothing was changed."
        )
    if action in NEEDS_WORDS and not (words or "").strip():
        raise InvalidArguments(f"Say {_WORDS[action]}. Nothing was changed.")
    person = Caller(person=True, home=context.store.scope)
    match action:
        case UserAction.ANSWER | UserAction.SEND_BACK | UserAction.RESUME:
            runs.resume_task(context, task_id, person, answer=words or None)
        case UserAction.APPROVE:
            _write_status(context, task_id, TaskStatus.COMPLETED, words, person)
        case UserAction.PAUSE:
            _write_status(context, task_id, TaskStatus.PAUSED, words, person)
        case UserAction.ACCEPT:
            tasks.accept_completion(context, task_id, words, process)
        case UserAction.CANCEL:
            run_handoff.cancel_task(context, task_id, words or "The user said so.", person)
    return f"{name}: {_DONE[action]}."


def cancel_wait(context: Context, wait_id: str, words: str | None = None) -> str:
    """Cancel a wait for a person; return a sentence that says what was done.

    A wait that has ended stays as it is.

    Raises:
        WaitNotFound: No wait has that id.
    """
    person = Caller(person=True, home=context.store.scope)
    wait: Wait = waits.cancel_wait(context, wait_id, words or "The user said so.", person)
    return f"Nobody waits for {to_plain_line(wait.target)} here any more; the agent is told so."


def _write_status(
    context: Context, task_id: str, status: TaskStatus, words: str | None, person: Caller
) -> None:
    wish = UpdateRequest(message=words or None, status=status, caller=person)
    tasks.write_update(context, task_id, wish)


def _describe_state(status: TaskStatus, *, asks: bool) -> str:
    return "asking you something" if asks else str(status)

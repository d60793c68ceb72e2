"""Act on a task or wait in the user's place: on the page, at the command line, in a tab."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from openclaw_taskmem.domain.callers.callers import Caller
from openclaw_taskmem.domain.changes.task_update import Acceptance, UpdateRequest
from openclaw_taskmem.domain.text.text_safety import has_visible_text
from openclaw_taskmem.domain.text.texts import quote_line, to_plain_line
from openclaw_taskmem.domain.views import user_actions
from openclaw_taskmem.domain.views.user_actions import (
    NEEDED_WORDS,
    ActRequest,
    UserAction,
    list_actions,
)
from openclaw_taskmem.domain.wakes.notices import NAME_BYTES
from openclaw_taskmem.engine import reviews, run_handoff, runs, tasks, user_questions, waits
from openclaw_taskmem.engine.agent_reach import find_unreached
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import InvalidArguments, NotAllowed, TaskFacts, TaskStatus

ASKED_BYTES: Final = 1_000
"""Longest excerpt of a question in a refusal."""


def act_on_task(context: Context, task_id: str, request: ActRequest) -> str:
    """Do for a person what they want with a task; return a sentence that says what was done.

    Whether the task allows it is decided on the facts that the change is committed on, so of two
    people who act at once, the second is refused.

    Raises:
        TaskNotFound: No task has that id.
        NotAllowed: The task does not allow that now, perhaps because somebody else was first.
        InvalidArguments: The action takes words, and there are none; or the question that is
            answered, or the files that are approved, are not those of now.
        EvidenceMissing: It is to be completed, and its proof is missing.
        TaskmemError: What else the use case refuses.
    """
    action, words = request.action, request.words or None
    guard = partial(_guard_act, context, request)
    person = Caller(person=True, home=context.store.scope)
    write = partial(_write_status, context, task_id, words=words, caller=person, guard=guard)
    match action:
        case UserAction.ANSWER | UserAction.SEND_BACK | UserAction.RESUME:
            runs.take_up_task(context, task_id, person, answer=words, guard=guard)
        case UserAction.APPROVE:
            write(TaskStatus.COMPLETED, reviewed=True)
        case UserAction.PAUSE:
            write(TaskStatus.PAUSED)
        case UserAction.ACCEPT:
            acceptance = Acceptance(because=words, process=request.process)
            write(TaskStatus.COMPLETED, acceptance=acceptance)
        case UserAction.CANCEL:
            reason = words or "The user said so."
            run_handoff.cancel_task(context, task_id, reason, person, guard)
    facts = context.store.read_task(task_id)
    name = quote_line(to_plain_line(facts.task.name), NAME_BYTES)
    return f"{name}: {user_actions.describe_done(action, find_unreached(context, facts))}"


def cancel_wait(context: Context, wait_id: str, words: str | None = None) -> str:
    """Cancel a wait for a person; return a sentence that says what was done.

    Raises:
        WaitNotFound: No wait has that id.
        NotAllowed: It has ended; the text says how. Nothing was changed.
    """
    person, now = Caller(person=True, home=context.store.scope), context.clock.now()
    reason, guard = words or "The user said so.", partial(user_actions.guard_wait, now=now)
    wait = waits.cancel_wait(context, wait_id, reason, person, guard)
    return user_actions.describe_cancelled_wait(wait)


def _guard_act(context: Context, request: ActRequest, facts: TaskFacts) -> None:
    """Refuse what a person may not do with a task as it is now.

    Raises:
        NotAllowed: The task does not allow it; the text says what it does.
        InvalidArguments: The action takes words, and there are none; or the person was shown
            another question.
    """
    action = request.action
    name = quote_line(to_plain_line(facts.task.name), NAME_BYTES)
    question = user_questions.find_question(context, facts.run)
    asks = question is not None
    allowed = list_actions(facts, asks=asks)
    if action not in allowed:
        can = ", ".join(allowed).replace("_", " ")
        rest = f"; you can: {can}" if can else ". There is nothing to do with it any more"
        raise NotAllowed(
            f"{name} is {user_actions.describe_state(facts, asks=asks)} now, so you cannot "
            f"{action.replace('_', ' ')} it{rest}. Nothing was changed."
        )
    if action in NEEDED_WORDS and not has_visible_text(request.words or ""):
        raise InvalidArguments(f"Say {NEEDED_WORDS[action]}. Nothing was changed.")
    if action is UserAction.ANSWER and question and question.key != request.question_id:
        asked = (facts.run and facts.run.dialogue.question) or question.text
        raise InvalidArguments(
            f"{name} asks you now: {quote_line(to_plain_line(asked), ASKED_BYTES)} "
            "Your answer was to another question, or to none, so it was not sent. Answer again."
        )
    approves = action is UserAction.APPROVE
    if approves and request.files_id != reviews.read_files_id(context, facts):
        raise InvalidArguments(
            f"You were not shown what {name} made, as it is now. Look at it with taskmem show "
            f"{facts.task.task_id}, and approve it again. Nothing was changed."
        )


def _write_status(
    context: Context,
    task_id: str,
    status: TaskStatus,
    *,
    acceptance: Acceptance | None = None,
    reviewed: bool = False,
    words: str | None,
    caller: Caller,
    guard: Callable[[TaskFacts], None],
) -> None:
    wish = UpdateRequest(
        message=words, status=status, acceptance=acceptance, reviewed=reviewed, caller=caller
    )
    tasks.write_update(context, task_id, wish, guard)

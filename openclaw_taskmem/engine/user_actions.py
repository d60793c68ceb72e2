"""Act on a task or wait in the user's place: on the page, at the command line, in a chat."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Final

from openclaw_taskmem.domain import callers, events
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.task_update import Acceptance, UpdateRequest
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import clip, has_visible_text, quote_line, to_plain_line
from openclaw_taskmem.domain.views import user_actions
from openclaw_taskmem.domain.views.user_actions import (
    ASKED_BYTES,
    MOST_ENDED,
    NAMED_BYTES,
    NEEDED_WORDS,
    ActRequest,
    Command,
    ListedTask,
    UserAction,
    choose_task,
    describe_list,
    describe_listed,
    describe_way_to_answer,
    list_actions,
)
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.domain.wakes.notices import NAME_BYTES
from openclaw_taskmem.engine import (
    evidence,
    gateway_reports,
    overview,
    run_handoff,
    runs,
    tasks,
    waits,
)
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.lookup import find_failure, is_failure_seen
from openclaw_taskmem.engine.run_guards import SEARCHED_ROWS, list_background_runs, list_own_tasks
from openclaw_taskmem.engine.run_history import find_last_run, find_runs, get_session_key
from openclaw_taskmem.engine.wakes import find_unreached
from taskmem_hookspecs import (
    Change,
    InvalidArguments,
    NotAllowed,
    RunQuery,
    RunState,
    Task,
    TaskFacts,
    TaskmemError,
    TaskQuery,
    TaskStatus,
    Value,
    WaitStatus,
)

_REFUSED_QUESTION_BYTES: Final = 1_000
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

    def write(
        status: TaskStatus, acceptance: Acceptance | None = None, *, reviewed: bool = False
    ) -> None:
        update = UpdateRequest(
            message=words, status=status, acceptance=acceptance, reviewed=reviewed, caller=person
        )
        tasks.write_update(context, task_id, update, guard)

    match action:
        case UserAction.ANSWER | UserAction.SEND_BACK | UserAction.RESUME:
            runs.take_up_task(context, task_id, person, answer=words, guard=guard)
        case UserAction.APPROVE:
            write(TaskStatus.COMPLETED, reviewed=True)
        case UserAction.PAUSE:
            write(TaskStatus.PAUSED)
        case UserAction.ACCEPT:
            acceptance = Acceptance(because=words, process=request.process)
            write(TaskStatus.COMPLETED, acceptance)
        case UserAction.RESET:
            run_handoff.reset_run(context, task_id, person, guard)
        case UserAction.CANCEL:
            reason = words or "The user gave no reason."
            run_handoff.cancel_task(context, task_id, reason, person, guard)
        case UserAction.SEEN:
            context.update_task(task_id, partial(_leave_failed, guard))
    facts = context.store.read_task(task_id)
    name = quote_line(to_plain_line(facts.task.name), NAME_BYTES)
    return f"{name}: {user_actions.describe_done(action, find_unreached(context, facts))}"


def _leave_failed(
    guard: Callable[[TaskFacts], None], facts: TaskFacts, now: datetime
) -> tuple[Change, None]:
    guard(facts)
    return Change(events=(events.build_event(events.FAILURE_SEEN, facts.task, now),)), None


def cancel_wait(context: Context, wait_id: str, words: str | None = None) -> str:
    """Cancel a wait for a person; return a sentence that says what was done.

    Raises:
        WaitNotFound: No wait has that id.
        NotAllowed: It has ended; the text says how. Nothing was changed.
    """
    person, now = Caller(person=True, home=context.store.scope), context.clock.now()
    reason, guard = words or "The user gave no reason.", partial(user_actions.guard_wait, now=now)
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
    question = runs.find_question(context, facts.run)
    asks = question is not None
    seen = is_failure_seen(context, facts.task)
    allowed = list_actions(facts, asks=asks, seen_failed=seen)
    if action not in allowed:
        can = ", ".join(allowed).replace("_", " ")
        rest = f"; you can: {can}" if can else ". There is nothing to do with it any more"
        verb, _, way = ("leave" if action is UserAction.SEEN else action).partition("_")
        act = f"{verb} it {way}".rstrip()
        raise NotAllowed(
            f"{name} is {user_actions.describe_state(facts, asks=asks)} now, so you cannot "
            f"{act}{rest}. Nothing was changed."
        )
    if action in NEEDED_WORDS and not has_visible_text(request.words or ""):
        raise InvalidArguments(f"Say {NEEDED_WORDS[action]}. Nothing was changed.")
    if action is UserAction.ANSWER and question and question.key != request.question_id:
        text = (facts.run and facts.run.dialogue.question) or question.text
        raise InvalidArguments(
            f"{name} asks you now: {quote_line(to_plain_line(text), _REFUSED_QUESTION_BYTES)} "
            "Your answer was to another question, or to none, so it was not sent. Answer again."
        )
    approves = action is UserAction.APPROVE
    if approves and request.files_id != evidence.read_files_id(context, facts):
        raise InvalidArguments(
            f"You were not shown what {name} made, as it is now. Look at it with taskmem show "
            f"{facts.task.task_id}, and approve it again. Nothing was changed."
        )


# --- commands in a chat --------------------------------------------------------------------


LISTED_BOOKMARK: Final = "listed"
"""Name of the bookmark with the numbered tasks of each session, in JSON; listed last is last."""
MOST_LISTED: Final = 100
"""Sessions whose numbers are kept."""
_TERMINAL_STATES: Final = tuple(state for state in RunState if state.terminal)


class CommandReply(Value):
    """The result of a command."""

    text: str = ""
    """The immediate answer to the person."""
    task_id: str | None = None
    packet: str | None = None
    """The agent's packet in the turn that the command begins; None: it begins no turn."""


def run_command(context: Context, command: Command, words: str, caller: Caller) -> CommandReply:
    """Run a command that a person gave in the chat of the caller's session."""
    now, session = context.clock.now(), caller.session_key
    listed = list_chat_tasks(context, session, caller.host) if session is not None else []
    named = _number_tasks(context, session, listed, anew=command is Command.TASKS)
    if command is Command.TASKS:
        return CommandReply(text=describe_list(named, now))
    choice = choose_task(_list_choices(listed, named, words), command, words, now)
    if choice.one is None:
        return CommandReply(text=choice.reply)
    task = choice.one.task
    try:
        if command is Command.CANCEL:
            return _cancel_task(context, choice.one, caller)
        if _is_at_work_elsewhere(choice.one, session):
            line = describe_listed([choice.one], now)
            return CommandReply(text=f"{line}\n{_describe_work(choice.one)}")
        answer = choice.words or None
        return _resume_task(context, choice.one, answer, caller, named=bool(words.strip()))
    except TaskmemError as error:
        return CommandReply(text=str(error).replace(task.task_id, notices.format_task_name(task)))


def _is_at_work_elsewhere(listed: ListedTask, session: str | None) -> bool:
    """Tell whether a task is worked on in the background, so nobody else may write for it."""
    run = listed.run
    away = run is not None and run.told_session == session
    return away and run is not None and run.state is RunState.RUNNING


def _describe_work(listed: ListedTask) -> str:
    """Say why a task in the background is not resumed."""
    if listed.run is not None and current_run.is_at_work(listed.run):
        return "It is worked on already, and asks nothing."
    if listed.waits:
        return "It goes on when what it waits for has come, and asks nothing."
    return "No turn works on it now; it goes on with its next, and asks nothing."


def list_chat_tasks(context: Context, session: str, host: str | None = None) -> list[ListedTask]:
    """Return the tasks of a session, numbered for people.

    Its open tasks come first, then those in the background, then the last that ended.
    """
    own = _sort_latest_first(list_own_tasks(context, session, host, implicit=None))
    away = (run.task_id for run in list_background_runs(context, session, host))
    ended = (task.task_id for task in _list_ended(context, session, host))
    ids = dict.fromkeys((*(task.task_id for task in own), *away, *ended))
    return [_build_listed_task(context, task_id, number) for number, task_id in enumerate(ids, 1)]


def _list_choices(
    listed: list[ListedTask], named: list[ListedTask], words: str
) -> list[ListedTask]:
    """Return the tasks that a command may mean.

    Implicit tasks left by a crash are meant if no other task is open and none is named.
    """
    is_open = any(not each.task.status.terminal for each in named)
    if not named or not (is_open or words.strip()):
        return [each for each in listed if each.task.implicit] or named
    return named


def _number_tasks(
    context: Context, session: str | None, listed: list[ListedTask], *, anew: bool
) -> list[ListedTask]:
    """Return the registered tasks by the numbers that people know.

    A number keeps its task until the list is asked for again (`anew`); new tasks get numbers after
    it, or until many other sessions were listed.
    """
    named = {each.task.task_id: each for each in listed if not each.task.implicit}
    order = [*named]
    if session is not None and named:
        with context.lock_subjects(LISTED_BOOKMARK):
            lists: dict[str, list[str]] = json.loads(
                context.store.read_bookmark(LISTED_BOOKMARK) or "{}"
            )
            former = lists.pop(session, [])
            order = [*dict.fromkeys(order if anew else (*former, *order))]
            if anew or order != former:
                newest = dict([*lists.items(), (session, order)][-MOST_LISTED:])
                bookmark = context.store.make_bookmark(LISTED_BOOKMARK, json.dumps(newest))
                context.commit(Change(bookmarks=(bookmark,)))
    return [
        named[task_id].model_copy(update={"number": number})
        for number, task_id in enumerate(order, 1)
        if task_id in named
    ]


def _list_ended(context: Context, session: str, host: str | None) -> list[Task]:
    over = (status for status in TaskStatus if status.terminal)
    found = [
        task
        for status in over
        for task in context.store.find_tasks(
            TaskQuery(status=status, limit=MOST_ENDED, session_key=session, implicit=False)
        )
        if not callers.is_other_gateway(task.host, host)
    ]
    found += (
        context.store.read_task(run.task_id).task
        for run in find_runs(context, RunQuery(states=_TERMINAL_STATES), SEARCHED_ROWS)
        if run.told_session == session and not context.is_elsewhere(run, host)
    )
    distinct = {task.task_id: task for task in found if task.status.terminal}
    return _sort_latest_first(distinct.values())[:MOST_ENDED]


def _sort_latest_first(tasks: Iterable[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: task.updated_at, reverse=True)


def _build_listed_task(context: Context, task_id: str, number: int) -> ListedTask:
    facts = context.store.read_task(task_id)
    run = facts.run or find_last_run(context, task_id)
    return ListedTask(
        number=number,
        task=facts.task,
        run=run,
        failure=find_failure(context, facts.task, run),
        waits=tuple(w for w in facts.waits if w.status is WaitStatus.WATCHING),
    )


def _cancel_task(context: Context, listed: ListedTask, caller: Caller) -> CommandReply:
    task, dropped = listed.task, _describe_dropped(context, listed)
    person = Caller(person=True, session_key=caller.session_key, home=caller.home)
    run_handoff.cancel_task(context, task.task_id, "The user gave no reason.", person)
    text = f"{notices.format_task_name(task)}: cancelled; what was done so far is kept."
    session = get_session_key(task, find_last_run(context, task.task_id))
    running = context.live.running_work.get(session, ())
    about = ", ".join(to_plain_line(scrub(each.about or each.name)) for each in running)
    more = f" Still running: {clip(about, notices.LINE_BYTES)}." if about else ""
    return CommandReply(text=f"{text}{dropped}{more}")


def _describe_dropped(context: Context, listed: ListedTask) -> str:
    """Say which question or review of the user ends with a task; empty: none."""
    if listed.question is not None:
        return f" {_quote_question(listed.question)} is not to be answered any more."
    if listed.run is None or listed.run.state is not RunState.REVIEW:
        return ""
    line = overview.read_line(context, listed.task.task_id)
    files = "; ".join(filter(None, (line.made, line.unproved))) or "nothing was seen to be made"
    return f" You need not review it any more ({clip(files, notices.LINE_BYTES)})."


def _quote_question(question: str) -> str:
    return quote_line(to_plain_line(question), ASKED_BYTES)


def _repeat_question(
    context: Context, listed: ListedTask, caller: Caller, *, named: bool
) -> CommandReply:
    """Repeat a task's question: to its agent, which then asks the user.

    The user reads it directly if the task was named, or its agent is in another session.
    """
    task, run = listed.task, listed.run
    session, host = caller.session_key or "", caller.host
    found = gateway_reports.build_reminder(context, session, host=host, task_id=task.task_id)
    away = run is not None and run.told_session == session
    if named or found is None or away:
        shown = describe_listed([listed], context.clock.now())
        return CommandReply(text=f"{shown}\n{describe_way_to_answer([listed])}")
    packet = gateway_reports.prepend_waiting_tasks(context, session, found[1], host)
    return CommandReply(task_id=task.task_id, packet=packet)


def _resume_task(
    context: Context, listed: ListedTask, answer: str | None, caller: Caller, *, named: bool
) -> CommandReply:
    """Resume a task, or deliver the user's answer to its agent if it has asked."""
    task = listed.task
    if listed.question is not None and answer is None:
        return _repeat_question(context, listed, caller, named=named)
    if answer is not None and listed.run and current_run.can_take_answer(listed.run):
        person = Caller(person=True, session_key=caller.session_key, home=caller.home)
        runs.take_up_task(context, task.task_id, person, answer=answer)
        quote, asked = quote_line(to_plain_line(answer), NAMED_BYTES), listed.question
        text = f"{notices.format_task_name(task)}: its agent is told your answer: {quote}."
        question = "" if asked is None else f" It had asked: {_quote_question(asked)}"
        return CommandReply(text=f"{text}{question}")
    # A command counts as the user's own words, whichever turn runs.
    word = {"request": answer, "turn_since": None, "by_command": True}
    user = caller.model_copy(update=word)
    again, run, packet = runs.resume_task(context, task.task_id, user, answer=answer)
    if run is not None and run.told_session == caller.session_key:
        answered = "is told so, and " if answer is not None else ""
        name = notices.format_task_name(task)
        return CommandReply(text=f"{name}: its agent {answered}goes on in the background.")
    return CommandReply(task_id=again.task_id, packet=packet)

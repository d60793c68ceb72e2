"""What the daemon does at a person's word in a chat: list, take up, call off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from openclaw_taskmem.domain import notices, ways, working
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.scrub import scrub
from openclaw_taskmem.domain.task_commands import (
    ENDED,
    NAMED_BYTES,
    Command,
    Listed,
    choose,
    describe_list,
    describe_listed,
    describe_way_to_answer,
)
from openclaw_taskmem.domain.texts import clip, plain, quoted
from openclaw_taskmem.engine import gateway, handovers, runs
from openclaw_taskmem.engine.history import last_run
from openclaw_taskmem.engine.holding import PAGE, away, own_tasks
from openclaw_taskmem.engine.packets import session_of
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import (
    Change,
    EventQuery,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskmemError,
    TaskQuery,
    TaskStatus,
    Value,
    WaitStatus,
)

_OVER: Final = tuple(state for state in RunState if state.terminal)


class Reply(Value):
    """What comes of a command."""

    text: str = ""
    """What the person reads at once."""
    task_id: str | None = None
    packet: str | None = None
    """What its agent goes on with, in a turn that the command begins; None: there is
    no such turn."""


def obey(shell: Shell, command: Command, words: str, caller: Caller) -> Reply:
    """Do what a person says in the chat of the caller's session."""
    now, session = shell.clock.now(), caller.session_key
    listed = list_chat(shell, session, caller.host) if session is not None else []
    named = _numbered(shell, session, listed, anew=command is Command.TASKS)
    if command is Command.TASKS:
        return Reply(text=describe_list(named, now))
    choice = choose(_choices(listed, named, words), command, words, now)
    if choice.one is None:
        return Reply(text=choice.reply)
    task = choice.one.task
    try:
        if command is Command.CANCEL:
            return _cancel(shell, task, caller)
        if _is_at_work_elsewhere(choice.one, session):
            line = describe_listed([choice.one], now)
            return Reply(text=f"{line}\n{_describe_work(choice.one)}")
        said = choice.words or None
        return _resume(shell, choice.one, said, caller, named=bool(words.strip()))
    except TaskmemError as error:
        return Reply(text=str(error).replace(task.task_id, notices.name(task)))


def _is_at_work_elsewhere(listed: Listed, session: str | None) -> bool:
    """Whether a task is worked on in the background: nobody else may write for it."""
    run = listed.run
    away = run is not None and run.told_session == session
    return away and run is not None and run.state is RunState.RUNNING


def _describe_work(listed: Listed) -> str:
    """Say why a task in the background is not taken up: it goes on as it is."""
    if listed.run is not None and working.at_work(listed.run):
        return "It is worked on already, and asks nothing."
    if listed.waits:
        return "It goes on when what it waits for has come, and asks nothing."
    return "No turn works on it now; it goes on with its next, and asks nothing."


def list_chat(shell: Shell, session: str, host: str | None = None) -> list[Listed]:
    """Return the tasks of a session as people count them.

    First its own that are open, then those in the background, then the last that ended.
    """
    listed: list[Listed] = []
    seen: set[str] = set()
    for task in chain(
        *(each(shell, session, host) for each in (_own, _away, _list_ended))
    ):
        if task.task_id not in seen:
            seen.add(task.task_id)
            listed.append(_listed(shell, task, len(listed) + 1))
    return listed


def _choices(listed: list[Listed], named: list[Listed], words: str) -> list[Listed]:
    """Return the tasks that a command may mean.

    What a crash has left of a turn is meant where no other task is open, and none is
    named.
    """
    is_open = any(not each.task.status.terminal for each in named)
    if not named or not (is_open or words.strip()):
        return [each for each in listed if each.task.implicit] or named
    return named


def _numbered(
    shell: Shell, session: str | None, listed: list[Listed], *, anew: bool
) -> list[Listed]:
    """Return those that an agent has registered, by the numbers that people know.

    A number means one task until the list is asked for again, which counts `anew`:
    whatever has begun or ended since comes after it.
    """
    named = {each.task.task_id: each for each in listed if not each.task.implicit}
    name = f"listed:{session}"
    before = shell.store.read_bookmark(name) or ""
    known = [] if anew else before.split()
    order = [*dict.fromkeys((*known, *named))]
    if named and (after := " ".join(order)) != before:
        mark = shell.store.bookmark(name, after)
        shell.commit(Change(bookmarks=(mark,)))
    return [
        named[task_id].model_copy(update={"number": number})
        for number, task_id in enumerate(order, 1)
        if task_id in named
    ]


def _own(shell: Shell, session: str, host: str | None) -> list[Task]:
    return _latest_first(own_tasks(shell, session, host, implicit=None))


def _away(shell: Shell, session: str, host: str | None) -> Iterator[Task]:
    for run in away(shell, session, host):
        yield shell.store.read_task(run.task_id).task


def _list_ended(shell: Shell, session: str, host: str | None) -> list[Task]:
    over = (status for status in TaskStatus if status.terminal)
    found = [
        task
        for status in over
        for task in shell.store.find_tasks(
            TaskQuery(status=status, limit=ENDED, session_key=session, implicit=False)
        )
        if not ways.is_other_gateway(task.host, host)
    ]
    found += (
        shell.store.read_task(run.task_id).task
        for run in shell.store.find_runs(RunQuery(states=_OVER, limit=PAGE))
        if run.told_session == session and not shell.is_elsewhere(run, host)
    )
    distinct = {task.task_id: task for task in found if task.status.terminal}
    return _latest_first(distinct.values())[:ENDED]


def _latest_first(tasks: Iterable[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: task.updated_at, reverse=True)


def _listed(shell: Shell, task: Task, number: int) -> Listed:
    facts = shell.store.read_task(task.task_id)
    run = facts.run or last_run(shell, task.task_id)
    return Listed(
        number=number,
        task=facts.task,
        run=run,
        failure=_failure(shell, facts.task, run),
        waits=tuple(w for w in facts.waits if w.status is WaitStatus.WATCHING),
    )


def _failure(shell: Shell, task: Task, run: Run | None) -> str:
    """Return why a task has failed, as its user was told; empty: it has not."""
    if task.status is not TaskStatus.FAILED:
        return ""
    newest = shell.store.find_events(EventQuery(task_id=task.task_id, limit=PAGE))
    said = (notices.failure_of(event, task, run) for event in reversed(newest))
    return next(filter(None, said), "")


def _cancel(shell: Shell, task: Task, caller: Caller) -> Reply:
    person = Caller(person=True, session_key=caller.session_key, home=caller.home)
    handovers.cancel(shell, task.task_id, "The user said so.", person)
    text = f"{notices.name(task)}: cancelled; what was done so far is kept."
    session = session_of(task, last_run(shell, task.task_id))
    running = shell.still_running.get(session, ())
    about = ", ".join(plain(scrub(each.about or each.name)) for each in running)
    more = f" Still running: {clip(about, notices.LINE_BYTES)}." if about else ""
    return Reply(text=f"{text}{more}")


def _ask_again(shell: Shell, listed: Listed, caller: Caller, *, named: bool) -> Reply:
    """Put what a task asks before its agent.

    Its user reads it where the task was named, or its agent is elsewhere.
    """
    task, run = listed.task, listed.run
    session, host = caller.session_key or "", caller.host
    found = gateway.reminder(shell, session, host=host, task_id=task.task_id)
    away = run is not None and run.told_session == session
    if named or found is None or away:
        shown = describe_listed([listed], shell.clock.now())
        return Reply(text=f"{shown}\n{describe_way_to_answer([listed])}")
    packet = gateway.after_question(shell, session, found[1], host)
    return Reply(task_id=task.task_id, packet=packet)


def _resume(
    shell: Shell, listed: Listed, answer: str | None, caller: Caller, *, named: bool
) -> Reply:
    """Take a task up; one that asks waits on, and its agent is told the answer."""
    task = listed.task
    if listed.question is not None and answer is None:
        return _ask_again(shell, listed, caller, named=named)
    if answer is not None and listed.run and working.takes_answer(listed.run):
        person = Caller(person=True, session_key=caller.session_key, home=caller.home)
        runs.resume(shell, task.task_id, person, answer=answer)
        said = quoted(plain(answer), NAMED_BYTES)
        text = f"{notices.name(task)}: its agent is told your answer: {said}."
        return Reply(text=text)
    # Their command is their word, whatever turn runs meanwhile.
    word = {"request": answer, "turn_since": None, "by_command": True}
    user = caller.model_copy(update=word)
    again, run, packet = runs.resume(shell, task.task_id, user, answer=answer)
    if run is not None and run.told_session == caller.session_key:
        told = "is told so, and " if answer is not None else ""
        name = notices.name(task)
        return Reply(text=f"{name}: its agent {told}goes on in the background.")
    return Reply(task_id=again.task_id, packet=packet)

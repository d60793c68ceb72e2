"""Which task of a chat a person means by `/tasks`, `/resume` and `/cancel`.

A task is named by its number in the list, its name, or the beginning of its name or id;
the only one need not be named. Where several are meant, they are listed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final
from unicodedata import normalize

from openclaw_taskmem.domain import notices, working
from openclaw_taskmem.domain.plan import progress
from openclaw_taskmem.domain.run_policy import Why
from openclaw_taskmem.domain.targets import describe_target
from openclaw_taskmem.domain.texts import (
    brief,
    clip,
    one_line,
    plain,
    quoted,
    step_words,
)
from taskmem_hookspecs import Run, Task, TaskStatus, Value, Wait

ENDED: Final = 3
"""Tasks of a chat that have ended and are still listed."""
LONGEST_ANSWER: Final = 1000
"""Characters of what a person says to a task's question."""
NAMED_BYTES: Final = 60
"""Of words that name no task, in the answer that says so."""
ASKED_BYTES: Final = 200
"""Of a task's question to the user, or why it has failed, in the list."""
_OPEN: Final = (TaskStatus.ACTIVE, TaskStatus.PAUSED)
_WORD: Final = re.compile(r"\S+")
_NUMBER: Final = re.compile(r"#?(\d{1,3})\.?")
_ID_PREFIX: Final = len("task_") + 1


class Command(StrEnum):
    """The commands of a chat."""

    TASKS = "tasks"
    RESUME = "resume"
    CANCEL = "cancel"


_TAKES: Final = {
    Command.RESUME: (*_OPEN, TaskStatus.FAILED, TaskStatus.CANCELLED),
    Command.CANCEL: _OPEN,
}
"""The statuses from which a task can be resumed, and cancelled."""
_NOTHING: Final = {
    Command.RESUME: "This chat has no task to resume.",
    Command.CANCEL: "This chat has no task to cancel.",
}

_TOO_LONG: Final = (
    f"An answer can have {LONGEST_ANSWER:,} characters at most; nothing was done."
)
_NOT_IT: Final = {
    Command.RESUME: "It cannot be resumed.",
    Command.CANCEL: "It cannot be cancelled.",
}


class Listed(Value):
    """One task of a chat, as its list shows it."""

    number: int
    """Its place in the list, from 1."""
    task: Task
    run: Run | None = None
    """Its newest run; None: it has none."""
    waits: tuple[Wait, ...] = ()
    """Those that are watched."""
    failure: str = ""
    """Why it has failed, as its user was told; empty: it has not, or nothing was."""

    @property
    def question(self) -> str | None:
        """Return what it asks the user; None: nothing."""
        run = self.run
        return run.question if run is not None and working.asks(run) else None


class Choice(Value):
    """Which task is meant."""

    one: Listed | None = None
    """None: it is not known which."""
    words: str = ""
    """What else was said, for its agent."""
    reply: str = ""
    """What is answered where it is not known."""


def choose(
    listed: Sequence[Listed], command: Command, words: str, now: datetime
) -> Choice:
    """Return the task that is meant by the words after a command.

    What follows a task's name after `/resume` is told its agent. Where just one task
    asks something, words that name no task, and do not begin like another's name, are
    its answer. `/cancel` takes but a name.
    """
    words = normalize("NFC", words.strip())
    may = [each for each in listed if each.task.status in _TAKES[command]]
    if not may:
        return Choice(reply=_NOTHING[command])
    if len(words) > LONGEST_ANSWER:
        return Choice(reply=_TOO_LONG)
    if not words:
        found = may if command is Command.CANCEL else _resting(may)
        return _only(found, command, "", now)
    resumes = command is Command.RESUME
    asking = [each for each in may if resumes and each.question is not None]
    found, rest = _named(listed, words, asking)
    if not found and resumes and not asking:
        found, rest = _begun(may, words)
    if not found or (rest and not resumes):
        return _answer(may, command, words, asking, now)
    taken = [each for each in found if each in may]
    if not taken:
        return Choice(reply=f"{describe_listed(found, now)}\n{_NOT_IT[command]}")
    return _only(_not_cancelled(taken) or taken, command, rest, now)


def _answer(
    may: Sequence[Listed],
    command: Command,
    words: str,
    asking: Sequence[Listed],
    now: datetime,
) -> Choice:
    """Return whom words answer that name no task: the only one that asks, or may.

    What was cancelled is reopened by its name, or where nothing is said.
    """
    only = asking if len(asking) == 1 else _not_cancelled(may)
    first = words.split(maxsplit=1)[0].casefold()
    others = (_name(each).casefold() for each in may if each not in only)
    meant = not any(name.startswith(first) for name in others)
    if command is Command.RESUME and len(only) == 1 and meant:
        return Choice(one=only[0], words=words)
    what = quoted(plain(words), NAMED_BYTES)
    return Choice(reply=f"No task here is called {what}.\n{_which(may, command, now)}")


def describe_listed(listed: Sequence[Listed], now: datetime) -> str:
    """Return the lines of a list, each with what its task does or waits for."""
    return "\n".join(_line(each, now) for each in listed)


def describe_list(listed: Sequence[Listed], now: datetime) -> str:
    """Return what `/tasks` answers."""
    if not listed:
        return "This chat has no tasks."
    ways = {Command.RESUME: "resumes one", Command.CANCEL: "cancels one"}
    able = [
        f"/{command} NUMBER {does}"
        for command, does in ways.items()
        if any(each.task.status in _TAKES[command] for each in listed)
    ]
    asking = [each for each in listed if each.question is not None]
    lines = (
        describe_listed(listed, now),
        describe_way_to_answer(asking) if asking else "",
        f"{', '.join(able)}." if able else "",
    )
    return "\n".join(filter(None, lines))


def describe_way_to_answer(asking: Sequence[Listed]) -> str:
    """Say how tasks that ask something are answered in this chat.

    What is written there without a command does not reach the background.
    """
    number = str(asking[0].number) if len(asking) == 1 else "NUMBER"
    away = any(each.run and each.run.told_session for each in asking)
    way = "Answer with" if away else "Answer by writing, or with"
    return f"{way} /{Command.RESUME} {number} YOUR ANSWER."


def _resting(may: Sequence[Listed]) -> Sequence[Listed]:
    """Return which of the tasks are meant by `/resume` alone.

    Those that rest come before those that are worked on, then what has failed, and
    what was cancelled last.
    """
    open_ = [each for each in may if each.task.status in _OPEN]
    rest = [e for e in open_ if e.run is None or not working.at_work(e.run)]
    return rest or open_ or _not_cancelled(may) or may


def _not_cancelled(may: Sequence[Listed]) -> Sequence[Listed]:
    return [e for e in may if e.task.status is not TaskStatus.CANCELLED]


def _only(
    found: Sequence[Listed], command: Command, rest: str, now: datetime
) -> Choice:
    if len(found) == 1:
        return Choice(one=found[0], words=rest)
    return Choice(reply=_which(found, command, now))


def _which(found: Sequence[Listed], command: Command, now: datetime) -> str:
    example = f"/{command} {found[0].number}"
    return f"{describe_listed(found, now)}\nSay which one, for example {example}."


def _named(
    listed: Sequence[Listed], words: str, asking: Sequence[Listed]
) -> tuple[Sequence[Listed], str]:
    """Return the tasks that the words name first, and the rest; none: they name none.

    A number with more words after it may begin a name, which is meant then. Where tasks
    ask something, the beginning of a name may be an answer: it names only one that
    asks, by whole words.
    """
    head = words.split(maxsplit=1)[0]
    rest = words[len(head) :].strip()
    wanted, number = one_line(words).casefold(), _NUMBER.fullmatch(head)
    long_enough = len(head) >= _ID_PREFIX
    by_id = [e for e in listed if e.task.task_id.startswith(head.lower())]
    same = [e for e in listed if _name(e).casefold() == wanted]
    numbered = [e for e in listed if number and e.number == int(number[1])]
    begun = [e for e in asking if _begins_with(_name(e), wanted)]
    if not asking:
        begun = [e for e in listed if _name(e).casefold().startswith(wanted)]
    whole = [e for e in listed if _begins_with(words, _name(e))]
    longest = max(map(_name, whole), key=len, default="")
    ways: tuple[tuple[Sequence[Listed], str], ...] = (
        (by_id if long_enough else [], rest),
        (same, ""),
        (numbered if not rest else [], ""),
        (begun, ""),
        (numbered, rest),
        ([e for e in whole if _name(e) == longest], words[len(longest) :].strip()),
    )
    return next((way for way in ways if way[0]), ((), ""))


def _begun(may: Sequence[Listed], words: str) -> tuple[Sequence[Listed], str]:
    """Return the one task whose name begins with the first words, and the rest."""
    for end in reversed([match.end() for match in _WORD.finditer(words)]):
        head = one_line(words[:end])
        found = [each for each in may if _begins_with(_name(each), head)]
        if len(found) == 1:
            return found, words[end:].strip()
    return [], ""


def _begins_with(text: str, beginning: str) -> bool:
    """Whether a text begins with another, in whole words and in any case."""
    size = len(beginning)
    begins = text[:size].casefold() == beginning.casefold()
    return begins and not text[size : size + 1].isalnum()


def _name(listed: Listed) -> str:
    return normalize("NFC", one_line(listed.task.name))


def _line(listed: Listed, now: datetime) -> str:
    task = listed.task
    if task.status.terminal:
        ago = brief((now - task.updated_at).total_seconds())
        why = f". {clip(listed.failure, ASKED_BYTES)}" if listed.failure else ""
        said = f"{task.status} {ago} ago{why}"
    else:
        said = "; ".join(_standing(listed))
    stop = "" if said.endswith((".", "?", "!", "…")) else "."
    return f"{listed.number}. {notices.name(task)}: {said}{stop}"


def _standing(listed: Listed) -> list[str]:
    """Return where an open task stands, and what it waits for."""
    task, run = listed.task, listed.run
    current = progress(task).current
    if current is None:
        where = "all steps done"
    else:
        step = clip(step_words(plain(task.plan[current])), NAMED_BYTES)
        where = f"step {current + 1} of {len(task.plan)} ({step})"
    away = run is not None and run.told_session is not None
    awaited = dict.fromkeys(describe_target(wait.target) for wait in listed.waits)
    state = _state(run) if run is not None else ""
    if task.status is TaskStatus.PAUSED and not state:
        state = "paused"
    said = (
        where,
        "in the background" if away else "",
        f"waits for {', '.join(awaited)}" if awaited else state,
    )
    return [each for each in said if each]


def _state(run: Run) -> str:
    """Say what becomes of a run now; empty: nothing that its user need know."""
    if not run.state.waiting:
        return "at work" if working.at_work(run) else ""
    if working.asks(run) and run.question is not None:
        return f"asks you: {clip(plain(run.question), ASKED_BYTES)}".rstrip(".")
    need = working.describe_need(run)
    if need is None:
        return "stopped" if run.why == Why.STOPPED else "paused"
    return f"waits for {need}"

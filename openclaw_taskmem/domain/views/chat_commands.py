"""Find the task of a chat that a person means by `/tasks`, `/resume` and `/cancel`.

A task is named by its number in the list, its name, or the beginning of its name or id. A single
task need not be named. If several match, they are listed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final
from unicodedata import normalize

from openclaw_taskmem.domain.conditions.targets import describe_target
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import (
    clip,
    clip_step,
    format_short_duration,
    quote_line,
    to_one_line,
    to_plain_line,
)
from openclaw_taskmem.domain.wakes import notices
from taskmem_hookspecs import Run, Task, TaskStatus, Value, Wait

MOST_ENDED: Final = 3
"""Ended tasks of a chat that are still listed."""
LONGEST_ANSWER: Final = 1000
"""Most characters of an answer to a task's question."""
NAMED_BYTES: Final = 60
"""Longest excerpt of words that match no task."""
ASKED_BYTES: Final = 200
"""Longest excerpt of a task's question or failure in the list."""
_OPEN_STATUSES: Final = (TaskStatus.ACTIVE, TaskStatus.PAUSED)
_WORD: Final = re.compile(r"\S+")
_NUMBER: Final = re.compile(r"#?(\d{1,3})\.?")
_ID_PREFIX: Final = len("task_") + 1


class Command(StrEnum):
    """Commands that a person may give in a chat."""

    TASKS = "tasks"
    RESUME = "resume"
    CANCEL = "cancel"


_TAKEN_STATUSES: Final = {
    Command.RESUME: (*_OPEN_STATUSES, TaskStatus.FAILED, TaskStatus.CANCELLED),
    Command.CANCEL: _OPEN_STATUSES,
}
"""Statuses from which a task can be resumed or cancelled."""
_NOTHING_SENTENCES: Final = {
    Command.RESUME: "This chat has no task to resume.",
    Command.CANCEL: "This chat has no task to cancel.",
}

_TOO_LONG: Final = f"An answer can have {LONGEST_ANSWER:,} characters at most; nothing was done."
_NOT_IT: Final = {
    Command.RESUME: "It cannot be resumed.",
    Command.CANCEL: "It cannot be cancelled.",
}


class ListedTask(Value):
    """A task of a chat, as the list shows it."""

    number: int
    """Place in the list, from 1."""
    task: Task
    run: Run | None = None
    """Its newest run; None: none."""
    waits: tuple[Wait, ...] = ()
    """Its active waits."""
    failure: str = ""
    """Why it failed, as the user was told; empty: it did not fail, or no reason was given."""

    @property
    def question(self) -> str | None:
        """Its open question to the user; None: none."""
        run = self.run
        return (
            run.dialogue.question
            if run is not None and current_run.has_open_question(run)
            else None
        )


class TaskChoice(Value):
    """The task that a command means."""

    one: ListedTask | None = None
    """The task; None: not clear."""
    words: str = ""
    """Further words, for its agent."""
    reply: str = ""
    """The answer to the person if the task is not clear."""


def choose_task(
    listed: Sequence[ListedTask], command: Command, words: str, now: datetime
) -> TaskChoice:
    """Find the task that the words after a command mean.

    Words after a task's name go to its agent (`/resume` only). If exactly one task asks something,
    or else only one is not cancelled and may be resumed, words that match no task, and do not begin
    like another task's name, are for that one.
    """
    words = normalize("NFC", words.strip())
    may = [each for each in listed if each.task.status in _TAKEN_STATUSES[command]]
    if not may:
        return TaskChoice(reply=_NOTHING_SENTENCES[command])
    if len(words) > LONGEST_ANSWER:
        return TaskChoice(reply=_TOO_LONG)
    if not words:
        found = may if command is Command.CANCEL else _list_resumable(may)
        return _choose_only(found, command, "", now)
    resumes = command is Command.RESUME
    asking = [each for each in may if resumes and each.question is not None]
    found, rest = _find_named(listed, words, asking)
    if not found and resumes and not asking:
        found, rest = _find_by_beginning(may, words)
    if not found or (rest and not resumes):
        return _choose_answered(may, command, words, asking, now)
    taken = [each for each in found if each in may]
    if not taken:
        return TaskChoice(reply=f"{describe_listed(found, now)}\n{_NOT_IT[command]}")
    return _choose_only(_drop_cancelled(taken) or taken, command, rest, now)


def _choose_answered(
    may: Sequence[ListedTask],
    command: Command,
    words: str,
    asking: Sequence[ListedTask],
    now: datetime,
) -> TaskChoice:
    """Take words that match no task as an answer to the only task that asks, or may be resumed.

    A cancelled task is reopened only by its name, or by `/resume` alone.
    """
    only = asking if len(asking) == 1 else _drop_cancelled(may)
    first = words.split(maxsplit=1)[0].casefold()
    others = (_format_name(each).casefold() for each in may if each not in only)
    meant = not any(name.startswith(first) for name in others)
    if command is Command.RESUME and len(only) == 1 and meant:
        return TaskChoice(one=only[0], words=words)
    what = quote_line(to_plain_line(words), NAMED_BYTES)
    return TaskChoice(reply=f"No task here is called {what}.\n{_ask_which(may, command, now)}")


def describe_listed(listed: Sequence[ListedTask], now: datetime) -> str:
    """Write the lines of a list, each with what its task does or waits for."""
    return "\n".join(_format_line(each, now) for each in listed)


def describe_list(listed: Sequence[ListedTask], now: datetime) -> str:
    """Write the answer to `/tasks`."""
    if not listed:
        return "This chat has no tasks."
    ways = {Command.RESUME: "resumes one", Command.CANCEL: "cancels one"}
    able = [
        f"/{command} NUMBER {does}"
        for command, does in ways.items()
        if any(each.task.status in _TAKEN_STATUSES[command] for each in listed)
    ]
    asking = [each for each in listed if each.question is not None]
    lines = (
        describe_listed(listed, now),
        describe_way_to_answer(asking) if asking else "",
        f"{', '.join(able)}." if able else "",
    )
    return "\n".join(filter(None, lines))


def describe_way_to_answer(asking: Sequence[ListedTask]) -> str:
    """Say how to answer tasks that ask something in this chat.

    Text without a command does not reach the background.
    """
    number = str(asking[0].number) if len(asking) == 1 else "NUMBER"
    away = any(each.run and each.run.told_session for each in asking)
    way = "Answer with" if away else "Answer by writing, or with"
    return f"{way} /{Command.RESUME} {number} YOUR ANSWER."


def _list_resumable(may: Sequence[ListedTask]) -> Sequence[ListedTask]:
    """Return the tasks that `/resume` alone means.

    Open tasks at rest, else open tasks at work, else failed ones, else cancelled ones.
    """
    open_ = [each for each in may if each.task.status in _OPEN_STATUSES]
    rest = [e for e in open_ if e.run is None or not current_run.is_at_work(e.run)]
    return rest or open_ or _drop_cancelled(may) or may


def _drop_cancelled(may: Sequence[ListedTask]) -> Sequence[ListedTask]:
    return [e for e in may if e.task.status is not TaskStatus.CANCELLED]


def _choose_only(
    found: Sequence[ListedTask], command: Command, rest: str, now: datetime
) -> TaskChoice:
    if len(found) == 1:
        return TaskChoice(one=found[0], words=rest)
    return TaskChoice(reply=_ask_which(found, command, now))


def _ask_which(found: Sequence[ListedTask], command: Command, now: datetime) -> str:
    example = f"/{command} {found[0].number}"
    return f"{describe_listed(found, now)}\nSay which one, for example {example}."


def _find_named(
    listed: Sequence[ListedTask], words: str, asking: Sequence[ListedTask]
) -> tuple[Sequence[ListedTask], str]:
    """Return the tasks that the first words name, and the other words; empty: none is named.

    A number followed by words may be the beginning of a name, which has precedence. If tasks ask
    something, the beginning of a name names only a task that asks, in whole words: it may be an
    answer.
    """
    head = words.split(maxsplit=1)[0]
    rest = words[len(head) :].strip()
    wanted, number = to_one_line(words).casefold(), _NUMBER.fullmatch(head)
    long_enough = len(head) >= _ID_PREFIX
    by_id = [e for e in listed if e.task.task_id.startswith(head.lower())]
    same = [e for e in listed if _format_name(e).casefold() == wanted]
    numbered = [e for e in listed if number and e.number == int(number[1])]
    begun = [e for e in asking if _begins_with(_format_name(e), wanted)]
    if not asking:
        begun = [e for e in listed if _format_name(e).casefold().startswith(wanted)]
    whole = [e for e in listed if _begins_with(words, _format_name(e))]
    longest = max(map(_format_name, whole), key=len, default="")
    ways: tuple[tuple[Sequence[ListedTask], str], ...] = (
        (by_id if long_enough else [], rest),
        (same, ""),
        (numbered if not rest else [], ""),
        (begun, ""),
        (numbered, rest),
        ([e for e in whole if _format_name(e) == longest], words[len(longest) :].strip()),
    )
    return next((way for way in ways if way[0]), ((), ""))


def _find_by_beginning(may: Sequence[ListedTask], words: str) -> tuple[Sequence[ListedTask], str]:
    """Return the only task whose name begins with the first words, and the other words."""
    for end in reversed([match.end() for match in _WORD.finditer(words)]):
        head = to_one_line(words[:end])
        found = [each for each in may if _begins_with(_format_name(each), head)]
        if len(found) == 1:
            return found, words[end:].strip()
    return [], ""


def _begins_with(text: str, beginning: str) -> bool:
    """True if a text begins with another, in whole words, ignoring case."""
    size = len(beginning)
    begins = text[:size].casefold() == beginning.casefold()
    return begins and not text[size : size + 1].isalnum()


def _format_name(listed: ListedTask) -> str:
    return normalize("NFC", to_one_line(listed.task.name))


def _format_line(listed: ListedTask, now: datetime) -> str:
    task = listed.task
    if task.status.terminal:
        ago = format_short_duration((now - task.updated_at).total_seconds())
        why = f". {clip(listed.failure, ASKED_BYTES)}" if listed.failure else ""
        standing = f"{task.status} {ago} ago{why}"
    else:
        standing = "; ".join(_describe_standing(listed))
    stop = "" if standing.endswith((".", "?", "!", "…")) else "."
    return f"{listed.number}. {notices.format_task_name(task)}: {standing}{stop}"


def _describe_standing(listed: ListedTask) -> list[str]:
    """Say how far an open task is, and what it waits for."""
    task, run = listed.task, listed.run
    current = compute_progress(task).current
    if current is None:
        where = "all steps done"
    else:
        step = clip(clip_step(to_plain_line(task.plan[current])), NAMED_BYTES)
        where = f"step {current + 1} of {len(task.plan)} ({step})"
    away = run is not None and run.told_session is not None
    awaited = dict.fromkeys(describe_target(wait.target) for wait in listed.waits)
    state = _describe_state(run) if run is not None else ""
    if task.status is TaskStatus.PAUSED and not state:
        state = "paused"
    phrases = (
        where,
        "in the background" if away else "",
        f"waits for {', '.join(awaited)}" if awaited else state,
    )
    return [each for each in phrases if each]


def _describe_state(run: Run) -> str:
    """Say whether a run is at work or what it waits for; empty: neither."""
    if not run.state.is_waiting:
        return "at work" if current_run.is_at_work(run) else ""
    if current_run.has_open_question(run) and run.dialogue.question is not None:
        return f"asks you: {clip(to_plain_line(run.dialogue.question), ASKED_BYTES)}".rstrip(".")
    need = current_run.describe_need(run)
    if need is None:
        return "stopped" if run.why == RunReason.STOPPED else "paused"
    return f"waits for {need}"

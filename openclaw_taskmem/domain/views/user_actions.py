"""The actions of a person on a task: on the page, the command line and in a chat.

In a chat, `/tasks`, `/resume` and `/cancel` name a task by its number in the list, its name, or the
beginning of its name or id. A single task need not be named. If several match, they are listed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final
from unicodedata import normalize

from openclaw_taskmem.domain.callers import Unreached
from openclaw_taskmem.domain.conditions.targets import describe_target
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.tasks.lifecycle import OPEN_STATUSES
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import (
    clip,
    clip_step,
    format_duration,
    format_short_duration,
    quote_line,
    to_one_line,
    to_plain_line,
)
from openclaw_taskmem.domain.wakes import notices
from taskmem_hookspecs import (
    NotAllowed,
    Run,
    RunState,
    Task,
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
    RESET = "reset"
    """Take it from the agent that works on it, and queue it again."""
    PAUSE = "pause"
    """Set it aside."""
    CANCEL = "cancel"
    """Call it off."""
    SEEN = "seen"
    """Leave a failed task as it is."""


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
    UserAction.RESET: "taken from its agent, and queued again",
    UserAction.PAUSE: "paused",
    UserAction.CANCEL: "cancelled; what was done so far is kept",
    UserAction.SEEN: "seen, and left as it is; taskmem resume takes it up again",
}
_EFFECT_SENTENCES: Final = {
    UserAction.SEND_BACK: "Its agent is told your words, and goes on.",
    UserAction.ANSWER: "Its agent is told your answer, and goes on.",
    UserAction.SEEN: "It stays failed, and does not need you any more.",
}
_KEPT_SENTENCES: Final = {
    UserAction.ANSWER: "your answer is kept for its agent",
    UserAction.SEND_BACK: "your words are kept for its agent",
    UserAction.RESUME: "it is open again",
}
"""The effects of acts that tell an agent to go on, where nobody can wake it."""


def list_actions(
    facts: TaskFacts, *, asks: bool, seen_failed: bool = False
) -> tuple[UserAction, ...]:
    """Return what a person may do with a task, the likeliest first.

    `asks`: True if its question to the user is open. `seen_failed`: they have left its failure.
    """
    task, run = facts.task, facts.run
    if task.status is TaskStatus.COMPLETED:
        return ()
    if task.status is TaskStatus.FAILED and not seen_failed:
        return (UserAction.RESUME, UserAction.SEEN)
    if task.status.terminal:
        return (UserAction.RESUME,)
    found: list[UserAction] = []
    if run is not None and run.state is RunState.REVIEW:
        found += (UserAction.APPROVE, UserAction.SEND_BACK)
    elif asks and run is not None and current_run.has_open_question(run):
        found.append(UserAction.ANSWER)
    elif task.status is TaskStatus.PAUSED or (
        run is not None and (run.state is RunState.BLOCKED and not current_run.can_take_answer(run))
    ):
        found.append(UserAction.RESUME)
    if task.doubts:
        found.append(UserAction.ACCEPT)
    if run is not None and run.state is RunState.RUNNING:
        found.append(UserAction.RESET)
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
        case UserAction.RESET:
            then = (
                "Its session is told to go on from there."
                if run is not None and run.session_key is not None
                else "Whoever claims it goes on from there."
            )
            turn = " What its agent does right now is stopped." if stops else ""
            effect = f"It is taken from its agent, and queued again.{turn} {then}"
        case UserAction.PAUSE:
            turn = " What its agent does right now is not stopped." if in_turn else ""
            effect = f"Its agent is not told to go on any more.{turn}{waits}"
        case UserAction.CANCEL:
            turn = " What its agent does right now is stopped." if stops else ""
            watched = _count_open_waits(facts)
            whose = " Its wait is" if watched == 1 else " Its waits are"
            ended = f"{whose} cancelled with it." if watched else ""
            effect = f"The task ends; what was done so far is kept.{turn}{ended}"
        case UserAction.SEND_BACK | UserAction.ANSWER | UserAction.SEEN:
            effect = _EFFECT_SENTENCES[action]
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


# --- commands in a chat --------------------------------------------------------


MOST_ENDED: Final = 3
"""Ended tasks of a chat that are still listed."""
LONGEST_ANSWER: Final = 1000
"""Most characters of an answer to a task's question."""
NAMED_BYTES: Final = 60
"""Longest excerpt of words that match no task."""
ASKED_BYTES: Final = 200
"""Longest excerpt of a task's question or failure in the list."""
_WORD: Final = re.compile(r"\S+")
_NUMBER: Final = re.compile(r"#?(\d{1,3})\.?")
_ID_PREFIX: Final = len("task_") + 1


class Command(StrEnum):
    """Commands that a person may give in a chat."""

    TASKS = "tasks"
    RESUME = "resume"
    CANCEL = "cancel"


_TAKEN_STATUSES: Final = {
    Command.RESUME: (*OPEN_STATUSES, TaskStatus.FAILED, TaskStatus.CANCELLED),
    Command.CANCEL: OPEN_STATUSES,
}
"""Statuses from which a task can be resumed or cancelled."""
_NOTHING_SENTENCES: Final = {
    Command.RESUME: "This chat has no task to resume.",
    Command.CANCEL: "This chat has no task to cancel.",
}

_TOO_LONG: Final = f"An answer can have {LONGEST_ANSWER:,} characters at most; nothing was done."
_REFUSALS: Final = {
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
        return TaskChoice(reply=f"{describe_listed(found, now)}\n{_REFUSALS[command]}")
    return _choose_only(_drop_cancelled(taken) or taken, command, rest, now)


def _choose_answered(
    may: Sequence[ListedTask],
    command: Command,
    words: str,
    asking: Sequence[ListedTask],
    now: datetime,
) -> TaskChoice:
    """Take words that match no task as an answer to the only task that asks, or may be resumed.

    A cancelled task is reopened only by its name, or by `/resume` alone. A number is meant for the
    list, unless a task asks something.
    """
    only: Sequence[ListedTask] = asking if len(asking) == 1 else _drop_cancelled(may)
    if not asking and _NUMBER.fullmatch(words):
        only = []
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
    open_ = [each for each in may if each.task.status in OPEN_STATUSES]
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

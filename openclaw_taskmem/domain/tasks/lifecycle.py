"""Register tasks, change their status, end and reopen them.

Source: docs/origins.md, "Tasks and statuses".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import Caller, CallerKind
from openclaw_taskmem.domain.errors import TaskEnded
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import clip, quote_line, to_plain_line
from taskmem_hookspecs import Change, Event, Message, MessageType, Role, Task, TaskStatus
from taskmem_hookspecs.errors import InvalidArguments, NotAllowed

# --- metadata -----------------------------------------------------------------


OPEN_STATUSES: Final = (TaskStatus.ACTIVE, TaskStatus.PAUSED)
ARTIFACTS: Final = "artifacts"
"""Key that names what a task makes."""
MOST_BYTES: Final = 65_536


def find_size_fault(text: str) -> str | None:
    """Return why a text is too long; None: it is not."""
    size = len(text.encode())
    if size <= MOST_BYTES:
        return None
    return (
        f"has {size:,} bytes, and at most {MOST_BYTES:,} are kept; "
        "shorten it, or put the long part into a file and name the file"
    )


def find_metadata_fault(metadata: Mapping[str, JsonValue]) -> str | None:
    """Return why a task's metadata cannot be stored; None: it can."""
    try:
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
    except ValueError:
        return "holds NaN or Infinity, which JSON does not know"
    return find_size_fault(text)


def replace_artifacts(
    metadata: Mapping[str, JsonValue], artifacts: Sequence[JsonValue]
) -> tuple[Mapping[str, JsonValue], str]:
    """Replace the artifacts in a task's metadata; return it and the thread's entry.

    The entry is empty if the artifacts are the same.
    """
    before, now = metadata.get(ARTIFACTS, []), list(artifacts)
    if before == now:
        return metadata, ""
    sentence = f"metadata.{ARTIFACTS} was {_format_value(before)}, and is {_format_value(now)}."
    return {**metadata, ARTIFACTS: now}, sentence


def _format_value(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- lifecycle ----------------------------------------------------------------


_COMPLETED_LINE: Final = re.compile(r"Status: \w+ → completed\b")
REQUEST_BYTES: Final = 2000
"""Longest excerpt of a user's request."""
_ALIASES: Final = {
    **dict.fromkeys(("canceled", "cancel"), "cancelled"),
    **dict.fromkeys(("complete", "done", "finished"), "completed"),
    **dict.fromkeys(("in progress", "started", "running"), "active"),
    **dict.fromkeys(("pause", "on hold"), "paused"),
}


def parse_status(text: str, *besides: str) -> TaskStatus:
    """Parse a status, including common aliases.

    `besides` are other words that the caller accepts, for the refusal to list.

    Raises:
        InvalidArguments: There is no such status; the sentence lists them.
    """
    word = re.sub(r"[\s_-]+", " ", text.strip().lower())
    try:
        return TaskStatus(_ALIASES.get(word, word))
    except ValueError:
        raise InvalidArguments(
            f"There is no status {quote_line(text, 60)}; use one of: "
            f"{', '.join((*TaskStatus, *besides))}."
        ) from None


def build_task(
    *,
    task_id: str,
    name: str,
    plan: tuple[str, ...],
    metadata: Mapping[str, JsonValue],
    session_key: str | None,
    now: datetime,
    host: str | None = None,
    request: str | None = None,
    implicit: bool = False,
    done: frozenset[int] = frozenset(),
) -> Change:
    """Build the change that registers an active task.

    `host` is where the task's agent runs, as in `Wake.host`. `request` is the user's request in
    their words; None: not known. `done`: steps that are done from the start, from 0.
    """
    task = Task(
        task_id=task_id,
        name=name,
        status=TaskStatus.ACTIVE,
        plan=plan,
        done=done,
        metadata=metadata,
        session_key=session_key,
        host=host,
        registrar_session=session_key,
        registrar_host=host,
        created_at=now,
        updated_at=now,
        original_request=None if request is None else clean_request(request),
        implicit=implicit,
    )
    return Change(tasks=(task,), events=(build_registration_event(task, now),))


def build_registration_event(task: Task, now: datetime) -> Event:
    """Build the log entry for a registered task."""
    kind = events.TURN_COVERED if task.implicit else events.TASK_REGISTERED
    return events.build_event(kind, task, now, name=task.name, steps=len(task.plan))


def clean_request(request: str) -> str:
    """Shorten a user's request and remove credentials."""
    return clip(scrub(request.replace("\0", "")).strip(), REQUEST_BYTES)


_PAUSER_PREFIX: Final = " by "
"""Precedes the name of who paused a task, in the thread's entry for that."""


def change_status(
    task: Task, status: TaskStatus, now: datetime, by: Caller | None = None
) -> tuple[Task, Message | None]:
    """Set a task's status; return the task and the thread's entry.

    Any status may follow any other, but an ended task can only become active. None instead of an
    entry: it had that status already. The entry of a pause says `by` whom, and its agent is to read
    that again; None: it says nobody.

    Raises:
        TaskEnded: The task has ended, and the new status is not active.
    """
    if status is task.status:
        return task, None
    if status is not TaskStatus.ACTIVE:
        require_open(task, f"it cannot become {status}, and nothing was written")
    reopens = task.status.terminal
    verb = "Reopened" if reopens else "Status"
    content, kind = f"{verb}: {task.status} → {status}", MessageType.LIFECYCLE
    if status is TaskStatus.PAUSED and by is not None:
        content, kind = f"{content}{_PAUSER_PREFIX}{by.name.replace('. ', ' ')}", MessageType.TEXT
    message = build_system_message(task, content, now, kind)
    # A reopened task is checked anew at its next completion.
    doubts = () if reopens else task.doubts
    return task.model_copy(update={"status": status, "doubts": doubts}), message


def reactivate_task(task: Task, now: datetime, *, reopen: bool) -> tuple[Task, Message | None]:
    """Make a task active again; return the task and the thread's entry.

    Raises:
        TaskEnded: The task is completed, and `reopen` is false.
    """
    if task.status is TaskStatus.COMPLETED and not reopen:
        raise TaskEnded(
            f"{task.task_id} is completed; call task_resume with reopen true to take "
            "it up all the same. Nothing was changed."
        )
    active, message = change_status(task, TaskStatus.ACTIVE, now)
    return touch_task(active, now), message


def guard_reopen(task: Task, newest: Sequence[Event], caller: Caller) -> None:
    """Refuse an agent that would reopen a task that the user cancelled.

    `newest` are the newest entries of the task's log, oldest first.

    Raises:
        NotAllowed: The user cancelled it; the sentence says whom to ask.
    """
    if task.status is not TaskStatus.CANCELLED or caller.is_user or caller.by_command:
        return
    changes = (e for e in reversed(newest) if e.kind == events.STATUS_CHANGED)
    last = next(changes, None)
    by = None if last is None else last.data.get("by")
    if by is not None:
        who = "The user" if by == CallerKind.USER else "A command of the user's"
        raise NotAllowed(
            f"{who} cancelled {task.task_id}, so only they reopen it: ask them, and "
            "they do with /resume in their chat, or with taskmem resume at a "
            "terminal. Nothing was written."
        )


def build_status_events(
    was: TaskStatus,
    task: Task,
    now: datetime,
    *,
    run_id: str | None = None,
    why: str | None = None,
    by: Caller | None = None,
) -> tuple[Event, ...]:
    """Build the log entry for a task that left a status; empty: it did not.

    `run_id` and `why` are of the run whose change caused it; None: no run's. `by` is the caller;
    None: nobody, or it does not matter.
    """
    if task.status is was:
        return ()
    data: dict[str, JsonValue] = {"from": was, "to": task.status, **build_caller_data(by)}
    return (
        Event(
            at=now,
            kind=events.STATUS_CHANGED,
            task_id=task.task_id,
            run_id=run_id,
            data=data if why is None else {**data, "why": why},
        ),
    )


def build_caller_data(by: Caller | None) -> dict[str, JsonValue]:
    """Build the part of a log entry that says who did it; empty: an agent, or nobody."""
    if by is None or by.known_as is CallerKind.AGENT:
        return {}
    return {"by": by.known_as}


def read_caller_kind(data: Mapping[str, JsonValue]) -> CallerKind:
    """Return who did what a log entry tells."""
    by = data.get("by")
    return CallerKind(str(by)) if by in {*CallerKind} else CallerKind.AGENT


def add_lifecycle_message(
    task: Task, content: str, now: datetime, kind: MessageType = MessageType.LIFECYCLE
) -> tuple[Task, Message]:
    """Return a task that was touched, and the thread's entry for a change in its life.

    `kind`: `text` for one that its agent is to read again, as by `enter_decision`.
    """
    message = build_system_message(task, content, now, kind)
    count = {"message_count": task.message_count + 1}
    return touch_task(task, now).model_copy(update=count), message


def build_system_message(
    task: Task, content: str, now: datetime, kind: MessageType = MessageType.LIFECYCLE
) -> Message:
    """Build an entry of a task's thread that nobody wrote, such as for a change in its life."""
    return Message(
        task_id=task.task_id,
        role=Role.SYSTEM,
        msg_type=kind,
        content=content.strip(),
        created_at=now,
    )


def enter_decision(change: Change, task: Task, sentence: str, now: datetime) -> Change:
    """Add to a change what was decided about a task, as an entry that its agent reads again.

    `task` is as it was before the change. The entry does not touch it: to decide about a task is no
    work on it.
    """
    others = tuple(row for row in change.tasks if row.task_id != task.task_id)
    task = next((row for row in change.tasks if row.task_id == task.task_id), task)
    counted = task.model_copy(update={"message_count": task.message_count + 1})
    entry = build_system_message(task, sentence, now, MessageType.TEXT)
    rows = {"tasks": (counted, *others), "messages": (*change.messages, entry)}
    return change.model_copy(update=rows)


_HALT_PREFIX: Final = "Its host has ended its agent's turn: "
"""Begins the thread's entry for a turn that the host gave up."""
_HALT_BYTES: Final = 200
"""Longest excerpt of the host's words."""


def enter_halt(task: Task, messages: Sequence[Message], why: str, now: datetime) -> Change:
    """Enter into a task's thread why its host has ended its agent's turn; empty: that is known.

    `messages` are the newest, oldest first.
    """
    if find_halt(messages) == why:
        return Change()
    return enter_decision(Change(), task, f"{_HALT_PREFIX}{why}", now)


def shorten_halt(kind: str, words: str) -> str:
    """Shorten what a host says of a turn that it gave up: the kind of failure, and its words."""
    name = "" if kind == "unknown" else to_plain_line(kind).replace("_", " ")
    parts = filter(None, (name, to_plain_line(words)))
    return clip(scrub(": ".join(parts)), _HALT_BYTES)


def find_halt(messages: Sequence[Message]) -> str:
    """Return why a host has ended an agent's last turn; empty: it has not, or work went on since.

    It went on if somebody wrote, or the task's plan or life changed. `messages`: the newest, oldest
    first.
    """
    moves = (MessageType.LIFECYCLE, MessageType.PLAN)
    for message in reversed(messages):
        moved = message.msg_type in moves or is_status_message(message)
        if moved or message.role is not Role.SYSTEM:
            return ""
        if message.content.startswith(_HALT_PREFIX):
            return message.content.removeprefix(_HALT_PREFIX)
    return ""


def is_status_message(message: Message) -> bool:
    """True if a message is the thread's entry for a change of status."""
    return message.role is Role.SYSTEM and message.content.startswith("Status: ")


def find_pauser(messages: Sequence[Message]) -> str:
    """Return who paused a task, by the newest entry for a change of status; empty: not known.

    `messages` are the newest, oldest first.
    """
    newest = next(filter(is_status_message, reversed(messages)), None)
    if newest is None:
        return ""
    change, _, by = newest.content.partition(_PAUSER_PREFIX)
    return by if change.endswith(f"→ {TaskStatus.PAUSED}") else ""


def read_reason(message: Message) -> str:
    """Return the reason in the thread's entry for a change of status; empty: it has none.

    Of another message: its whole text.
    """
    text = message.content
    return text.partition(". ")[2] if is_status_message(message) else text


def is_completion_message(message: Message) -> bool:
    """True if a message is the thread's entry for a completion."""
    is_lifecycle = message.msg_type is MessageType.LIFECYCLE
    return is_lifecycle and _COMPLETED_LINE.match(message.content) is not None


def build_answer_message(
    task: Task, answer: str, now: datetime, by: CallerKind = CallerKind.USER
) -> Message:
    """Build the thread's entry for the user's answer to a question; `by`: who gave it."""
    return Message(
        task_id=task.task_id,
        role=Role.USER,
        by_call=by is CallerKind.CALL,
        msg_type=MessageType.TEXT,
        content=answer,
        created_at=now,
    )


def require_open(task: Task, consequence: str) -> None:
    """Refuse `consequence` for a task that has ended.

    Raises:
        TaskEnded: It has ended; the sentence says how to reopen it.
    """
    if task.status.terminal:
        whose = ", which only the user does where they cancelled it"
        raise TaskEnded(
            f"{task.task_id} is {task.status}, so {consequence}; call task_update with "
            'status "active" first if the work goes on'
            f"{whose if task.status is TaskStatus.CANCELLED else ''}."
        )


def touch_task(task: Task, now: datetime) -> Task:
    """Set when a task was last touched to now, or leave it if the clock went back.

    Whatever held its alert back is over: it counts from now.
    """
    return task.model_copy(update={"updated_at": max(now, task.updated_at), "held_until": None})

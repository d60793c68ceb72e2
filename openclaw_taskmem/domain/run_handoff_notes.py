"""What is left for whoever claims a run: the note of a hand-off, the user's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain import task_lifecycle
from openclaw_taskmem.domain.run_events import UserHeard
from openclaw_taskmem.domain.run_machine import apply_events
from taskmem_hookspecs import Change, Message, MessageType, Role, Run, TaskFacts, Value

_HANDED: Final = "Handed to "
_REVIEW: Final = f"{_HANDED}the user for review."
_ALONG: Final = "Goes to review together with "


class HandoffNotes(Value):
    """What is left for whoever claims a run, by the newest messages of its task."""

    note: str | None = None
    """Said when it was handed to its role; None: nothing was."""
    user_said: tuple[str, ...] = ()
    """Said by the user since the last hand-off or completion, oldest first."""
    reviewed: bool = False
    """Whether it was handed to the user last, and is no longer with them."""


def describe_role_handoff(role: str) -> str:
    """Return the thread's entry of a run that is handed to a role, without its note."""
    return f"{_HANDED}{role}."


def describe_review(note: str) -> str:
    """Return the thread's entry of a run that is handed to the user."""
    return f"{_REVIEW} {note}"


def describe_joint_review(task_id: str) -> str:
    """Return the thread's entry of a task that goes to review with another."""
    return f"{_ALONG}{task_id}."


def find_handoff_notes(run: Run, messages: Sequence[Message], heard_until: int = 0) -> HandoffNotes:
    """Return what is left for whoever claims a run.

    `messages` are the newest of its task, oldest first. What was said before the task
    was completed is heard by that; what was said before the last hand-off is left only
    where who held the run was not told it, for that was up to `heard_until`.
    """
    end, completed = _find_end(messages), _find_completion(messages)
    said = tuple(
        message.content
        for place, message in enumerate(messages)
        if message.role is Role.USER
        and place > (end if message.message_id <= heard_until else completed)
    )
    entry = messages[end] if end >= 0 else None
    if entry is None or task_lifecycle.is_completion_message(entry):
        return HandoffNotes(user_said=said)
    if entry.content.startswith((_REVIEW, _ALONG)):
        return HandoffNotes(user_said=said, reviewed=True)
    return HandoffNotes(note=_find_note(run, entry), user_said=said)


def find_unheard_messages(run: Run, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return what the user has said that who holds a run was not told, oldest first.

    `messages` are the newest of its task, oldest first. What they said as it was
    completed is heard by that.
    """
    return tuple(
        message
        for message in messages[_find_completion(messages) + 1 :]
        if message.role is Role.USER and message.message_id > run.heard_until
    )


def find_completion_id(messages: Sequence[Message]) -> int:
    """Return the id of the newest message that tells of a completion; 0: none does.

    What the user said before it was heard by then, or said as they accepted.
    """
    place = _find_completion(messages)
    return messages[place].message_id if place >= 0 else 0


def record_heard(
    change: Change, facts: TaskFacts, unheard: Sequence[Message], now: datetime
) -> Change:
    """Return a change that also notes that a run's holder is told of messages."""
    written = change.runs or ((facts.run,) if facts.run else ())
    heard = UserHeard(heard_until=unheard[-1].message_id)
    runs = tuple(apply_events(run, heard, now=now).run for run in written)
    return change.model_copy(update={"runs": runs})


def _find_end(messages: Sequence[Message]) -> int:
    """Return the place of the last hand-off or completion; -1: there is none."""
    handed = _find_entry(messages, lambda it: it.content.startswith((_HANDED, _ALONG)))
    return max(handed, _find_completion(messages))


def _find_completion(messages: Sequence[Message]) -> int:
    """Return the place of the last completion; -1: there is none."""
    return _find_entry(messages, task_lifecycle.is_completion_message)


def _find_entry(messages: Sequence[Message], tells: Callable[[Message], bool]) -> int:
    """Return the place of the last entry on the task's life that tells; -1: none."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if message.msg_type is MessageType.LIFECYCLE and tells(message):
            return place
    return -1


def _find_note(run: Run, message: Message) -> str | None:
    # What is told of its beginning may be later than it was, but not of its claim.
    began = min(run.created_at, run.started_at or run.created_at)
    handed = f"{describe_role_handoff(run.role or '')} "
    own = message.created_at >= began and message.content.startswith(handed)
    return message.content.removeprefix(handed) if own else None

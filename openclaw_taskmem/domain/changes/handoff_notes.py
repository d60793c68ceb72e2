"""Find the hand-off note and the user's messages for the agent that claims a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain.runs.events import UserHeard
from openclaw_taskmem.domain.runs.machine import apply_events
from openclaw_taskmem.domain.tasks import lifecycle
from taskmem_hookspecs import Change, Message, MessageType, Role, Run, TaskFacts, Value

_HANDED: Final = "Handed to "
_REVIEW: Final = f"{_HANDED}the user for review."
_ALONG: Final = "Goes to review together with "


class HandoffNotes(Value):
    """The hand-off note and the user's messages for the agent that claims a run."""

    note: str | None = None
    """Note of the hand-off to the run's role; None: none."""
    user_said: tuple[str, ...] = ()
    """The user's messages for that agent, oldest first; `find_handoff_notes` says which."""
    reviewed: bool = False
    """True if the last hand-off was to the user for review, from which the run came back."""


def describe_role_handoff(role: str) -> str:
    """Write the thread's entry for a hand-off to a role, without its note."""
    return f"{_HANDED}{role}."


def describe_review(note: str) -> str:
    """Write the thread's entry for a hand-off to the user."""
    return f"{_REVIEW} {note}"


def find_review_note(messages: Sequence[Message]) -> str:
    """Return the note of the newest hand-off to the user; empty: it has none.

    `messages` are the newest of the task, oldest first.
    """
    place = _find_entry(messages, lambda it: it.content.startswith(_REVIEW))
    return messages[place].content.removeprefix(_REVIEW).strip() if place >= 0 else ""


def describe_joint_review(task_id: str) -> str:
    """Write the thread's entry for a task that goes to review with another."""
    return f"{_ALONG}{task_id}."


def find_handoff_notes(run: Run, messages: Sequence[Message], heard_until: int = 0) -> HandoffNotes:
    """Find the note and the user's messages for the agent that claims a run.

    `messages` are the newest of the task, oldest first. Messages up to `heard_until` were delivered
    to an earlier owner: of these, only those after the last hand-off or completion count. Of later
    ones, those after the last completion count.
    """
    end, completed = _find_end(messages), _find_completion(messages)
    said = tuple(
        message.content
        for place, message in enumerate(messages)
        if message.role is Role.USER
        and place > (end if message.message_id <= heard_until else completed)
    )
    entry = messages[end] if end >= 0 else None
    if entry is None or lifecycle.is_completion_message(entry):
        return HandoffNotes(user_said=said)
    if entry.content.startswith((_REVIEW, _ALONG)):
        return HandoffNotes(user_said=said, reviewed=True)
    return HandoffNotes(note=_find_note(run, entry), user_said=said)


def find_unheard_messages(run: Run, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the user's messages that the run's owner has not been told, oldest first.

    `messages` are the newest of the task, oldest first. A completion settles those before it.
    """
    return tuple(
        message
        for message in messages[_find_completion(messages) + 1 :]
        if message.role is Role.USER and message.message_id > run.dialogue.heard_until
    )


def find_completion_id(messages: Sequence[Message]) -> int:
    """Return the id of the newest completion entry; 0: there is none.

    The completion settles the user's messages before it.
    """
    place = _find_completion(messages)
    return messages[place].message_id if place >= 0 else 0


def record_heard(
    change: Change, facts: TaskFacts, unheard: Sequence[Message], now: datetime
) -> Change:
    """Add to a change that the run's owner has been told of `unheard`, which is not empty."""
    written = change.runs or ((facts.run,) if facts.run else ())
    event = UserHeard(heard_until=unheard[-1].message_id)
    runs = tuple(apply_events(run, event, now=now).run for run in written)
    return change.model_copy(update={"runs": runs})


def _find_end(messages: Sequence[Message]) -> int:
    """Return the index of the last hand-off or completion; -1: there is none."""
    handed = _find_entry(messages, lambda it: it.content.startswith((_HANDED, _ALONG)))
    return max(handed, _find_completion(messages))


def _find_completion(messages: Sequence[Message]) -> int:
    """Return the index of the last completion; -1: there is none."""
    return _find_entry(messages, lifecycle.is_completion_message)


def _find_entry(messages: Sequence[Message], tells: Callable[[Message], bool]) -> int:
    """Return the index of the last lifecycle entry that matches; -1: there is none."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if message.msg_type is MessageType.LIFECYCLE and tells(message):
            return place
    return -1


def _find_note(run: Run, message: Message) -> str | None:
    # `created_at` may be later than the hand-off, `started_at` may not.
    began = min(run.created_at, run.started_at or run.created_at)
    handed = f"{describe_role_handoff(run.role or '')} "
    own = message.created_at >= began and message.content.startswith(handed)
    return message.content.removeprefix(handed) if own else None

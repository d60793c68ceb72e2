"""What is left for whoever claims a run: the note of a hand-off, the user's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openclaw_taskmem.domain import lifecycle
from taskmem_hookspecs import Message, MessageType, Role, Run, Value

_HANDED: Final = "Handed to "
_REVIEW: Final = f"{_HANDED}the user for review."
_ALONG: Final = "Goes to review together with "


class Left(Value):
    """What is left for whoever claims a run, by the newest messages of its task."""

    note: str | None = None
    """Said when it was handed to its role; None: nothing was."""
    user_said: tuple[str, ...] = ()
    """Said by the user since the last hand-off or completion, oldest first."""
    reviewed: bool = False
    """Whether it was handed to the user last, and is no longer with them."""


def describe_handed(role: str) -> str:
    """Return the thread's entry of a run that is handed to a role, without its note."""
    return f"{_HANDED}{role}."


def describe_review(note: str) -> str:
    """Return the thread's entry of a run that is handed to the user."""
    return f"{_REVIEW} {note}"


def describe_along(task_id: str) -> str:
    """Return the thread's entry of a task that goes to review with another."""
    return f"{_ALONG}{task_id}."


def find_left(run: Run, messages: Sequence[Message]) -> Left:
    """Return what is left for whoever claims a run.

    `messages` are the newest of its task, oldest first. What was said before the last
    hand-off, or before the task was completed, was for others, and has been heard.
    """
    said: list[str] = []
    for message in reversed(messages):
        entry = message.content
        if message.role is Role.USER:
            said.insert(0, entry)
        if message.msg_type is not MessageType.LIFECYCLE:
            continue
        if entry.startswith((_REVIEW, _ALONG)):
            return Left(user_said=tuple(said), reviewed=True)
        if entry.startswith(_HANDED):
            return Left(note=_note(run, message), user_said=tuple(said))
        if lifecycle.tells_of_completion(message):
            break
    return Left(user_said=tuple(said))


def find_unheard(run: Run, messages: Sequence[Message]) -> tuple[str, ...]:
    """Return what the user has said to who works on a run, oldest first.

    That is since it was claimed, and since an agent last wrote to its thread, of which
    `messages` are the newest, oldest first.
    """
    said: list[str] = []
    for message in reversed(messages):
        if message.role is Role.AGENT or message.created_at <= run.changed_at:
            break
        if message.role is Role.USER:
            said.insert(0, message.content)
    return tuple(said)


def _note(run: Run, message: Message) -> str | None:
    # What is told of its beginning may be later than it was, but not of its claim.
    began = min(run.created_at, run.started_at or run.created_at)
    handed = f"{describe_handed(run.role or '')} "
    own = message.created_at >= began and message.content.startswith(handed)
    return message.content.removeprefix(handed) if own else None

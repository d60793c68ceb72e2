"""Choose the messages of a thread that are worth reading again.

Source: docs/origins.md, "The resume packet".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.tasks.step_phrases import sounds_like_progress
from taskmem_hookspecs import Message, MessageType, Role

READ: Final = 60
"""Newest messages to choose from."""
MOST_CHOSEN: Final = 5
"""Most messages to choose."""

_NOISE: Final = frozenset({MessageType.STUCK, MessageType.LIFECYCLE})
_TROUBLE: Final = re.compile(
    r"\b(?:block(?:ed|er|ers|ing)|stuck|fail(?:ed|s|ing|ures?)?|errors?|denied"
    r"|refused|rejected|crash(?:ed|es)?|broken?|cannot|can't|could ?n[o']t|unable"
    r"|missing|wrong|timed? ?out|exception|traceback|waiting for (?:you|the user)"
    r"|needs? (?:your|the user|approval))\b"
)
_NO_TROUBLE: Final = re.compile(
    r"\b(?:no|0|zero|without(?: any)?|(?:fixed|solved|resolved)(?: the| an?)?)"
    r" (?:more )?(?:errors?|blockers?|failures?|problems?|failed)\b"
)

_STILL_TROUBLE: Final = re.compile(
    r"\bsteps? \d+\b[^.,;:\n—–-]{0,60}\b(?:failed|fails|crashed|(?:is|are) (?:blocked"
    r"|stuck))\b"
)
_CONTRAST: Final = re.compile(r"\b(?:but|however)\b")


def choose_meaningful(messages: Sequence[Message], most: int = MOST_CHOSEN) -> tuple[Message, ...]:
    """Choose the few most meaningful messages, oldest first.

    The newest message and the last progress come first, then the newest ones about progress,
    trouble or a changed plan, or from the user, then the newest others. Alerts and lifecycle
    entries are left out. Of the same text several times in a row, only the newest is chosen.
    """
    newest: list[Message] = []
    for message in reversed(messages):
        if message.msg_type in _NOISE or not message.content.strip():
            continue
        if not newest or newest[-1].content != message.content:
            newest.append(message)
    places = range(len(newest))
    progress = [i for i in places if newest[i].msg_type is MessageType.PROGRESS]
    telling = [i for i in places if _is_telling(newest[i])]
    ranked = dict.fromkeys((*places[:1], *progress[:1], *telling, *places))
    return tuple(newest[i] for i in sorted([*ranked][:most], reverse=True))


def _is_telling(message: Message) -> bool:
    kinds = (MessageType.PROGRESS, MessageType.PLAN)
    own = message.msg_type in kinds or message.role is Role.USER
    return own or has_trouble(message)


def has_user_spoken_last(messages: Sequence[Message]) -> bool:
    """True if the user sent the last message, ignoring the system's.

    A completion settles the user's messages before it.
    """
    for message in reversed(messages):
        if lifecycle.is_completion_message(message):
            return False
        if message.role is not Role.SYSTEM:
            return message.role is Role.USER
    return False


def has_trouble(message: Message) -> bool:
    """True if a message says that something failed or is in the way."""
    if message.msg_type in _NOISE:
        return False
    content = message.content.lower()
    return bool(_TROUBLE.search(content) and _TROUBLE.search(_NO_TROUBLE.sub("", content)))


def _is_trouble_left(message: Message) -> bool:
    """True if the trouble in a message still exists.

    A progress message has overcome it, unless it says that a step failed, crashed, or is blocked or
    stuck, or names trouble after a "but" or "however".
    """
    if message.msg_type is not MessageType.PROGRESS:
        return True
    content = message.content.lower()
    besides = " ".join(_CONTRAST.split(content)[1:])
    return bool(_STILL_TROUBLE.search(content) or _TROUBLE.search(_NO_TROUBLE.sub("", besides)))


def find_trouble(messages: Sequence[Message]) -> Message | None:
    """Return the last message about trouble that no agent's progress followed; None: none."""
    for message in reversed(messages):
        if has_trouble(message) and _is_trouble_left(message):
            return message
        if message.role is Role.AGENT and (
            message.msg_type is MessageType.PROGRESS or sounds_like_progress(message.content)
        ):
            return None
    return None

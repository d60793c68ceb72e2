"""Which messages of a thread are worth reading again. Source: seed 000 §6."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskmem_hookspecs import Message, MessageType

READ: Final = 60
"""How many of the newest messages are read to find the meaningful ones."""
MOST: Final = 5
"""How many meaningful messages are shown at most."""

_NOISE: Final = frozenset({MessageType.STUCK, MessageType.LIFECYCLE})


def meaningful(messages: Sequence[Message], most: int = MOST) -> tuple[Message, ...]:
    """Return the last few messages that say something, oldest first.

    Left out: alerts about silence, notes on the status, and a text that repeats
    the one after it.
    """
    chosen: list[Message] = []
    for message in reversed(messages):
        if message.msg_type in _NOISE or not message.content.strip():
            continue
        if chosen and chosen[-1].content == message.content:
            continue
        chosen.append(message)
        if len(chosen) == most:
            break
    return tuple(reversed(chosen))

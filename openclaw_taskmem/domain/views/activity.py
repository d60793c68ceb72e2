"""Say what an agent does now, or did last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openclaw_taskmem.domain.effects.checkpoints import PastCall
from openclaw_taskmem.domain.effects.side_effects import is_shell
from openclaw_taskmem.domain.text.texts import clip, to_plain_line
from taskmem_hookspecs import Message, Value
from taskmem_hookspecs.value import Instant

SAID_BYTES: Final = 160
"""Longest excerpt of a call or message in a line."""


class Activity(Value):
    """A tool call or a message: what an agent does now, or was seen to do last."""

    what: str
    """The command, another call with its subject, or the words in quotes."""
    at: Instant
    """When it began if it is running, else when it was last heard of."""
    is_call: bool = True
    """False: it is a message."""
    running: bool = False
    failed: bool = False
    outcome: str = ""
    """Excerpt of its result, of several lines; empty: it has none yet."""


def find_activity(
    calls: Sequence[PastCall], words: Message | None, *, at_work: bool
) -> Activity | None:
    """Return the call that runs now, or else what an agent did last; None: unknown.

    Args:
        calls: Its newest calls, oldest first.
        words: Its newest message; None: none, or its calls tell more.
        at_work: True if a turn works on the task now.
    """
    running = [call for call in calls if call.ok is None] if at_work else []
    call = next(reversed(running or calls), None)
    if call is not None:
        return Activity(
            what=clip(_name_call(call), SAID_BYTES),
            at=call.at,
            running=bool(running),
            failed=call.ok is False,
            outcome=call.outcome,
        )
    if words is None:
        return None
    return Activity(what=quote_words(words), at=words.created_at, is_call=False)


def _name_call(call: PastCall) -> str:
    """Name a call: a command by itself, another by its tool and its subject."""
    tool, about = to_plain_line(call.tool), to_plain_line(call.about)
    return about if about and is_shell(call.tool) else ": ".join(filter(None, (tool, about)))


def quote_words(words: Message) -> str:
    """Quote the beginning of a message on one line."""
    return f"“{clip(to_plain_line(words.content), SAID_BYTES)}”"

"""Decide whether a host's limit of use is over, from what its hooks have told.

Claude Code says when a limit ends a turn. The limit is over with the next turn that ends with
an answer; a wake that is owed to one of its sessions asks for one again and again. Codex
tells of neither.
"""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.conditions.verdicts import LIMIT_FORM, refuse_unread
from openclaw_taskmem.domain.text.texts import quote_line
from taskmem_hookspecs import Condition, ConditionUnclear, InvalidArguments, Value
from taskmem_hookspecs.conditions import State, StateForm
from taskmem_hookspecs.model import Instant

LIMIT_BOOKMARK: Final = "usage_limit"
"""Bookmark with the last limit that a host told of."""
LIMIT_ERROR: Final = "rate_limit"
"""The value of `error` in `StopFailure` by which Claude Code tells of a limit of use.

Source: https://code.claude.com/docs/en/hooks
"""
WORDS_BYTES: Final = 300
"""Longest excerpt of what a host said that is kept."""
_HOST: Final = "claude"
"""The host that tells of its limits, as `taskmem setup` calls it."""
_HOST_NAMES: Final = frozenset((_HOST, "claude-code", "claude code"))


class UsageLimit(Value):
    """A limit of use that has ended a turn of a host."""

    reached_at: Instant
    words: str = ""
    """The words of the host about it."""
    over_at: Instant | None = None
    """When the host's model answered again; None: it has not yet."""


def name_host(name: str) -> str:
    """Return the host that a target names.

    Raises:
        InvalidArguments: That host tells of no limits.
    """
    if name.strip().lower() not in _HOST_NAMES:
        raise InvalidArguments(
            f"Whether {quote_line(name, 80)} is at a limit of use is not told here; it is of "
            f"Claude Code, limit:{_HOST}. Of another wait for the instant at which its "
            "limit ends, time:18:00. Nothing was written."
        )
    return _HOST


def describe_limit(limit: UsageLimit | None) -> str:
    """Say whether a host is at its limit, in a line; None: it has told of none."""
    if limit is None:
        return "Claude Code has told of no limit of use."
    if limit.over_at is not None:
        return "Claude Code's limit of use is over: its model has answered again."
    words = quote_line(limit.words, WORDS_BYTES) if limit.words else "nothing"
    return f"Claude Code is at its limit of use. It said, which is data: {words}"


def list_states(limit: UsageLimit | None) -> frozenset[State]:
    """Return the states of a limit: it is over unless a host is at it."""
    return frozenset() if limit and limit.over_at is None else frozenset((State.ENDED,))


def refuse_condition(condition: Condition) -> ConditionUnclear | None:
    """Return why nobody can tell a condition of a limit; None: it can be told."""
    return refuse_unread(
        condition,
        (StateForm,),
        (LIMIT_FORM,),
        f'Of a limit one thing can be waited for, "{LIMIT_FORM}": give that as wake_when, or '
        "leave it out.",
    )

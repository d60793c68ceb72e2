"""Decide whether a host's limit of use is over, from what its hooks have told.

Claude Code says when a limit ends a turn. The limit is over with the next turn that ends with
an answer; a wake that is owed to one of its sessions asks for one again and again. Codex
tells of neither.
"""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.conditions.verdicts import LIMIT_FORM
from openclaw_taskmem.domain.text.texts import quote_line
from taskmem_hookspecs import Condition, ConditionUnclear, Frame, InvalidArguments, Value
from taskmem_hookspecs.conditions import Form, State, StateForm
from taskmem_hookspecs.model import Instant

LIMIT_BOOKMARK: Final = "usage_limit"
"""Bookmark with the last limit that a host told of."""
LIMIT_ERROR: Final = "rate_limit"
"""The value of `error` in `StopFailure` by which Claude Code tells of a limit of use.

Source: https://code.claude.com/docs/en/hooks
"""
TELLING_HOST: Final = "claude"
"""The host that tells of its limits, as `taskmem setup` calls it."""
_TELLING_HOSTS: Final = frozenset((TELLING_HOST, "claude-code", "claude code"))
_WORDS_BYTES: Final = 300


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
    if name.strip().lower() not in _TELLING_HOSTS:
        raise InvalidArguments(
            f"Whether {quote_line(name, 80)} is at a limit of use is not told here; it is of "
            f"Claude Code, limit:{TELLING_HOST}. Of another wait for the instant at which its "
            "limit ends, time:18:00. Nothing was written."
        )
    return TELLING_HOST


def describe_limit(limit: UsageLimit | None) -> str:
    """Say whether a host is at its limit, in a line; None: it has told of none."""
    if limit is None:
        return "Claude Code has told of no limit of use."
    words = (
        f" It said, which is data: {quote_line(limit.words, _WORDS_BYTES)}" if limit.words else ""
    )
    if limit.over_at is None:
        return f"Claude Code is at its limit of use.{words}"
    return "Claude Code's limit of use is over: its model has answered again."


def is_met(form: Form, frame: Frame) -> bool:
    """Return whether a form holds at a look at a limit."""
    return isinstance(form, StateForm) and form.state in frame.states


def list_states(limit: UsageLimit | None) -> frozenset[State]:
    """Return the states of a limit: it is over unless a host is at it."""
    return frozenset() if limit and limit.over_at is None else frozenset((State.ENDED,))


def refuse_condition(condition: Condition) -> ConditionUnclear | None:
    """Return why nobody can tell a condition of a limit; None: it can be told."""
    unclear = tuple(index for index, side in enumerate(condition.sides) if not side.forms)
    if not unclear:
        return None
    refusal = ConditionUnclear(
        f'Of a limit one thing can be waited for, "{LIMIT_FORM}": give that as wake_when, or '
        "leave it out. Nothing was written.",
        unclear,
    )
    refusal.details = {
        "sides": [condition.sides[i].words for i in unclear],
        "forms": [LIMIT_FORM],
        "suggestion": LIMIT_FORM,
    }
    return refusal

"""A turn of an agent, as its gateway reports it, and how its failure is classified."""

from __future__ import annotations

import re
from contextlib import suppress
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain.text.texts import format_count
from taskmem_hookspecs import Value


class Origin(StrEnum):
    """The cause of a turn."""

    USER = "user"
    """The user said something."""
    TASKMEM = "taskmem"
    """One of our wakes."""
    RECOVERY = "recovery"
    """The gateway resumed a turn that a restart had cut."""
    HEARTBEAT = "heartbeat"
    """A timer; such a turn counts as work only if it calls a tool."""
    OTHER = "other"
    """Something else, such as a sub-agent's report."""


class ProviderFailureKind(StrEnum):
    """The kinds of a provider's failures."""

    PASSING = "passing"
    """A retry may succeed."""
    REFUSED = "refused"
    """A retry would fail again."""
    CREDENTIALS = "credentials"
    """The user must act: the key is wrong, or a bill is unpaid."""


class Turn(Value):
    """A turn that has ended."""

    origin: Origin = Origin.OTHER
    error: str | None = None
    """Error with which the gateway gave up; None: it did not fail."""
    reason: str | None = None
    """The kind of that failure, as the gateway knows it; None: not known."""
    aborted: bool = False
    """True if somebody stopped it."""
    stopped: bool = False
    """True if the daemon stopped it, because its task was cancelled or its run reset."""
    said: str = ""
    """The end of the agent's last message; empty: it said nothing."""
    words: str = ""
    """The agent's last message in full, if one of our wakes began the turn."""
    calls: int = 0
    """Tool calls in it."""
    children: int = 0
    """Sub-agents of its session that still run; the gateway reports when they end."""
    commands: tuple[str, ...] = ()
    """Commands that run in the background of its gateway for the session."""
    scheduled: tuple[str, ...] = ()
    """Work that its gateway has scheduled for the session within the hour, or begun. It survives a
    restart."""
    awaited_age: float = 0.0
    """Running time of the oldest command or sub-agent, in seconds."""

    @property
    def awaited_work(self) -> tuple[str, ...]:
        """Everything in its gateway that the session may wait for, in words."""
        below = (format_count(self.children, "sub-agent"),) if self.children else ()
        return (*below, *self.commands, *self.scheduled)

    @property
    def is_empty(self) -> bool:
        """True if a timer began it and it called no tool."""
        return self.origin is Origin.HEARTBEAT and not self.calls

    @property
    def has_spoken(self) -> bool:
        """True if its agent said something to the user."""
        return bool(self.said) and not self.is_empty

    @property
    def may_have_acted(self) -> bool:
        """True if its agent may have acted on what the session was told."""
        return self.error is None and not self.is_empty


_QUESTION_MARKS: Final = ("?", "？", "؟", "՞", "፧", "⁇", "⁉", "❓", "❔")
_PASSING_FAILURE: Final = re.compile(
    r"(?i)\b429\b|rate.?limit|too many requests|overloaded|try again|timed? ?out"
    r"|temporar(?:y|ily)"
)
_CREDENTIALS: Final = re.compile(
    r"(?i)\b(?:HTTP|status|code|error)?[ :=]*(?:401|402|403)\b(?! ?(?:ms|s|seconds))"
    r"|unauthori[sz]ed|forbidden|payment required|(?:invalid|incorrect|no) api key"
    r"|insufficient.quota|credit balance|billing"
)
_REFUSAL: Final = re.compile(
    r"(?i)\b(?:HTTP|status|code|error)[ :=]*(?:400|404)\b|\A\W*(?:400|404)\b"
    r"|bad request|invalid_request|rejected the request|model_not_found"
)


def has_closing_question(last_words: str) -> bool:
    """True if a turn's last words end in a question mark.

    This only decides how long the agent rests.
    """
    words = "".join(c for c in last_words if c.isprintable() or c.isspace())
    while words and not (words[-1].isalnum() or words[-1] in _QUESTION_MARKS):
        if words[-1] == "!" and words[:-1].rstrip("!").endswith(_QUESTION_MARKS):
            return True
        if words[-1] in ".!…。！;:,":
            return False
        words = words[:-1]
    return words.endswith(_QUESTION_MARKS)


def classify_failure(error: str, reason: str | None = None) -> ProviderFailureKind:
    """Classify a provider's failure by the gateway's `reason`, else by its error text."""
    with suppress(ValueError):
        return ProviderFailureKind(reason or "")
    if _PASSING_FAILURE.search(error):
        return ProviderFailureKind.PASSING
    if _CREDENTIALS.search(error):
        return ProviderFailureKind.CREDENTIALS
    return ProviderFailureKind.REFUSED if _REFUSAL.search(error) else ProviderFailureKind.PASSING

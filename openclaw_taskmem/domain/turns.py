"""A turn of an agent, as its gateway reports it, and what its end means."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain.texts import format_count
from taskmem_hookspecs import Value


class Origin(StrEnum):
    """What began a turn."""

    USER = "user"
    """The user said something."""
    TASKMEM = "taskmem"
    """A wake of ours."""
    RECOVERY = "recovery"
    """The gateway resumed by itself what a restart had cut."""
    HEARTBEAT = "heartbeat"
    """A clock: such a turn is no work unless it does some."""
    OTHER = "other"
    """Something else, such as a sub-agent's report."""


class ProviderFailureKind(StrEnum):
    """What kind of failure a provider's is."""

    PASSING = "passing"
    """It may work the next time."""
    REFUSED = "refused"
    """It will be the same the next time."""
    CREDENTIALS = "credentials"
    """The user has to mend it: a key, or a bill."""


class Turn(Value):
    """A turn that has ended."""

    origin: Origin = Origin.OTHER
    error: str | None = None
    """Why it failed once the gateway gave it up; None: it did not."""
    reason: str | None = None
    """What the gateway calls that failure; None: it does not say."""
    aborted: bool = False
    """Whether somebody stopped it."""
    stopped: bool = False
    """Whether we did, with the task on which it worked."""
    said: str = ""
    """The end of what its agent said last; empty: nothing."""
    words: str = ""
    """All of it, where a wake of ours began the turn."""
    calls: int = 0
    """Tool calls in it."""
    children: int = 0
    """Sub-agents of its session that still run: the gateway tells of their ends."""
    commands: tuple[str, ...] = ()
    """Commands that its gateway runs in the background for the session."""
    scheduled: tuple[str, ...] = ()
    """What its gateway will begin for the session within the hour, or has begun: it
    outlives a restart."""
    awaited_age: float = 0.0
    """How long all commands and sub-agents among them have run by now, in seconds."""

    @property
    def awaited_work(self) -> tuple[str, ...]:
        """What the session may wait for in its gateway, in words."""
        below = (format_count(self.children, "sub-agent"),) if self.children else ()
        return (*below, *self.commands, *self.scheduled)

    @property
    def is_empty(self) -> bool:
        """Whether it is no work: a clock began it, and it did nothing."""
        return self.origin is Origin.HEARTBEAT and not self.calls

    @property
    def has_spoken(self) -> bool:
        """Whether its agent has said anything to somebody."""
        return bool(self.said) and self.said not in _SILENT and not self.is_empty

    @property
    def may_have_acted(self) -> bool:
        """Whether it may have acted on what its session was told before it ended."""
        return self.error is None and not self.is_empty


_SILENT: Final = ("NO_REPLY", "HEARTBEAT_OK")
"""What an agent of OpenClaw says that has nothing to say."""
_ASKS: Final = ("?", "？", "؟", "՞", "፧", "⁇", "⁉", "❓", "❔")
_AGAIN: Final = re.compile(
    r"(?i)\b429\b|rate.?limit|too many requests|overloaded|try again|timed? ?out"
    r"|temporar(?:y|ily)"
)
_CREDENTIALS: Final = re.compile(
    r"(?i)\b(?:HTTP|status|code|error)?[ :=]*(?:401|402|403)\b(?! ?(?:ms|s|seconds))"
    r"|unauthori[sz]ed|forbidden|payment required|(?:invalid|incorrect|no) api key"
    r"|insufficient.quota|credit balance|billing"
)
_REFUSED: Final = re.compile(
    r"(?i)\b(?:HTTP|status|code|error)[ :=]*(?:400|404)\b|\A\W*(?:400|404)\b"
    r"|bad request|invalid_request|rejected the request|model_not_found"
)
_BY_REASON: Final = {
    **dict.fromkeys(("auth", "auth_permanent", "billing"), ProviderFailureKind.CREDENTIALS),
    **dict.fromkeys(("format", "model_not_found", "context_overflow"), ProviderFailureKind.REFUSED),
    **dict.fromkeys(
        ("timeout", "rate_limit", "overloaded", "server_error", "empty_response"),
        ProviderFailureKind.PASSING,
    ),
}
"""What OpenClaw calls the reason of a failure (measured with 2026.9.6)."""


def has_closing_question(said: str) -> bool:
    """Whether a turn's last words end in a question mark.

    It decides how long the agent is left alone, and nothing else.
    """
    words = "".join(c for c in said if c.isprintable() or c.isspace())
    while words and not (words[-1].isalnum() or words[-1] in _ASKS):
        if words[-1] == "!" and words[:-1].rstrip("!").endswith(_ASKS):
            return True
        if words[-1] in ".!…。！;:,":
            return False
        words = words[:-1]
    return words.endswith(_ASKS)


def classify_failure(error: str, reason: str | None = None) -> ProviderFailureKind:
    """Return what kind of failure a provider's is, by its reason or else its words."""
    known = _BY_REASON.get(reason or "")
    if known is not None:
        return known
    if _AGAIN.search(error):
        return ProviderFailureKind.PASSING
    if _CREDENTIALS.search(error):
        return ProviderFailureKind.CREDENTIALS
    return ProviderFailureKind.REFUSED if _REFUSED.search(error) else ProviderFailureKind.PASSING

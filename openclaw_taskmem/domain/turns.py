"""A turn of an agent, as its gateway reports it, and what its end means."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

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


class Turn(Value):
    """A turn that has ended."""

    origin: Origin = Origin.OTHER
    error: str | None = None
    """Why it failed once the gateway gave it up; None: it did not."""
    aborted: bool = False
    """Whether somebody stopped it."""
    refused: str | None = None
    """Why its last words were held back, and it was stopped; None: they were not."""
    said: str = ""
    """The end of what its agent said last; empty: nothing."""
    calls: int = 0
    """Tool calls in it."""


_ASKS: Final = ("?", "？", "؟", "՞", "፧")
_REFUSED: Final = re.compile(
    r"(?i)\b(?:40[0-4]|bad request|unauthori[sz]ed|forbidden|invalid (?:api )?key"
    r"|incorrect api key|invalid_request|model_not_found|no api key"
    r"|temporarily disabled|billing|insufficient_quota|credit balance)\b"
)
_CREDENTIALS: Final = re.compile(
    r"(?i)\b(?:40[123]|unauthori[sz]ed|forbidden|api key|billing|insufficient_quota"
    r"|credit balance)\b"
)
_SPACES: Final = re.compile(r"[\W\d_]+")


def asks(said: str) -> bool:
    """Whether a turn ended with a question to the user.

    Source: ruling "a question to the user".
    """
    words = "".join(c for c in said if c.isprintable() or c.isspace())
    while words and not (words[-1].isalnum() or words[-1] in _ASKS):
        if words[-1] in ".!…。！;:,":
            return False
        words = words[:-1]
    return words.endswith(_ASKS)


def chatter(said: str) -> str:
    """Return the words of what was said, so that "Step 2…" and "step 3!" are one."""
    return _SPACES.sub(" ", said.casefold()).strip()


def final(error: str) -> bool:
    """Whether a provider's refusal will be the same the next time."""
    return _REFUSED.search(error) is not None


def credentials(error: str) -> bool:
    """Whether a provider's refusal is for the user to mend: a key, or a bill."""
    return _CREDENTIALS.search(error) is not None

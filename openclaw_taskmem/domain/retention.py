"""How long what has ended is kept, and how much of it.

Source: ruling "retention".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain.texts import format_count
from taskmem_hookspecs import Value

MIB: Final = 1024 * 1024
KEPT_AT_LEAST: Final = timedelta(hours=1)
"""Nothing that is younger is dropped: what is told, counted and shown rests on it."""
_WORDS: Final = {"checkpoints": "checkpoint", "wakes": "wake", "waits": "wait", "events": "event"}


class KeepPolicy(Value):
    """What is kept of what has ended."""

    days: float = 90.0
    """For how long."""
    most_bytes: int = 2048 * MIB
    """How many bytes a database may take before what has ended goes earlier."""


def find_age_cutoff(now: datetime, policy: KeepPolicy) -> datetime:
    """Return the instant before which what has ended goes by its age."""
    return now - max(timedelta(days=policy.days), KEPT_AT_LEAST)


def find_size_cutoff(now: datetime, taken: int, policy: KeepPolicy) -> datetime | None:
    """Return the instant before which it goes for want of room; None: there is some.

    `taken` are the bytes that the database takes.
    """
    return now - KEPT_AT_LEAST if taken > policy.most_bytes else None


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """Say how many rows of each kind were dropped."""
    counted = [(word, dropped.get(name, 0)) for name, word in _WORDS.items()]
    return ", ".join(format_count(number, word) for word, number in counted if number)


def describe_full(taken: int, policy: KeepPolicy) -> str:
    """Say that all that may go is gone, and the database is still too large."""
    return (
        f"The database takes {taken / MIB:,.0f} MiB, more than the "
        f"{policy.most_bytes / MIB:,.0f} of TASKMEM_KEEP_MB, and nothing more may be "
        "dropped: tasks with their threads, runs and ledgers, and what is open, stay"
    )


def describe_shared(taken: int, policy: KeepPolicy) -> str:
    """Say that a database is too large, but other homes have rows in it."""
    return (
        f"The database takes {taken / MIB:,.0f} MiB, more than the "
        f"{policy.most_bytes / MIB:,.0f} of TASKMEM_KEEP_MB, and nothing is dropped "
        "for that, since other homes share it"
    )

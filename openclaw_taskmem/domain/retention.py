"""Decide how long rows of what has ended are kept, and say what was dropped.

Rows go for their age, and earlier if the database is too large. `KeepPolicy` has the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain.policies import KeepPolicy
from openclaw_taskmem.domain.text.texts import MIB, format_count

KEPT_AT_LEAST: Final = timedelta(hours=1)
"""Nothing younger is dropped: notices, counts and views need it.

Source: docs/origins.md, "Retention".
"""
_NOUNS: Final = {"checkpoints": "checkpoint", "wakes": "wake", "waits": "wait", "events": "event"}


def find_age_cutoff(now: datetime, policy: KeepPolicy) -> datetime:
    """Return the instant before which what has ended is dropped for its age."""
    return now - max(timedelta(days=policy.days), KEPT_AT_LEAST)


def find_size_cutoff(now: datetime, taken: int, policy: KeepPolicy) -> datetime | None:
    """Return the instant before which what has ended is dropped if the database is too large.

    `taken` is the size of the database in bytes. None: it is small enough.
    """
    return now - KEPT_AT_LEAST if taken > policy.most_bytes else None


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """Say how many rows of each kind were dropped."""
    counted = [(word, dropped.get(name, 0)) for name, word in _NOUNS.items()]
    return ", ".join(format_count(number, word) for word, number in counted if number)


def describe_full(taken: int, policy: KeepPolicy) -> str:
    """Say that the database is still too large though all that may be dropped was."""
    return (
        f"The database takes {taken / MIB:,.0f} MiB, more than the "
        f"{policy.most_bytes / MIB:,.0f} of TASKMEM_KEEP_MB, and nothing more may be "
        "dropped: tasks with their threads, runs and ledgers, and what is open, stay"
    )


def describe_shared(taken: int, policy: KeepPolicy) -> str:
    """Say that the database is too large, but shared with other homes."""
    return (
        f"The database takes {taken / MIB:,.0f} MiB, more than the "
        f"{policy.most_bytes / MIB:,.0f} of TASKMEM_KEEP_MB, and nothing is dropped "
        "for that, since other homes share it"
    )

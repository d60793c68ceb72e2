"""Hold what use cases keep between calls, in the memory of one daemon."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Final, TypeVar

from openclaw_taskmem.domain.callers import RunningWork
from openclaw_taskmem.domain.changes.implicit_tasks import UncoveredCallEntry
from openclaw_taskmem.domain.changes.registrations import FirstCall

MOST_REMEMBERED: Final = 2_000
"""Most entries of a table that nothing else keeps small."""
_Key = TypeVar("_Key")
_Entry = TypeVar("_Entry")


@dataclass(slots=True)
class StorageUse:
    """The size of the database when it was last measured."""

    taken: int | None = None
    """Bytes that the database takes; None: not measured yet."""
    full: bool = False
    """True if it is too large and nothing more may be dropped."""
    shared: bool = False
    """True if other homes have rows in it; then nothing is dropped to make room."""
    dropped: Counter[str] = field(default_factory=Counter[str])
    """Rows of each kind dropped since the daemon started."""


@dataclass(slots=True)
class DamageLook:
    """The last look for damage in the database."""

    at: datetime | None = None
    found: str | None = None
    """The sentence on it; None: there is none."""


@dataclass(frozen=True, slots=True)
class LiveState:
    """The tables that use cases keep between calls, in the memory of one daemon."""

    used_folders: set[tuple[str, str, bool]] = field(default_factory=set[tuple[str, str, bool]])
    """Folders already stored: task, path, and whether a command may have changed files in it.

    `engine/ledger.py` keeps it.
    """
    named_files: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By call: the files that its command names and that existed before it.

    `engine/ledger.py` keeps it.
    """
    first_calls: dict[str, FirstCall] = field(default_factory=dict[str, FirstCall])
    """By task or wait: the call that made it, of the newest `MOST_REMEMBERED`, oldest first."""
    running_work: dict[str, tuple[RunningWork, ...]] = field(
        default_factory=dict[str, tuple[RunningWork, ...]]
    )
    """By session: what its gateway last reported as running for it.

    The daemon's `Gateways` keep it, and drop it when the gateway disconnects.
    """
    gateway_starts: dict[str, datetime] = field(default_factory=dict[str, datetime])
    """By host: when its gateway last started. `engine/gateway_reports.py` keeps it."""
    uncovered_calls: dict[tuple[str | None, str], tuple[UncoveredCallEntry, ...]] = field(
        default_factory=dict[tuple[str | None, str], tuple[UncoveredCallEntry, ...]]
    )
    """By gateway and session: the first calls of a user's turn that works on no task.

    `engine/turns.py` keeps it.
    """
    shown_messages: dict[str, int] = field(default_factory=dict[str, int])
    """By run: id of the last user message that an answer showed to the run's owner.

    It counts as heard once the owner calls again or its turn has ended, since an answer may be lost
    on its way. `engine/run_handoff.py` keeps it.
    """
    told_holds: dict[str | None, datetime] = field(default_factory=dict[str | None, datetime])
    """By session: when its user was last told that turns of it wait for the budget.

    `engine/wakes.py` keeps it.
    """
    refused_ends: dict[tuple[str, str], datetime] = field(
        default_factory=dict[tuple[str, str], datetime]
    )
    """By session and task, of the newest `MOST_REMEMBERED` for which an agent was kept from ending
    its turn: when the task had changed last by then. `daemon/host_hooks.py` keeps it."""
    heard_sessions: dict[str, bool] = field(default_factory=dict[str, bool])
    """The sessions, of the newest `MOST_REMEMBERED`, no wake of which has a note that its turn
    begins. `engine/gateway_reports.py` keeps it."""
    session_starts: dict[str, datetime] = field(default_factory=dict[str, datetime])
    """By session, of the newest `MOST_REMEMBERED`: when its host last opened it.
    `engine/gateway_reports.py` keeps it."""
    turn_ends: dict[str, datetime] = field(default_factory=dict[str, datetime])
    """By session, of the newest `MOST_REMEMBERED` that are in no turn: when its last one ended.
    `daemon/host_hooks.py` keeps it."""
    told_losses: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """The sessions, processes and hosts that were told what is gone, each with what that was; an
    empty one is a person at a terminal. `tools/catalog.py` keeps it."""
    alert_slots: dict[bool, datetime] = field(default_factory=dict[bool, datetime])
    """When the tasks are due again that were put off last: of agents that a transport reaches
    (True), and of the others. `engine/stuck.py` keeps it."""
    storage: StorageUse = field(default_factory=StorageUse)
    """The size of the database. `engine/retention.py` keeps it."""

    damage: DamageLook = field(default_factory=DamageLook)
    """The last look for damage. `engine/overview.py` keeps it."""
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)
    """Held by who writes into a table by `remember`."""

    def note_first_call(self, made_id: str, call: FirstCall) -> None:
        """Remember the call that made a task or wait."""
        self.remember(self.first_calls, made_id, call)

    def remember(self, table: dict[_Key, _Entry], key: _Key, entry: _Entry) -> None:
        """Write an entry into a table, as its newest; drop the oldest beyond the limit."""
        with self._lock:
            table.pop(key, None)
            table[key] = entry
            # A copy, as others may take entries out meanwhile.
            for oldest in [*table][:-MOST_REMEMBERED]:
                table.pop(oldest, None)

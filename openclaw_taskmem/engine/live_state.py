"""Hold what use cases keep between calls, in the memory of one daemon."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain.callers import RunningWork
from openclaw_taskmem.domain.changes.implicit_tasks import UncoveredCallEntry
from openclaw_taskmem.domain.changes.registrations import Registrar

MOST_REGISTRARS: Final = 2_000
"""Tasks and waits of which is remembered who made them."""


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
    registrars: dict[str, Registrar] = field(default_factory=dict[str, Registrar])
    """By task or wait: who made it, of the newest `MOST_REGISTRARS`, oldest first.

    `engine/tasks.py` and `engine/waits.py` keep it.
    """
    asked_waits: dict[str, tuple[object, ...]] = field(
        default_factory=dict[str, tuple[object, ...]]
    )
    """By wait: what the call of smart_wait that made it asked for, oldest first.

    `engine/waits.py` keeps it.
    """
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

    It counts as heard once the owner calls again, since an answer may be lost on its way.
    `engine/run_handoff.py` keeps it.
    """
    told_holds: dict[str | None, datetime] = field(default_factory=dict[str | None, datetime])
    """By session: when its user was last told that turns of it wait for the budget.

    `engine/wakes.py` keeps it.
    """
    storage: StorageUse = field(default_factory=StorageUse)
    """The size of the database. `engine/retention.py` keeps it."""

    def note_registrar(self, made_id: str, registrar: Registrar) -> None:
        """Remember who made a task or wait."""
        self.registrars[made_id] = registrar
        while len(self.registrars) > MOST_REGISTRARS:
            self.registrars.pop(next(iter(self.registrars)), None)

    def note_wait(self, asked: tuple[object, ...], wait_id: str) -> None:
        """Remember what the call that made a wait asked for."""
        self.asked_waits[wait_id] = asked
        while len(self.asked_waits) > MOST_REGISTRARS:
            self.asked_waits.pop(next(iter(self.asked_waits)), None)

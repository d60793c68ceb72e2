"""Delete old and ended rows from a store in memory, and measure it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from taskmem_hookspecs.changes import Change, DroppedRows
from taskmem_hookspecs.evidence import Artifact, LedgerEntry, WorkFolder
from taskmem_hookspecs.model import (
    Event,
    Message,
    PlanRevision,
    Task,
    TaskStatus,
    Wait,
    WaitStatus,
    Wake,
    WakeState,
)
from taskmem_hookspecs.roles import StoreSize
from taskmem_hookspecs.runs import Checkpoint, Run
from taskmem_hookspecs.testing.memory_rows import (
    drop_rows_of_tasks,
    drop_waits,
    find_stale_tasks,
    is_of_home,
    select_kept_checkpoints,
)

KeyT = TypeVar("KeyT")
RowT = TypeVar("RowT")
ROW_BYTES = 1_000
"""Size that `measure` counts for a row, in bytes."""


class Dropping:
    """Part of `MemoryStore`."""

    _lock: threading.RLock
    _tasks: dict[str, Task]
    _waits: dict[str, Wait]
    _wakes: dict[str, Wake]
    _runs: dict[str, Run]
    _checkpoints: dict[tuple[str, int], Checkpoint]
    _events: list[Event]
    _artifacts: dict[str, Artifact]
    _ledger: dict[tuple[str, str], LedgerEntry]
    _folders: dict[tuple[str, str], WorkFolder]
    _messages: list[Message]
    _revisions: list[PlanRevision]

    def drop_ended(
        self,
        before: datetime,
        limit: int,
        home: str | None = None,
        upto: int | None = None,
        after: int = 0,
    ) -> DroppedRows:
        """Delete the oldest rows of what has ended; return the number of rows by table."""
        with self._lock:
            checkpoints = self._find_old_checkpoints(before, home)
            self._checkpoints = drop_keys(self._checkpoints, checkpoints[:limit])
            wakes = self._find_old_wakes(before, home)
            self._wakes = drop_keys(self._wakes, wakes[:limit])
            waits = self._find_old_waits(before, home)
            self._waits = drop_keys(self._waits, waits[:limit])
            old = self._find_old_events(before, home, upto)
            events = [number for number in old if number > after][:limit]
            gone = set(events)
            self._events = [e for e in self._events if e.event_id not in gone]
        dropped = {
            "checkpoints": len(checkpoints[:limit]),
            "wakes": len(wakes[:limit]),
            "waits": len(waits[:limit]),
            "events": len(events),
        }
        rows = {name: number for name, number in dropped.items() if number}
        return DroppedRows(rows=rows, last_event=max(events, default=after))

    def measure(self, home: str | None = None) -> StoreSize:
        """Return the size: `ROW_BYTES` for each checkpoint, event, wake and wait."""
        with self._lock:
            lines = len(self._checkpoints) + len(self._events)
            taken = ROW_BYTES * (lines + len(self._wakes) + len(self._waits))
            homes = {task.home for task in self._tasks.values()}
            homes |= {wait.home for wait in self._waits.values()}
            homes |= {wake.home for wake in self._wakes.values()}
        others = home is not None and bool(homes - {None, home})
        return StoreSize(bytes=taken, shared=others)

    def _forget(self, change: Change) -> None:
        kept = drop_waits(change.forget_waits, self._waits, self._wakes)
        self._waits, self._wakes = kept
        before, home = change.forget_before, change.forget_home
        if before is None:
            return
        gone = find_stale_tasks(before, home, self._tasks, self._runs, self._waits)
        self._checkpoints = select_kept_checkpoints(
            before, home, self._checkpoints, self._runs, gone
        )
        self._tasks = {k: task for k, task in self._tasks.items() if k not in gone}
        self._runs, self._waits = (
            drop_rows_of_tasks(gone, self._runs),
            drop_rows_of_tasks(gone, self._waits),
        )
        self._wakes = drop_rows_of_tasks(gone, self._wakes)
        self._artifacts = drop_rows_of_tasks(gone, self._artifacts)
        self._ledger = drop_rows_of_tasks(gone, self._ledger)
        self._folders = drop_rows_of_tasks(gone, self._folders)
        self._messages = [m for m in self._messages if m.task_id not in gone]
        self._revisions = [r for r in self._revisions if r.task_id not in gone]

    def _is_of_closed_task(self, task_id: str | None) -> bool:
        return task_id is None or self._tasks[task_id].status.terminal

    def _is_resumable(self, run: Run) -> bool:
        """Return True if the run is the newest of a failed task."""
        its = (r for r in self._runs.values() if r.task_id == run.task_id)
        newest = max(its, key=lambda r: (r.created_at, r.run_id))
        return newest is run and self._tasks[run.task_id].status is TaskStatus.FAILED

    def _find_old_checkpoints(self, before: datetime, home: str | None) -> list[tuple[str, int]]:
        old = [
            one
            for one in self._checkpoints.values()
            if one.at < before
            and (run := self._runs[one.run_id]).state.terminal
            and is_of_home(run, home)
            and self._is_of_closed_task(run.task_id)
            and not self._is_resumable(run)
        ]
        old.sort(key=lambda one: (one.at, one.run_id, one.number))
        return [(one.run_id, one.number) for one in old]

    def _find_old_wakes(self, before: datetime, home: str | None) -> list[str]:
        watching = {w.wait_id for w in self._waits.values() if is_watching(w)}
        old = [
            wake
            for wake in self._wakes.values()
            if is_old(before, wake.created_at, wake.sent_at, wake.acknowledged_at)
            and wake.state not in (WakeState.DUE, WakeState.SENT)
            and is_of_home(wake, home)
            and self._is_of_closed_task(wake.task_id)
            and wake.wait_id not in watching
        ]
        old.sort(key=lambda wake: (wake.created_at, wake.wake_id))
        return [wake.wake_id for wake in old]

    def _find_old_waits(self, before: datetime, home: str | None) -> list[str]:
        named = {wake.wait_id for wake in self._wakes.values()}
        last = find_last_ended(self._waits.values())
        old = [
            wait
            for wait in self._waits.values()
            if is_old(before, wait.created_at, wait.changed_at)
            and not is_watching(wait)
            and is_of_home(wait, home)
            and self._is_of_closed_task(wait.task_id)
            and wait.wait_id not in named
            and (wait.task_id is None or last[wait.task_id] != wait.wait_id)
        ]
        old.sort(key=lambda wait: (wait.created_at, wait.wait_id))
        return [wait.wait_id for wait in old]

    def _find_old_events(
        self, before: datetime, home: str | None, upto: int | None
    ) -> Sequence[int]:
        newest = {(e.task_id, e.kind): e.event_id for e in self._events}

        def is_needed(event: Event) -> bool:
            task = self._tasks.get(event.task_id or "")
            wait = self._waits.get(event.wait_id or "")
            return (
                event is self._events[-1]
                or (task is not None and not task.status.terminal)
                or (task is not None and not is_of_home(task, home))
                or (task is not None and newest[event.task_id, event.kind] == event.event_id)
                or (wait is not None and is_watching(wait))
                or (wait is not None and not is_of_home(wait, home))
            )

        old = (event for event in self._events if event.at < before)
        gone = [event.event_id for event in old if not is_needed(event)]
        return [number for number in gone if upto is None or number <= upto]


def is_old(before: datetime, *instants: datetime | None) -> bool:
    """Return True if all known instants are before `before`."""
    return all(at < before for at in instants if at is not None)


def is_watching(wait: Wait) -> bool:
    """Return True if the wait is watching."""
    return wait.status is WaitStatus.WATCHING


def find_last_ended(waits: Iterable[Wait]) -> dict[str, str]:
    """Return the id of the wait that ended last, by task id."""
    ended = (wait for wait in waits if wait.task_id and not is_watching(wait))
    in_order = sorted(ended, key=lambda wait: (wait.changed_at, wait.wait_id))
    return {wait.task_id or "": wait.wait_id for wait in in_order}


def drop_keys(rows: Mapping[KeyT, RowT], gone: Iterable[KeyT]) -> dict[KeyT, RowT]:
    """Return the rows without those keys."""
    keys = set(gone)
    return {key: row for key, row in rows.items() if key not in keys}

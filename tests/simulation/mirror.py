"""What the store must hold: every row that a commit wrote, kept beside the store."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

from taskmem_hookspecs import (
    Artifact,
    Bookmark,
    Change,
    Checkpoint,
    Event,
    EventQuery,
    Message,
    PlanRevision,
    Run,
    Task,
    TaskStore,
    Wait,
    WaitStatus,
    Wake,
)
from tests.support.rows import read_all_rows

ALL: Final = 1_000_000
RowT = TypeVar("RowT")
_IDS: Final = {"tasks": "task_id", "waits": "wait_id", "wakes": "wake_id", "runs": "run_id"}


@dataclass(slots=True)
class Mirror:
    """The rows of a database, by id."""

    tasks: dict[str, Task] = field(default_factory=dict)
    waits: dict[str, Wait] = field(default_factory=dict)
    wakes: dict[str, Wake] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    messages: defaultdict[str, list[Message]] = field(default_factory=lambda: defaultdict(list))
    revisions: list[PlanRevision] = field(default_factory=list)
    checkpoints: dict[tuple[str, int], Checkpoint] = field(default_factory=dict)
    bookmarks: dict[str, Bookmark] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    open_waits: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """By task: the ids of its waits that are watching."""
    runs_of: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    wakes_of: defaultdict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))

    @classmethod
    def read_store(cls, store: TaskStore, known: Mirror) -> Mirror:
        """Return what a store holds; its bookmarks are known."""
        found = read_all_rows(store)
        tasks: Any = found["tasks"]
        mirror = cls(
            tasks={row.task_id: row for row in tasks},
            bookmarks=dict(known.bookmarks),
            events=list(store.find_events(EventQuery(limit=ALL))),
        )
        rows: Any = found
        mirror._index(
            Change(waits=rows["waits"], runs=rows["runs"][::-1], wakes=rows["wakes"][::-1])
        )
        mirror.waits = {row.wait_id: row for row in rows["waits"]}
        mirror.wakes = {row.wake_id: row for row in rows["wakes"]}
        mirror.runs = {row.run_id: row for row in rows["runs"]}
        mirror.artifacts = {row.artifact_id: row for row in rows["artifacts"]}
        mirror.checkpoints = {(c.run_id, c.number): c for c in rows["checkpoints"]}
        mirror.revisions = rows["revisions"]
        for message in rows["messages"]:
            mirror.messages[message.task_id].append(message)
        return mirror

    def apply(self, change: Change) -> Commit:
        """Write a change; return it with the rows as they were."""
        commit = Commit(self, change)
        for mark in change.bookmarks:
            if mark.name in self.bookmarks:
                commit.bookmarks_before[mark.name] = self.bookmarks[mark.name]
        for kind in _IDS:
            rows: dict[str, Any] = getattr(self, kind)
            before: dict[str, Any] = getattr(commit, f"{kind}_before")
            for row in getattr(change, kind):
                row_id = getattr(row, _IDS[kind])
                known = rows.get(row_id)
                before.setdefault(row_id, known)
                if row.version != (known.version if known else 0):
                    commit.written_over.append(row_id)
                rows[row_id] = row.model_copy(update={"version": row.version + 1})
        for artifact in change.artifacts:
            raised = artifact.model_copy(update={"version": artifact.version + 1})
            self.artifacts[artifact.artifact_id] = raised
        self._index(change)
        for message in change.messages:
            self.messages[message.task_id].append(message)
        self.revisions += change.revisions
        self.checkpoints |= {(c.run_id, c.number): c for c in change.checkpoints}
        self.bookmarks |= {mark.name: mark for mark in change.bookmarks}
        last = self.last_event
        self.events += (
            event.model_copy(update={"event_id": last + number})
            for number, event in enumerate(change.events, 1)
        )
        for wait_id in change.forget_waits:
            del self.waits[wait_id]
            self.wakes = {k: w for k, w in self.wakes.items() if w.wait_id != wait_id}
        return commit

    def _index(self, change: Change) -> None:
        for wait in change.waits:
            if wait.task_id is not None:
                if wait.status is WaitStatus.WATCHING:
                    self.open_waits[wait.task_id][wait.wait_id] = None
                else:
                    self.open_waits[wait.task_id].pop(wait.wait_id, None)
        for run in change.runs:
            self.runs_of[run.task_id][run.run_id] = None
        for wake in change.wakes:
            self.wakes_of[wake.task_id or wake.wait_id or ""][wake.wake_id] = None

    @property
    def last_event(self) -> int:
        """The number of the newest entry of the log; 0: it has none."""
        return self.events[-1].event_id or 0 if self.events else 0

    def list_runs(self, task_id: str) -> list[Run]:
        """Return the runs of a task, oldest first."""
        return [self.runs[run_id] for run_id in self.runs_of.get(task_id, ())]

    def list_wakes(self, subject: str) -> list[Wake]:
        """Return the wakes of a task, or of a wait without a task, oldest first."""
        found = (self.wakes.get(wake_id) for wake_id in self.wakes_of.get(subject, ()))
        return [wake for wake in found if wake is not None]

    def _number_rows(self) -> dict[str, Any]:
        """Return what has no id of its own, by its place."""
        found: dict[str, Any] = {f"event {event.event_id}": event for event in self.events}
        places: Counter[str] = Counter()
        for row in (*itertools.chain(*self.messages.values()), *self.revisions):
            what = f"{type(row).__name__} of {row.task_id}"
            places[what] += 1
            found[f"{what}, {places[what]}"] = row
        return found

    def compare(self, store: TaskStore) -> Iterator[str]:
        """Yield what a store holds otherwise."""
        stored = Mirror.read_store(store, self)
        for kind in (*_IDS, "artifacts", "checkpoints"):
            yield from _differ(getattr(self, kind), getattr(stored, kind))
        yield from _differ(self._number_rows(), stored._number_rows())
        for name, mark in self.bookmarks.items():
            if [b.value for b in store.read_records(Bookmark, name)] != [mark.value]:
                yield f"the bookmark {name} is not {mark.value!r}"


@dataclass(slots=True)
class Commit:
    """One commit: what it wrote, and what was there before."""

    mirror: Mirror
    """The rows after it."""
    change: Change
    tasks_before: dict[str, Task | None] = field(default_factory=dict)
    waits_before: dict[str, Wait | None] = field(default_factory=dict)
    wakes_before: dict[str, Wake | None] = field(default_factory=dict)
    runs_before: dict[str, Run | None] = field(default_factory=dict)
    bookmarks_before: dict[str, Bookmark] = field(default_factory=dict)
    written_over: list[str] = field(default_factory=list)
    """Rows that were not as whoever wrote them had read them."""
    now: datetime | None = None
    decided: datetime | None = None
    """The latest instant that whoever wrote it may have read: later than `now` if the clock went
    back since."""
    monotonic: float = 0.0


def _differ(mirror: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterator[str]:
    for row_id in sorted({*mirror, *stored}):
        ours, its = mirror.get(row_id), stored.get(row_id)
        if ours is None or its is None:
            yield f"{row_id} is {'not stored' if its is None else 'stored, and nobody wrote it'}"
        elif _plain(ours) != _plain(its):
            fields = [name for name in _plain(ours) if _plain(ours)[name] != _plain(its)[name]]
            yield f"{row_id} differs in {', '.join(fields)}"


def _plain(row: Any) -> dict[str, Any]:
    fields: dict[str, Any] = dict(vars(row))
    for given_by_store in ("line", "message_id", "revision_id"):
        fields.pop(given_by_store, None)
    if isinstance(row, Task) and row.linkage.last_wait_event_at is not None:
        whole = row.linkage.last_wait_event_at.replace(microsecond=0)
        fields["linkage"] = row.linkage.model_copy(update={"last_wait_event_at": whole})
    return fields

"""The parts that plug-ins play, one small protocol each, and what passes through them.

A *provide* hook returns an object that plays one of these parts, or None.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar, runtime_checkable

from taskmem_hookspecs.changes import Change, DroppedRows
from taskmem_hookspecs.evidence import LedgerEntry, WorkFolder
from taskmem_hookspecs.model import (
    Bookmark,
    Counts,
    Event,
    Maker,
    Message,
    PlanRevision,
    Task,
    TaskFacts,
    Wait,
    Wake,
)
from taskmem_hookspecs.queries import EventQuery, RunQuery, TaskQuery, WaitQuery, WakeQuery
from taskmem_hookspecs.runs import Checkpoint, Run
from taskmem_hookspecs.value import Instant, Value


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> datetime:
        """Return the instant, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only ever grow, for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when that many seconds have passed."""
        ...


class StoreSize(Value):
    """How much room a store takes."""

    bytes: int
    shared: bool = False
    """Whether there is a task, wait or wake of another home."""


RecordT = TypeVar("RecordT", Bookmark, Message, PlanRevision, LedgerEntry, WorkFolder, Checkpoint)


@runtime_checkable
class TaskStore(Protocol):
    """Where everything is kept.

    Synchronous, and called from several threads at once. Every method may raise
    `StoreBusy` or `StoreUnavailable`; the next call works once the cause is gone.
    """

    def read_task(self, task_id: str) -> TaskFacts:
        """Return a task with its waits and its open wakes, as `TaskFacts` says.

        Raises:
            TaskNotFound: No task has that id.
        """
        ...

    def read_wait(self, wait_id: str) -> Wait:
        """Return one wait.

        Raises:
            WaitNotFound: No wait has that id.
        """
        ...

    def read_run(self, run_id: str) -> Run:
        """Return one run.

        Raises:
            RunNotFound: No run has that id.
        """
        ...

    def read_records(
        self,
        kind: type[RecordT],
        owner_id: str,
        limit: int | None = None,
        *,
        before: int | None = None,
        said_after: int | None = None,
        holding: str | None = None,
    ) -> Sequence[RecordT]:
        """Return the last records of a task, the checkpoints of a run, or a bookmark.

        Messages, revisions and checkpoints come oldest first; what a task made, and
        the folders that its tools used, in order of the paths.

        Args:
            kind: The class of the records.
            owner_id: Of the task or the run; of a bookmark, its name.
            limit: At most so many; None: all.
            before: Only messages or checkpoints with smaller numbers.
            said_after: Only messages of the user, and what tells of the task's life,
                after the message of that id.
            holding: Only checkpoints whose bodies hold this text, letter for letter.
        """
        ...

    def find_tasks(self, query: TaskQuery) -> Sequence[Task]:
        """Return the tasks that a query asks for."""
        ...

    def find_waits(self, query: WaitQuery) -> Sequence[Wait]:
        """Return the waits that a query asks for."""
        ...

    def find_wakes(self, query: WakeQuery) -> Sequence[Wake]:
        """Return the wakes that a query asks for."""
        ...

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        """Return the runs that a query asks for."""
        ...

    def find_events(self, query: EventQuery) -> Sequence[Event]:
        """Return the events that a query asks for."""
        ...

    def count(self) -> Counts:
        """Return how much there is, by state."""
        ...

    def count_open(
        self, kind: type[Task | Wait], by: Maker, limit: int, home: str | None = None
    ) -> int:
        """Return how many open tasks one has registered, or open waits asked for.

        It is `limit` where there are more.
        """
        ...

    def commit(self, change: Change) -> None:
        """Write all of a change, durably, or none of it.

        Raises:
            Conflict: A version moved, or a wake's key is taken; nothing of the
                change was written.
            TaskNotFound: It belongs to a task that does not exist; likewise.
            StoreFull: There is no room; nothing of the change was written.
        """
        ...

    def drop_ended(
        self,
        before: datetime,
        limit: int,
        home: str | None = None,
        upto: int | None = None,
        after: int = 0,
    ) -> DroppedRows:
        """Drop the oldest rows of what has ended; return what was dropped.

        At most `limit` of each of these, all of it from before an instant, and nothing
        of another home: `checkpoints` of runs that have ended, `wakes` that are neither
        due nor sent, `waits` that are not watched and that no wake refers to, and
        `events` after a number, up to another (`upto`; None: any). What is of a task or
        a wait that is open stays, and so do the checkpoints of the newest run of a task
        that failed; of every task the wait that ended last and the newest event of each
        kind; and the newest event of all.
        """
        ...

    def measure(self, home: str | None = None) -> StoreSize:
        """Return how much room all rows take; what was dropped takes none.

        `home`: the one beside which others are looked for; None: nobody looks.
        """
        ...

    def close(self) -> None:
        """Let go of everything; no other method is called afterwards."""
        ...


class WakeReceipt(Value):
    """A transport's word that it took a wake."""

    delivered_at: Instant
    note: str | None = None
    """Anything worth keeping beside the wake; None: nothing."""
    transport: str | None = None
    """Which of several ways took it; None: the transport itself."""


@runtime_checkable
class WakeTransport(Protocol):
    """Carries wakes to an agent."""

    name: str
    """What the settings call it."""

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Deliver a wake; the same `key` may come twice.

        Raises:
            WakeUndelivered: It did not arrive; it is tried again later.
            WakeRefused: It never will; it is not tried again.
        """
        ...


@runtime_checkable
class SelectiveTransport(WakeTransport, Protocol):
    """Carries wakes to the agents of some hosts; any other transport, to all."""

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Whether it can carry wakes to an agent, as `Wake` names it.

        One that it does not reach is told so when it begins to wait, and its wakes
        stay until `taskmem wait` fetches them. Asked often: answer from what is known;
        where it raises, it reaches nobody.
        """
        ...


class Recollection(Value):
    """A piece of recorded history. Source: seed 001, tool 5."""

    timestamp: Instant
    duration_seconds: float
    confidence: float
    """From 0 to 1."""
    summary: str
    steps: tuple[str, ...] = ()
    video_url: str | None = None
    video_start_ms: int | None = None
    video_end_ms: int | None = None


@runtime_checkable
class RecallSource(Protocol):
    """Searches recorded history."""

    def recall(self, query: str, limit: int, recency_bias: float) -> Sequence[Recollection]:
        """Return at most `limit` matches, best first; bias from 0 to 1."""
        ...


class QueryFacts(Value):
    """What a question about a task can be answered from."""

    task: Task
    waits: tuple[Wait, ...] = ()
    messages: tuple[Message, ...] = ()
    """The newest of the thread, oldest first."""
    now: Instant


@runtime_checkable
class QueryAnswerer(Protocol):
    """Answers a question about a task better than the core does."""

    def answer(self, facts: QueryFacts, query: str) -> str | None:
        """Return the answer in a few sentences; None: no better than the core's."""
        ...

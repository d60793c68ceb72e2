"""The parts that plug-ins play, one small protocol each, and what passes through them.

A *provide* hook returns an object that plays one of these parts, or None.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from taskmem_hookspecs.changes import Change, Dropped
from taskmem_hookspecs.evidence import LedgerEntry, WorkFolder
from taskmem_hookspecs.model import (
    Counts,
    Event,
    Maker,
    Message,
    PlanRevision,
    Task,
    TaskFacts,
    TaskStatus,
    Wait,
    WaitStatus,
    Wake,
    WakeState,
)
from taskmem_hookspecs.runs import Checkpoint, Run, RunState
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


@runtime_checkable
class TaskStore(Protocol):
    """Where everything is kept.

    A question that takes a `home` is about what belongs to that home or to none; None:
    whatever it belongs to.

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

    def wakes_of_wait(self, wait_id: str) -> Sequence[Wake]:
        """Return the wakes of a wait that are due or sent, oldest first."""
        ...

    def read_thread(
        self,
        task_id: str,
        limit: int | None = None,
        said_after: int | None = None,
        before: int | None = None,
    ) -> Sequence[Message]:
        """Return the newest `limit` messages of a task, oldest first; None: all.

        `said_after`: only what the user said, and what tells of the task's life, after
        the message of that id; None: all that was said. `before`: only those with a
        smaller id; None: the newest, too.
        """
        ...

    def read_revisions(self, task_id: str) -> Sequence[PlanRevision]:
        """Return the revisions of a task's plan, oldest first."""
        ...

    def list_tasks(
        self,
        status: TaskStatus | None,
        limit: int,
        home: str | None = None,
        session_key: str | None = None,
        *,
        implicit: bool | None = False,
    ) -> Sequence[Task]:
        """Return tasks, most recently updated first.

        None: of every status, of every session, implicit or not.
        """
        ...

    def active_tasks(self, after: str, limit: int) -> Sequence[Task]:
        """Return active tasks whose id is greater than `after`, in order of id."""
        ...

    def list_waits(
        self,
        status: WaitStatus | None,
        task_id: str | None,
        limit: int,
        home: str | None = None,
    ) -> Sequence[Wait]:
        """Return waits, newest first; None: of every status, of every task."""
        ...

    def list_wakes(
        self,
        states: Collection[WakeState] | None,
        task_id: str | None,
        limit: int,
        home: str | None = None,
    ) -> Sequence[Wake]:
        """Return wakes, newest first; None: in every state, of every task."""
        ...

    def read_wakes(self, wake_ids: Collection[str]) -> Sequence[Wake]:
        """Return the wakes with these ids, in no order; unknown ids are passed over."""
        ...

    def read_run(self, run_id: str) -> Run:
        """Return one run.

        Raises:
            RunNotFound: No run has that id.
        """
        ...

    def list_runs(
        self,
        states: Collection[RunState] | None,
        task_id: str | None,
        limit: int,
        home: str | None = None,
        *,
        implicit: bool | None = None,
    ) -> Sequence[Run]:
        """Return runs, newest first; None: in every state, of every task.

        `implicit`: only those of implicit tasks, or of the others; None: of both.

        That is by `created_at`, then by `run_id`. The core makes no run of a task
        earlier than the one before it, also where the clock went back.
        """
        ...

    def session_runs(self, session_key: str, home: str | None = None) -> Sequence[Run]:
        """Return the runs of a session that have not ended.

        The run comes first whose task was updated last; those of implicit tasks come
        after all others.
        """
        ...

    def runs_of(self, task_ids: Collection[str]) -> Sequence[Run]:
        """Return every run of these tasks, in any order; an unknown id has none."""
        ...

    def queued_runs(self, role: str | None, limit: int) -> Sequence[Run]:
        """Return the queued runs that a role may claim, oldest first; None: all."""
        ...

    def lapsed_runs(
        self, now: datetime, limit: int, home: str | None = None
    ) -> Sequence[Run]:
        """Return the runs whose `lease_until` has come, first due first."""
        ...

    def next_lapse(self, home: str | None = None) -> datetime | None:
        """Return the earliest `lease_until` of a run; None: there is none."""
        ...

    def read_checkpoints(
        self,
        run_id: str,
        limit: int,
        *,
        before: int | None = None,
        holding: str | None = None,
    ) -> Sequence[Checkpoint]:
        """Return the newest checkpoints of a run, oldest first.

        `before`: of those with smaller numbers; `holding`: of those whose bodies hold
        this text, letter for letter. None: of all.
        """
        ...

    def read_ledger(self, task_id: str) -> Sequence[LedgerEntry]:
        """Return what a task made, in order of the paths."""
        ...

    def read_folders(self, task_id: str) -> Sequence[WorkFolder]:
        """Return the folders that the tools of a task used, in order of the paths."""
        ...

    def list_events(self, after: int, limit: int) -> Sequence[Event]:
        """Return events with a greater id than `after`, oldest first."""
        ...

    def last_events(self, task_id: str | None, limit: int) -> Sequence[Event]:
        """Return the newest events, oldest first; None: of every task."""
        ...

    def wait_events(self, wait_id: str, limit: int) -> Sequence[Event]:
        """Return the newest events of a wait, oldest first."""
        ...

    def stuck_due(
        self, now: datetime, limit: int, home: str | None = None
    ) -> Sequence[str]:
        """Return the ids of active tasks whose `stuck_due_at` has come, in order."""
        ...

    def next_stuck_due(self, home: str | None = None) -> datetime | None:
        """Return the earliest `stuck_due_at` of an active task; None: there is none."""
        ...

    def due_wakes(
        self, now: datetime, limit: int, home: str | None = None
    ) -> Sequence[Wake]:
        """Return the wakes whose `due_at` has come, first due first."""
        ...

    def next_wake_due(self, home: str | None = None) -> datetime | None:
        """Return the earliest `due_at` of a wake; None: there is none."""
        ...

    def sent_since(
        self, session_key: str | None, since: datetime, home: str | None = None
    ) -> Sequence[datetime]:
        """Return when messages went out to a session since then, oldest first.

        Wakes that share a `delivery_id` went out as one message and count once. Those
        that tell a run to go on are left out.
        """
        ...

    def read_bookmark(self, name: str) -> str | None:
        """Return the value of a bookmark; None: it was never set."""
        ...

    def count(self) -> Counts:
        """Return how much there is, by state."""
        ...

    def count_open_tasks(self, by: Maker, limit: int, home: str | None = None) -> int:
        """Return how many open tasks one has registered: `limit` where it is more."""
        ...

    def count_open_waits(self, by: Maker, limit: int, home: str | None = None) -> int:
        """Return how many open waits one has asked for: `limit` where it is more."""
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
    ) -> Dropped:
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

    def measure(self) -> int:
        """Return how many bytes all rows take; what was dropped takes none."""
        ...

    def holds_others(self, home: str) -> bool:
        """Whether there is a task, wait or wake of another home."""
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

    def recall(
        self, query: str, limit: int, recency_bias: float
    ) -> Sequence[Recollection]:
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

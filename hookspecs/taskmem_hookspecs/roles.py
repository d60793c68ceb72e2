"""Define the protocols of the objects that plug-ins provide, and the values they exchange.

A *provide* hook returns an object that implements one of these protocols, or None.
A field of a query for a `TaskStore` that is None does not filter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from pydantic import NonNegativeInt

from taskmem_hookspecs.model import (
    Bookmark,
    Change,
    Checkpoint,
    Checksum,
    Counts,
    DroppedRows,
    Event,
    Instant,
    LedgerEntry,
    Maker,
    Message,
    PlanRevision,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
    Verdict,
    Wait,
    WaitStatus,
    Wake,
    WakeState,
    WorkFolder,
)

FOREVER: Final = datetime.max.replace(tzinfo=UTC)
"""The latest instant; a query with it finds everything that has a due time."""


class Query(Value):
    """Fields that all queries for tasks, waits, wakes and runs have."""

    home: str | None = None
    """Only rows of this home, or of none."""
    limit: int | None = None
    """Maximum number of rows, in the query's order."""


class TaskQuery(Query):
    """Find tasks, most recently updated first."""

    status: TaskStatus | None = None
    task_ids: tuple[str, ...] | None = None
    """Only these; unknown ids are ignored."""
    session_key: str | None = None
    implicit: bool | None = None
    """True: only implicit tasks. False: only the others."""
    after: str | None = None
    """Only tasks with a greater id, in order of id."""
    due_by: Instant | None = None
    """Only active tasks with `stuck_due_at` at or before this instant, earliest first."""
    named: str | None = None
    """Only tasks whose id or name contains this text; case does not matter in ASCII."""
    holding: str | None = None
    """Only tasks whose name or thread contains this text; case does not matter in ASCII."""
    blocker: str | None = None
    """Only tasks that are blocked by the task of this id."""
    ready: bool = False
    """Only active tasks that are blocked by none."""


class WaitQuery(Query):
    """Find waits, newest first."""

    status: WaitStatus | None = None
    task_id: str | None = None


class WakeQuery(Query):
    """Find wakes, newest first."""

    states: tuple[WakeState, ...] | None = None
    task_id: str | None = None
    wait_id: str | None = None
    wake_ids: tuple[str, ...] | None = None
    """Only these, in any order; unknown ids are ignored."""
    due_by: Instant | None = None
    """Only wakes with `due_at` at or before this instant, earliest first."""
    sent_since: Instant | None = None
    """Only wakes sent to `session_key` at or after this instant, earliest first."""
    session_key: str | None = None
    """Only wakes for this session; with `sent_since`, None means those without a session."""


class RunQuery(Query):
    """Find runs, newest first: by `created_at`, then by `run_id`.

    The core never creates a run with an earlier `created_at` than the task's previous run, even if
    the clock was set back. A run that only keeps calls, one a task at most, is as old as it.
    """

    states: tuple[RunState, ...] | None = None
    task_id: str | None = None
    task_ids: tuple[str, ...] | None = None
    """Only runs of these tasks, in any order; unknown ids are ignored."""
    role: str | None = None
    """Only runs that this role may claim: its own, and those without a role."""
    implicit: bool | None = None
    """True: only runs of implicit tasks. False: only the others."""
    oldest_first: bool = False
    session_key: str | None = None
    """Only open runs of this session, those of the most recently updated tasks first; runs of
    implicit tasks come after all others."""
    lapsed_by: Instant | None = None
    """Only runs with `lease_until` at or before this instant, earliest first."""
    task_home: str | None = None
    """Only runs of tasks of this home, or of none, wherever they run."""


class EventQuery(Value):
    """Find events, oldest first."""

    task_id: str | None = None
    wait_id: str | None = None
    after: int | None = None
    """Only events with a greater id."""
    limit: int | None = None
    """Maximum number of events: the first ones after `after`, or the newest without `after`."""


class TextQuery(Query):
    """Find texts of tasks by their words.

    Texts are messages, and of a task its name, plan, request, replaced plans, and the paths that it
    made. Implicit tasks and alerts of stuck tasks are left out, except with `task_id`.
    """

    patterns: tuple[str, ...]
    """Patterns to look for, as `words` describes them. Case does not matter; parts of a text are
    looked for in the newest texts only."""
    beside: tuple[str, ...] = ()
    """Only texts that also have one of these words, given as patterns; they do not matter where a
    part of a text is looked for."""
    task_id: str | None = None
    """Only messages of this task; `home`, `limit` and `beside` do not matter."""


TextPlace: TypeAlias = tuple[str, int | None]
"""A text of a task: the task's id, and the message's; None: the text is no message."""


class TextMatches(NamedTuple):
    """The texts that have one pattern."""

    total: int
    """How many there are; if they are more than `limit`, those left out may be counted."""
    places: Sequence[TextPlace]
    """Messages newest first, then other texts; at most `limit` of each."""


# --- roles ---------------------------------------------------------------------


class Clock(Protocol):
    """Source of the time."""

    def now(self) -> datetime:
        """Return the current instant, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never decrease, to measure durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for that many seconds."""
        ...


@runtime_checkable
class ClockedStore(Protocol):
    """A `TaskStore` that several machines may share, whose clocks may differ."""

    def read_clock(self) -> datetime | None:
        """Return the time of the server, by which all daemons judge; None: the machine's counts."""
        ...


class StoreExtent(Value):
    """How much a store has of what is never deleted, so that less of it is a loss."""

    database: str
    """Name of the database that no other has, nor one of the same URL on another server."""
    position: int
    """Id of the newest event; 0: there is none."""
    tasks: int
    """Number of tasks, without implicit ones."""


@runtime_checkable
class ExtentStore(Protocol):
    """A `TaskStore` that tells how much it has, and does not itself remember how much it had."""

    def read_extent(self) -> StoreExtent | None:
        """Return how much there is; None: the store's files remember it."""
        ...


@runtime_checkable
class CheckedStore(Protocol):
    """A `TaskStore` that can look whether what it keeps is damaged."""

    def find_damage(self, seconds: float) -> str | None:
        """Say what is damaged, and what to do; None: nothing that was found in those seconds."""
        ...


class StoreSize(Value):
    """Size of a store."""

    bytes: int
    shared: bool = False
    """True if it has a task, wait or wake of another home."""


RecordT = TypeVar("RecordT", Bookmark, Message, PlanRevision, LedgerEntry, WorkFolder, Checkpoint)


LOSS_SUFFIX: Final = ".lost"
"""Suffix, after a database file's name, of the file in which its store says what is gone.

It is one sentence a line, and stands until a person removes the file or restores a back-up.
"""
LOST_LOG_SUFFIX: Final = ".lost-wal"
"""Suffix of the log of a database file that was gone; those of later losses have a number more."""


@runtime_checkable
class TaskStore(Protocol):
    """Stores all rows.

    Synchronous, and called from several threads at once. Every method may raise `StoreBusy` or
    `StoreUnavailable`; the next call works once the cause is gone.
    """

    def read_task(self, task_id: str) -> TaskFacts:
        """Return a task with its waits, wakes, run and artifacts, or raise `TaskNotFound`."""
        ...

    def read_wait(self, wait_id: str) -> Wait:
        """Return one wait, or raise `WaitNotFound`."""
        ...

    def read_run(self, run_id: str) -> Run:
        """Return one run, or raise `RunNotFound`."""
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
        """Return the last records of a task, the last checkpoints of a run, or a bookmark.

        Messages, revisions and checkpoints come oldest first; ledger entries and folders in order
        of path.

        Args:
            kind: Class of the records.
            owner_id: Id of the task or run; name of the bookmark.
            limit: Maximum number, counted from the newest; None: all.
            before: Only messages or checkpoints with smaller numbers.
            said_after: Only messages after this message id, and of these only the user's and those
                of type `lifecycle`.
            holding: Only checkpoints whose body contains this text exactly.
        """
        ...

    def read_messages(self, message_ids: Sequence[int]) -> Sequence[Message]:
        """Return messages of any tasks, in any order; unknown ids are ignored."""
        ...

    def find_tasks(self, query: TaskQuery) -> Sequence[Task]:
        """Return the tasks that match a query."""
        ...

    def find_waits(self, query: WaitQuery) -> Sequence[Wait]:
        """Return the waits that match a query."""
        ...

    def find_wakes(self, query: WakeQuery) -> Sequence[Wake]:
        """Return the wakes that match a query."""
        ...

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        """Return the runs that match a query."""
        ...

    def find_events(self, query: EventQuery) -> Sequence[Event]:
        """Return the events that match a query."""
        ...

    def find_texts(self, query: TextQuery) -> Mapping[str, TextMatches]:
        """Return for each pattern of a query the texts that have it.

        A text is found from the commit on that writes it, until the one that deletes it.
        """
        ...

    def count(self) -> Counts:
        """Return the number of rows, by state, without implicit tasks, their runs, and records."""
        ...

    def count_open(
        self, kind: type[Task | Wait], by: Maker, limit: int, home: str | None = None
    ) -> int:
        """Return the number of open tasks or waits of a maker, at most `limit`.

        Tasks count for the session that registered them, waits for the one that opened them.
        Implicit tasks do not count.
        """
        ...

    def commit(self, change: Change) -> None:
        """Write all rows of a change durably, or none.

        Raises:
            Conflict: A version has changed, a wake's key or a checkpoint's number exists, or a task
                would have two open runs; nothing was written.
            TaskNotFound: A row refers to a task or run that does not exist; nothing was written.
            StoreFull, StoreUnavailable: The disk is full or fails, or the database cannot be
                reached; rows may be kept unless the sentence says that nothing was written.
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
        """Delete the oldest rows of what has ended; return how many.

        Deletes at most `limit` of each kind, only rows older than `before`, and none of another
        home:

        * `checkpoints` of ended runs;
        * `wakes` that are neither due nor sent;
        * `waits` that are not watching and to which no wake refers;
        * `events` with ids greater than `after` and up to `upto` (None: any).

        Keeps:

        * all rows of open tasks and waits;
        * the checkpoints of a failed task's newest run;
        * of every task, the wait that ended last and the newest event of each kind;
        * the newest event of all.
        """
        ...

    def measure(self, home: str | None = None) -> StoreSize:
        """Return the size of all rows; deleted rows count as free.

        `home`: homes other than this one make the store shared; None: do not check.
        """
        ...

    def back_up(self, file: Path) -> None:
        """Write all rows, as they are at one instant, to a new file that a SQLite URL opens.

        Others go on reading and writing meanwhile.

        Raises:
            NotAllowed: The rows are on a server, which has its own tools; the text names them.
        """
        ...

    def close(self) -> None:
        """Release all resources; no other method is called afterwards."""
        ...


@runtime_checkable
class SettlingStore(Protocol):
    """A `TaskStore` on files that it puts in order while nothing is written."""

    def settle(self) -> None:
        """Put the files in order, unless something was written since the last call.

        The daemon calls it twice after each write, five seconds apart.
        """
        ...


class WakeReceipt(Value):
    """A transport's confirmation that it accepted a wake."""

    delivered_at: Instant
    note: str | None = None
    """Remark to store with the wake; None: nothing."""
    transport: str | None = None
    """Name of the way that worked, if the transport has several; None: the transport itself."""


@runtime_checkable
class WakeTransport(Protocol):
    """Delivers wakes to agents."""

    name: str
    """Name in the settings."""

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Deliver a wake; the same `key` may come twice.

        Raises:
            WakeUndelivered: It was not delivered; the core tries again later.
            WakeRefused: It will never be accepted; the core does not try again.
        """
        ...


@runtime_checkable
class SelectiveTransport(WakeTransport, Protocol):
    """Delivers wakes to the agents of some hosts only.

    Any other transport delivers to all whom no selective transport reaches.
    """

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return True if it can deliver to the agent of this host and session, as in `Wake`.

        If no transport reaches an agent, it is told so when it opens a wait, and its wakes are kept
        until `taskmem wait` fetches them. Called often: answer from memory. If it raises, it counts
        as False.
        """
        ...


@runtime_checkable
class VolatileTransport(SelectiveTransport, Protocol):
    """Hands wakes to a session's process, which loses those not yet read when it ends.

    They are delivered again once a later process of the session has connected.
    """

    is_volatile: Literal[True]


class LiveSessions(Protocol):
    """Finds the sessions whose hosts are connected by `taskmem mcp`."""

    def find_variables(
        self, session_key: str | None, host: str | None = None
    ) -> Mapping[str, str] | None:
        """Return the variables of `session_variables` of the newest connection of a session.

        `host`: its host, as in `Wake.host`; None: any that has a session of that key.
        They may be credentials: never write them anywhere. None: the session is not connected.
        Answers from memory, on any thread.
        """
        ...

    async def post(
        self, session_key: str | None, path: str, text: str, seconds: float, host: str | None = None
    ) -> bool | None:
        """Have the newest relay of a session, a child of its host, write into a Unix socket.

        Some hosts trust what their own children send them, and nobody else. Returns whether the
        other end closed the connection within `seconds`; None: nothing was written, as the session
        is not connected, or its relay is of a version that cannot.

        Raises:
            OSError: The socket took no text, or the relay did not answer.
        """
        ...


class QueryFacts(Value):
    """The facts from which a question about a task is answered."""

    task: Task
    waits: tuple[Wait, ...] = ()
    messages: tuple[Message, ...] = ()
    """The newest messages of the thread, oldest first."""
    revisions: tuple[PlanRevision, ...] = ()
    """The plan's revisions, oldest first; step numbers in a message mean the plan of its time."""
    question: str | None = None
    """The question whose answer by the user it waits for; None: it waits for none."""
    now: Instant


@runtime_checkable
class QueryAnswerer(Protocol):
    """Answers questions about a task in place of the core."""

    def answer(self, facts: QueryFacts, query: str) -> str | None:
        """Return the answer in a few sentences; None: leave it to the core."""
        ...


# --- evidence ------------------------------------------------------------------


class Claim(Value):
    """An artifact that an agent names as made, and the facts to verify it against."""

    kind: str
    """`file`, `commit`, `command`, `url`, or a plug-in's own kind."""
    subject: str
    """A path, a commit, the name of a recorded command, or a URL."""
    task_id: str
    since: Instant
    """When the work began, by this machine's clock, as `claimed_at`; a file that is older does not
    count as made."""
    claimed_at: Instant
    folder: str | None = None
    """Base of relative paths; None: unknown, so a relative path proves nothing."""
    roots: tuple[str, ...] = ()
    """Folders in which the file must lie once links are resolved; empty: no file is accepted."""
    checksum: Checksum | None = None
    """Expected SHA-256 of the content; None: any content counts."""


class Finding(Value):
    """A verifier's answer to a claim."""

    verdict: Verdict
    detail: str
    """One sentence on what was checked and found."""
    checksum: Checksum | None = None
    """SHA-256 of the content; None: the content was not read to its end, or there is none."""
    size: NonNegativeInt | None = None
    """Size of the content, in bytes; None: unknown, or there is no content.

    In a refutation of a file, the core takes None for absent, 0 for empty, and more for too old.
    """


@runtime_checkable
class EvidenceVerifier(Protocol):
    """Verifies one kind of claim."""

    async def verify(self, claim: Claim) -> Finding:
        """Verify a claim; one refutation outweighs any number of proofs.

        Runs on an event loop in a thread of its own, under the same time limit as a hook.
        """
        ...

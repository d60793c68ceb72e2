"""The SQL store: reads each query in one snapshot, and writes changes in group commits.

Making a transaction durable costs the same for one change as for many. So the first thread to
arrive leads: it writes all queued changes, including its own. Changes that arrive meanwhile are
queued for the next leader.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import sqlalchemy as sa

from taskmem_hookspecs import (
    Change,
    Counts,
    Event,
    EventQuery,
    Maker,
    Message,
    NotAllowed,
    Run,
    RunNotFound,
    RunQuery,
    RunState,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    Task,
    TaskFacts,
    TaskNotFound,
    TaskQuery,
    TextMatches,
    TextQuery,
    Wait,
    WaitNotFound,
    WaitQuery,
    WaitStatus,
    Wake,
    WakeQuery,
)
from taskmem_hookspecs.roles import Query, RecordT, StoreExtent
from taskmem_sqlmodel import reading, search, tables
from taskmem_sqlmodel.database import (
    BUSY_TIMEOUT,
    Database,
    build_conflict,
    open_database,
    translate_errors,
)
from taskmem_sqlmodel.reading import (
    ARTIFACTS,
    CHECKPOINTS,
    FOLDERS,
    LEDGER,
    MESSAGES,
    REVISIONS,
    RUNS,
    TASKS,
    WAITS,
    WAKES,
    RowKind,
    ValueT,
    fetch_rows,
    is_of_home,
)
from taskmem_sqlmodel.retention import RetentionMixin
from taskmem_sqlmodel.tables import IMPLICIT_TASK, CodePointText, RowWrite, build_write

_EXTENT: Final = """
SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()), current_database(),
                 current_schema()),
       coalesce((SELECT max(id) FROM events), 0),
       (SELECT count(*) FROM tasks WHERE NOT implicit)
"""
"""Reads a `StoreExtent` from PostgreSQL, whose servers each have a number of their own."""


class SqlStore(RetentionMixin):
    """`TaskStore` on SQLite and PostgreSQL."""

    def __init__(self, url: str, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        """Open the database at `url`; create or migrate it if needed.

        Args:
            url: `sqlite:////path/to/file.db`, or `postgresql://…`.
            busy_timeout: How long to wait for another process's lock. Seconds.

        Raises:
            SettingsInvalid: The URL is not that of a database.
            StoreBusy: Another process did not release its lock in time.
            StoreTooNew: A newer version wrote the database; it was left untouched.
            StoreUnavailable: The database cannot be reached or read.
        """
        self._database = open_database(url, busy_timeout)
        self._commits = GroupCommit(self._database)
        self._set_aside = reading.BrokenRowFilter()

    # --- tasks --------------------------------------------------------------

    def read_task(self, task_id: str) -> TaskFacts:
        """Return a task with its waits, open wakes, open run and artifacts."""
        named = {"task_id": task_id}
        related: dict[str, list[tables.Row]] = {}
        with self._database.lend_reader() as connection:
            row = {}
            for found in fetch_rows(connection, reading.TASK_BY_ID, named):
                row = dict(found)
            for name, (_, statements) in reading.RELATED_ROWS.items():
                if row.pop(f"has_{name}", False):
                    rows = (fetch_rows(connection, each, named) for each in statements)
                    related[name] = [*chain(*rows)]
        if not row:
            raise TaskNotFound(f"There is no task {task_id}; list the tasks to find the right id.")
        values: dict[str, list[Any]] = {
            name: self._set_aside.read_whole_rows(reading.RELATED_ROWS[name][0], rows)
            for name, rows in related.items()
        }
        return TaskFacts(
            task=reading.TASK_ROWS.read_by_id(row, TaskNotFound),
            waits=tuple(
                sorted(values.get("waits", ()), key=lambda wait: (wait.created_at, wait.wait_id))
            ),
            wakes=tuple(values.get("wakes", ())),
            run=next(iter(values.get("run", ())), None),
            artifacts=tuple(values.get("artifacts", ())),
        )

    def read_wait(self, wait_id: str) -> Wait:
        """Return one wait."""
        for row in self._read(reading.WAIT_BY_ID, wait_id=wait_id):
            return reading.WAIT_ROWS.read_by_id(row, WaitNotFound)
        raise WaitNotFound(
            f"There is no wait {wait_id}; the wake names it, and smart_wait with the same target "
            "and condition tells the id of one that is open."
        )

    def read_run(self, run_id: str) -> Run:
        """Return one run."""
        for row in self._read(reading.RUN_BY_ID, run_id=run_id):
            return reading.RUN_ROWS.read_by_id(row, RunNotFound)
        raise RunNotFound(f"There is no run {run_id}; ask with task_status.")

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
        """Return the last records of a task or run, oldest first."""
        given: dict[str, Any] = {
            "limit": limit,
            "before": before,
            "said_after": said_after,
            "holding": holding,
        }
        named = frozenset(name for name, value in given.items() if value is not None)
        statement = reading.select_records(kind, named)
        found: Sequence[RecordT] = self._read_all(
            reading.RECORD_ROWS[kind], statement, owner_id=owner_id, **given
        )
        return found[::-1]

    def read_messages(self, message_ids: Sequence[int]) -> Sequence[Message]:
        """Return messages of any tasks, in any order; unknown ids are ignored."""
        kind = reading.RECORD_ROWS[Message]
        return self._read_all(kind, reading.MESSAGES_BY_ID, message_ids=message_ids)

    def find_tasks(self, query: TaskQuery) -> Sequence[Task]:
        """Return the tasks that match `query`."""
        return self._find(reading.TASK_ROWS, reading.select_tasks(query), query)

    def find_waits(self, query: WaitQuery) -> Sequence[Wait]:
        """Return the waits that match `query`."""
        return self._find(reading.WAIT_ROWS, reading.select_waits(query), query)

    def find_wakes(self, query: WakeQuery) -> Sequence[Wake]:
        """Return the wakes that match `query`."""
        return self._find(reading.WAKE_ROWS, reading.select_wakes(query), query)

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        """Return the runs that match `query`."""
        return self._find(reading.RUN_ROWS, reading.select_runs(query), query)

    def find_events(self, query: EventQuery) -> Sequence[Event]:
        """Return the events that match `query`, oldest first."""
        found = self._find(reading.EVENT_ROWS, reading.select_events(query), query)
        return found if query.after is not None else found[::-1]

    def find_texts(self, query: TextQuery) -> Mapping[str, TextMatches]:
        """Return for each pattern of a query the texts that have it."""
        with self._database.lend_reader() as connection:
            return {
                pattern: search.find_matches(connection, pattern, query)
                for pattern in query.patterns
            }

    def count(self) -> Counts:
        """Return the number of tasks, waits, wakes and runs by state."""
        with self._database.lend_reader() as connection:
            return reading.read_counts(connection)

    def count_open(
        self, kind: type[Task | Wait], by: Maker, limit: int, home: str | None = None
    ) -> int:
        """Return how many open tasks or waits a maker has, at most `limit`."""
        ask = reading.select_open_tasks if kind is Task else reading.select_open_waits
        statement = ask(by_agent=by.agent is not None)
        named = {"hosts": list(by.hosts), "limit": limit, "home": home}
        if by.agent is not None:
            # The semicolon is the character after the colon.
            named |= {"agent": by.agent, "first": f"{by.agent}:", "past": f"{by.agent};"}
        with self._database.lend_reader() as connection:
            return int(connection.execute(statement, named).scalar_one())

    def commit(self, change: Change) -> None:
        """Write the whole change durably, or nothing."""
        self._commits.submit(change)

    def read_clock(self) -> datetime | None:
        """Return the server's time; None: SQLite, which has the machine's."""
        if self._database.dialect == "sqlite":
            return None
        with self._database.lend_reader() as connection:
            at: datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
            return at.astimezone(UTC)

    def read_extent(self) -> StoreExtent | None:
        """Return how much a database on a server has; None: SQLite, which remembers it itself."""
        if self._database.dialect == "sqlite":
            return None
        with self._database.lend_reader() as connection:
            database, position, tasks = connection.exec_driver_sql(_EXTENT).one()
        return StoreExtent(database=database, position=position, tasks=tasks)

    def find_damage(self, seconds: float) -> str | None:
        """Say what of the file is damaged, and what to do; None: nothing, or it is on a server."""
        from taskmem_sqlmodel.doctor import find_damage

        place = self._database.place
        return None if place is None else find_damage(place.path, seconds)

    def settle(self) -> None:
        """Put the database's files in order once nothing is written any more."""
        self._database.settle()

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _read(self, statement: sa.Executable, **named: Any) -> Sequence[tables.Row]:  # noqa: ANN401 - what SQLAlchemy takes
        with self._database.lend_reader() as connection:
            return fetch_rows(connection, statement, named)

    def _read_all(
        self,
        kind: RowKind[ValueT],
        statement: sa.Executable,
        limit: int | None = None,
        **named: Any,  # noqa: ANN401 - likewise
    ) -> Sequence[ValueT]:
        def ask(most: int | None) -> Sequence[tables.Row]:
            return self._read(statement, limit=most, **named)

        return self._set_aside.read_up_to(limit, kind, ask)

    def _find(
        self, kind: RowKind[ValueT], statement: sa.Executable, query: Query | EventQuery
    ) -> Sequence[ValueT]:
        named = {
            name: _to_plain(value)
            for name, value in vars(query).items()
            if value is not None and name != "limit"
        }
        return self._read_all(kind, statement, query.limit, **named)

    def back_up(self, file: Path) -> None:
        """Write all rows, as they are at one instant, to a new SQLite file."""
        if self._database.dialect != "sqlite":
            raise NotAllowed(
                "The database is on a PostgreSQL server: back it up with `pg_dump --format=custom "
                "--file=FILE DATABASE`, and put it back with `pg_restore` while no daemon uses it."
            )
        with self._database.lend_reader() as connection, closing(sqlite3.connect(file)) as copy:
            # The driver's connection is inside the snapshot; all pages are one step.
            cast("sqlite3.Connection", connection.connection.driver_connection).backup(copy)


def _to_plain(value: Any) -> Any:  # noqa: ANN401 - a field of a query, as it is bound
    if isinstance(value, tuple):
        return [_to_plain(each) for each in cast("Iterable[Any]", value)]
    return value.value if isinstance(value, StrEnum) else value


# --- group commit -----------------------------------------------------------

_INTERRUPTED_WRITE: Final = StoreUnavailable(
    "The write was interrupted, so it may not be kept; read again, then try again."
)


class RowWrites(NamedTuple):
    """The statements that write a change, in this order."""

    rows: Sequence[RowWrite]
    deletions: Sequence[tuple[sa.Delete, tables.Params]]


@dataclass(eq=False)
class _PendingChange:
    """One queued change and its outcome."""

    writes: RowWrites
    called: threading.Event = field(default_factory=threading.Event)
    """Set when the change is decided, or when its thread must lead."""
    decided: bool = False
    refusal: Exception | None = None
    """Why the change was not written. None: not decided yet, or written."""


class GroupCommit:
    """Writes changes from any thread over one connection."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._gate = threading.Lock()
        self._gathered: list[_PendingChange] = []
        self._led = False

    def submit(self, change: Change) -> None:
        """Write a change and return once it is durable; otherwise raise why it was not written."""
        ticket = _PendingChange(list_writes(change, self._database.dialect))
        with self._gate:
            self._gathered.append(ticket)
            leads, self._led = not self._led, True
        if not leads:
            self._wait(ticket)
        if not ticket.decided:
            self._lead()
        if ticket.refusal is not None:
            raise ticket.refusal

    def write(self, changes: Sequence[RowWrites]) -> Sequence[Exception | None]:
        """Write changes in one transaction; only the leader may call this.

        Returns:
            For each change why it was refused; None: it is durable.

        Raises:
            StoreBusy, StoreFull, StoreUnavailable: As for `Database.lend_writer`.
        """
        with self._database.lend_writer() as connection:
            if len(changes) == 1:
                _run_writes(connection, changes[0])
                return [None]
            return [_try_writes(connection, one) for one in changes]

    def _wait(self, ticket: _PendingChange) -> None:
        """Wait until the change is decided or must lead; when interrupted, pass the lead on."""
        try:
            ticket.called.wait()
        except BaseException:
            with self._gate:
                if ticket in self._gathered:
                    self._gathered.remove(ticket)
                called = ticket.called.is_set() and not ticket.decided
            if called:
                self._hand_over()
            raise

    def _lead(self) -> None:
        """Write all queued changes, then hand over to the next leader."""
        with self._gate:
            group, self._gathered = self._gathered, []
        refusals: Sequence[Exception | None] = [_INTERRUPTED_WRITE] * len(group)
        try:
            refusals = self.write([ticket.writes for ticket in group])
        except Exception as error:  # noqa: BLE001 - each caller raises it
            refusals = [error] * len(group)
        finally:
            for ticket, refusal in zip(group, refusals, strict=True):
                ticket.refusal = refusal
                ticket.decided = True
                ticket.called.set()
            self._hand_over()

    def _hand_over(self) -> None:
        with self._gate:
            self._led = bool(self._gathered)
            for successor in self._gathered[:1]:
                successor.called.set()


def list_writes(change: Change, dialect: str) -> RowWrites:
    """Return the statements that write a change."""
    saved = (change.tasks, change.runs, change.waits, change.wakes, change.artifacts)
    added = (change.messages, change.revisions, change.events)
    replaced = (change.ledger, change.folders, change.bookmarks)
    deletions: list[tuple[sa.Delete, tables.Params]] = []
    if change.forget_before is not None:
        whose = {"before": change.forget_before, "home": change.forget_home}
        deletions += [(deletion, whose) for deletion in (_DELETE_CHECKPOINTS, *_FORGET_IMPLICIT)]
    for wait_id in change.forget_waits:
        deletions += [(deletion, {"gone": wait_id}) for deletion in _FORGET_WAIT]
    return RowWrites(
        [
            build_write(row, dialect)
            for rows in (*saved, change.checkpoints, *added, *replaced)
            for row in rows
        ],
        deletions,
    )


def _run_writes(connection: sa.Connection, writes: RowWrites) -> None:
    """Write a change inside the open transaction.

    Raises:
        Conflict: A row has not the expected version.
    """
    cursor = connection.connection.cursor()
    for text, values, is_versioned in writes.rows:
        cursor.execute(text, values)
        if is_versioned and cursor.rowcount != 1:
            raise build_conflict()
    for deletion, named in writes.deletions:
        connection.execute(deletion, named)


def _try_writes(connection: sa.Connection, writes: RowWrites) -> Exception | None:
    """Write a change inside a savepoint, so that a refusal does not affect other changes.

    Return why it was refused; None: it was written.
    """
    connection.exec_driver_sql("SAVEPOINT one")
    try:
        with translate_errors(Path(connection.engine.url.database or "")):
            _run_writes(connection, writes)
    except (StoreBusy, StoreFull, StoreUnavailable):
        raise
    except Exception as error:  # noqa: BLE001 - its caller raises it
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT one")
        return error
    connection.exec_driver_sql("RELEASE SAVEPOINT one")
    return None


# --- the deleting statements ------------------------------------------------

_HOME: Final = sa.bindparam("home", type_=CodePointText)
# If no home is bound, no row counts as another home's: a comparison with NULL is never true.
_KEPT_RUNS: Final = sa.select(RUNS.c.run_id).where(
    sa.or_(RUNS.c.state.in_((RunState.BLOCKED, RunState.REVIEW)), RUNS.c.home != _HOME)
)
_DELETE_CHECKPOINTS: Final = CHECKPOINTS.delete().where(
    CHECKPOINTS.c.at < sa.bindparam("before"), CHECKPOINTS.c.run_id.not_in(_KEPT_RUNS)
)
"""Deletes checkpoints from before `before`, except those of runs that are blocked, under review or
of another home."""
_PAST_TASKS: Final = (
    sa.select(TASKS.c.task_id)
    .where(
        sa.text(f"tasks.{IMPLICIT_TASK}"),
        TASKS.c.updated_at < sa.bindparam("before"),
        is_of_home(TASKS),
        ~sa.exists().where(
            RUNS.c.task_id == TASKS.c.task_id, RUNS.c.seen_at >= sa.bindparam("before")
        ),
        ~sa.exists().where(
            WAITS.c.task_id == TASKS.c.task_id, WAITS.c.status == WaitStatus.WATCHING
        ),
    )
    .scalar_subquery()
)
_PAST_RUNS: Final = sa.select(RUNS.c.run_id).where(RUNS.c.task_id.in_(_PAST_TASKS))
_FORGET_IMPLICIT: Final = (
    CHECKPOINTS.delete().where(CHECKPOINTS.c.run_id.in_(_PAST_RUNS)),
    *(
        table.delete().where(table.c.task_id.in_(_PAST_TASKS))
        for table in (
            MESSAGES,
            REVISIONS,
            ARTIFACTS,
            LEDGER,
            FOLDERS,
            WAKES,
            WAITS,
            RUNS,
            TASKS,
        )
    ),
)
"""Deletes, in order, the implicit tasks not touched since `before`, and all their rows."""
_FORGET_WAIT: Final = tuple(
    table.delete().where(table.c.wait_id == sa.bindparam("gone", type_=CodePointText))
    for table in (WAKES, WAITS)
)
"""Deletes, in order, a wait that has no task, and its wakes."""

"""The SQL store. Each query is one prepared statement, or several in one snapshot."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from taskmem_hookspecs import (
    Change,
    Event,
    EventQuery,
    NotAllowed,
    Run,
    RunNotFound,
    RunQuery,
    Task,
    TaskFacts,
    TaskNotFound,
    TaskQuery,
    Wait,
    WaitNotFound,
    WaitQuery,
    Wake,
    WakeQuery,
)
from taskmem_hookspecs.queries import Query
from taskmem_hookspecs.roles import RecordT
from taskmem_sqlmodel import read_statements, row_reading, tables
from taskmem_sqlmodel.counting import CountMixin
from taskmem_sqlmodel.database import BUSY_TIMEOUT, open_database
from taskmem_sqlmodel.dropping import RetentionMixin
from taskmem_sqlmodel.errors import translate_errors
from taskmem_sqlmodel.group_commit import GroupCommit
from taskmem_sqlmodel.row_reading import Value, fetch_rows


class SqlStore(CountMixin, RetentionMixin):
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
        self._set_aside = row_reading.BrokenRowFilter()
        self._idle: deque[sa.Connection] = deque()

    # --- tasks --------------------------------------------------------------

    def read_task(self, task_id: str) -> TaskFacts:
        """Return a task with its waits, open wakes, open run and artifacts."""
        named = {"task_id": task_id}
        waits: list[tables.Row] = []
        wakes: Sequence[tables.Row] = ()
        runs: Sequence[tables.Row] = ()
        artifacts: Sequence[tables.Row] = ()
        with self._open_snapshot() as connection:
            found: dict[str, Any] = {}
            for row in fetch_rows(connection, read_statements.TASK, named):
                found = dict(row)
            if found.pop("has_waits", False):
                waits += fetch_rows(connection, read_statements.OPEN_WAITS_OF_TASK, named)
                waits += fetch_rows(connection, read_statements.ENDED_WAITS_OF_TASK, named)
            if found.pop("has_wakes", False):
                wakes = fetch_rows(connection, read_statements.OPEN_WAKES_OF_TASK, named)
            if found.pop("has_run", False):
                runs = fetch_rows(connection, read_statements.OPEN_RUN_OF_TASK, named)
            if found.pop("has_artifacts", False):
                artifacts = fetch_rows(connection, read_statements.ARTIFACTS_OF_TASK, named)
        if not found:
            raise TaskNotFound(f"There is no task {task_id}; list the tasks to find the right id.")
        return TaskFacts(
            task=row_reading.TASK.read_by_id(found, TaskNotFound),
            waits=tuple(
                sorted(
                    self._set_aside.read_whole_rows(row_reading.WAIT, waits),
                    key=lambda wait: (wait.created_at, wait.wait_id),
                )
            ),
            wakes=tuple(self._set_aside.read_whole_rows(row_reading.WAKE, wakes)),
            run=next(iter(self._set_aside.read_whole_rows(row_reading.RUN, runs)), None),
            artifacts=tuple(self._set_aside.read_whole_rows(row_reading.ARTIFACT, artifacts)),
        )

    def read_wait(self, wait_id: str) -> Wait:
        """Return one wait."""
        for row in self._read(read_statements.WAIT, wait_id=wait_id):
            return row_reading.WAIT.read_by_id(row, WaitNotFound)
        raise WaitNotFound(f"There is no wait {wait_id}; smart_wait and the wake name it.")

    def read_run(self, run_id: str) -> Run:
        """Return one run."""
        for row in self._read(read_statements.RUN, run_id=run_id):
            return row_reading.RUN.read_by_id(row, RunNotFound)
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
        statement = read_statements.select_records(kind, named)
        found: Sequence[RecordT] = self._read_all(
            row_reading.RECORDS[kind], statement, owner_id=owner_id, **given
        )
        return found[::-1]

    def find_tasks(self, query: TaskQuery) -> Sequence[Task]:
        """Return the tasks that match `query`."""
        return self._find(row_reading.TASK, read_statements.select_tasks(query), query)

    def find_waits(self, query: WaitQuery) -> Sequence[Wait]:
        """Return the waits that match `query`."""
        return self._find(row_reading.WAIT, read_statements.select_waits(query), query)

    def find_wakes(self, query: WakeQuery) -> Sequence[Wake]:
        """Return the wakes that match `query`."""
        return self._find(row_reading.WAKE, read_statements.select_wakes(query), query)

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        """Return the runs that match `query`."""
        return self._find(row_reading.RUN, read_statements.select_runs(query), query)

    def find_events(self, query: EventQuery) -> Sequence[Event]:
        """Return the events that match `query`, oldest first."""
        found = self._find(row_reading.EVENT, read_statements.select_events(query), query)
        return found if query.after is not None else found[::-1]

    def commit(self, change: Change) -> None:
        """Write the whole change durably, or nothing."""
        self._commits.commit(change)

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()
        self._commits.close()
        self._database.close()

    def _read(self, statement: sa.Executable, **named: Any) -> Sequence[tables.Row]:  # noqa: ANN401 - what SQLAlchemy takes
        with self._lend_reader() as connection, connection.begin():
            return fetch_rows(connection, statement, named)

    def _read_all(
        self,
        kind: row_reading.RowKind[Value],
        statement: sa.Executable,
        limit: int | None = None,
        **named: Any,  # noqa: ANN401 - likewise
    ) -> Sequence[Value]:
        def ask(most: int | None) -> Sequence[tables.Row]:
            return self._read(statement, limit=most, **named)

        return self._set_aside.read_up_to(limit, kind, ask)

    def _find(
        self, kind: row_reading.RowKind[Value], statement: sa.Executable, query: Query | EventQuery
    ) -> Sequence[Value]:
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
        with self._open_snapshot() as connection, translate_errors():
            # The driver's connection is inside the snapshot; all pages are one step.
            source = cast("sqlite3.Connection", connection.connection.driver_connection)
            try:
                with closing(sqlite3.connect(file)) as copy:
                    source.backup(copy)
            except sqlite3.Error as error:
                raise DBAPIError.instance(None, None, error, sqlite3.Error) from error

    @contextmanager
    def _open_snapshot(self) -> Generator[sa.Connection]:
        """Lend a pooled connection inside one snapshot."""
        with self._lend_reader() as connection, self._database.begin_snapshot(connection):
            yield connection

    @contextmanager
    def _lend_reader(self) -> Generator[sa.Connection]:
        """Lend a pooled connection; after an error it is closed, not reused."""
        self._database.require_in_place()
        with translate_errors():
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._database.connect_reader()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)


def _to_plain(value: Any) -> Any:  # noqa: ANN401 - a field of a query, as it is bound
    if isinstance(value, tuple):
        return [_to_plain(each) for each in cast("Iterable[Any]", value)]
    return value.value if isinstance(value, StrEnum) else value

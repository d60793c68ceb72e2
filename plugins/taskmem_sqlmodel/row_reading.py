"""Make values of rows one by one, so that a broken row affects no other."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.exc import OperationalError

from taskmem_hookspecs import (
    Artifact,
    Bookmark,
    Checkpoint,
    Event,
    LedgerEntry,
    Message,
    PlanRevision,
    Run,
    Task,
    TaskmemError,
    Wait,
    Wake,
    WorkFolder,
)
from taskmem_sqlmodel import read_statements, run_tables, tables

log = logging.getLogger(__name__)
Value = TypeVar("Value")

_SEE_DOCTOR: Final = "`taskmem doctor` tells what to do"
_AT_ONCE: Final = 500
MOST_BROKEN: Final = 1_000
"""How many broken rows end a scan."""
_ROW_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)
"""Errors raised while making a value of a row that no version has written."""


class RowUnreadable(Exception):
    """A row that cannot become a value. The message names the row and the reason."""


class RowKind(Generic[Value]):
    """Makes values of the rows of one table."""

    def __init__(
        self,
        table: sa.Table,
        of: type[Value],
        *keys: str,
        make: Callable[[tables.Row], Value] | None = None,
    ) -> None:
        """Set the table, the class of its values, and the fields of its key.

        `make` makes a value of a row; None: the class does.
        """
        self.table = table
        self._make: Callable[[tables.Row], Value] = make or (lambda row: of(**row))
        self._keys = keys

    def read_row(self, row: tables.Row) -> Value:
        """Return the value of a row.

        Raises:
            RowUnreadable: The row is broken.
        """
        try:
            _check_version(row)
            return self._make(row)
        except _ROW_ERRORS as error:
            which = " ".join(ascii(row[key]) for key in self._keys)
            sentence = f"{self.table.name} {which} cannot be read ({_describe_reason(error)})"
            raise RowUnreadable(sentence) from error

    def read_by_id(self, row: tables.Row, missing: type[TaskmemError]) -> Value:
        """Return the value of a row that was requested by id.

        Raises:
            TaskmemError: The row is broken. The error has the class for a missing row.
        """
        try:
            return self.read_row(row)
        except RowUnreadable as broken:
            raise missing(f"The row {broken}; {_SEE_DOCTOR}.") from broken


class BrokenRowFilter:
    """Skips broken rows, and logs each of them once."""

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def read_whole_rows(self, kind: RowKind[Value], found: Iterable[tables.Row]) -> list[Value]:
        """Return the values of the rows that are not broken."""
        values: list[Value] = []
        for row in found:
            try:
                values.append(kind.read_row(row))
            except RowUnreadable as broken:
                if str(broken) not in self._reported:
                    self._reported.add(str(broken))
                    log.warning("%s and is set aside; %s", broken, _SEE_DOCTOR)
        return values

    def read_up_to(
        self,
        limit: int | None,
        kind: RowKind[Value],
        ask: Callable[[int | None], Sequence[tables.Row]],
    ) -> Sequence[Value]:
        """Return up to `limit` values; read more rows if some are broken.

        `ask` returns at most the given number of rows; None: all.
        """
        most = limit
        while True:
            found = ask(most)
            values = self.read_whole_rows(kind, found)
            if limit is None or most is None or len(found) < most:
                return values
            if len(values) >= limit:
                return values[:limit]
            most *= 4


def _check_version(row: tables.Row) -> None:
    """Reject version 0, which stands for a value never stored: it would be inserted again."""
    if row.get("version", 1) == 0:
        raise ValueError("version: 0")


def _describe_reason(error: Exception) -> str:
    """Return the column and the reason why a row is broken, without the stored value."""
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ascii(str(error))[1:-1]


TASK: Final = RowKind(read_statements.TASKS, Task, "task_id", make=tables.task_value)
WAIT: Final = RowKind(read_statements.WAITS, Wait, "wait_id")
WAKE: Final = RowKind(read_statements.WAKES, Wake, "wake_id")
RUN: Final = RowKind(read_statements.RUNS, Run, "run_id", make=run_tables.run_value)
ARTIFACT: Final = RowKind(read_statements.ARTIFACTS, Artifact, "artifact_id")
EVENT: Final = RowKind(read_statements.EVENTS, Event, "event_id")

RECORDS: Final[Mapping[type, RowKind[Any]]] = {
    LedgerEntry: RowKind(read_statements.LEDGER, LedgerEntry, "task_id", "path"),
    WorkFolder: RowKind(read_statements.FOLDERS, WorkFolder, "task_id", "path"),
    Bookmark: RowKind(read_statements.BOOKMARKS, Bookmark, "name"),
    PlanRevision: RowKind(read_statements.REVISIONS, PlanRevision, "revision_id"),
    Checkpoint: RowKind(read_statements.CHECKPOINTS, Checkpoint, "run_id", "number"),
    Message: RowKind(read_statements.MESSAGES, Message, "message_id"),
}
"""For each record class of tasks and runs how its rows are read."""

KINDS: Final[Sequence[RowKind[Any]]] = (
    *(TASK, WAIT, WAKE, RUN, ARTIFACT),
    *(*RECORDS.values(), EVENT),
)
"""All kinds; those that wakes depend on first, those with the most rows last."""


class RowScan(NamedTuple):
    """Result of a scan of all rows."""

    broken: Sequence[str]
    whole: bool
    """False if the scan ended before the last row."""


def find_broken_rows(connection: sa.Connection, over: Callable[[], bool]) -> RowScan:
    """Scan all rows until `over()` is true, and describe the broken ones."""
    allow_any_text(connection)
    lent = connection.execution_options(yield_per=_AT_ONCE)
    broken: list[str] = []
    for kind in KINDS:
        with lent.execute(read_statements.ROW_QUERIES[kind.table]) as every:
            for row in every.mappings():
                try:
                    kind.read_row(row)
                except RowUnreadable as error:
                    broken.append(str(error))
                if over() or len(broken) == MOST_BROKEN:
                    return RowScan(broken, whole=False)
    return RowScan(broken, whole=True)


def fetch_rows(
    connection: sa.Connection, statement: sa.Executable, named: tables.Params
) -> Sequence[tables.Row]:
    """Return all rows of a statement, also if a text is not valid UTF-8."""
    try:
        return connection.execute(statement, named).mappings().all()
    except OperationalError as error:
        # The driver raises this error itself, without a SQLite code.
        if "Could not decode" not in str(error.orig) or not allow_any_text(connection):
            raise
        return connection.execute(statement, named).mappings().all()


def allow_any_text(connection: sa.Connection) -> bool:
    """Make SQLite return invalid UTF-8 as bytes, which validation rejects.

    Return True if this changed the connection; False on PostgreSQL or if already set.
    """
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection) or driver.text_factory is _decode_or_keep:
        return False
    driver.text_factory = _decode_or_keep
    return True


def _decode_or_keep(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored

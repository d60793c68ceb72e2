"""Group commit: concurrent changes share one transaction.

Making a transaction durable costs the same for one change as for many. So the first thread to
arrive leads: it writes all queued changes, including its own. Changes that arrive meanwhile are
queued for the next leader.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from taskmem_hookspecs import Change, StoreBusy, StoreFull, StoreUnavailable
from taskmem_sqlmodel import read_statements, run_tables, tables, write_statements
from taskmem_sqlmodel.database import Database
from taskmem_sqlmodel.errors import build_conflict, translate_errors

_INTERRUPTED_WRITE: Final = StoreUnavailable(
    "The write was interrupted, so it may not be kept; read again, then try again."
)


@dataclass(eq=False)
class _PendingChange:
    """One queued change and its outcome."""

    change: Change
    called: threading.Event = field(default_factory=threading.Event)
    """Set when the change is decided, or when its thread must lead."""
    decided: bool = False
    refusal: Exception | None = None
    """Why the change was not written. None: not decided yet, or written."""


class GroupCommit:
    """Writes changes from any thread over one connection."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: sa.Connection | None = None
        self._upsert = {
            table: write_statements.build_upsert(database.dialect, table)
            for table in (
                read_statements.BOOKMARKS,
                read_statements.LEDGER,
                read_statements.FOLDERS,
            )
        }
        self._gate = threading.Lock()
        self._gathered: list[_PendingChange] = []
        self._led = False

    def commit(self, change: Change) -> None:
        """Write a change and return once it is durable; otherwise raise why it was not written."""
        ticket = _PendingChange(change)
        with self._gate:
            self._gathered.append(ticket)
            leads, self._led = not self._led, True
        if not leads:
            self._wait(ticket)
        if not ticket.decided:
            self._lead()
        if ticket.refusal is not None:
            raise ticket.refusal

    def write(self, changes: Sequence[Change]) -> Sequence[Exception | None]:
        """Write changes in one transaction; only the leader may call this.

        Returns:
            For each change why it was refused; None: it is durable.

        Raises:
            StoreBusy: Another process did not release its lock; nothing was written.
            StoreFull, StoreUnavailable: The disk is full or fails, or the database cannot be
                reached; rows may be kept unless the sentence says that nothing was written.
        """
        try:
            with self._database.guard_write(), translate_errors():
                return self._write_all(changes)
        except (StoreBusy, StoreFull, StoreUnavailable):
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; the next change opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write_all(self, changes: Sequence[Change]) -> Sequence[Exception | None]:
        if self._connection is None:
            self._connection = self._database.engine.connect()
        with self._database.begin_write(self._connection):
            if len(changes) == 1:
                self._write(self._connection, changes[0])
                return [None]
            return [self._try_write(self._connection, one) for one in changes]

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
            refusals = self.write([ticket.change for ticket in group])
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

    def _try_write(self, connection: sa.Connection, change: Change) -> Exception | None:
        """Write a change inside a savepoint, so that a refusal does not affect other changes."""
        connection.exec_driver_sql("SAVEPOINT one")
        try:
            with translate_errors():
                self._write(connection, change)
        except (StoreBusy, StoreFull, StoreUnavailable):
            raise
        except Exception as error:  # noqa: BLE001 - its caller raises it
            connection.exec_driver_sql("ROLLBACK TO SAVEPOINT one")
            return error
        connection.exec_driver_sql("RELEASE SAVEPOINT one")
        return None

    def _write(self, connection: sa.Connection, change: Change) -> None:
        for task in change.tasks:
            _save_row(connection, read_statements.TASKS, tables.task_params(task))
        for run in change.runs:
            _save_row(connection, read_statements.RUNS, run_tables.run_params(run))
        for wait in change.waits:
            _save_row(connection, read_statements.WAITS, tables.wait_params(wait))
        for wake in change.wakes:
            _save_row(connection, read_statements.WAKES, tables.wake_params(wake))
        for artifact in change.artifacts:
            _save_row(connection, read_statements.ARTIFACTS, run_tables.artifact_params(artifact))
        _insert_rows(connection, read_statements.CHECKPOINTS, map(dict, change.checkpoints))
        if change.forget_before is not None:
            for forget in (write_statements.DELETE_CHECKPOINTS, *write_statements.FORGET_IMPLICIT):
                whose = {"before": change.forget_before, "home": change.forget_home}
                connection.execute(forget, whose)
        for wait_id in change.forget_waits:
            for forget in write_statements.FORGET_WAIT:
                connection.execute(forget, {"gone": wait_id})
        _insert_rows(
            connection, read_statements.MESSAGES, map(tables.message_params, change.messages)
        )
        _insert_rows(
            connection, read_statements.REVISIONS, map(tables.revision_params, change.revisions)
        )
        _insert_rows(connection, read_statements.EVENTS, map(tables.event_params, change.events))
        self._replace(
            connection, read_statements.LEDGER, map(run_tables.ledger_params, change.ledger)
        )
        self._replace(connection, read_statements.FOLDERS, map(dict, change.folders))
        self._replace(connection, read_statements.BOOKMARKS, map(dict, change.bookmarks))

    def _replace(
        self, connection: sa.Connection, table: sa.Table, lines: Iterable[tables.Params]
    ) -> None:
        """Insert rows, or replace those with the same key; the last of several wins."""
        for line in lines:
            connection.execute(self._upsert[table], line)


def _save_row(connection: sa.Connection, table: sa.Table, row: tables.Params) -> None:
    """Insert a row of version 0; otherwise update the row that has the expected version."""
    expected = row["version"]
    if expected == 0:
        connection.execute(write_statements.INSERT[table], {**row, "version": 1})
        return
    new = {f"new_{column}": value for column, value in row.items()}
    new["expected"] = new.pop("new_version")
    if connection.execute(write_statements.UPDATE[table], new).rowcount != 1:
        raise build_conflict()


def _insert_rows(
    connection: sa.Connection, table: sa.Table, lines: Iterable[tables.Params]
) -> None:
    if new := list(lines):
        connection.execute(write_statements.INSERT[table], new)

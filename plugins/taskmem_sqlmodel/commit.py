"""Group commit: changes that come together share one transaction.

Making a transaction durable costs the same for one change as for many. So the
first to come leads: it writes what has gathered, its own change among it, and
whoever comes meanwhile gathers for the next leader.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field

import sqlalchemy as sa

from taskmem_hookspecs import Change, StoreBusy, StoreFull, StoreUnavailable
from taskmem_sqlmodel import rows, statements
from taskmem_sqlmodel.opening import Database
from taskmem_sqlmodel.translation import moved, translated


@dataclass(eq=False)
class _Ticket:
    """One change on its way, and what became of it."""

    change: Change
    called: threading.Event = field(default_factory=threading.Event)
    """Set when it is decided, or when it is this one's turn to lead."""
    decided: bool = False
    refusal: BaseException | None = None
    """Why it was not written; None: it was, once it is decided."""


class GroupCommit:
    """Writes changes, from any thread, over one connection."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: sa.Connection | None = None
        self._set_bookmark = statements.set_bookmark(database.dialect)
        self._gate = threading.Lock()
        self._gathered: list[_Ticket] = []
        self._led = False

    def commit(self, change: Change) -> None:
        """Return once a change is durable, or raise why it was not written."""
        ticket = _Ticket(change)
        with self._gate:
            self._gathered.append(ticket)
            leads, self._led = not self._led, True
        if not leads:
            ticket.called.wait()
        if not ticket.decided:
            self._lead()
        if ticket.refusal is not None:
            raise ticket.refusal

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _lead(self) -> None:
        """Write what has gathered, then hand over to the next leader."""
        with self._gate:
            group, self._gathered = self._gathered, []
        try:
            self._write_group(group)
        except Exception as error:  # noqa: BLE001 - each caller raises it
            _refuse(group, error)
        except BaseException:
            _refuse(group, StoreUnavailable("The write was interrupted; try again."))
            raise
        finally:
            self._hand_over(group)

    def _hand_over(self, group: Sequence[_Ticket]) -> None:
        with self._gate:
            successors = self._gathered[:1]
            self._led = bool(successors)
        for ticket in group:
            ticket.decided = True
        for ticket in (*group, *successors):
            ticket.called.set()

    def _write_group(self, group: Sequence[_Ticket]) -> None:
        try:
            with translated():
                connection = self._connect()
                with connection.begin():
                    if len(group) == 1:
                        self._write(connection, group[0].change)
                    else:
                        self._write_apart(connection, group)
        except (StoreBusy, StoreFull, StoreUnavailable):
            self.close()
            raise

    def _write_apart(self, connection: sa.Connection, group: Sequence[_Ticket]) -> None:
        """Write each so that one which is refused takes no other with it."""
        for ticket in group:
            try:
                with translated(), connection.begin_nested():
                    self._write(connection, ticket.change)
            except (StoreBusy, StoreFull, StoreUnavailable):
                raise
            except Exception as error:  # noqa: BLE001 - its caller raises it
                ticket.refusal = error

    def _write(self, connection: sa.Connection, change: Change) -> None:
        for task in change.tasks:
            _put(connection, statements.TASKS, rows.task_params(task))
        for wait in change.waits:
            _put(connection, statements.WAITS, rows.wait_params(wait))
        for wake in change.wakes:
            _put(connection, statements.WAKES, rows.wake_params(wake))
        _add(connection, statements.MESSAGES, map(rows.message_params, change.messages))
        _add(
            connection,
            statements.REVISIONS,
            map(rows.revision_params, change.revisions),
        )
        _add(connection, statements.EVENTS, map(rows.event_params, change.events))
        for bookmark in change.bookmarks:
            connection.execute(self._set_bookmark, dict(bookmark))

    def _connect(self) -> sa.Connection:
        """Return the connection; it is made anew after it failed."""
        if self._connection is None:
            self._connection = self._database.writer()
        return self._connection


def _put(connection: sa.Connection, table: sa.Table, row: rows.Params) -> None:
    """Insert a row of version 0; otherwise replace the one of its version."""
    expected = row["version"]
    if expected == 0:
        connection.execute(statements.INSERT[table], {**row, "version": 1})
        return
    new = {f"new_{column}": value for column, value in row.items()}
    new["expected"] = new.pop("new_version")
    if connection.execute(statements.UPDATE[table], new).rowcount != 1:
        raise moved()


def _add(
    connection: sa.Connection, table: sa.Table, lines: Iterable[rows.Params]
) -> None:
    if new := list(lines):
        connection.execute(statements.INSERT[table], new)


def _refuse(group: Iterable[_Ticket], error: Exception) -> None:
    """Give each caller an error of its own, for each will add its own traceback."""
    for ticket in group:
        ticket.refusal = copy(error).with_traceback(error.__traceback__)
        ticket.refusal.__cause__ = error.__cause__

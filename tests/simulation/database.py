"""What outlives the daemons that use it: the real SQL store on a database in memory, or rows.

The rows are those of the store that the contract brings along. It keeps the same contract, a commit
to it is written whole or not at all, and it is several times as fast.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from functools import cache
from typing import Final, Protocol

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from taskmem_hookspecs import Change, TaskStore
from taskmem_sqlmodel import schema
from taskmem_sqlmodel.database import Database
from taskmem_sqlmodel.reading import BrokenRowFilter
from taskmem_sqlmodel.store import GroupCommit, SqlStore
from tests.support.memory_store import MemoryStore


class _KeptConnection(sqlite3.Connection):
    """A connection whose database stays when SQLAlchemy closes it."""

    def close(self) -> None:
        """Lose the open transaction."""
        if self.in_transaction:
            self.rollback()


class Durable(Protocol):
    """What a daemon that dies leaves."""

    def open_store(self) -> TaskStore:
        """Open the store as a new daemon does."""
        ...

    def write_half(self, store: TaskStore, change: Change, steps: int) -> bool:
        """Begin to write, and be interrupted after so many steps; return whether it was done."""
        ...

    def drop(self) -> None:
        """Free its memory."""
        ...


class Rows:
    """Rows in dicts."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    def open_store(self) -> TaskStore:
        return self._store

    def write_half(self, store: TaskStore, change: Change, steps: int) -> bool:
        del store, change, steps
        return False

    def drop(self) -> None:
        """There is nothing to free."""


class SqlDatabase:
    """A database in memory. A daemon that dies loses its open transaction, and nothing else."""

    def __init__(self) -> None:
        self.raw = _connect()
        self.raw.deserialize(_make_template())
        self.raw.execute("PRAGMA foreign_keys = ON")
        self._stores: list[SqlStore] = []

    def open_store(self) -> SqlStore:
        """Open the store as a new daemon does."""
        self.close_stores()
        _ENGINE_USES[0] = self.raw
        store = _StoreOfDatabase(Database(_build_engine()))
        self._stores.append(store)
        return store

    def write_half(self, store: TaskStore, change: Change, steps: int) -> bool:
        """Begin to write, and be interrupted after so many steps; return whether it was done."""
        self.raw.set_progress_handler(lambda: 1, steps)
        done = False
        with suppress(Exception):
            store.commit(change)
            done = True
        self.raw.set_progress_handler(None, 0)
        return done

    def close_stores(self) -> None:
        """Close the connections of daemons that have ended."""
        self.raw.close()
        while self._stores:
            self._stores.pop().close()

    def drop(self) -> None:
        """Free its memory."""
        self.close_stores()
        sqlite3.Connection.close(self.raw)


class _StoreOfDatabase(SqlStore):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._commits = GroupCommit(database)
        self._set_aside = BrokenRowFilter()


_ENGINE_USES: list[_KeptConnection] = []
"""The connection of the only engine: what it has compiled is kept from database to database."""


def _connect() -> _KeptConnection:
    options = {"check_same_thread": False, "isolation_level": None}
    return sqlite3.connect(":memory:", factory=_KeptConnection, **options)


@cache
def _build_engine() -> sa.Engine:
    return sa.create_engine("sqlite://", poolclass=NullPool, creator=lambda: _ENGINE_USES[0])


@cache
def _make_template() -> bytes:
    """Return the bytes of a database without rows."""
    _ENGINE_USES[:] = [_connect()]
    database = Database(_build_engine())
    with database.engine.connect() as connection, database.begin_write(connection):
        schema.bring_to_head(connection)
    return _ENGINE_USES[0].serialize()


STORES: Final = {"sqlite": SqlDatabase, "memory": Rows}

"""The database, for `taskmem doctor`: there, of our schema, and sound."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from taskmem_hookspecs import Checkup, HealthRow, HealthState, TaskmemError
from taskmem_sqlmodel import schema
from taskmem_sqlmodel.opening import read_only
from taskmem_sqlmodel.translation import translated

SECONDS: Final = 8.0
"""How long a file is read to see whether it is sound; a large one takes longer."""
CONNECT_SECONDS: Final = 10

_STEPS: Final = 1000
"""Of SQLite's machine, between two looks whether the time is over."""
_RESTORE: Final = "Stop the daemon, and put a copy of it back: taskmem daemon stop"


class DatabaseCheck:
    """Plays `HealthCheck`."""

    name = "database"
    costs = False

    async def look(self, checkup: Checkup) -> AsyncIterator[HealthRow]:
        """Yield one row; nothing is written."""
        yield await asyncio.to_thread(row, checkup.database)


class _Seen(NamedTuple):
    newest: bool
    faults: str | None
    """What SQLite says is damaged; None: nothing is."""
    whole: bool = True
    """Whether all of it was read."""


def row(url: str, seconds: float = SECONDS) -> HealthRow:
    """Look at the database behind a URL."""
    try:
        address = sa.make_url(url)
    except ArgumentError:
        return _fail("Its URL cannot be read.", _URL)
    path = Path(address.database or "") if address.drivername == "sqlite" else None
    if path is not None and not path.exists():
        return HealthRow(
            id="database",
            state=HealthState.WARN,
            detail=f"There is no {path} yet.",
            cure="A daemon makes it: taskmem daemon --detach",
        )
    name = str(path) if path else address.render_as_string(hide_password=True)
    try:
        with translated():
            seen = _sqlite(path, seconds) if path else _postgresql(address)
    except TaskmemError as error:
        return _fail(f"{name}: {error}", "Put that right, then run this again.")
    except ModuleNotFoundError as error:
        sentence = f"{name} needs a driver that is not installed ({error.name})."
        return _fail(sentence, "Install openclaw-taskmem[postgres].")
    return _judge(name, seen, seconds)


def _judge(name: str, seen: _Seen, seconds: float) -> HealthRow:
    if seen.faults is not None:
        return _fail(f"{name} is damaged: {seen.faults}.", _RESTORE)
    if not seen.newest:
        return _fail(
            f"{name} has an older schema than {schema.HEAD}.",
            "A new daemon brings it up to date: taskmem daemon stop",
        )
    extent = "" if seen.whole else f" (as far as it was read in {seconds:g} s)"
    return HealthRow(
        id="database",
        state=HealthState.OK,
        detail=f"{name} is sound{extent}, and of the newest schema, {schema.HEAD}.",
    )


_URL: Final = (
    "Write TASKMEM_DATABASE_URL as sqlite:////path/to/file.db or postgresql://…"
)


def _fail(detail: str, cure: str) -> HealthRow:
    state = HealthState.FAIL
    return HealthRow(id="database", state=state, detail=detail, cure=cure)


def _sqlite(path: Path, seconds: float) -> _Seen:
    with read_only(path).connect() as connection:
        newest = schema.is_newest(connection)
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - the engine is SQLite's
        over = threading.Event()
        driver.set_progress_handler(over.is_set, _STEPS)
        limit = threading.Timer(seconds, over.set)
        limit.start()
        try:
            found = driver.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return _Seen(newest, None, whole=False)
        finally:
            limit.cancel()
            limit.join()
    return _Seen(newest, None if found == "ok" else " ".join(found.split()))


def _postgresql(address: sa.URL) -> _Seen:
    engine = sa.create_engine(
        address.set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        connect_args={"connect_timeout": CONNECT_SECONDS},
    )
    with engine.connect() as connection:
        return _Seen(schema.is_newest(connection), None)

"""Database check of `taskmem doctor`: exists, newest schema, undamaged, writable."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from taskmem_hookspecs import Checkup, DoctorRow, DoctorState, StoreUnavailable, TaskmemError
from taskmem_program.losses import write_restore_command
from taskmem_sqlmodel import reading, schema
from taskmem_sqlmodel.database import open_read_only, require_file, translate_errors

SCAN_SECONDS: Final = 8.0
"""Time limit for each scan: of the file, and of the rows. Seconds."""
_CONNECT_SECONDS: Final = 10
_MOST_NAMED_ROWS: Final = 20
"""How many broken rows are named."""
LOCK_SECONDS: Final = 5.0
"""How long to wait for another writer's lock. Seconds."""
TRIED_BYTES: Final = 256 * 1024
"""Bytes written and rolled back: more than one tool call writes."""

_STEPS_BETWEEN_LOOKS: Final = 1000
"""SQLite virtual-machine steps between two checks of the time limit."""
_CORRECTION: Final = (
    "Correct these columns, or delete these rows, with SQL while no daemon runs, or "
    "put a copy of the database back: taskmem daemon stop"
)


class DatabaseCheck:
    """`DoctorCheck` of the database."""

    name = "database"
    costs = False

    async def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        """Yield one row; the trial write is rolled back."""
        served = (checkup.status or {}).get("database")
        yield await asyncio.to_thread(check_database, checkup.database, served=served)


class _DatabaseState(NamedTuple):
    newest: bool
    faults: str | None
    """The damage that SQLite reports; None: no damage."""
    whole: bool = True
    """False if the time limit ended the scan."""
    broken: Sequence[str] = ()
    """A description of each row that cannot be read."""


def check_database(url: str, seconds: float = SCAN_SECONDS, *, served: object = None) -> DoctorRow:
    """Check the database at `url`; `served`: the one that the running daemon tells of."""
    try:
        address = sa.make_url(url)
    except (ArgumentError, ValueError):
        return _fail("Its URL cannot be read.", _URL)
    path = Path(address.database or "") if address.drivername == "sqlite" else None
    if path is not None and not path.exists():
        if served and served != url:
            return DoctorRow(
                id="database",
                state=DoctorState.WARN,
                detail=f"The daemon uses {served}, which was not looked at: "
                "TASKMEM_DATABASE_URL is not set here.",
                cure="Set it as the daemon has it, or write it as database_url into config.toml in "
                "the home, then run this again.",
            )
        return DoctorRow(
            id="database",
            state=DoctorState.WARN,
            detail=f"There is no {path} yet.",
            cure="A daemon makes it: taskmem daemon --detach",
        )
    shown = address.difference_update_query(["password", "sslpassword"])
    name = str(path) if path else shown.render_as_string(hide_password=True)
    try:
        with translate_errors(path):
            if path:
                require_file(path)
            seen = _check_sqlite(path, seconds) if path else _check_postgresql(address)
            if path and seen.newest and seen.faults is None:
                _try_write(path)
    except TaskmemError as error:
        told = str(error)
        return _fail(
            told if name in told else f"{name}: {told}", "Put that right, then run this again."
        )
    except ModuleNotFoundError as error:
        sentence = f"{name} needs a driver that is not installed ({error.name})."
        return _fail(sentence, "Install openclaw-taskmem[postgres].")
    return _build_row(name, seen, seconds, path)


def find_damage(path: Path, seconds: float) -> str | None:
    """Say what of a database's file is damaged, and what to do; None: nothing found in time."""
    try:
        with translate_errors(path):
            seen = _check_sqlite(path, seconds)
    except StoreUnavailable as error:
        return str(error)
    except TaskmemError:
        return None  # it is busy, or full
    row = _build_row(str(path), seen, seconds, path)
    return f"{row.detail} {row.cure}" if row.state is DoctorState.FAIL else None


def _build_row(name: str, seen: _DatabaseState, seconds: float, path: Path | None) -> DoctorRow:
    if seen.faults is not None:
        command = write_restore_command((path or Path()).parent)
        return _fail(f"{name} is damaged: {seen.faults}.", f"Put a back-up back: {command}")
    if not seen.newest:
        return _fail(
            f"{name} has an older schema than {schema.HEAD}.",
            "A new daemon brings it up to date: taskmem daemon restart",
        )
    if seen.broken:
        first = "; ".join(seen.broken[:_MOST_NAMED_ROWS])
        more = len(seen.broken) - _MOST_NAMED_ROWS
        others = f"; and {more} more" if more > 0 else ""
        return _fail(
            f"{name} has rows that are set aside: {first}{others}; the rest is used.", _CORRECTION
        )
    extent = "" if seen.whole else f" (as far as it was read in {seconds:g} s)"
    return DoctorRow(
        id="database",
        state=DoctorState.OK,
        detail=f"What is in {name} can be read{extent} and written, and is of the newest schema, "
        f"{schema.HEAD}.",
    )


_URL: Final = "Write TASKMEM_DATABASE_URL as sqlite:////path/to/file.db or postgresql://…"


def _fail(detail: str, cure: str) -> DoctorRow:
    state = DoctorState.FAIL
    return DoctorRow(id="database", state=state, detail=detail, cure=cure)


def _check_sqlite(path: Path, seconds: float) -> _DatabaseState:
    with open_read_only(path).connect() as connection:
        newest = schema.is_newest(connection)
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - the engine is SQLite's
        with _start_time_limit(seconds) as over:
            try:
                driver.set_progress_handler(over.is_set, _STEPS_BETWEEN_LOOKS)
                found = driver.execute("PRAGMA quick_check(1)").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                return _DatabaseState(newest, None, whole=False)
            driver.set_progress_handler(None, 0)
            if found != "ok":
                return _DatabaseState(newest, " ".join(found.split()))
            return _check_rows(connection, over) if newest else _DatabaseState(newest, None)


@contextmanager
def _start_time_limit(seconds: float) -> Generator[threading.Event]:
    over = threading.Event()
    limit = threading.Timer(seconds, over.set)
    limit.start()
    try:
        yield over
    finally:
        limit.cancel()
        limit.join()


def _check_rows(connection: sa.Connection, over: threading.Event) -> _DatabaseState:
    broken, whole = reading.find_broken_rows(connection, over.is_set)
    return _DatabaseState(newest=True, faults=None, whole=whole, broken=broken)


def _try_write(path: Path) -> None:
    """Write pages to the file's log, which takes disk space, and roll them back.

    Raises:
        SQLAlchemyError: The file cannot be written.
    """
    address = f"file:{quote(str(path))}?mode=rw"
    engine = sa.create_engine(
        "sqlite://",
        poolclass=NullPool,
        creator=lambda: sqlite3.connect(
            address, uri=True, timeout=LOCK_SECONDS, isolation_level=None
        ),
    )
    with engine.connect() as connection:
        # The small cache forces the pages to disk before the transaction ends.
        connection.exec_driver_sql("PRAGMA cache_size = 1")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        connection.exec_driver_sql("CREATE TABLE taskmem_doctor (tried BLOB)")
        connection.exec_driver_sql(
            "INSERT INTO taskmem_doctor VALUES (zeroblob(?))", (TRIED_BYTES,)
        )
        connection.rollback()


def _check_postgresql(address: sa.URL) -> _DatabaseState:
    wanted = address.normalized_query.get("options", ())
    options = (f"-c lock_timeout={int(LOCK_SECONDS * 1000)}", *wanted)
    engine = sa.create_engine(
        address.set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        connect_args={"connect_timeout": _CONNECT_SECONDS, "options": " ".join(options)},
    )
    with engine.connect() as connection:
        newest = schema.is_newest(connection)
        if newest:
            # Rewrite one row unchanged: this fails if the database is read-only.
            connection.execute(sa.text("UPDATE alembic_version SET version_num = version_num"))
            connection.rollback()
            with _start_time_limit(SCAN_SECONDS) as over:
                return _check_rows(connection, over)
        return _DatabaseState(newest, None)

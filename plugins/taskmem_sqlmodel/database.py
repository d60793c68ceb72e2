"""Open the database at a URL: create its file, build its engine, migrate its schema."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.pool import NullPool

from taskmem_hookspecs import StoreUnavailable
from taskmem_hookspecs.errors import SettingsInvalid
from taskmem_sqlmodel import schema
from taskmem_sqlmodel.database_files import DatabaseFiles
from taskmem_sqlmodel.errors import translate_errors

BUSY_TIMEOUT: Final = 5.0
"""Default time to wait for another process's lock. Seconds."""

_OWNER_ONLY: Final = 0o600

_WRITERS_LOCK: Final = 0x7461736B6D656D
"""Key of PostgreSQL's advisory lock for writers: `taskmem` in ASCII."""


@dataclass(frozen=True)
class Database:
    """An open database, which makes reading and writing connections.

    Write transactions run one after the other, also between processes, so that events become
    visible in the order of their ids. A read transaction sees one snapshot.
    """

    engine: sa.Engine
    place: DatabaseFiles | None = None
    """The files of the database; None for a database on a server."""

    def require_in_place(self) -> None:
        """Check that the database's files are still at their paths.

        Raises:
            StoreUnavailable: A file was replaced or removed.
        """
        if self.place is not None:
            self.place.require_in_place()

    def guard_write(self) -> AbstractContextManager[None]:
        """Check the database's files before and after a write; one write runs at a time.

        Raises:
            StoreUnavailable: A file was replaced or removed.
        """
        return nullcontext() if self.place is None else self.place.guard_write()

    def close(self) -> None:
        """Close the database, after all other connections are closed."""
        if self.place is not None:
            self.place.close()

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    def connect_reader(self) -> sa.Connection:
        """Open a connection for reading.

        On SQLite, one statement sees a snapshot by itself; several need `begin_snapshot`.
        """
        connection = self.engine.connect()
        if self.dialect != "sqlite":
            connection.execution_options(isolation_level="REPEATABLE READ")
        return connection

    @contextmanager
    def begin_snapshot(self, reader: sa.Connection) -> Generator[None]:
        """Run the block in a transaction in which all statements see one snapshot."""
        with reader.begin():
            if self.dialect == "sqlite":
                reader.exec_driver_sql("BEGIN")
            yield

    @contextmanager
    def begin_write(self, writer: sa.Connection) -> Generator[None]:
        """Run the block in a transaction that no other writer shares."""
        with writer.begin():
            writer.exec_driver_sql(
                "BEGIN IMMEDIATE"
                if self.dialect == "sqlite"
                else f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})"
            )
            yield


def open_database(url: str, busy_timeout: float = BUSY_TIMEOUT) -> Database:
    """Open a database; create or migrate it if needed.

    Args:
        url: `sqlite:////path/to/file.db`, or `postgresql://…`. With `mode=ro` in its query, the
            database is read as it is, and neither created nor migrated.
        busy_timeout: How long to wait for another process's lock. Seconds.

    Raises:
        SettingsInvalid: The URL is not that of a database.
        StoreBusy: Another process did not release its lock in time.
        StoreTooNew: A newer version wrote the database; it was left untouched.
        StoreUnavailable: The database cannot be reached or read.
    """
    address = _parse_address(url)
    stays = address.query.get("mode") == "ro"
    address = address.difference_update_query(["mode"])
    path: Path | None = None
    with translate_errors():
        if address.get_backend_name() == "sqlite":
            path = _parse_path(address)
            if stays:
                reader = open_read_only(path, busy_timeout)
                _is_newest(reader)
                return Database(reader)
            _prepare_file(path)
            ready = _is_newest(open_read_only(path, busy_timeout))
            _restrict_to_owner(path)
            engine = _build_sqlite_engine(address, busy_timeout)
            database = Database(engine)
            if path.stat().st_size == 0:
                _enable_release(database)
            _switch_to_wal(database)
        else:
            database = Database(_build_postgresql_engine(address, busy_timeout))
            ready = _is_newest(database.engine) or stays
        if not ready:
            with database.engine.connect() as connection, database.begin_write(connection):
                schema.bring_to_head(connection)
        if path is None:
            return database
        return replace(database, place=DatabaseFiles(path, database.engine.connect()))


def _is_newest(engine: sa.Engine) -> bool:
    with engine.connect() as connection:
        return schema.is_newest(connection)


def _parse_address(url: str) -> sa.URL:
    try:
        address = sa.make_url(url)
    except ArgumentError:
        raise SettingsInvalid(
            "The database URL cannot be read; write it as sqlite:////path/to/file.db "
            "or postgresql://user@host/name."
        ) from None
    if address.drivername == "postgresql":
        return address.set(drivername="postgresql+psycopg")
    return address


# --- SQLite -----------------------------------------------------------------


def _parse_path(address: sa.URL) -> Path:
    if not address.database or address.database == ":memory:":
        raise SettingsInvalid(
            "The database must be a file; write its URL as sqlite:////path/to/file.db."
        )
    path = Path(address.database)
    if not path.is_absolute():
        raise SettingsInvalid(
            f"The database {path} has no absolute path, so each daemon would find "
            "another one; write its URL as sqlite:////path/to/file.db."
        )
    return path


def _prepare_file(path: Path) -> None:
    """Create the database file if it is missing.

    SQLite copies its permissions to the log and shared-memory files. An existing file must be
    opened by SQLite alone: closing another descriptor would release this process's locks on it.
    """
    try:
        _make_folder(path.parent)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWNER_ONLY))
    except OSError as error:
        raise StoreUnavailable(
            f"The database {path} cannot be made ({error.strerror}); give its owner "
            "write access to the folder, then try again."
        ) from error


def _restrict_to_owner(path: Path) -> None:
    """Set the file's mode to 0600; a restored copy may have another mode."""
    with suppress(PermissionError):
        if stat.S_IMODE(path.stat().st_mode) != _OWNER_ONLY:
            path.chmod(_OWNER_ONLY)


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        _make_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)


def open_read_only(path: Path, busy_timeout: float = BUSY_TIMEOUT) -> sa.Engine:
    """Return an engine that opens a SQLite file read-only.

    A hot journal left by a killed writer is rolled back first: until then SQLite refuses to read.
    """

    def connect(mode: str = "ro") -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=busy_timeout
        )

    def connect_after_rollback() -> sqlite3.Connection:
        found = connect()
        try:
            found.execute("PRAGMA schema_version").fetchone()
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
                with closing(connect("rw")) as writer:
                    writer.execute("PRAGMA schema_version").fetchone()
        return found

    return sa.create_engine("sqlite://", poolclass=NullPool, creator=connect_after_rollback)


def _build_sqlite_engine(address: sa.URL, busy_timeout: float) -> sa.Engine:
    engine = sa.create_engine(
        address,
        poolclass=NullPool,
        connect_args={"check_same_thread": False, "isolation_level": None, "timeout": busy_timeout},
    )

    @event.listens_for(engine, "connect")
    def _set_pragmas(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    return engine


def _enable_release(database: Database) -> None:
    """Prepare a file without any page for the release of free pages, which is permanent."""
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA auto_vacuum = INCREMENTAL")


def _switch_to_wal(database: Database, tries: int = 100) -> None:
    """Switch the file to a write-ahead log, which is permanent.

    The switch needs exclusive access, and SQLite does not wait for it. So take the write lock,
    which SQLite does wait for, and try again.
    """
    try:
        with database.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    except OperationalError:
        if not tries:
            raise
        with database.engine.connect() as connection, database.begin_write(connection):
            pass
        _switch_to_wal(database, tries - 1)


# --- PostgreSQL -------------------------------------------------------------


def _build_postgresql_engine(address: sa.URL, busy_timeout: float) -> sa.Engine:
    wanted = address.normalized_query.get("options", ())
    options = (f"-c lock_timeout={int(busy_timeout * 1000)}", *wanted)
    try:
        return sa.create_engine(
            address, poolclass=NullPool, connect_args={"options": " ".join(options)}
        )
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f"PostgreSQL needs a driver that is not installed ({error.name}); install "
            "openclaw-taskmem[postgres], then start again."
        ) from error

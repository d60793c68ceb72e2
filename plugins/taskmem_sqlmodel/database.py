"""Open the database at a URL: its files, its engine, and its errors."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sqlite3
import stat
import threading
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.pool import NullPool

from taskmem_hookspecs import (
    Conflict,
    InvalidArguments,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    TaskmemError,
    TaskNotFound,
)
from taskmem_hookspecs.errors import SettingsInvalid
from taskmem_sqlmodel import schema

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
    place: _DatabaseFiles | None = None
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
        return replace(database, place=_DatabaseFiles(path, database.engine.connect()))


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


_FileIdentity = tuple[int, int]
"""The device and inode of a file."""


class _DatabaseFiles:
    """The file of an open database and its write-ahead log, identified when opened."""

    def __init__(self, path: Path, keeper: sa.Connection) -> None:
        """Record the identity of the files.

        `keeper` stays open as long as the database: as long as a connection is open, SQLite does
        not remove or replace the log.
        """
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._keeper = keeper
        with keeper.begin():
            keeper.exec_driver_sql("SELECT 1 FROM sqlite_schema").all()
        self._opened = self._identify()
        self._written = self._read_state()
        self._is_overwritten = False
        self._one_writer = threading.Lock()

    def require_in_place(self) -> None:
        """Check that the files at these paths are the ones that were opened.

        Raises:
            StoreUnavailable: A file was replaced or removed, so writes into the open one are
                lost.
        """
        if self._identify() != self._opened:
            raise StoreUnavailable(
                f"The database {self._path} or its log was replaced or removed while a "
                "daemon had it open, so this is not kept; that daemon ends by itself, "
                "so try again in a few seconds."
            )

    @contextlib.contextmanager
    def guard_write(self) -> Generator[None]:
        """Check the files before and after a write, one write at a time.

        A size or time that another program gave the file since the last write is remembered. A
        second writer of this process would look like one, so it waits.

        Raises:
            StoreUnavailable: A file was replaced or removed, so the write is lost.
        """
        with self._one_writer:
            self.require_in_place()
            self._note_foreign_write()
            try:
                yield
            finally:
                self._written = self._read_state()
            self.require_in_place()

    def _note_foreign_write(self) -> None:
        self._is_overwritten = self._is_overwritten or self._read_state() != self._written

    def close(self) -> None:
        """Close the last connection, unless that would destroy the file.

        The last connection to close checkpoints the log into the file. If the log was removed and
        another program overwrote the file, that would corrupt it. In that case leave the connection
        open until the process ends, which checkpoints nothing.
        """
        (file, log), (file_before, log_before) = self._identify(), self._opened
        lost_log = file == file_before and log != log_before
        self._note_foreign_write()
        if lost_log and self._is_overwritten:
            _leave_open(self._keeper)
        else:
            self._keeper.close()

    def _identify(self) -> tuple[_FileIdentity | None, _FileIdentity | None]:
        return _find_identity(self._path), _find_identity(self._log)

    def _read_state(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_size, found.st_mtime_ns


def _find_identity(path: Path) -> _FileIdentity | None:
    """Return the device and inode of the file at a path; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _leave_open(connection: sa.Connection) -> None:
    """Prevent a connection from being closed by this process, even at exit."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


_BUSY_TEXT: Final = (
    "Another process holds the database, and nothing was written; try again in a moment."
)
_FULL_TEXT: Final = (
    "There is no room left for the database, and nothing was written; "
    "free some space on its disk, then try again."
)
_FILLED_TEXT: Final = (
    "There is no room left for the database, so what was to be written may be kept or not; read "
    "again, free some space on its disk, then try again."
)
_REFUSED_TEXT: Final = (
    "The disk did not take all that was to be written, so it may be kept or not: there is no "
    "room left, by a quota perhaps, or the disk fails; read again, free some space, or see in "
    "the system's log whether it fails, then try again."
)
_UNSURE_TEXT: Final = (
    "The disk failed, or is full, so what was to be written may be kept or not; read again, "
    "then try again, and see in the system's log whether the disk fails."
)
_UNOPENED_TEXT: Final = (
    "The database cannot be opened, and nothing was written: too many files are open, the "
    "disk fails or is read-only, or its owner may not read it; put that right, then try again."
)
_CONFLICT_TEXT: Final = "Another wrote first, and nothing was written; read again, then try again."
_DANGLING_TEXT: Final = (
    "The task or wait that this belongs to does not exist, and nothing was "
    "written; list the tasks to find the right id."
)
_DAMAGED_TEXT: Final = (
    "The database file is damaged, or is no SQLite database; move it away or "
    "restore a copy of it, then start again."
)
_READ_ONLY: Final = (
    "The database cannot be written; give its owner write access to the file "
    "and its folder, then try again."
)
_UNSTORABLE_TEXT: Final = (
    "The database cannot keep a character of this text, and nothing was "
    "written; take out NUL characters and lone surrogates, then try again."
)

_MEANINGS: Final[dict[str, tuple[type[TaskmemError], str]]] = {
    # SQLite, by the name of the extended code, or of the primary one before it.
    "SQLITE_BUSY": (StoreBusy, _BUSY_TEXT),
    "SQLITE_LOCKED": (StoreBusy, _BUSY_TEXT),
    # SQLite reports FULL for ENOSPC, and a quota, a file-size limit and a failing disk as the two
    # below. After such a write a commit was there once, after a kill; we suppose that half of its
    # last page was written over a page that ended alike. By SQLite's source, the index of the log
    # grows only after the pages were synced.
    "SQLITE_FULL": (StoreFull, _FILLED_TEXT),
    "SQLITE_IOERR_WRITE": (StoreFull, _REFUSED_TEXT),
    "SQLITE_IOERR_SHMSIZE": (StoreFull, _REFUSED_TEXT),
    # After a failed sync, the transaction is undone, but its pages stay in the log for a while.
    "SQLITE_IOERR": (StoreUnavailable, _UNSURE_TEXT),
    "SQLITE_CANTOPEN": (StoreUnavailable, _UNOPENED_TEXT),
    "SQLITE_CORRUPT": (StoreUnavailable, _DAMAGED_TEXT),
    "SQLITE_NOTADB": (StoreUnavailable, _DAMAGED_TEXT),
    "SQLITE_READONLY": (StoreUnavailable, _READ_ONLY),
    "SQLITE_CONSTRAINT_UNIQUE": (Conflict, _CONFLICT_TEXT),
    "SQLITE_CONSTRAINT_PRIMARYKEY": (Conflict, _CONFLICT_TEXT),
    "SQLITE_CONSTRAINT_FOREIGNKEY": (TaskNotFound, _DANGLING_TEXT),
    # PostgreSQL, by SQLSTATE, or by its class.
    "23505": (Conflict, _CONFLICT_TEXT),
    "23503": (TaskNotFound, _DANGLING_TEXT),
    "22": (InvalidArguments, _UNSTORABLE_TEXT),
    "40": (StoreBusy, _BUSY_TEXT),
    "55P03": (StoreBusy, _BUSY_TEXT),
    "53100": (StoreFull, _FULL_TEXT),
}


@contextmanager
def translate_errors() -> Generator[None]:
    """Replace errors of SQLAlchemy and its drivers by the contract's errors."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _translate_error(error) from error
    except UnicodeEncodeError as error:
        raise InvalidArguments(_UNSTORABLE_TEXT) from error


def build_conflict() -> Conflict:
    """Return the error for a row whose version is not the expected one."""
    return Conflict(_CONFLICT_TEXT)


def _translate_error(error: SQLAlchemyError) -> TaskmemError:
    for code in _list_codes(error):
        if code in _MEANINGS:
            meaning, sentence = _MEANINGS[code]
            return meaning(sentence)
    if isinstance(error, NoSuchModuleError):
        return StoreUnavailable(f"No driver for the database is installed ({error}).")
    cause = error.orig if isinstance(error, DBAPIError) else error
    text = " ".join(str(cause).split())
    return StoreUnavailable(
        f"The database cannot be used ({text}); put that right, then try again."
    )


def _list_codes(error: SQLAlchemyError) -> Iterator[str]:
    """Yield the driver's codes for an error, the most specific first."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    name = getattr(cause, "sqlite_errorname", None)
    if isinstance(name, str):
        yield name
        yield "_".join(name.split("_")[:2])
    state = getattr(cause, "sqlstate", None)
    if isinstance(state, str):
        yield state
        yield state[:2]
    if isinstance(cause, ValueError) or type(cause).__name__ == "DataError":
        yield "22"

"""Open the database at a URL: its files, its engine, and its errors."""

from __future__ import annotations

import ctypes
import fcntl
import os
import sqlite3
import stat
import threading
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple
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
from taskmem_program.losses import write_restore_command
from taskmem_sqlmodel import schema
from taskmem_sqlmodel.last_state import (
    LastState,
    count_tasks,
    read_position,
    set_log_aside,
)

BUSY_TIMEOUT: Final = 5.0
"""Default time to wait for another process's lock. Seconds."""

_OWNER_ONLY: Final = 0o600
_LOCKED_BYTE: Final = 0x40000000
"""First of the bytes that SQLite locks."""

_WRITERS_LOCK: Final = 0x7461736B6D656D
"""Key of PostgreSQL's advisory lock for writers: `taskmem` in ASCII."""


@dataclass
class Database:
    """An open database, which lends reading connections and the writing one.

    Write transactions run one after the other, also between processes, so that events become
    visible in the order of their ids. A read transaction sees one snapshot.
    """

    engine: sa.Engine
    place: _DatabaseFiles | None = None
    """The files of the database; None for a database on a server."""
    _idle: deque[sa.Connection] = field(default_factory=deque[sa.Connection], init=False)
    """Reading connections that nobody uses now."""
    _writer: sa.Connection | None = field(default=None, init=False)
    """The connection of `lend_writer`; None: the next write opens it."""
    _one_writer: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        """Read the dialect of the engine."""
        self.dialect = self.engine.dialect.name
        """`sqlite` or `postgresql`."""

    @contextmanager
    def lend_reader(self) -> Generator[sa.Connection]:
        """Lend a reading connection; all statements of the block see one snapshot.

        After an error it is closed, not lent again.

        Raises:
            StoreUnavailable: A file of the database was replaced or removed.
        """
        if self.place is not None:
            self.place.require_in_place()
        with self._translate_errors():
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self.engine.connect()
                if self.dialect != "sqlite":
                    connection.execution_options(isolation_level="REPEATABLE READ")
            try:
                with connection.begin():
                    if self.dialect == "sqlite":
                        connection.connection.cursor().execute("BEGIN")
                    yield connection
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)

    @contextmanager
    def lend_writer(self) -> Generator[sa.Connection]:
        """Lend the writing connection inside a transaction; one write of this process runs at once.

        The database's files are checked before and after.

        Raises:
            StoreBusy: Another process did not release its lock; nothing was written.
            StoreFull, StoreUnavailable: The disk is full or fails, or the database cannot be
                reached; rows may be kept unless the sentence says that nothing was written.
        """
        with self._one_writer:
            guard = nullcontext() if self.place is None else self.place.guard_write()
            try:
                with guard, self._translate_errors():
                    if self._writer is None:
                        self._writer = self.engine.connect()
                    with self.begin_write(self._writer):
                        yield self._writer
                        state = self.place and self.place.last.count_before_commit(self._writer)
                if self.place is not None and state:
                    self.place.last.save(*state)
            except (StoreBusy, StoreFull, StoreUnavailable):
                self._close_writer()
                raise

    @contextmanager
    def begin_write(self, writer: sa.Connection) -> Generator[None]:
        """Run the block in a transaction that no other writer shares."""
        with writer.begin():
            writer.connection.cursor().execute(
                "BEGIN IMMEDIATE"
                if self.dialect == "sqlite"
                else f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})"
            )
            yield

    def settle(self) -> None:
        """Move what is in SQLite's log into the file, unless something was written since last time.

        A home of a few tasks would else be in its log alone, which is easily taken for a file that
        may go. Where readers use it just then, it is tried again at the next call.
        """
        if self.place is None or not self.place.last.is_resting():
            return
        with self._one_writer, self.place.guard_write(), self._translate_errors():
            if self._writer is not None:
                cursor = self._writer.connection.cursor()
                patience = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
                cursor.execute("PRAGMA busy_timeout = 0")
                try:
                    (is_busy, *_) = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                finally:
                    cursor.execute(f"PRAGMA busy_timeout = {patience:d}")
                if not is_busy:
                    self.place.last.mark_settled()

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_errors(None if self.place is None else self.place.path)

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def close(self) -> None:
        """Close all connections, and the database."""
        while self._idle:
            self._idle.pop().close()
        self._close_writer()
        if self.place is not None:
            self.place.close()


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
    path = _parse_path(address) if address.get_backend_name() == "sqlite" else None
    with translate_errors(path):
        if path is not None:
            if stays:
                reader = open_read_only(path, busy_timeout)
                _is_newest(reader)
                return Database(reader)
            set_log_aside(path)
            _prepare_file(path)
            _require_locks(path)
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
    except (ArgumentError, ValueError):
        raise SettingsInvalid(
            "The database URL cannot be read; write it as sqlite:////path/to/file.db "
            "or postgresql://user@host/name."
        ) from None
    if "@" in (address.host or ""):
        raise SettingsInvalid("The password in the database URL has an @; write it there as %40.")
    if address.drivername in ("postgres", "postgresql"):
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


def require_file(path: Path) -> None:
    """Refuse what is at the path of a database, but is no file.

    Raises:
        StoreUnavailable: It is a folder, a named pipe or the like.
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "no file"
        raise StoreUnavailable(
            f"{path} is {kind}, where the database should be; move it away, then start again."
        )


def _prepare_file(path: Path) -> None:
    """Create the database file if it is missing.

    SQLite copies its permissions to the log and shared-memory files. An existing file must be
    opened by SQLite alone: closing another descriptor would release this process's locks on it.
    """
    require_file(path)
    try:
        _make_folder(path.parent)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _OWNER_ONLY))
    except OSError as error:
        raise StoreUnavailable(
            f"The database {path} cannot be made ({error.strerror}); give its owner "
            "write access to the folder, then try again."
        ) from error


def _require_locks(path: Path) -> None:
    """Refuse a file system that does not lock as SQLite needs, as some network shares do not.

    SQLite would say for ever that another process holds the database. A file that nobody else knows
    is locked, in the way of SQLite. Source: https://www.sqlite.org/lockingv3.html, "6.0".
    """
    probe = path.with_name(f".locks-{os.getpid()}.db")
    try:
        file = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _OWNER_ONLY)
    except OSError:
        return  # opening the database says what is wrong
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCKED_BYTE)
    except OSError as error:
        raise StoreUnavailable(
            f"The file system of {path} does not lock files as SQLite needs ({error.strerror}), as "
            "some network file systems do not. Set TASKMEM_HOME to a folder on a local disk, or "
            "TASKMEM_DATABASE_URL to a PostgreSQL database, then start again."
        ) from error
    finally:
        os.close(file)
        probe.unlink(missing_ok=True)


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


class _FileState(NamedTuple):
    """A file of a database; all None: it does not exist."""

    identity: tuple[int, int] | None = None
    """Its device and inode."""
    content: tuple[int, int] | None = None
    """Its size, and when it was last written."""

    @property
    def is_empty(self) -> bool:
        """True if it exists and holds nothing."""
        return self.content is not None and not self.content[0]


class _DatabaseFiles:
    """The file of an open database and its write-ahead log, identified when opened."""

    def __init__(self, path: Path, keeper: sa.Connection) -> None:
        """Record the identity of the files.

        `keeper` stays open as long as the database: as long as a connection is open, SQLite does
        not remove or replace the log.
        """
        self.path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._keeper = keeper
        with keeper.begin():
            keeper.exec_driver_sql("SELECT 1 FROM sqlite_schema").all()
            self.last = LastState(path, read_position(keeper), count_tasks(keeper))
        self._opened = _read_file_state(self.path), _read_file_state(self._log)
        self._written = self._opened[0].content
        self._is_overwritten = False

    def require_in_place(self) -> _FileState:
        """Check that the files at these paths are the ones that were opened.

        Return the state of the database file.

        Raises:
            StoreUnavailable: A file was replaced or removed, so writes into the open one are
                lost.
        """
        file, log = _read_file_state(self.path), _read_file_state(self._log)
        opened = [each.identity for each in self._opened]
        if file.is_empty or [file.identity, log.identity] != opened:
            raise StoreUnavailable(
                f"The database {self.path} or its log was replaced or removed, or emptied, while "
                "a daemon had it open, so this is not kept; that daemon ends by itself, so try "
                "again in a few seconds."
            )
        return file

    @contextmanager
    def guard_write(self) -> Generator[None]:
        """Check the files before and after a write; one may run at a time.

        A size or time that another program gave the file since the last write is remembered.

        Raises:
            StoreUnavailable: A file was replaced or removed, so the write is lost.
        """
        self._is_overwritten |= self.require_in_place().content != self._written
        try:
            yield
        finally:
            self._written = _read_file_state(self.path).content
        self.require_in_place()

    def close(self) -> None:
        """Close the last connection, unless that would destroy the file.

        The last connection to close checkpoints the log into the file. If the log was removed and
        another program overwrote the file, that would corrupt it. In that case leave the connection
        open until the process ends, which checkpoints nothing.
        """
        self.last.close()
        file, log = _read_file_state(self.path), _read_file_state(self._log)
        file_before, log_before = self._opened
        is_same = file.identity == file_before.identity
        lost_log = is_same and log.identity != log_before.identity
        self._is_overwritten |= file.content != self._written
        if lost_log and self._is_overwritten:
            _leave_open(self._keeper)
        else:
            self._keeper.close()


def _read_file_state(path: Path) -> _FileState:
    try:
        found = path.stat()
    except OSError:
        return _FileState()
    return _FileState((found.st_dev, found.st_ino), (found.st_size, found.st_mtime_ns))


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
    "The database file is damaged, or is no SQLite database; move it away while no daemon runs, or "
    "put a back-up back: {restore}."
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
def translate_errors(file: Path | None = None) -> Generator[None]:
    """Replace errors of SQLAlchemy and its drivers by the contract's errors.

    `file`: that of the database; if it is damaged, the last back-up beside it is named.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        raise InvalidArguments(_UNSTORABLE_TEXT) from error
    except Exception as error:
        # An error of `psycopg`, which need not be installed, has a state.
        if isinstance(error, (SQLAlchemyError, sqlite3.Error)) or hasattr(error, "sqlstate"):
            raise _translate_error(error, file) from error
        raise


def build_conflict() -> Conflict:
    """Return the error for a row whose version is not the expected one."""
    return Conflict(_CONFLICT_TEXT)


def _translate_error(error: Exception, file: Path | None) -> TaskmemError:
    for code in _list_codes(error):
        if code in _MEANINGS:
            meaning, sentence = _MEANINGS[code]
            if sentence is _DAMAGED_TEXT:
                sentence = sentence.format(restore=write_restore_command((file or Path()).parent))
            return meaning(sentence)
    if isinstance(error, NoSuchModuleError):
        return StoreUnavailable(f"No driver for the database is installed ({error}).")
    cause = error.orig if isinstance(error, DBAPIError) else error
    text = " ".join(str(cause).split())
    return StoreUnavailable(
        f"The database cannot be used ({text}); put that right, then try again."
    )


def _list_codes(error: Exception) -> Iterator[str]:
    """Yield the driver's codes for an error, the most specific first."""
    cause = error.orig if isinstance(error, DBAPIError) else error
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

"""Translate database errors into the contract's errors."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError

from taskmem_hookspecs import (
    Conflict,
    InvalidArguments,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    TaskmemError,
    TaskNotFound,
)

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

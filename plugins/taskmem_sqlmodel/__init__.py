"""Keeps everything in SQLite, or in PostgreSQL where the URL says so."""

from __future__ import annotations

from typing import Final

from taskmem_hookspecs import TaskStore, hookimpl

_ANSWERED: Final = ("sqlite", "postgresql", "postgresql+psycopg")


@hookimpl(trylast=True)
def task_store(url: str) -> TaskStore | None:
    """Open the database behind a `sqlite:` or `postgresql:` URL."""
    if url.partition(":")[0] not in _ANSWERED:
        return None
    from taskmem_sqlmodel.store import SqlStore

    return SqlStore(url)

"""Keeps everything in SQLite, or in PostgreSQL where the URL says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskmem_hookspecs import HealthCheck, TaskStore, hookimpl

_ANSWERED: Final = ("sqlite", "postgresql", "postgresql+psycopg")


@hookimpl(trylast=True)
def task_store(url: str) -> TaskStore | None:
    """Open the database behind a `sqlite:` or `postgresql:` URL."""
    if url.partition(":")[0] not in _ANSWERED:
        return None
    from taskmem_sqlmodel.store import SqlStore

    return SqlStore(url)


@hookimpl(trylast=True)
def health_checks() -> Sequence[HealthCheck]:
    """Look whether the database is there, and sound."""
    from taskmem_sqlmodel.health import DatabaseCheck

    return [DatabaseCheck()]

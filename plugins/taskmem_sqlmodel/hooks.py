"""Hooks of the store plug-in: store and check."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskmem_hookspecs import DoctorCheck, TaskStore, hookimpl

_URL_SCHEMES: Final = ("sqlite", "postgres", "postgresql", "postgresql+psycopg")


@hookimpl(trylast=True)
def task_store(url: str) -> TaskStore | None:
    """Return the store for a `sqlite:` or `postgresql:` URL; None for any other scheme.

    Hosts of databases also write `postgres:`.
    """
    if url.partition(":")[0] not in _URL_SCHEMES:
        return None
    from taskmem_sqlmodel.store import SqlStore

    return SqlStore(url)


@hookimpl(trylast=True)
def health_checks() -> Sequence[DoctorCheck]:
    """Return the check that the database exists, is readable and is writable."""
    from taskmem_sqlmodel.doctor import DatabaseCheck

    return [DatabaseCheck()]

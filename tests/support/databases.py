"""The databases that the product keeps its tasks in, looked into from outside."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from openclaw_taskmem.home import Home
from taskmem_sqlmodel.tables import Base
from tests.support.waiting import until

DIALECTS = ("sqlite", "postgresql")
ON_POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.long)
ON_BOTH = pytest.mark.parametrize("home", ["sqlite", ON_POSTGRESQL], indirect=True)
"""Marks a module whose stories have a gateway, on either database; on the second if `--long`."""


def look(url: str, query: str, **values: object) -> list[tuple[Any, ...]]:
    """Read from the database behind a URL, whoever has it open."""
    with _engine(url).connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query), values)]


def contents(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table."""
    tables = Base.metadata.sorted_tables
    return {
        table.name: look(url, f"SELECT * FROM {table.name} ORDER BY 1")  # noqa: S608
        for table in tables
    }


def change(url: str, statement: str, **values: object) -> int:
    """Write into it as no part of the product does; return how many rows changed."""
    with _engine(url).begin() as connection:
        return connection.execute(sa.text(statement), values).rowcount


def _engine(url: str) -> sa.Engine:
    return sa.create_engine(url, poolclass=sa.NullPool)


class InHome:
    """A daemon's own database: the file in its home."""

    dialect = "sqlite"

    def __init__(self, home: Home, folder: Path) -> None:
        self.settings: dict[str, str] = {}
        """Those of a daemon that is to keep its tasks here."""
        self._home = home
        self._folder = folder

    def now(self) -> Any:
        """Connect to it."""
        return sqlite3.connect(self._home.database)

    def connect_after_kill(self) -> Any:
        """Connect to it as a kill left it, on a copy: the daemon mends its own."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        for name in ("taskmem.db", "taskmem.db-wal"):
            path = self._home.folder / name
            if path.exists():
                shutil.copy(path, self._folder / name)
        return sqlite3.connect(self._folder / "taskmem.db")

    def assert_whole(self, database: Any) -> None:
        """Whether the file is sound, and no row points to nowhere."""
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []


class OnServer:
    """The same on PostgreSQL."""

    dialect = "postgresql"

    def __init__(self, url: str) -> None:
        self.settings = {"TASKMEM_DATABASE_URL": url}
        self._url = url

    def now(self) -> Any:
        """Connect to it; all that is read is of one instant."""
        connection = psycopg.connect(self._url)
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return connection

    def connect_after_kill(self) -> Any:
        """Connect to it as a kill left it, once the server has ended what was under way."""
        others = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        until(lambda: not look(self._url, others), "the sessions of the killed daemon end")
        return self.now()

    def assert_whole(self, database: Any) -> None:
        """Nothing: the server sees to that, and outlived the daemon."""

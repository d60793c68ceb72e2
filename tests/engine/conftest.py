"""Empty stores, one after the other."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from taskmem_hookspecs import TaskStore
from taskmem_hookspecs.testing import MemoryStore
from taskmem_sqlmodel.store import SqlStore
from tests.engine.stateful import NewStore


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> NewStore:
    """Makes stores of one kind, each with nothing in it."""
    kind = str(request.param)
    numbers = count()

    def on_sqlite() -> TaskStore:
        return SqlStore(f"sqlite:///{tmp_path / f'{next(numbers)}.db'}")

    def on_postgresql() -> TaskStore:
        cluster = request.getfixturevalue("postgres")
        return SqlStore(cluster.emptied_database())

    makers = {
        "memory": MemoryStore,
        "sqlite": on_sqlite,
        "postgresql": on_postgresql,
    }
    return NewStore(kind, makers[kind])

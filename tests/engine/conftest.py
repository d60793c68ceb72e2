"""Sessions of a gateway, and empty stores, one after the other."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from shutil import copy

import pytest

from taskmem_hookspecs import TaskStore
from taskmem_sqlmodel.store import SqlStore
from tests.engine.stateful import NewStore
from tests.support.memory_store import MemoryStore
from tests.support.sessions import Session
from tests.support.world import World


@pytest.fixture
def session() -> Session:
    """An agent's session in a gateway."""
    return Session(World())


@pytest.fixture
def other(session: Session) -> Session:
    """Another agent's session in the same gateway."""
    return Session(session.world, key="agent:dev:main", role="dev")


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> NewStore:
    """Makes stores of one kind, each with nothing in it."""
    kind = str(request.param)
    numbers = count()

    def on_sqlite() -> TaskStore:
        empty = request.getfixturevalue("empty_file")
        return SqlStore(f"sqlite:///{copy(empty, tmp_path / f'{next(numbers)}.db')}")

    def on_postgresql() -> TaskStore:
        cluster = request.getfixturevalue("postgres")
        return SqlStore(cluster.emptied_database())

    makers = {"memory": MemoryStore, "sqlite": on_sqlite, "postgresql": on_postgresql}
    return NewStore(kind, makers[kind])

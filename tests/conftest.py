"""What every room's tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from taskmem_sqlmodel.store import SqlStore
from tests.support.databases import DIALECTS
from tests.support.memory_store import MemoryStore
from tests.support.postgres import Cluster, serve_postgres
from tests.support.snapshots import JsonSnapshot, TextSnapshot
from tests.support.world import World

pytest.register_assert_rewrite(
    *(f"tests.support.{name}" for name in ("store_suite", "store_writes", "store_queries"))
)
settings.register_profile(
    "taskmem", deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("taskmem")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no worker has it left when others end."""
    items.sort(key=lambda item: [not item.get_closest_marker(m) for m in ("e2e", "crash")])


@pytest.fixture(autouse=True)
def _isolate_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever a test forgets to say, it never touches the user's own home."""
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path / "home"))


@pytest.fixture
def text_snapshot(snapshot: Any) -> Any:
    return snapshot.use_extension(TextSnapshot)


@pytest.fixture
def json_snapshot(snapshot: Any) -> Any:
    return snapshot.use_extension(JsonSnapshot)


@pytest.fixture
def world() -> World:
    """An installation that keeps everything in memory."""
    return World(MemoryStore())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A PostgreSQL server, started for the first test that asks for it."""
    with serve_postgres() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file that has its tables, and nothing in them; for copies of it.

    Making the tables of a new one takes nine times as long.
    """
    file = tmp_path_factory.mktemp("empty") / "taskmem.db"
    SqlStore(f"sqlite:///{file}").close()
    return file


@pytest.fixture(params=DIALECTS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that has its tables, and nothing in them."""
    if request.param == "sqlite":
        empty = request.getfixturevalue("empty_file")
        return f"sqlite:///{copy(empty, tmp_path)}"
    return str(request.getfixturevalue("postgres").emptied_database())


@pytest.fixture
def real_world(database: str) -> Iterator[World]:
    """An installation on a real database."""
    store = SqlStore(database)
    yield World(store)
    store.close()

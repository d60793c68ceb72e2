"""What every room's tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from openclaw_taskmem.cli import command_line
from taskmem_sqlmodel.store import SqlStore
from tests.support import failures, long_tests, ram_disk
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
settings.register_profile("long", settings.get_profile("taskmem"), max_examples=1_000)
settings.load_profile("taskmem")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that selects what takes long, too."""
    parser.addoption("--long", action="store_true", help="run what is marked `long`, too")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the lengths and the place of this run, and name what fails at once."""
    long_tests.choose_length(is_long=config.getoption("--long"))
    if config.getoption("--long"):
        settings.load_profile("long")
    ram_disk.use_ram_disk(config)
    config.pluginmanager.register(failures.FailureNames(config), "failure-names")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing on the RAM disk, unless a test has failed."""
    ram_disk.clean_up(config)


@pytest.fixture
def own_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the command line know only the packages of the repository, whatever is installed."""
    points = entry_points(group="openclaw_taskmem.commands")
    own = tuple(p for p in points if p.dist and p.dist.name.startswith("openclaw-taskmem"))
    monkeypatch.setattr(command_line, "_list_entry_points", lambda: own)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note where to look after a failure, as long as the test's parts are known."""
    report = yield
    if report.failed:
        failures.note_places(item, report)
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long; begin with what takes longest of the rest.

    So no worker has it left when others end. The packages of their own have long modules.
    """
    long_tests.leave_out_long(config, items)
    packages = config.rootpath / "plugins"
    items.sort(
        key=lambda item: (
            *(not item.get_closest_marker(mark) for mark in ("e2e", "crash")),
            not item.path.is_relative_to(packages),
        )
    )


@pytest.fixture(autouse=True)
def _isolate_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever a test forgets to say, it never touches the user's own home."""
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path / "home"))


@pytest.fixture
def delayed_start(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """An event that asyncio awaits after it has started a program, before it returns it."""
    start, event = asyncio.create_subprocess_exec, asyncio.Event()

    async def start_slowly(*arguments: Any, **settings: Any) -> asyncio.subprocess.Process:
        process = await start(*arguments, **settings)
        await event.wait()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_slowly)
    return event


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

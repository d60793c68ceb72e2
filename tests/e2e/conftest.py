"""Fixtures: a room, a scripted model, taskmem, and a real gateway around them.

`TASKMEM_E2E=off` skips these tests; `TASKMEM_E2E=required` lets them fail where
they would otherwise be skipped because OpenClaw cannot be fetched.
`TASKMEM_E2E_CACHE` is the folder that keeps what was fetched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.e2e.gateway import MAIN_SESSION, Gateway
from tests.e2e.house import House
from tests.e2e.interruptions import Interruption, stop_in_order
from tests.e2e.openclaw import OpenClaw, Unavailable, cache_folder, obtain
from tests.e2e.room import Room
from tests.e2e.scripted_model import ScriptedModel
from tests.e2e.shared_house import Scripts, SharedGateway, Story, shared_house
from tests.e2e.taskmem import Taskmem
from tests.support.required import do_without

SHARED = pytest.StashKey[SharedGateway]()


def says(item: pytest.Item | None, name: str) -> bool:
    """Whether a test's module says something of itself by a constant."""
    module = item and item.getparent(pytest.Module)
    return getattr(module and module.obj, name, False)


def shares_gateway(item: pytest.Item | None) -> bool:
    """Whether a test's module shares a gateway with others: it says `SHARES_GATEWAY`."""
    return says(item, "SHARES_GATEWAY")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with modules that have a gateway alone, which are long; let the others be together.

    The last of these is the one that leaves the gateway stopped.
    """
    items.sort(key=lambda item: (shares_gateway(item), says(item, "LEAVES_IT_STOPPED")))


@pytest.fixture(scope="session")
def openclaw() -> OpenClaw:
    """OpenClaw, fetched if need be; a reason to skip where that cannot be."""
    choice = os.environ.get("TASKMEM_E2E")
    if choice == "off":
        pytest.skip("TASKMEM_E2E=off")
    try:
        return obtain(cache_folder())
    except Unavailable as reason:
        do_without(f"OpenClaw cannot be fetched: {reason}")


@pytest.fixture
def room(openclaw: OpenClaw, tmp_path: Path) -> Iterator[Room]:
    """A room of the test's own, which must be empty in the end."""
    room = Room(tmp_path)
    yield room
    left = room.left_behind()
    assert not left, f"processes left behind: {left}"


@pytest.fixture
def model(room: Room) -> Iterator[ScriptedModel]:
    """A model whose script the test writes."""
    with ScriptedModel() as model:
        yield model
    if model.errors:
        raise model.errors[0]


@pytest.fixture
def settings() -> dict[str, str]:
    """The TASKMEM_… variables of a test; a module says its own."""
    return {}


@pytest.fixture
def taskmem(room: Room, settings: dict[str, str]) -> Iterator[Taskmem]:
    """The command; its daemon is stopped in the end."""
    taskmem = Taskmem(room, dict(settings))
    yield taskmem
    taskmem.stop()


@pytest.fixture
def house(home: tuple[House, Scripts]) -> House:
    """The module's gateway, which runs, whatever became of it in the test before."""
    house, scripts = home
    scripts.of[MAIN_SESSION] = lambda _: "All is well."
    house.model.decide = scripts
    if house.gateway.has_ended:
        house.gateway.start()
    return house


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the logs to a failure."""
    report = yield
    if report.failed:
        if SHARED in item.session.stash:
            item.session.stash[SHARED].is_spoiled = True
        parts = dict(getattr(item, "funcargs", {}))
        within = (parts.get(name) for name in ("story", "kill", "stop"))
        houses = (getattr(each, "house", None) for each in within)
        house = next(filter(None, houses), parts.get("house"))
        if isinstance(house, House):
            parts |= {"gateway": house.gateway, "taskmem": house.taskmem}
            parts["model"] = house.model
        for name in ("gateway", "taskmem", "model"):
            part = parts.get(name)
            if part is not None:
                text = part.summary() if name == "model" else part.report()
                report.sections.append((f"{name}, last lines", text))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End the shared gateway, unless the next test has it, too."""
    try:
        return (yield)
    finally:
        if SHARED in item.session.stash and not shares_gateway(nextitem):
            item.session.stash[SHARED].close()


@pytest.fixture(scope="session")
def shared_gateway(
    openclaw: OpenClaw, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedGateway]:
    """The gateway that modules with `SHARES_GATEWAY` have one after another."""
    shared = SharedGateway(openclaw, lambda: tmp_path_factory.mktemp("home"))
    request.session.stash[SHARED] = shared
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def home(
    openclaw: OpenClaw, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[House, Scripts]]:
    """One gateway for all stories of a module, with its `SETTINGS`, as its `configure` says.

    With `SHARES_GATEWAY`, modules before had it, too. On SQLite, unless the module's mark
    `ON_BOTH` asks for PostgreSQL besides.
    """
    settings = dict(request.module.SETTINGS)
    if getattr(request, "param", None) == "postgresql":
        cluster = request.getfixturevalue("postgres")
        settings["TASKMEM_DATABASE_URL"] = cluster.new_database()
    if shares_gateway(request.node):
        with request.getfixturevalue("shared_gateway").lend(settings) as found:
            yield found
        return
    folder = tmp_path_factory.mktemp("home")
    configure = getattr(request.module, "configure", lambda _: None)
    with shared_house(openclaw, folder, settings, configure) as found:
        yield found


def make_story(home: tuple[House, Scripts], test: str) -> Story:
    """A session of a test's own in the gateway of its module."""
    house, scripts = home
    name = re.sub(r"\W", "_", test.removeprefix("test_")[:40].lower())
    return Story(house, scripts, f"agent:main:{name}_{house.gateway.room.number}")


@pytest.fixture
def story(home: tuple[House, Scripts], request: pytest.FixtureRequest) -> Story:
    """A session of the test's own in the gateway of its module."""
    return make_story(home, request.node.name)


def interrupt(
    end: Callable[[Gateway], None],
    home: tuple[House, Scripts],
    request: pytest.FixtureRequest,
    folders: pytest.TempPathFactory,
) -> Interruption:
    """End the gateway in the midst of all tales of a module that have this fixture."""
    house, scripts = home
    house.model.decide = scripts
    interruption = Interruption(house, end)
    for item in request.session.items:
        tale = getattr(getattr(item, "obj", None), "tale", None)
        is_of_module = item.getparent(pytest.Module) is request.node
        if tale and is_of_module and request.fixturename in getattr(item, "fixturenames", ()):
            interruption.begin(tale, make_story(home, item.name), folders.mktemp("tale"))
    interruption.strike()
    return interruption


@pytest.fixture(scope="module")
def kill(
    home: tuple[House, Scripts],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Interruption:
    """The one kill in the midst of all tales of a module that are to be told."""
    return interrupt(Gateway.kill, home, request, tmp_path_factory)


@pytest.fixture(scope="module")
def stop(
    home: tuple[House, Scripts],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Interruption:
    """The one ordered stop likewise."""
    return interrupt(stop_in_order, home, request, tmp_path_factory)

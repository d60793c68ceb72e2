"""Fixtures: a room, a scripted model, taskmem, and a real gateway around them.

`TASKMEM_E2E=off` skips these tests; `TASKMEM_E2E=required` lets them fail where
they would otherwise be skipped because OpenClaw cannot be fetched.
`TASKMEM_E2E_CACHE` is the folder that keeps what was fetched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.e2e.gateway import MAIN_SESSION, Gateway
from tests.e2e.house import House
from tests.e2e.openclaw import OpenClaw, Unavailable, cache_folder, obtain
from tests.e2e.room import Room
from tests.e2e.scripted_model import ScriptedModel
from tests.e2e.shared_house import Scripts, SharedGateway, Story, shared_house
from tests.e2e.taskmem import Taskmem, plugins
from tests.support.required import do_without

SHARED = pytest.StashKey[SharedGateway]()


def shares_gateway(item: pytest.Item | None) -> bool:
    """Whether a test's module shares a gateway with others: it says `SHARES_GATEWAY`."""
    module = item and item.getparent(pytest.Module)
    return getattr(module and module.obj, "SHARES_GATEWAY", False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let modules that share a gateway follow one another."""
    items.sort(key=lambda item: not shares_gateway(item))


@pytest.fixture(scope="session")
def openclaw() -> OpenClaw:
    """OpenClaw, fetched if need be; a reason to skip where that cannot be."""
    wish = os.environ.get("TASKMEM_E2E")
    if wish == "off":
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
def gateway(
    openclaw: OpenClaw, room: Room, model: ScriptedModel, taskmem: Taskmem
) -> Iterator[Gateway]:
    """A running gateway that has taskmem as an MCP server."""
    gateway = Gateway(openclaw, room, model.url, {"taskmem": taskmem.mcp_server})
    try:
        gateway.start()
        yield gateway
    finally:
        gateway.stop()


@pytest.fixture
def at_home(
    openclaw: OpenClaw, room: Room, model: ScriptedModel, taskmem: Taskmem
) -> Iterator[Gateway]:
    """A running gateway with the plug-in in it, and every permission granted."""
    gateway = Gateway(openclaw, room, model.url, plugins=plugins(taskmem))
    taskmem.settings.setdefault("TASKMEM_WAKE_TRANSPORT", "auto")
    taskmem.settings["OPENCLAW_CONFIG_PATH"] = str(room.config)
    taskmem.run("daemon", "--detach")
    try:
        gateway.start()
        taskmem.wait_for_plugin()
        yield gateway
    finally:
        # In order, it would wait for minutes for a turn that a kill has cut.
        gateway.kill()


@pytest.fixture
def house(request: pytest.FixtureRequest) -> House:
    """The gateway with the plug-in, and waits that end when the test says so.

    In a module with `SETTINGS` it is the module's own: it runs, whatever became of it
    in the test before.
    """
    if not hasattr(request.module, "SETTINGS"):
        at_home, model, taskmem, folder = map(
            request.getfixturevalue, ("at_home", "model", "taskmem", "tmp_path")
        )
        model.decide = lambda _: "All is well."
        return House(at_home, model, taskmem, folder)
    house, scripts = request.getfixturevalue("home")
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
        house = getattr(parts.get("story"), "house", parts.get("house"))
        if isinstance(house, House):
            parts |= {"at_home": house.gateway, "taskmem": house.taskmem}
            parts["model"] = house.model
        for name in ("gateway", "at_home", "taskmem", "model"):
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
    """One gateway for all stories of a module, with its `SETTINGS`.

    With `SHARES_GATEWAY`, modules before had it, too. A module's `configure` changes the
    configuration of one that it has alone. On SQLite, unless the module's mark `ON_BOTH`
    asks for PostgreSQL besides.
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
    configure = getattr(request.module, "configure", None)
    with shared_house(openclaw, folder, settings, configure) as found:
        yield found


@pytest.fixture
def story(home: tuple[House, Scripts], request: pytest.FixtureRequest) -> Story:
    """A session of the test's own in the gateway of its module."""
    house, scripts = home
    name = re.sub(r"\W", "_", request.node.name.removeprefix("test_")[:40].lower())
    return Story(house, scripts, f"agent:main:{name}_{house.gateway.room.number}")

"""How a daemon begins: the home is its own before anything is loaded."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from openclaw_taskmem.daemon import begin
from openclaw_taskmem.daemon.lock import find_holder, holder
from openclaw_taskmem.faces.stopping import stop
from openclaw_taskmem.home import Home
from tests.support.daemons import launch
from tests.support.waiting import status_of, until


@pytest.fixture(autouse=True)
def _collects() -> Iterator[None]:
    yield
    gc.enable()


def test_a_daemon_has_its_home_before_it_loads_the_rest(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int | None] = []

    def run(*_: object) -> None:
        held.append(holder(home.lock))

    rest = SimpleNamespace(run=run)
    monkeypatch.setitem(sys.modules, "openclaw_taskmem.daemon.run", rest)

    assert begin.main({"TASKMEM_HOME": str(home.folder)}) == 0

    assert held == [os.getpid()]
    assert find_holder(home.lock) is None


def test_what_takes_the_home_imports_nothing_heavy() -> None:
    code = "import sys, openclaw_taskmem.daemon.begin; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    heavy = {"asyncio", "click", "pydantic", "sqlalchemy", "taskmem_hookspecs"}
    assert heavy & set(loaded) == set()


def test_stopped_as_it_begins_it_leaves_no_socket_of_another(
    home: Home,
) -> None:
    home.prepare()
    home.socket.touch()
    with launch(home) as process:
        until(lambda: find_holder(home.lock), "it has its home")

        assert stop(home) == (f"Process {process.pid} has stopped.", 0)

        status_of(process)
    assert not home.socket.exists()

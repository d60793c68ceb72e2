"""Homes and daemons for one test each."""

from __future__ import annotations

import pytest

from tests.support.daemons import Daemon, short_home
from tests.support.databases import DIALECTS, InHome, OnServer
from tests.support.openclaws import FakeOpenClaw
from tests.support.stage import Stage


@pytest.fixture
def own_process(monkeypatch):
    """Start each daemon as a user's is, and fork none: for tests of a process's life."""
    monkeypatch.setattr(Daemon, "own_process", True)


@pytest.fixture
def home():
    """A home of its own, with a path that a socket takes."""
    with short_home() as found:
        yield found


@pytest.fixture
def start(home):
    """Starts daemons of that home, one after the other; all are ended."""
    started = []

    def go(**settings):
        started.append(Daemon(home, **settings))
        started[-1].wait_until_it_serves()
        return started[-1]

    yield go
    for daemon in started:
        daemon.close()


@pytest.fixture
def daemon(start):
    """A daemon that does nothing by itself."""
    return start()


@pytest.fixture
def openclaw(home):
    """The stand-in for OpenClaw's command; not installed yet."""
    return FakeOpenClaw(home.folder.parent / "bin")


@pytest.fixture(params=DIALECTS)
def task_database(request, home, tmp_path):
    """Where a daemon of that home keeps its tasks."""
    if request.param == "sqlite":
        return InHome(home, tmp_path / "copy")
    return OnServer(request.getfixturevalue("postgres").new_database())


@pytest.fixture
def stage() -> Stage:
    """A stage with one scene, pty:build."""
    made = Stage()
    made.scene("build")
    return made

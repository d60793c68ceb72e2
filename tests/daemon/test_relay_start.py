"""A session that begins before its daemon is told what the daemon tells."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from openclaw_taskmem.daemon.lock import Lock
from openclaw_taskmem.daemon.mcp import TASKS
from openclaw_taskmem.home import Home
from tests.support.agents import PROTOCOLS, Lines, RelayedLines
from tests.support.daemons import command, holder
from tests.support.waiting import until

OFFERS = [(PROTOCOLS[0], None), (PROTOCOLS[1], None), (PROTOCOLS[1], TASKS)]
"""Protocols, each with an extension that its client offers."""
both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)
TASK = {"name": "Deploy", "plan": ["Build"]}


@pytest.fixture
def halt(home: Home) -> Iterator[Callable[[], ExitStack]]:
    """Takes the home's lock, without which no daemon serves; closing it gives that back."""

    def take() -> ExitStack:
        home.prepare()
        stack.callback(Lock(home.lock).release)
        return stack

    with ExitStack() as stack:
        yield take


def ask_daemon(home: Home, protocol: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the daemon itself tells of the server and its tools."""
    with Lines(home, protocol=protocol) as lines:
        return lines.look_around(), lines.ask("tools/list")["result"]


def begin_and_stop(home: Home, protocol: str, **settings: str) -> dict[str, Any]:
    """Have a relay start a daemon, and stop it; return what it listed."""
    with RelayedLines(home, protocol=protocol, **settings) as lines:
        lines.look_around()
        listed = lines.ask("tools/list")["result"]
    assert command(home, "daemon", "stop")[0] == 0
    return dict(listed)


@pytest.mark.parametrize(("protocol", "offers"), OFFERS)
def test_a_home_says_what_its_daemon_says(home, halt, protocol, offers):
    """A new one once its daemon is there, a known one before."""
    for is_known in (False, True):
        halted = halt() if is_known else ExitStack()
        with RelayedLines(home, protocol=protocol, offers=offers) as lines:
            told = lines.look_around(), lines.ask("tools/list")["result"]
            halted.close()
            assert not lines.call("task_register", TASK)[0]
            assert ask_daemon(home, protocol) == told
        assert command(home, "daemon", "stop")[0] == 0


PLUGIN = """\
from taskmem_hookspecs import hookimpl

@hookimpl
def wait_target_forms():
    return ["job:NAME - a job"]
"""


def change_variable(home: Home) -> dict[str, str]:
    return {"TASKMEM_TOOLS": "runs"}


def install_plugin(home: Home) -> dict[str, str]:
    """Install one whose targets the tools name."""
    site = home.folder.parent / "site"
    facts = site / "jobs-1.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Name: jobs\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[openclaw_taskmem]\njobs = jobs\n")
    (site / "jobs.py").write_text(PLUGIN)
    return {"PYTHONPATH": str(site)}


def forge_file(home: Home) -> dict[str, str]:
    """Put in what another version has listed."""
    for file in home.folder.glob("tools-*.json"):
        forged = {"circumstances": "0.0.1", "result": {"tools": [{"name": "forged"}]}}
        file.write_text(json.dumps(forged))
    return {}


@pytest.mark.parametrize(
    ("change", "protocol"),
    [(change_variable, PROTOCOLS[0]), (install_plugin, PROTOCOLS[1]), (forge_file, PROTOCOLS[0])],
)
def test_after_a_change_the_tools_are_those_of_the_daemon(home, protocol, change):
    before = begin_and_stop(home, protocol)
    settings = change(home)
    after = begin_and_stop(home, protocol, **settings)

    assert (after == before) is (change is forge_file)
    assert begin_and_stop(home, protocol, **settings) == after


@both_protocols
def test_a_daemon_that_is_killed_while_the_host_rests_comes_back(home, protocol):
    with RelayedLines(home, protocol=protocol) as lines:
        lines.look_around()
        first = until(lambda: home.socket.exists() and holder(home), "a daemon serves")
        until(lambda: command(home, "status")[0] == 0, "it answers")
        os.kill(first, signal.SIGKILL)

        until(lambda: holder(home) not in (None, first), "another serves")
        assert not lines.call("task_register", TASK)[0]

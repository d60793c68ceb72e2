"""What a relay answers while its daemon starts."""

import json
import threading
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from openclaw_taskmem.cli import daemon_process as start_module
from openclaw_taskmem.cli import relay as relay_module
from openclaw_taskmem.cli.client import LinkError
from openclaw_taskmem.mcp_answers import INSTRUCTIONS, ListedTools
from tests.cli.fake_daemon import PATIENCE, answer
from tests.cli.host import Host
from tests.support.agents import PROTOCOLS

both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)
TOOLS = {"tools": [{"name": "task_register"}]}
KNOWN_TOOLS = {"tools": [{"name": "task_update"}]}
"""The tools that a relay has heard of before."""


@pytest.fixture
def start(monkeypatch):
    """Holds every start of a daemon until `go_on` is set.

    `begun`: set at the first. `fault`: what a start ends with instead. `is_own`: whether it is this
    relay's own daemon.
    """
    monkeypatch.setattr(start_module, "_RACE_SECONDS", 0.0)
    real = relay_module.connect_or_start
    this = SimpleNamespace(
        begun=threading.Event(), go_on=threading.Event(), fault=None, is_own=True
    )

    def reach(*args):
        this.begun.set()
        assert this.go_on.wait(PATIENCE)
        if this.fault:
            raise this.fault
        link = real(*args)
        link.is_own_daemon = this.is_own
        return link

    monkeypatch.setattr(relay_module, "connect_or_start", reach)
    yield this
    this.fault = LinkError("daemon_unavailable", "The test is over.")
    this.go_on.set()


@pytest.fixture
def host(home, start):
    """A host in a home whose tools are known, and whose daemon does not start yet."""
    home.prepare()
    listing = json.dumps({"jsonrpc": "2.0", "id": 1, "result": KNOWN_TOOLS}).encode()
    for protocol in PROTOCOLS:
        ListedTools(home, {}).keep_answer(protocol, listing)
    started = Host(home, {}, ["/nowhere"])
    yield started
    started.close()
    assert started.failure is None


def list_tools(connection, document, tools=TOOLS):
    """Answer which tools there are, and else as any daemon."""
    if document.get("method") == "tools/list":
        connection.say({"jsonrpc": "2.0", "id": document["id"], "result": tools})
    else:
        answer(connection, document)


HELLO = {PROTOCOLS[0]: ["initialize", "notifications/initialized"], PROTOCOLS[1]: []}
"""What a daemon hears of a hello that its relay has answered."""


@both_protocols
def test_a_hello_is_answered_before_a_daemon_is_there(host, daemon, start, protocol):
    greeting = host.begin(protocol)
    assert (greeting["id"], greeting["result"]["instructions"]) == (0, INSTRUCTIONS)
    host.ask(1)
    fake = daemon()
    start.go_on.set()
    assert host.hear()["id"] == 1
    wanted = [*HELLO[protocol], "tools/call"]
    assert [fake.next_heard()["method"] for _ in wanted] == wanted


@both_protocols
def test_the_daemon_is_started_though_nothing_else_is_asked(host, daemon, start, protocol):
    host.begin(protocol)
    fake = daemon()
    start.go_on.set()
    assert fake.next_connection()


@both_protocols
def test_where_no_tools_are_known_the_daemon_is_waited_for(home, host, daemon, start, protocol):
    for file in home.folder.glob("tools-*"):
        file.unlink()
    host.say_hello(protocol)
    assert start.begun.wait(PATIENCE)
    daemon(list_tools)
    start.go_on.set()
    assert host.hear()["result"]["method"] in ("initialize", "server/discover")
    host.ask(1, "tools/list")
    assert host.hear()["result"] == TOOLS
    assert ListedTools(home, {}).read_result(protocol) == TOOLS


@both_protocols
def test_a_running_daemon_answers_the_hello_itself(host, daemon, protocol):
    daemon()
    assert host.begin(protocol)["result"]["method"] in ("initialize", "server/discover")


@both_protocols
def test_what_comes_at_once_with_the_hello_is_answered_once(host, daemon, start, protocol):
    lines = []
    with patch.object(host, "say_raw", lines.append):
        host.say_hello(protocol)
        host.ask(1, "tools/list")
        host.ask(2)
    host.say_raw(b"".join(lines))
    assert [host.hear()["id"] for _ in range(2)] == [0, 1]
    fake = daemon(list_tools)
    start.go_on.set()
    assert host.hear()["id"] == 2
    host.end_stdin()
    assert host.hear_raw() == b""
    heard = [fake.next_heard()["method"] for _ in range(fake.heard.qsize())]
    assert heard == [*HELLO[protocol], "tools/list", "tools/call"]


@both_protocols
def test_tools_that_are_known_are_listed_and_looked_up_anew(home, host, daemon, start, protocol):
    host.begin(protocol)
    host.ask("a", "tools/list")
    assert host.hear() == {"jsonrpc": "2.0", "id": "a", "result": KNOWN_TOOLS}

    changed = {"tools": [{"name": "task_list"}]}
    fake = daemon(partial(list_tools, tools=changed))
    start.go_on.set()
    host.ask("b")
    assert host.hear()["id"] == "b"
    host.end_stdin()
    host.join()
    fake.die()
    start.go_on.clear()

    later = Host(home, {}, ["/nowhere"])
    later.begin(protocol)
    later.ask(1, "tools/list")
    assert later.hear()["result"] == changed
    later.close()


@both_protocols
def test_a_daemon_that_another_started_teaches_nothing(home, host, daemon, start, protocol):
    start.is_own = False
    host.begin(protocol)
    host.ask(1, "tools/list")
    assert host.hear()["result"] == KNOWN_TOOLS
    fake = daemon(list_tools)
    start.go_on.set()
    host.ask(2)
    assert host.hear()["id"] == 2
    assert "tools/list" in [fake.next_heard()["method"] for _ in range(fake.heard.qsize())]
    assert ListedTools(home, {}).read_result(protocol) == KNOWN_TOOLS


@both_protocols
def test_a_start_that_fails_is_told_to_the_next_call(host, start, protocol):
    host.begin(protocol)
    start.fault = LinkError("daemon_unavailable", "The settings are bad.")
    host.ask(1, "tools/list")
    assert host.hear()["result"] == KNOWN_TOOLS
    host.ask(2)
    start.go_on.set()
    assert "The settings are bad." in host.hear()["error"]["message"]


@both_protocols
@patch.object(relay_module, "_RETRY_SECONDS", 0.0)
def test_after_a_failed_start_no_tools_are_kept(home, host, daemon, start, protocol):
    host.begin(protocol)
    start.fault = LinkError("settings_invalid", "The settings are bad.")
    start.go_on.set()
    host.ask(1)
    assert "The settings are bad." in host.hear()["error"]["message"]
    start.fault = None
    daemon(list_tools)
    host.ask(2, "tools/list")
    assert host.hear()["result"] == TOOLS
    assert ListedTools(home, {}).read_result(protocol) == KNOWN_TOOLS


@both_protocols
def test_a_host_that_leaves_at_once_is_not_kept(host, protocol):
    host.begin(protocol)
    host.ask(1, "tools/list")
    assert host.hear()["result"] == KNOWN_TOOLS
    host.end_stdin()
    host.join()


@both_protocols
def test_a_daemon_that_is_killed_at_once_is_found_again(host, daemon, start, protocol, monkeypatch):
    monkeypatch.setattr(relay_module, "_SPREAD_SECONDS", 0.0)
    monkeypatch.setattr(relay_module, "_RETRY_SECONDS", 0.0)
    host.begin(protocol)
    old = daemon(lambda *_: None)
    start.go_on.set()
    old.next_connection()
    new = daemon()
    old.die(leave_socket=True)
    assert new.next_connection()
    host.ask(1)
    assert host.hear()["id"] == 1


@both_protocols
def test_the_relays_own_question_is_not_refused_aloud(host, daemon, start, protocol):
    host.begin(protocol)
    host.ask(1, "tools/list")
    assert host.hear()["result"] == KNOWN_TOOLS

    def drop(connection, document):
        if document.get("id") == relay_module._OWN_ID:
            connection.drop()
        else:
            answer(connection, document)

    fake = daemon(drop)
    start.go_on.set()
    while fake.next_heard().get("id") != relay_module._OWN_ID:
        pass
    host.ask(2)
    assert host.hear()["id"] == 2


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": "2025-06-18"},
        {"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
        {"protocolVersion": "x", "capabilities": [], "clientInfo": {"name": "a", "version": "1"}},
        {"protocolVersion": "x", "capabilities": {}, "clientInfo": {"name": "a"}},
    ],
)
def test_a_hello_that_a_daemon_would_refuse_is_left_to_it(host, daemon, start, params):
    host.ask(0, "initialize", **params)
    daemon()
    start.go_on.set()
    assert host.hear()["result"]["params"] == params


@pytest.mark.parametrize("line", [b'{"id":7,"method":"initialize', b'{"id":7,"method":"a'])
def test_half_a_hello_is_refused(host, start, line):
    start.go_on.set()
    host.say_raw(line + b"\n")
    assert host.hear()["id"] == 7


def test_a_relay_of_a_refused_home_answers_no_hello(host, home):
    home.folder.chmod(0o1777)
    greeting = host.begin(PROTOCOLS[0])
    assert greeting["error"]["data"]["error"] == "settings_invalid"

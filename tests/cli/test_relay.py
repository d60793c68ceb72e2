import json
import os
import re
import select
import socket
import threading
import time
from contextlib import suppress
from types import SimpleNamespace
from unittest.mock import create_autospec

import pytest

from openclaw_taskmem.cli import daemon_process as start_module
from openclaw_taskmem.cli import relay as relay_module
from openclaw_taskmem.cli.client import MAX_LINE, Attempt, Link, LinkError
from openclaw_taskmem.cli.relay import Relay
from openclaw_taskmem.mcp_lines import POST, McpMessage
from tests.cli.fake_daemon import PATIENCE, answer
from tests.cli.host import Host
from tests.support.agents import PROTOCOLS


@pytest.fixture
def host(home, monkeypatch):
    """A host whose relay cannot start a daemon of its own."""
    monkeypatch.setattr(start_module, "_RACE_SECONDS", 0.0)
    started = Host(home, {}, ["/nowhere"])
    yield started
    started.close()
    assert isinstance(started.failure, (BrokenPipeError, type(None)))


@pytest.fixture
def daemon_lost(monkeypatch):
    """Set when the relay knows that its daemon has ended."""
    seen = threading.Event()
    real = Relay._drop_daemon

    def note(self):
        had_one = self._daemon is not None
        real(self)
        if had_one:
            seen.set()

    monkeypatch.setattr(Relay, "_drop_daemon", note)
    return seen


@pytest.fixture
def stdin_ended(monkeypatch):
    """Set when the relay knows that its stdin has ended."""
    seen = threading.Event()
    real = Relay._is_done

    def note(self):
        seen.set()
        return real(self)

    monkeypatch.setattr(Relay, "_is_done", note)
    return seen


def silent(_connection, _document):
    """Hear everything and say nothing."""


def silent_but_for(*methods):
    def behave(connection, document):
        if document.get("method") in methods:
            answer(connection, document)

    return behave


HELLOS = ("initialize", "server/discover")
"""What a host asks first, by its protocol."""
both_protocols = pytest.mark.parametrize("protocol", PROTOCOLS)


def until_heard(fake, method):
    """Wait until a daemon has heard a method."""
    while fake.next_heard()["method"] != method:
        pass


def wait_until_stuck(connection):
    """Wait until something that nobody takes has arrived at a connection."""
    assert select.select([connection._sock], [], [], PATIENCE)[0]


# What passes.


def test_a_line_passes_as_it_is(host, daemon):
    line = b'{ "id":"\xc3\xa4 1", "params": {"b":1,"a":[ ]},"method":"x/y" }\r\n'
    back = b'{"result": {"z": 1, "a": "\xe2\x82\xac"},  "id":"\xc3\xa4 1"}\r\n'
    lines = []
    fake = daemon(silent)
    fake.hear = lambda connection, heard: (lines.append(heard), connection.say_raw(back))
    host.say_raw(line)
    assert host.hear_raw() == back
    assert lines == [line]


def test_a_line_that_is_not_json_passes_too(host, daemon):
    fake = daemon(silent)
    host.say_raw(b"hello\n")
    assert fake.next_heard() == b"hello\n"


@pytest.mark.parametrize("odd", [b"[]\n", b'{"id":[1],"method":"x"}\n', b"\n"])
def test_an_odd_line_stops_nothing(host, daemon, odd):
    daemon(lambda c, d: answer(c, d) if isinstance(d, dict) and d["id"] == 2 else None)
    host.say_raw(odd)
    host.ask(2)
    assert host.hear()["id"] == 2


@both_protocols
def test_requests_that_come_at_once_are_all_answered(host, daemon, protocol):
    daemon()
    host.greet(protocol)
    asks = [{"id": n, "method": "tools/call"} for n in range(1, 501)]
    host.say_raw(b"".join(json.dumps(ask).encode() + b"\n" for ask in asks))
    assert {host.hear()["id"] for _ in asks} == set(range(1, 501))


def test_what_the_daemon_asks_and_tells_passes_both_ways(host, daemon):
    fake = daemon(silent_but_for("initialize"))
    host.greet()
    connection = fake.next_connection()
    for said in ({"method": "notifications/x"}, {"id": 0, "method": "roots/list"}):
        connection.say(said)
        assert host.hear() == said
    host.say({"id": 0, "result": {"roots": []}})
    heard = [fake.next_heard() for _ in range(3)]
    assert heard[2] == {"id": 0, "result": {"roots": []}}


def test_a_host_that_writes_before_it_reads_is_not_stopped(host, daemon):
    daemon()
    writer = threading.Thread(
        target=lambda: [host.ask(n, text="x" * 5000) for n in range(100)], daemon=True
    )
    writer.start()
    writer.join(PATIENCE)
    assert not writer.is_alive()
    assert [host.hear()["id"] for _ in range(100)] == list(range(100))


def test_a_long_answer_passes_whole(host, daemon):
    daemon()
    host.ask(1, text="x" * 900_000)
    assert host.hear()["result"]["params"]["text"] == "x" * 900_000


def test_a_daemon_that_does_not_read_can_still_be_heard(host, daemon):
    blocked = threading.Event()
    fake = daemon(lambda *_: blocked.wait(20 * PATIENCE))
    host.ask(1)
    fake.next_heard()
    host.ask(2, text="x" * 900_000)
    connection = fake.next_connection()
    wait_until_stuck(connection)
    connection.say({"method": "notifications/x"})
    assert host.hear() == {"method": "notifications/x"}
    blocked.set()


def test_what_the_daemon_says_with_its_opening_is_passed_on(host, daemon):
    opening = b'{"taskmem":1,"pid":1,"version":"0"}\n{"method":"notifications/x"}\n'
    daemon(opening=opening)
    host.ask(1)
    assert host.hear() == {"method": "notifications/x"}


@pytest.fixture
def blocked_relay(home):
    """A relay whose host and daemon both wait to be read, and its stdin."""
    relay = Relay(home, {})
    ours, theirs = socket.socketpair()
    relay._daemon = ours
    theirs.send(b"{}\n")
    stdin, end = os.pipe()
    os.write(end, b"{}\n")
    yield relay, stdin
    for one in (stdin, end):
        os.close(one)
    ours.close()
    theirs.close()


def test_what_cannot_be_handed_on_is_not_read(blocked_relay):
    relay, stdin = blocked_relay
    full = McpMessage(b"x" * relay_module._QUEUE_BYTES)
    readable = relay._select(stdin, stdin, None)[0]
    assert readable == [stdin, relay._daemon]
    relay._queue.append(full)
    assert stdin not in relay._select(stdin, stdin, None)[0]
    relay._to_host += b"x"
    assert relay._daemon in relay._select(stdin, stdin, None)[0]
    relay._to_host += full.line
    assert relay._select(stdin, stdin, None)[0] == []


# What is too long.


def line_of(size):
    frame = len(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "m", "params": ""}))
    params = "x" * (size - frame - 1)
    document = {"jsonrpc": "2.0", "id": 7, "method": "m", "params": params}
    return json.dumps(document).encode() + b"\n"


def test_the_longest_line_that_is_allowed_passes(host, daemon):
    daemon(lambda c, d: c.say({"id": d["id"], "result": len(d["params"])}))
    line = line_of(MAX_LINE)
    assert len(line) == MAX_LINE
    host.say_raw(line)
    assert host.hear()["result"] > MAX_LINE - 100


def test_overlong_line_is_refused_by_id_and_reading_continues(host, daemon):
    fake = daemon()
    host.say_raw(line_of(MAX_LINE + 1))
    refusal = host.hear()
    assert (refusal["id"], refusal["error"]["code"]) == (7, -32600)
    assert "more than 1 MiB" in refusal["error"]["message"]
    host.ask(8)
    assert host.hear()["id"] == 8
    assert fake.next_heard()["id"] == 8


def test_overlong_line_without_an_id_is_refused_with_a_null_id(host):
    host.say_raw(b"x" * MAX_LINE + b"\n")
    assert host.hear()["id"] is None


# How it ends.


def test_it_ends_when_stdin_does(host, daemon):
    daemon()
    host.ask(1)
    host.hear()
    host.end_stdin()
    host.join()


def test_a_call_in_flight_at_stdins_end_is_answered(host, daemon, stdin_ended):
    fake = daemon(silent)
    host.ask(1)
    fake.next_heard()
    host.end_stdin()
    assert stdin_ended.wait(PATIENCE)
    fake.next_connection().say({"id": 1, "result": {}})
    assert host.hear() == {"id": 1, "result": {}}
    host.join()


def test_a_call_that_is_never_answered_holds_it_only_for_a_while(host, daemon, monkeypatch):
    monkeypatch.setattr(relay_module, "_DRAIN_SECONDS", 0.01)
    fake = daemon(silent)
    host.ask(1)
    fake.next_heard()
    host.end_stdin()
    host.join()


@both_protocols
def test_a_call_that_the_host_cancelled_is_not_waited_for(host, daemon, monkeypatch, protocol):
    monkeypatch.setattr(relay_module, "_DRAIN_SECONDS", 10 * PATIENCE)
    fake = daemon(silent_but_for(*HELLOS))
    host.greet(protocol)
    host.ask(1)
    host.tell("notifications/cancelled", requestId=1)
    until_heard(fake, "notifications/cancelled")
    host.end_stdin()
    host.join()


def test_the_last_line_needs_no_end(host, daemon):
    daemon()
    host.say_raw(b'{"id":1,"method":"ping"}')
    host.end_stdin()
    assert host.hear()["id"] == 1


def test_it_ends_when_nobody_reads_its_stdout(host, daemon):
    daemon()
    host.stop_reading()
    host.ask(1)
    host.join()
    assert isinstance(host.failure, BrokenPipeError)


def test_it_ends_with_a_host_that_left_without_reading(home, daemon):
    """Over a socket, as Node's pipes are, that is an error and no end."""
    daemon()
    ours, theirs = socket.socketpair()
    relay = threading.Thread(
        target=Relay(home, {}).serve, args=(ours.fileno(), ours.fileno()), daemon=True
    )
    relay.start()
    theirs.send(b'{"id":1,"method":"ping"}\n')
    assert select.select([theirs], [], [], PATIENCE)[0]
    theirs.close()
    relay.join(PATIENCE)
    assert not relay.is_alive()
    ours.close()


def test_a_host_that_says_nothing_starts_no_daemon(host, home):
    host.end_stdin()
    host.join()
    assert not home.folder.exists()


# When the daemon ends.


def test_a_new_daemon_hears_the_hosts_hello_before_all_else(host, daemon):
    old = daemon()
    host.greet()
    old.die()
    new = daemon(silent)
    host.ask(1)
    hello = new.next_heard()
    assert hello["method"] == "initialize"
    assert hello["params"] == {"protocolVersion": "2025-06-18"}
    new.next_connection().say({"id": hello["id"], "result": {}})
    assert new.next_heard()["method"] == "notifications/initialized"
    assert new.next_heard()["id"] == 1


@both_protocols
def test_host_does_not_hear_the_answer_to_the_relays_own_hello(host, daemon, protocol):
    old = daemon()
    host.greet(protocol)
    for number in (1, 2):
        old.die()
        old = daemon()
        host.ask(number)
        assert host.hear()["id"] == number


def test_a_host_that_never_said_hello_is_not_made_to(host, daemon):
    old = daemon()
    host.ask(1)
    host.hear()
    old.die()
    new = daemon()
    host.ask(2)
    assert new.next_heard()["id"] == 2


@both_protocols
def test_call_in_flight_when_the_daemon_ends_has_an_open_outcome(host, daemon, protocol):
    fake = daemon(silent_but_for(*HELLOS))
    host.greet(protocol)
    host.ask("a", name="task_register")
    until_heard(fake, "tools/call")
    fake.die()
    said = host.hear()
    assert said["id"] == "a"
    assert said["error"]["message"] == (
        "The daemon ended while this call was running; it may or may not have been "
        "done. Look with task_list or task_update(query) before repeating it."
    )
    assert said["error"]["data"]["error"] == "daemon_unavailable"


def test_a_long_call_in_flight_is_told_too(host, daemon):
    """As TypeScript's SDK writes it: what names it comes at the end."""
    fake = daemon(silent)
    params = {"id": 9, "text": "x" * 20_000}
    host.say({"method": "tools/call", "params": params, "jsonrpc": "2.0", "id": 5})
    fake.next_heard()
    fake.die()
    assert host.hear()["id"] == 5


def test_an_answer_that_came_is_not_followed_by_an_error(host, daemon):
    fake = daemon(silent_but_for("initialize", "tools/call"))
    host.ask(1)
    assert host.hear()["id"] == 1
    host.ask(2, "ping")
    fake.next_heard()
    assert fake.next_heard()["id"] == 2
    fake.die()
    daemon()
    assert host.hear()["id"] == 2


def test_a_request_that_changes_nothing_is_sent_again(host, daemon):
    old = daemon(silent)
    host.ask(1, "initialize")
    host.ask(2, "tools/list")
    assert [old.next_heard()["id"] for _ in range(2)] == [1, 2]
    new = daemon()
    old.die(leave_socket=True)
    assert [host.hear()["id"] for _ in range(2)] == [1, 2]
    assert [new.next_heard()["id"] for _ in range(2)] == [1, 2]


def test_a_call_that_was_not_handed_over_whole_is_sent_again(host, daemon):
    blocked = threading.Event()
    old = daemon(lambda *_: blocked.wait(20 * PATIENCE))
    host.ask(1)
    old.next_heard()
    host.ask(2, text="x" * 900_000)
    wait_until_stuck(old.next_connection())
    new = daemon()
    old.die(leave_socket=True)
    blocked.set()
    said = {one["id"]: one for one in (host.hear(), host.hear())}
    assert "may or may not" in said[1]["error"]["message"]
    assert len(said[2]["result"]["params"]["text"]) == 900_000
    assert new.next_heard()["id"] == 2


def test_an_answer_that_the_daemon_left_behind_is_not_lost(host, daemon):
    old = daemon(silent)
    host.ask(1)
    old.next_heard()
    connection = old.next_connection()
    connection.say({"method": "notifications/x", "params": "x" * 2_000_000})
    # Small enough for the socket alone: the relay reads on when the host does.
    connection.say({"id": 1, "result": "x" * 20_000})
    old.die()
    daemon()
    host.ask(2, "tools/list")
    assert host.hear()["method"] == "notifications/x"
    assert host.hear() == {"id": 1, "result": "x" * 20_000}
    assert host.hear()["id"] == 2


def test_half_an_answer_is_not_given_to_the_host(host, daemon):
    old = daemon(silent)
    host.ask(1)
    old.next_heard()
    old.next_connection().say_raw(b'{"id":1,"resu')
    old.die()
    assert "may or may not" in host.hear()["error"]["message"]
    daemon()
    host.ask(2)
    assert host.hear()["result"]["method"] == "tools/call"


def test_a_request_that_ends_every_daemon_is_given_up(host, daemon):
    fake = daemon(lambda connection, _: connection.drop())
    host.ask(1, "tools/list")
    assert "ended 3 times" in host.hear()["error"]["message"]
    assert fake.heard.qsize() == 3


def test_a_daemon_that_ends_in_every_hello_is_given_up(daemon_lost, host, daemon):
    old = daemon()
    host.greet()
    old.die()
    assert daemon_lost.wait(10)
    fake = daemon(lambda connection, _: connection.drop())
    host.ask(1)
    said = host.hear()
    assert said["id"] == 1
    assert "was not done" in said["error"]["message"]
    fake.behaviour = answer
    host.ask(2)
    assert host.hear()["id"] == 2


@both_protocols
def test_a_notification_alone_starts_no_daemon(host, daemon, protocol):
    old = daemon()
    host.greet(protocol)
    old.die()
    host.tell("notifications/roots/list_changed")
    host.say({"id": 4, "result": {}})
    new = daemon()
    host.ask(1)
    assert host.hear()["id"] == 1
    hello = ["initialize", "notifications/initialized"] if protocol == PROTOCOLS[0] else []
    heard = [new.next_heard()["method"] for _ in (*hello, "tools/call")]
    assert heard == [*hello, "tools/call"]


def test_a_notification_that_a_daemon_left_untaken_starts_none(daemon_lost, host, daemon):
    blocked = threading.Event()
    old = daemon(lambda *_: blocked.wait(PATIENCE))
    host.ask(1)
    host.tell("notifications/x", text="x" * 900_000)
    wait_until_stuck(old.next_connection())
    old.die()
    blocked.set()
    assert daemon_lost.wait(PATIENCE)
    new = daemon()
    host.ask(2)
    assert "may or may not" in host.hear()["error"]["message"]
    assert "result" in host.hear()
    assert new.next_heard()["id"] == 2


# When the daemon was killed.


@pytest.fixture
def at_once(monkeypatch):
    """Let no relay rest before it starts a daemon again."""
    monkeypatch.setattr(relay_module, "_SPREAD_SECONDS", 0.0)
    monkeypatch.setattr(relay_module, "_RETRY_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
@both_protocols
def test_a_daemon_that_was_killed_is_found_again_without_a_call(host, daemon, protocol):
    old = daemon()
    host.greet(protocol)
    new = daemon()
    old.die(leave_socket=True)
    assert new.next_connection()
    if protocol == PROTOCOLS[0]:
        heard = [new.next_heard()["method"] for _ in range(2)]
        assert heard == ["initialize", "notifications/initialized"]
    host.ask(1)
    assert host.hear()["id"] == 1


@pytest.mark.usefixtures("at_once")
@both_protocols
def test_a_daemon_that_cannot_be_started_is_tried_again(host, daemon, tries, protocol):
    old = daemon()
    host.greet(protocol)
    tries += [LinkError("daemon_unavailable", "Not yet.")] * 3
    new = daemon()
    old.die(leave_socket=True)
    assert new.next_connection()
    assert tries == []


@pytest.fixture
def slow(monkeypatch):
    """Holds every try to reach a daemon after the first until it is let go on."""
    real, begun, go_on = (relay_module.connect_or_start, threading.Event(), threading.Event())
    made, over = [], threading.Event()

    def reach(*args):
        made.append(args)
        if len(made) > 1:
            begun.set()
            assert go_on.wait(PATIENCE)
        if over.is_set():
            raise LinkError("daemon_unavailable", "The test is over.")
        return real(*args)

    monkeypatch.setattr(relay_module, "connect_or_start", reach)
    yield SimpleNamespace(begun=begun, go_on=go_on, made=made)
    over.set()
    go_on.set()


@pytest.mark.usefixtures("at_once")
@both_protocols
def test_slow_daemon_restart_does_not_block_the_host(host, daemon, slow, protocol):
    old = daemon()
    host.greet(protocol)
    old.die(leave_socket=True)
    assert slow.begun.wait(PATIENCE)
    host.say_raw(line_of(MAX_LINE + 1))
    assert "more than 1 MiB" in host.hear()["error"]["message"]
    host.ask(8)
    daemon()
    slow.go_on.set()
    assert "result" in host.hear()
    assert len(slow.made) == 2


@pytest.mark.usefixtures("at_once")
@both_protocols
def test_a_host_that_leaves_while_a_daemon_starts_is_not_kept(host, daemon, slow, protocol):
    old = daemon()
    host.greet(protocol)
    old.die(leave_socket=True)
    assert slow.begun.wait(PATIENCE)
    host.end_stdin()
    host.join()


@pytest.mark.usefixtures("at_once")
@both_protocols
def test_what_waited_for_a_start_that_failed_is_told_why(host, daemon, slow, protocol):
    old = daemon()
    host.greet(protocol)
    old.die(leave_socket=True)
    assert slow.begun.wait(PATIENCE)
    host.ask(8)
    slow.go_on.set()
    assert "could not be started" in host.hear()["error"]["message"]


def test_a_link_that_comes_too_late_is_closed():
    go_on, closed = threading.Event(), threading.Event()
    link = create_autospec(Link, instance=True)
    link.close.side_effect = closed.set

    def reach():
        assert go_on.wait(PATIENCE)
        return link

    Attempt(reach).give_up()
    go_on.set()
    assert closed.wait(PATIENCE)


def test_each_try_rests_longer_than_the_one_before(home):
    relay = Relay(home, {})
    rests = [relay._next_retry_delay() for _ in range(9)]
    assert 0 <= rests[0] <= 1
    assert rests[1:] == [3, 6, 12, 24, 48, 60, 60, 60]


@pytest.mark.parametrize("stopped", [True, False])
@both_protocols
def test_none_is_started_that_was_stopped_or_never_answered(
    daemon_lost, host, daemon, stopped, protocol
):
    old = daemon() if stopped else daemon(silent)
    if stopped:
        host.greet(protocol)
    else:
        host.ask(1)
        old.next_heard()
    old.die(leave_socket=not stopped)
    assert daemon_lost.wait(PATIENCE)
    assert host.relay._revive_at is None


def test_none_is_started_that_ended_in_order_before_a_try(home, tries):
    tries.append(AssertionError("one was started"))
    relay = Relay(home, {})
    relay._revive()
    assert relay._revive_at is None


# When there is no daemon.


@pytest.fixture
def tries(monkeypatch):
    """What the relay's tries to reach a daemon bring; then the real ones."""
    real, planned = relay_module.connect_or_start, []

    def reach(*args):
        if planned:
            raise planned.pop(0)
        return real(*args)

    monkeypatch.setattr(relay_module, "connect_or_start", reach)
    return planned


def test_request_without_a_daemon_gets_the_reason_and_log_path(host, home):
    host.ask(1)
    error = host.hear()["error"]
    assert "could not be started (No such file or directory" in error["message"]
    assert "Nothing was done" in error["message"]
    assert "`taskmem status`" in error["message"]
    assert str(home.log) in error["message"]
    assert error["data"] == {"error": "daemon_unavailable", "message": error["message"]}


def test_the_refusal_keeps_the_name_that_the_daemon_gave(host, daemon):
    daemon(opening={"error": "store_too_new", "message": "Upgrade taskmem."})
    host.ask(1)
    assert host.hear()["error"]["data"]["error"] == "store_too_new"


def test_each_of_the_requests_that_wait_is_told(host, tries):
    tries.append(LinkError("daemon_unavailable", "No."))
    host.say_raw(b'{"id":1,"method":"a"}\n{"method":"n"}\n{"id":2,"method":"b"}\n')
    assert [host.hear()["id"] for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("line", [b"hello", b'{"id":NaN,"method":"a"}', b'{"id":[1],"method":"a"}'])
def test_what_has_no_id_is_told_without_one(host, line):
    host.say_raw(line + b"\n")
    assert host.hear()["id"] is None


@pytest.mark.parametrize("line", [b'{"id":7}', b'{"id":7,"method":5}', b'{"id":7,"method":"a'])
def test_what_asks_under_an_id_is_told_under_it(host, line):
    host.say_raw(line + b"\n")
    assert host.hear()["id"] == 7


def test_the_next_request_tries_again(host, daemon, tries, monkeypatch):
    monkeypatch.setattr(relay_module, "_RETRY_SECONDS", 0.0)
    tries.append(LinkError("daemon_unavailable", "Not yet."))
    daemon()
    host.ask(1)
    assert "Not yet." in host.hear()["error"]["message"]
    host.ask(2)
    assert "result" in host.hear()


@both_protocols
def test_a_host_whose_hello_was_refused_is_served_later(host, daemon, tries, protocol, monkeypatch):
    monkeypatch.setattr(relay_module, "_RETRY_SECONDS", 0.0)
    tries.append(LinkError("daemon_unavailable", "Not yet."))
    host.greet(protocol, ready=False)
    new = daemon()
    for number in (1, 2):
        host.ask(number)
        assert host.hear()["id"] == number

    heard = [new.next_heard()["method"] for _ in range(new.heard.qsize())]
    before = ["initialize", "notifications/initialized"] if protocol == PROTOCOLS[0] else []
    assert heard == [*before, "tools/call", "tools/call"]


def test_a_host_that_says_its_refused_hello_again_is_heard_once(host, daemon, tries, monkeypatch):
    monkeypatch.setattr(relay_module, "_RETRY_SECONDS", 0.0)
    tries.append(LinkError("daemon_unavailable", "Not yet."))
    host.greet(ready=False)
    new = daemon()
    host.greet()
    host.ask(1)
    assert host.hear()["id"] == 1
    heard = [new.next_heard()["method"] for _ in range(new.heard.qsize())]
    assert heard == ["initialize", "notifications/initialized", "tools/call"]


@pytest.fixture
def just_refused(tries, monkeypatch):
    """A try to reach a daemon has just failed, and another is far away."""
    monkeypatch.setattr(relay_module, "_RETRY_SECONDS", 10 * PATIENCE)
    tries.append(LinkError("daemon_unavailable", "Not yet."))


def test_a_start_that_failed_is_not_repeated_at_once(host, just_refused, monkeypatch):
    host.ask(1)
    assert host.hear()["error"]["message"].startswith("Not yet.")
    monkeypatch.setattr(relay_module, "connect_or_start", None)
    host.ask(2)
    assert re.match(r"\d+ s ago: Not yet\.", host.hear()["error"]["message"])


def test_a_daemon_that_came_meanwhile_is_used_at_once(host, just_refused, daemon):
    host.ask(1)
    assert "Not yet." in host.hear()["error"]["message"]
    daemon()
    host.ask(2)
    assert "result" in host.hear()


def test_a_daemon_is_started_for_the_first_request(home, tmp_path, monkeypatch):
    monkeypatch.setattr(start_module, "_RACE_SECONDS", 0.0)
    mark = tmp_path / "mark"
    host = Host(home, os.environ, ["/bin/sh", "-c", f"echo no > {mark}; exit 1"])
    host.ask(1)
    assert "could not be started" in host.hear()["error"]["message"]
    assert mark.read_text() == "no\n"
    host.close()


# --- what the daemon has it write ---------------------------------------------------


def ask_post(path, **other):
    until = time.monotonic() + PATIENCE
    params = {"path": str(path), "text": "hello\n", "seconds": PATIENCE, "until": until, **other}
    return {"jsonrpc": "2.0", "id": f"{POST}/1", "method": POST, "params": params}


@pytest.fixture
def inbox(tmp_path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "inbox"))
        listening.listen()
        listening.settimeout(PATIENCE)
        yield listening


@both_protocols
def test_what_the_daemon_asks_for_is_written_and_answered(host, daemon, inbox, protocol):
    fake = daemon(silent_but_for(*HELLOS, "tools/call"))
    host.greet(protocol)
    until_heard(fake, HELLOS[PROTOCOLS.index(protocol)])
    asking = fake.next_connection()
    asking.say(ask_post(inbox.getsockname()))
    connection, _ = inbox.accept()
    host.ask(1)
    assert host.hear()["id"] == 1, "nothing else waits for it"
    with connection, connection.makefile() as lines:
        assert [*lines] == ["hello\n"]
    assert until_answered(fake) == {"closed": True}


def test_an_end_that_never_stops_is_given_up(host, daemon, inbox):
    fake = daemon(silent_but_for(*HELLOS))
    host.greet()
    fake.next_connection().say(ask_post(inbox.getsockname(), seconds=0.1))
    connection, _ = inbox.accept()
    with connection, suppress(ConnectionError):
        while True:
            connection.sendall(b"more")
    assert until_answered(fake) == {"closed": False}


@pytest.mark.parametrize(
    ("name", "other", "why"),
    [
        ("gone", {}, "No such file or directory"),
        ("file", {}, "it is no socket of this user"),
        ("inbox", {"until": 0}, "its relay came too late"),
        ("inbox", {"newer": 1}, "unexpected keyword argument 'newer'"),
    ],
)
def test_why_nothing_was_written_is_told(host, daemon, inbox, tmp_path, *, name, other, why):
    (tmp_path / "file").touch()
    fake = daemon(silent_but_for(*HELLOS))
    host.greet()
    fake.next_connection().say(ask_post(tmp_path / name, **other))
    assert why in until_answered(fake)["message"]
    assert not select.select([inbox], [], [], 0)[0]


def until_answered(fake):
    """Wait until a daemon has heard what has become of its request."""
    while (heard := fake.next_heard()).get("id") != f"{POST}/1":
        pass
    return heard.get("result") or heard["error"]

"""Who may speak with a daemon, and in what language."""

from __future__ import annotations

import json

import pytest

from openclaw_taskmem.cli.client import LinkError
from tests.support.daemons import OPENING, contents, lock_database, read_next_line
from tests.support.waiting import until


@pytest.mark.parametrize(
    "opening",
    [
        {"taskmem": 2, "face": "client"},
        {"taskmem": 1, "face": "admin"},
        {"taskmem": 1},
        {"jsonrpc": "2.0", "id": 1, "method": "initialize"},
        ["taskmem", 1],
        "taskmem",
    ],
)
def test_client_of_another_protocol_is_refused_with_a_sentence(daemon, opening):
    with daemon.raw() as connection:
        connection.sendall(json.dumps(opening).encode() + b"\n")
        refusal = json.loads(read_next_line(connection))
        assert refusal["error"] == "protocol"
        assert "taskmem daemon restart" in refusal["message"]
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    "opening",
    [b"GET / HTTP/1.1\n", b"\xff\xfe\n", b"[" * 5000 + b"\n"],
    ids=["http", "bytes", "deep"],
)
def test_non_json_opening_is_refused_and_other_clients_go_on(daemon, opening):
    with daemon.link() as link:
        with daemon.raw() as connection:
            connection.sendall(opening)
            assert json.loads(read_next_line(connection))["error"] == "protocol"
            assert connection.recv(1) == b""
        assert link.call("status", {})["running"] is True
    assert "Traceback" not in daemon.log.text


MALFORMED = {
    "no json": b"what?",
    "bytes": b"\xff\xfe\xfd",
    "an array": b"[1, 2]",
    "a text": b'"status"',
    "no method": b'{"id": 7}',
    "no id": b'{"method": "status"}',
    "a method of another type": b'{"id": 7, "method": ["status"]}',
    "half a character": b'{"id": 7, "method": "a\\ud800"}',
    "params of another type": b'{"id": 7, "method": "wakes", "params": [1]}',
    "a long number": b'{"id": 7, "method": "wakes", "params": {"limit": %s}}' % (b"9" * 5000),
    "deep": b'{"id": 7, "method": "wakes", "params": ' + b"[" * 100_000,
    "deep and whole": b'{"id": 7, "method": "wakes", "params": {"a": %s%s}}'
    % (b"[" * 20_000, b"]" * 20_000),
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_line_is_refused_and_the_connection_goes_on(daemon, line):
    before = contents(daemon.home)
    with daemon.link() as other, daemon.raw() as connection, connection.makefile("rb") as answers:
        connection.sendall(OPENING)
        answers.readline()
        connection.sendall(line + b"\n")
        refusal = json.loads(answers.readline())["error"]
        assert refusal["error"] == "invalid_arguments"
        assert refusal["message"].endswith(".")
        connection.sendall(b'{"id": 8, "method": "status"}\n')
        assert json.loads(answers.readline())["result"]["running"] is True
        assert other.call("status", {})["running"] is True
    assert contents(daemon.home) == before
    assert "Traceback" not in daemon.log.text


def test_a_number_too_large_for_the_database_is_refused(daemon):
    for method in ("waits", "wakes", "events"):
        with pytest.raises(LinkError) as refused:
            daemon.ask(method, limit=10**30)
        assert refused.value.name == "invalid_arguments"


def test_a_line_that_never_ends_costs_only_its_own_connection(daemon):
    with daemon.link() as other, daemon.raw() as connection:
        connection.sendall(OPENING)
        read_next_line(connection)
        for _ in range(9):
            connection.sendall(b"x" * (1024 * 1024))
        assert other.call("status", {})["running"] is True
        connection.sendall(b"\n")
        refusal = json.loads(read_next_line(connection))
        assert refusal["error"]["error"] == "invalid_arguments"


def test_a_method_that_the_daemon_does_not_know_is_named(daemon):
    with pytest.raises(LinkError, match='does not know "dance"') as refused:
        daemon.ask("dance")
    assert refused.value.name == "unknown_tool"


def test_who_says_nothing_keeps_nobody_waiting(daemon):
    with daemon.raw(), daemon.raw() as half:
        half.sendall(b'{"taskmem": 1, ')
        assert daemon.ask("status")["running"] is True


def test_call_completes_although_its_client_hangs_up(daemon):
    task_id = daemon.register()
    update = {"task_id": task_id, "message": "Said in leaving."}
    call = {"id": 1, "method": "call", "params": {"tool": "task_update", "arguments": update}}
    with daemon.raw() as connection, lock_database(daemon.home):
        connection.sendall(OPENING)
        read_next_line(connection)
        connection.sendall(json.dumps(call).encode() + b"\n")
        connection.sendall(b'{"id": 2, "method": "status"}\n')
        read_next_line(connection)
    until(lambda: daemon.ask("show", id=task_id)["messages"], "the call is done")
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.log.text

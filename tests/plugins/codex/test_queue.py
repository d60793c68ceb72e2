"""Wakes by the queue of a thread of Codex."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

import pytest
from websockets.sync.server import ServerConnection, unix_serve

from openclaw_taskmem.plugin_host.connected_sessions import ConnectedSessions
from taskmem_codex import hooks, queue
from taskmem_codex.queue import QueueTransport
from taskmem_hookspecs import WakeUndelivered
from taskmem_hookspecs.testing import TransportSuite, a_wake, check_plugin

THREAD = "019b0000-2222-7333-8444-555555555555"

SERVER = f"""#!{sys.executable}
import json, os, sys
folder = os.path.dirname(__file__)
queued = []
for line in sys.stdin:
    call = json.loads(line)
    with open(folder + "/calls", "a") as calls:
        calls.write(json.dumps({{"argv": sys.argv[1:], **call}}) + "\\n")
    if "id" not in call:
        continue
    print(json.dumps({{"method": "thread/queue/changed", "params": {{}}}}), flush=True)
    answer = {{"id": call["id"], "result": ANSWERS.get(call["method"], {{}})}}
    if call["method"] == REFUSED:
        answer = {{"id": call["id"], "error": {{"code": -32603, "message": "no rollout found"}}}}
    print(json.dumps(answer), flush=True)
"""
"""Plays `codex app-server` as Codex 0.171.0 does, and notes what it is called with."""


def make_transport(
    folder: Path, program: str = "", seconds: float = 60, *, queued: str = "", refused: str = ""
) -> QueueTransport:
    """Return a transport by a command; empty: by one that has a message of the key `queued`."""
    binary = folder / "codex"
    users = {"id": "1", "input": []}
    answers = {"thread/queue/list": {"data": [users, {"clientUserMessageId": queued}]}}
    server = SERVER.replace("ANSWERS", repr(answers)).replace("REFUSED", repr(refused))
    binary.write_text(program or server)
    binary.chmod(0o700)
    variables = {"TASKMEM_CODEX_BIN": str(binary), "CODEX_HOME": str(folder)}
    return QueueTransport({**os.environ, **variables}, seconds)


@contextmanager
def serve_threads(folder: Path, handle: Callable[[ServerConnection], object]) -> Iterator[None]:
    """Play the app-server that serves the open threads: Codex leaves a link to its socket."""
    link = folder / "app-server-control" / "app-server-control.sock"
    link.parent.mkdir()
    link.symlink_to(folder / "socket")
    with unix_serve(handle, str(folder / "socket")) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


def read_calls(folder: Path, method: str) -> list[dict[str, Any]]:
    """What the command was called with, each time."""
    lines = (folder / "calls").read_text().splitlines()
    return [call for call in map(json.loads, lines) if call["method"] == method]


def refuse(transport: QueueTransport) -> str:
    """Return why a wake is not delivered."""
    with pytest.raises(WakeUndelivered) as raised:
        asyncio.run(transport.deliver(a_wake(session_key=THREAD)))
    return str(raised.value)


class TestQueueTransport(TransportSuite):
    def make_transport(self, tmp_path: Path) -> QueueTransport:
        return make_transport(tmp_path)

    def make_failing(self, tmp_path: Path) -> QueueTransport:
        return make_transport(tmp_path, refused="thread/queue/add")

    def list_received(self, tmp_path: Path) -> Sequence[str]:
        added = read_calls(tmp_path, "thread/queue/add")
        return [call["params"]["input"][0]["text"] for call in added]


def test_a_wake_goes_into_the_queue_of_its_thread(tmp_path: Path):
    wake = a_wake(session_key=THREAD, text="--wake up")
    asyncio.run(make_transport(tmp_path).deliver(wake))
    [call] = read_calls(tmp_path, "thread/queue/add")
    assert call["argv"] == ["app-server"], "a text in arguments can be read by other users"
    assert call["params"] == {
        "threadId": THREAD,
        "clientUserMessageId": wake.key,
        "input": [{"type": "text", "text": "--wake up"}],
    }


def test_a_wake_that_is_in_the_queue_is_not_added_again(tmp_path: Path):
    wake = a_wake(session_key=THREAD)
    asyncio.run(make_transport(tmp_path, queued=wake.key).deliver(wake))
    assert read_calls(tmp_path, "thread/queue/add") == []


def answer_calls(calls: list[Any], ends_at: str = "") -> Callable[[ServerConnection], None]:
    """Return what plays a server that answers each call, and notes it; it ends at one method."""

    def answer(connection: ServerConnection) -> None:
        for call in map(json.loads, connection):
            calls.append(call)
            if call["method"] == ends_at:
                return
            if "id" in call:
                connection.send(json.dumps({"id": call["id"], "result": {"data": []}}))

    return answer


def test_the_server_that_runs_is_asked_first(tmp_path: Path):
    calls: list[Any] = []
    wake = a_wake(session_key=THREAD)
    with serve_threads(tmp_path, answer_calls(calls)):
        asyncio.run(make_transport(tmp_path, "#!/bin/sh\nexit 1").deliver(wake))
    methods = ["initialize", "initialized", "thread/queue/list", "thread/queue/add"]
    assert [call["method"] for call in calls] == methods
    assert calls[-1]["params"]["clientUserMessageId"] == wake.key


def test_a_message_that_was_sent_is_not_sent_again(tmp_path: Path):
    with serve_threads(tmp_path, answer_calls([], "thread/queue/add")):
        receipt = asyncio.run(make_transport(tmp_path).deliver(a_wake(session_key=THREAD)))
    assert receipt.note == "Codex was sent it, and did not confirm it."


def test_a_running_server_that_ends_delivers_nothing(tmp_path: Path):
    with serve_threads(tmp_path, lambda _: None):
        assert "Codex ended before it had the message" in refuse(make_transport(tmp_path))


@contextmanager
def leave_file(path: Path) -> Iterator[None]:
    path.touch()
    yield


@contextmanager
def leave_dead_socket(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    yield


@contextmanager
def greet_nobody(path: Path) -> Iterator[None]:
    with (
        patch.object(queue, "_GREETING_SECONDS", 0.1),
        socket.create_server(str(path), family=socket.AF_UNIX),
    ):
        yield


@contextmanager
def send_elsewhere(path: Path) -> Iterator[None]:
    moved = b"HTTP/1.1 302 Found\r\nLocation: ws://elsewhere/\r\nContent-Length: 0\r\n\r\n"
    with socket.create_server(str(path), family=socket.AF_UNIX) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(moved)

        thread = Thread(target=answer)
        thread.start()
        yield
        thread.join()


@pytest.mark.parametrize(
    "play", [leave_file, leave_dead_socket, greet_nobody, send_elsewhere], ids=lambda x: x.__name__
)
def test_what_is_no_server_is_passed_over(
    tmp_path: Path, play: Callable[[Path], AbstractContextManager[None]]
):
    (tmp_path / "app-server-control").mkdir()
    with play(tmp_path / "app-server-control" / "app-server-control.sock"):
        asyncio.run(make_transport(tmp_path).deliver(a_wake(session_key=THREAD)))
    assert len(read_calls(tmp_path, "thread/queue/add")) == 1


def test_why_codex_refuses_is_told(tmp_path: Path):
    refused = make_transport(tmp_path, refused="thread/queue/list")
    told, home = refuse(refused).split(" Its home was ")
    assert told == "Codex refused thread/queue/list: no rollout found."
    assert home.startswith(f"{tmp_path}; if the thread has another CODEX_HOME, run there: ")


@pytest.mark.parametrize("answer", ["nonsense", "7", "[" * 100_000, '{"id": 1, "error": null}'])
def test_a_running_server_that_answers_nonsense_is_named(tmp_path: Path, answer: str):
    def answer_all(connection: ServerConnection) -> None:
        for _ in connection:
            connection.send(answer)

    with serve_threads(tmp_path, answer_all):
        why = refuse(make_transport(tmp_path))
    assert "in another form" in why
    assert "CODEX_HOME" not in why


@pytest.mark.parametrize("runs", [True, False], ids=["it runs", "it is started"])
@pytest.mark.parametrize("method", ["thread/queue/list", "thread/queue/add"])
def test_an_answer_that_is_too_long_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: bool, method: str
):
    def answer(connection: ServerConnection) -> None:
        for message in connection:
            if "id" in (call := json.loads(message)):
                more = "x" * 2_000 if call["method"] == method else ""
                connection.send(json.dumps({"id": call["id"], "result": {"data": [], "": more}}))

    monkeypatch.setattr(queue, "_LINE_BYTES", 1_000)
    program = SERVER.replace("REFUSED", "''").replace(
        "ANSWERS.get(call['method'], {})".replace("'", '"'),
        f'{{"data": [], "": "x" * 2_000 * (call["method"] == "{method}")}}',
    )
    transport = make_transport(tmp_path, program)
    with serve_threads(tmp_path, answer) if runs else nullcontext():
        if method == "thread/queue/list":
            assert "longer than 8 MiB; let Codex work it off" in refuse(transport)
        else:
            receipt = asyncio.run(transport.deliver(a_wake(session_key=THREAD)))
            assert receipt.note == "Codex was sent it, and did not confirm it."


def test_a_thread_is_woken_in_its_own_home(tmp_path: Path):
    calls: list[Any] = []
    sessions = ConnectedSessions()
    sessions.add_connection(1, {"CODEX_HOME": str(tmp_path)})
    sessions.add_session(1, THREAD)
    environ = {"CODEX_HOME": "/nowhere", "TASKMEM_CODEX_BIN": "/bin/false"}
    with serve_threads(tmp_path, answer_calls(calls)):
        transport = QueueTransport(environ, sessions=sessions)
        asyncio.run(transport.deliver(a_wake(session_key=THREAD)))
    assert calls[-1]["method"] == "thread/queue/add"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("#!/bin/sh\nread -r _", "Codex ended before it had the message; see `codex doctor`."),
        ("#!/bin/sh\necho nonsense", "Codex answered initialize in another form"),
        ("#!/bin/sh\necho '[]'", "Codex answered in another form"),
        ("#!/bin/sh\nread -r _\necho '{\"id\": 1}'", "Codex answered in another form"),
        ("#!/bin/sh\nexec tail -f /dev/null", "Codex gave no answer within 0.3 s."),
    ],
)
def test_a_codex_of_another_kind_is_named(tmp_path: Path, program: str, why: str):
    assert why in refuse(make_transport(tmp_path, program, 0.3 if "tail" in program else 60))


def test_a_missing_codex_is_named(tmp_path: Path):
    absent = QueueTransport({"TASKMEM_CODEX_BIN": str(tmp_path / "absent")})
    assert "absent cannot be started (No such file" in refuse(absent)


@pytest.mark.parametrize(
    ("host", "thread", "reached"),
    [
        ("mcp:codex-mcp-client", THREAD, True),
        ("mcp:codex-mcp-client", None, False),
        ("mcp:claude-code", THREAD, False),
        (None, THREAD, False),
    ],
)
def test_only_known_threads_of_codex_are_reached(tmp_path: Path, host, thread, reached):
    assert make_transport(tmp_path).reaches(host, thread) is reached


def test_a_server_that_runs_is_enough_to_be_woken(tmp_path: Path):
    variables = {"TASKMEM_CODEX_BIN": "codex", "PATH": "", "CODEX_HOME": str(tmp_path)}
    with serve_threads(tmp_path, lambda _: None):
        assert QueueTransport(variables).reaches("mcp:codex-mcp-client", THREAD)


def test_where_codex_is_missing_no_wake_is_promised(tmp_path: Path):
    absent = QueueTransport({"TASKMEM_CODEX_BIN": "codex", "PATH": str(tmp_path)})
    assert not absent.reaches("mcp:codex-mcp-client", THREAD)
    make_transport(tmp_path)
    assert absent.reaches("mcp:codex-mcp-client", THREAD)


@pytest.mark.parametrize(
    ("client", "meta", "thread"),
    [
        ("codex-mcp-client", {"threadId": THREAD}, THREAD),
        ("codex-mcp-client", {"threadId": 5}, None),
        ("codex-mcp-client", {}, None),
        ("claude-code", {"threadId": THREAD}, None),
        (None, {}, None),
    ],
)
def test_the_thread_stands_in_each_call(client, meta, thread):
    assert hooks.calling_session(client, meta) == thread


def test_the_plugin_keeps_to_the_contract():
    check_plugin(hooks)
    assert hooks.wake_transport("openclaw-cli", ConnectedSessions()) is None

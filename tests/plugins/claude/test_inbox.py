"""Wakes by the inbox socket of a session of Claude Code."""

from __future__ import annotations

import asyncio
import json
import socketserver
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from taskmem_claude import (
    CONFIG,
    HOST,
    PROJECT,
    SESSION,
    SOCKET,
    TOKEN,
    hooks,
    inbound_setting,
    inbox,
)
from taskmem_claude.inbox import InboxTransport
from taskmem_hookspecs import WakeReceipt, WakeUndelivered
from taskmem_hookspecs.testing import TransportSuite, a_wake, check_plugin

KEY = "11111111-2222-4333-8444-555555555555"


class Session(socketserver.ThreadingUnixStreamServer):
    """Plays Claude Code: reads what comes into its inbox, and closes at the end of it."""

    def __init__(self, *, reads: bool = True) -> None:
        self.texts: list[str] = []
        self.may_read = threading.Event()
        if reads:
            self.may_read.set()
        self._folder = tempfile.TemporaryDirectory(prefix="tm")
        self.path = f"{self._folder.name}/inbox.sock"
        super().__init__(self.path, Visit)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def variables(self) -> dict[str, str]:
        """What it tells its MCP servers."""
        return {SESSION: KEY, SOCKET: self.path, TOKEN: "secret"}

    def kill(self) -> None:
        """End it as a kill does: its socket stays."""
        self.may_read.set()
        self.shutdown()
        self.server_close()
        self._thread.join()

    def remove(self) -> None:
        """Remove its socket."""
        self._folder.cleanup()

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.remove()


class Visit(socketserver.StreamRequestHandler):
    """One message for a session."""

    server: Session

    def handle(self) -> None:
        self.server.may_read.wait()
        auth, message = map(json.loads, self.rfile)
        assert auth == {"type": "auth", "token": "secret"}
        assert message["type"] == "user"
        self.server.texts.append(message["message"]["content"])


class Sessions:
    """Plays `LiveSessions`, of which each key is the same session."""

    def __init__(
        self, variables: dict[str, str] | None, posted: bool | OSError | None = None
    ) -> None:
        self._variables = variables
        self._posted = posted

    def find_variables(
        self, _session_key: str | None, host: str | None = None
    ) -> dict[str, str] | None:
        assert host == HOST
        return self._variables

    async def post(self, *_: object) -> bool | None:
        if isinstance(self._posted, OSError):
            raise self._posted
        return self._posted


@pytest.fixture
def session() -> Iterator[Session]:
    with Session() as opened:
        yield opened


def deliver(variables: dict[str, str] | None, posted: bool | OSError | None = None) -> WakeReceipt:
    transport = InboxTransport(Sessions(variables, posted))
    return asyncio.run(transport.deliver(a_wake(session_key=KEY)))


class AnySession(Sessions):
    """Finds a session of each key, as the suite's wakes name several and none."""

    def find_variables(self, session_key: str | None, host: str | None = None) -> dict[str, Any]:
        assert host == HOST
        return {**(self._variables or {}), SESSION: session_key}


class TestInboxTransport(TransportSuite):
    @pytest.fixture(autouse=True)
    def _open(self, session: Session) -> None:
        self.session = session

    def make_transport(self, tmp_path: Path) -> InboxTransport:
        return InboxTransport(AnySession(self.session.variables))

    def make_failing(self, tmp_path: Path) -> InboxTransport:
        return InboxTransport(AnySession({SOCKET: str(tmp_path / "gone"), TOKEN: "secret"}))

    def make_gone(self, tmp_path: Path) -> InboxTransport:
        return InboxTransport(Sessions(None))

    def list_received(self, tmp_path: Path) -> Sequence[str]:
        return self.session.texts


def test_a_killed_session_takes_nothing():
    session = Session()
    session.kill()
    with pytest.raises(WakeUndelivered, match=r"took no message .*; is Claude Code still open"):
        deliver(session.variables)
    session.remove()


def test_a_closed_session_is_told_when_it_opens():
    with pytest.raises(WakeUndelivered, match="it is told once it is"):
        deliver(None)


def test_a_session_that_does_not_read_yet_is_noted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inbox, "CLOSE_SECONDS", 0.01)
    session = Session(reads=False)
    assert deliver(session.variables).note == "Claude Code has not read it yet."
    session.kill()
    session.remove()


@pytest.mark.parametrize("read", [True, False])
def test_what_its_relay_has_written_is_not_written_again(session, read):
    assert (deliver(session.variables, read).note is None) is read
    assert session.texts == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ConnectionResetError(None, "its relay has ended"), "its relay has ended"),
        (TimeoutError(), "it does not answer"),
    ],
)
def test_what_its_relay_could_not_write_is_not_delivered(session, error, why):
    with pytest.raises(WakeUndelivered, match=rf"took no message \({why}\)"):
        deliver(session.variables, error)
    assert session.texts == []


def test_no_token_is_sent_to_what_is_no_socket_of_ours(tmp_path: Path):
    file = tmp_path / "inbox.sock"
    file.touch()
    link = tmp_path / "link"
    link.symlink_to(file)
    for path in (file, link):
        with pytest.raises(WakeUndelivered, match="it is no socket of this user"):
            deliver({SESSION: KEY, SOCKET: str(path), TOKEN: "secret"})


@pytest.mark.parametrize("variables", [None, {}, {SOCKET: "/x"}, {TOKEN: "secret"}])
def test_a_session_without_an_inbox_is_not_reached(variables):
    transport = InboxTransport(Sessions(variables))
    assert not transport.reaches("mcp:claude-code", KEY)


@pytest.mark.parametrize(
    ("host", "reached"),
    [("mcp:claude-code", True), ("shell:claude-code", True), (None, True), ("mcp:codex", False)],
)
def test_only_claude_code_is_reached(host, reached):
    transport = InboxTransport(Sessions({SESSION: KEY, SOCKET: "/x", TOKEN: "secret"}))
    assert transport.reaches(host, KEY) is reached
    assert not transport.reaches(host, "a thread of Codex within it")


FOLDER, LOCAL = "work/.claude/settings.json", "work/.claude/settings.local.json"


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, None),
        ({"settings.json": "accept"}, None),
        ({"settings.json": "hold"}, ("hold", "settings.json")),
        ({"settings.json": "refuse"}, ("refuse", "settings.json")),
        ({"settings.json": 7}, ("7", "settings.json")),
        ({"settings.json": "accept", FOLDER: "hold"}, ("hold", FOLDER)),
        ({"settings.json": "hold", LOCAL: "accept"}, ("hold", "settings.json")),
        ({LOCAL: "refuse"}, ("refuse", LOCAL)),
        ({"managed.json": "accept", "settings.json": "hold"}, None),
        ({"managed.json": "refuse", "settings.json": "accept"}, ("refuse", "managed.json")),
    ],
    ids=str,
)
def test_a_session_that_keeps_messages_back_is_not_reached(
    session, tmp_path, monkeypatch, settings: dict[str, object], kept: tuple[str, str] | None
):
    monkeypatch.setattr(inbound_setting, "_MANAGED_SETTINGS", tmp_path / "managed.json")
    (tmp_path / FOLDER).parent.mkdir(parents=True)
    for name, each in settings.items():
        (tmp_path / name).write_text(json.dumps({"crossSessionInbound": each}))
    folders = {CONFIG: str(tmp_path), PROJECT: str(tmp_path / "work")}
    variables = {**session.variables, **folders}
    assert InboxTransport(Sessions(variables)).reaches("mcp:claude-code", KEY) is (kept is None)
    if kept is None:
        deliver(variables)
        return
    with pytest.raises(WakeUndelivered) as refused:
        deliver(variables)
    sentence = f'keeps messages back: crossSessionInbound is "{kept[0]}" in {tmp_path / kept[1]}.'
    assert str(refused.value).endswith(sentence)


@pytest.mark.parametrize(
    "text", ["", "[]", "[" * 100_000, '"hold"', '{"crossSessionInbound": null}']
)
def test_settings_that_cannot_be_read_keep_nothing_back(session, tmp_path: Path, text: str):
    (tmp_path / "settings.json").write_text(text)
    deliver({**session.variables, CONFIG: str(tmp_path), PROJECT: "/nowhere"})


@pytest.mark.parametrize(
    ("client", "key"), [(None, KEY), ("claude-code", KEY), ("codex-mcp-client", None)]
)
def test_a_session_is_that_of_claude_codes_own_relay(client, key):
    """Codex that was started in a shell of Claude Code has the same variables."""
    assert hooks.calling_session(client, {SESSION: KEY}) == key


def test_the_plugin_keeps_to_the_contract():
    check_plugin(hooks)
    assert {*hooks.session_variables()} == {CONFIG, PROJECT, SESSION, SOCKET, TOKEN}
    assert hooks.wake_transport("openclaw-cli", Sessions(None)) is None

"""Wakes by OpenClaw's webhooks, over a real connection to a server that misbehaves."""

import asyncio
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from openclaw_taskmem.domain.policies import OutboxPolicy
from taskmem_hookspecs import WakeUndelivered
from taskmem_hookspecs.testing import TransportSuite, a_wake
from taskmem_openclaw.transports import webhook
from taskmem_openclaw.transports.auto import TransportUnavailable
from taskmem_openclaw.transports.webhook import WebhookTransport
from tests.support.waiting import PATIENCE

TOKEN, ANOTHER = "hooks-token-of-nobody", "hooks-token-of-nobody-else"
PAGE = b"<html>\n<h1>\nBad day\n</h1>\n" + b"x" * 10_000


class Visit(BaseHTTPRequestHandler):
    """One connection to the gateway."""

    def do_POST(self):
        size = int(self.headers["Content-Length"])
        self.server.gateway.take(self, self.rfile.read(size))

    def log_message(self, *_):
        """Say nothing."""


class Gateway:
    """Takes webhooks as OpenClaw does, or as it is told."""

    def __init__(self, folder):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Visit)
        self.server.gateway = self
        self.server.block_on_close = False
        self.port = self.server.server_address[1]
        self.path = folder / "openclaw.json"
        self.environ = {"OPENCLAW_CONFIG_PATH": str(self.path)}
        self.token = TOKEN
        self.answer = (200, b'{"ok":true}')
        self.hangs = False
        self.cuts = False
        self.over = threading.Event()
        self.asked = []
        serve = self.server.serve_forever
        self.thread = threading.Thread(target=serve, args=(0.01,), daemon=True)
        self.thread.start()
        self.configure()

    def configure(self, **hooks):
        told = {"enabled": True, "token": TOKEN, **hooks}
        self.path.write_text(json.dumps({"gateway": {"port": self.port}, "hooks": told}))

    def take(self, visit, body):
        self.asked.append((visit.path, dict(visit.headers), json.loads(body)))
        if self.hangs:
            self.over.wait(PATIENCE)
            return
        if self.cuts:
            visit.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")
            return
        known = visit.headers["Authorization"] == f"Bearer {self.token}"
        status, said = self.answer if known else (401, b"unauthorized")
        visit.send_response(status)
        visit.send_header("Content-Length", str(len(said)))
        visit.end_headers()
        visit.wfile.write(said)

    def close(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(PATIENCE)


@pytest.fixture
def openclaw(tmp_path):
    made = Gateway(tmp_path)
    yield made
    made.close()


def deliver(openclaw, **fields):
    return asyncio.run(WebhookTransport(openclaw.environ).deliver(a_wake(**fields)))


def failure_text(openclaw, **fields):
    """Why a wake was not taken by a gateway that is there."""
    with pytest.raises(WakeUndelivered) as raised:
        deliver(openclaw, **fields)
    assert not isinstance(raised.value, TransportUnavailable)
    said = str(raised.value)
    assert TOKEN not in said
    assert len(said.splitlines()) == 1
    assert len(said) < 500
    return said


class TestWebhookTransport(TransportSuite):
    @pytest.fixture(autouse=True)
    def _openclaw(self, openclaw):
        self.openclaw = openclaw

    def make_transport(self, tmp_path):
        return WebhookTransport(self.openclaw.environ)

    def make_failing(self, tmp_path):
        self.openclaw.answer = (500, PAGE)
        return WebhookTransport(self.openclaw.environ)

    def list_received(self, tmp_path):
        return [body["text"] for _, _, body in self.openclaw.asked]


# --- what is asked ------------------------------------------------------------


def test_a_wake_is_asked_for_at_once_and_with_the_token(openclaw):
    receipt = deliver(openclaw, text="wake up", session_key="agent:main:other")
    ((path, headers, body),) = openclaw.asked
    assert path == "/hooks/wake"
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["Content-Type"] == "application/json"
    assert body == {"text": "wake up", "mode": "now", "sessionKey": "agent:main:other"}
    assert (receipt.note, receipt.transport) == (None, None)


def test_a_wake_of_the_main_session_names_none(openclaw):
    deliver(openclaw, text="wake up")
    assert openclaw.asked[0][2] == {"text": "wake up", "mode": "now"}


def test_a_wake_for_another_openclaw_is_not_given_to_this_one(openclaw):
    assert "another OpenClaw" in failure_text(openclaw, host="openclaw:one")
    assert openclaw.asked == []


def test_no_proxy_is_asked_for_what_is_on_this_machine(openclaw, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    deliver(openclaw)
    assert len(openclaw.asked) == 1


def test_a_token_that_changed_is_used_from_the_next_wake_on(openclaw):
    transport = WebhookTransport(openclaw.environ)
    asyncio.run(transport.deliver(a_wake()))
    openclaw.token = ANOTHER
    with pytest.raises(WakeUndelivered):
        asyncio.run(transport.deliver(a_wake()))
    openclaw.configure(token=ANOTHER)
    asyncio.run(transport.deliver(a_wake()))


# --- who listens --------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a port is")
def test_the_token_does_not_go_to_another_users_port(openclaw, monkeypatch):
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    table = webhook.TABLES[0].read_text("ascii")
    assert f"0100007F:{openclaw.port:04X} " in table
    if owner == 0:  # root is trusted; so the same socket, as a user's
        lie = openclaw.path.with_name("tcp")
        lie.write_text(as_of_user(table, openclaw.port, 12002), "ascii")
        monkeypatch.setattr(webhook, "TABLES", (lie,))
        owner = 12002
    with pytest.raises(TransportUnavailable, match=f"User {owner} listens at .* was not sent"):
        deliver(openclaw)
    assert openclaw.asked == []


def as_of_user(table, port, uid):
    """What the system tells of sockets, with those of a port as another user's."""
    rows = [line.split() for line in table.splitlines()]
    for row in rows:
        if row[1].endswith(f":{port:04X}"):
            row[7] = str(uid)
    return "\n".join(map(" ".join, rows))


HEAD = "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode"


@pytest.mark.parametrize(
    ("socket", "found"),
    [
        (("0100007F:4A38", "0A", 7), 7),
        (("00000000:4A38", "0A", 7), 7),
        (("00000000000000000000000000000000:4A38", "0A", 7), 7),
        (("0000000000000000FFFF00000100007F:4A38", "0A", 7), 7),
        (("0100007F:4A38", "0A", 0), None),
        (("0100007F:4A38", "0A", os.geteuid()), None),
        (("0100007F:4A38", "01", 7), None),
        (("0100007F:4A39", "0A", 7), None),
        (("0200A8C0:4A38", "0A", 7), None),
    ],
)
def test_who_listens_is_read_from_the_systems_table(tmp_path, monkeypatch, socket, found):
    address, state, uid = socket
    table = tmp_path / "tcp"
    row = f"0: {address} 00000000:0000 {state} 0:0 0:0 0 {uid} 0 1"
    table.write_text(f"{HEAD}\n{row}\n")
    monkeypatch.setattr(webhook, "TABLES", (table, tmp_path / "tcp6"))
    assert webhook.find_stranger(0x4A38) == found


def test_where_the_system_does_not_tell_the_token_is_sent(openclaw, tmp_path, monkeypatch):
    monkeypatch.setattr(webhook, "TABLES", (tmp_path / "tcp", tmp_path / "tcp6"))
    deliver(openclaw)
    assert len(openclaw.asked) == 1


# --- what goes wrong ----------------------------------------------------------


def test_webhooks_that_are_off_are_not_there(openclaw):
    openclaw.configure(enabled=False)
    with pytest.raises(TransportUnavailable, match="not switched on in OpenClaw's configuration"):
        deliver(openclaw)
    assert openclaw.asked == []


def test_a_gateway_that_does_not_run_is_not_there(openclaw):
    openclaw.close()
    with pytest.raises(TransportUnavailable, match=rf"listens at http://127.*:{openclaw.port}/"):
        deliver(openclaw)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (401, "refuses its token (hooks.token)"),
        (403, "refuses its token (hooks.token)"),
        (404, "There is no webhook at"),
    ],
)
def test_foreign_webhook_is_named_and_counts_as_not_there(openclaw, status, why):
    openclaw.answer = (status, b"no")
    with pytest.raises(TransportUnavailable) as raised:
        deliver(openclaw)
    assert why in str(raised.value)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize("status", [302, 400, 413, 429, 500])
def test_what_the_gateway_says_instead_is_quoted_in_short(openclaw, status):
    openclaw.answer = (status, PAGE)
    said = failure_text(openclaw)
    assert f"answered {status}: <html> <h1> Bad day </h1> xxx" in said


@pytest.mark.parametrize("status", [200, 202, 204])
def test_every_success_is_one(openclaw, status):
    openclaw.answer = (status, b"")
    deliver(openclaw)
    assert len(openclaw.asked) == 1


def test_a_gateway_that_hangs_is_given_up_in_time(openclaw, monkeypatch):
    openclaw.hangs = True
    monkeypatch.setattr(webhook, "REQUEST_SECONDS", 0.3)
    assert "failed (ReadTimeout)" in failure_text(openclaw)


def test_webhook_time_limits_fit_within_a_delivery(openclaw):
    limits = []

    def answer(request):
        limits.append(request.extensions["timeout"])
        return httpx.Response(200)

    carrier = httpx.MockTransport(answer)
    transport = WebhookTransport(openclaw.environ, carrier)
    asyncio.run(transport.deliver(a_wake()))
    assert limits == [dict.fromkeys(("connect", "read", "write", "pool"), webhook.REQUEST_SECONDS)]
    assert OutboxPolicy().claim_seconds / 2 > sum(limits[0].values())


def test_an_answer_that_is_cut_off_is_none(openclaw):
    openclaw.cuts = True
    assert "failed (RemoteProtocolError)" in failure_text(openclaw)


@pytest.mark.parametrize("token", ["tökén", "two\nlines", "nul\0"])
def test_a_token_that_no_header_can_hold_is_told_without_it(openclaw, token):
    openclaw.configure(token=token)
    assert token not in failure_text(openclaw)


def test_a_path_that_no_address_can_hold_is_told(openclaw):
    openclaw.configure(path="/a\tb")
    assert "failed (InvalidURL)" in failure_text(openclaw)


def test_what_no_request_can_hold_is_not_delivered(openclaw):
    wake = a_wake().model_copy(update={"text": "\ud800"})
    with pytest.raises(WakeUndelivered, match="UnicodeEncodeError"):
        asyncio.run(WebhookTransport(openclaw.environ).deliver(wake))

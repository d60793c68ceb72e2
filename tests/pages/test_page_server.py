"""Who may see the pages, and who may act on them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

from openclaw_taskmem.cli import page_server
from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.cli.page_server import PageServer, is_beyond, parse_counts
from openclaw_taskmem.daemon.processes import identify_process
from openclaw_taskmem.domain.views.user_actions import READ_ONLY
from tests.pages.conftest import ServedPages, serve_pages
from tests.support.daemons import holder
from tests.support.showcase import Showcase
from tests.support.waiting import PATIENCE, until

ACT = {"id": "task_none", "action": "cancel", "words": ""}


class Keyed(NamedTuple):
    """Pages below their key."""

    http: httpx.Client
    """Its addresses are relative to the overview."""
    own: Mapping[str, str]
    """The headers of the pages' own scripts."""


@pytest.fixture(scope="module")
def client(pages: ServedPages) -> Iterator[Keyed]:
    """A client that has used the link."""
    with httpx.Client(base_url=pages.enter(), timeout=PATIENCE) as http:
        yield Keyed(http, {"Origin": pages.origin})


def test_the_link_works_once(pages: ServedPages, client: Keyed) -> None:
    token = {"token": pages.link.partition("#")[2]}
    again = httpx.post(f"{pages.origin}/enter", data=token, headers=client.own)
    assert (again.status_code, "used before" in again.text) == (403, True)
    assert client.http.get("").status_code == 200


def test_a_preview_of_the_link_does_not_use_it_up(showcase: Showcase) -> None:
    with serve_pages(showcase.daemon) as fresh:
        assert httpx.head(fresh.link).status_code == 200
        seen = httpx.get(fresh.link)
        root = fresh.enter()
    key = root.rstrip("/").rpartition("/")[2]
    assert (seen.status_code, key in seen.text) == (200, False)


def test_an_icon_is_there_before_the_key_is(pages: ServedPages) -> None:
    icon = httpx.get(f"{pages.origin}/favicon.ico")
    assert (icon.status_code, icon.headers["Content-Type"]) == (200, "image/svg+xml")


@pytest.mark.parametrize("path", ["task?id=x", "changes", "style.css", "act", "", "../"])
def test_nothing_is_shown_without_the_key(pages: ServedPages, path: str) -> None:
    wrong = "x" * 43
    for address in (f"/{path}", f"/{wrong}/{path}", f"//{wrong}/{path}", f"/%F0/{path}"):
        answer = httpx.get(pages.origin + address)
        nothing = answer.status_code in (403, 405) or "Opening the pages" in answer.text
        assert nothing, address


def test_the_key_is_in_no_referer(client: Keyed) -> None:
    for path in ("", "style.css", "nowhere"):
        assert client.http.get(path).headers["referrer-policy"] == "no-referrer"


def test_no_argument_of_the_browser_has_the_link(showcase: Showcase, tmp_path: Path) -> None:
    """Other users can read the arguments of a process, but not this user's files."""
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.new\nmv {seen}.new {seen}\n')
    browser.chmod(0o700)
    with serve_pages(showcase.daemon, opens={"BROWSER": f"{browser} %s"}) as served:
        until(seen.exists, "the browser is started")
        file = Path(urlsplit(seen.read_text().strip()).path)
        assert file.stat().st_mode & 0o777 == 0o600
        assert f"url={served.link}" in file.read_text()
    assert not file.exists()


def test_no_browser_is_opened_in_the_terminal(showcase: Showcase, tmp_path: Path) -> None:
    """It would wait for the pages, and the pages for its end."""
    seen = tmp_path / "seen"
    browser = tmp_path / "w3m"
    browser.write_text(f"#!/bin/sh\n: > {seen}\n")
    browser.chmod(0o700)
    names = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    opens = {**dict.fromkeys(names, ""), "PATH": str(tmp_path), "TERM": "xterm"}
    with serve_pages(showcase.daemon, opens=opens) as served:
        assert httpx.get(served.enter()).status_code == 200
    assert not seen.exists()


@pytest.mark.parametrize("host", ["evil.example", "localhost:1", "127.0.0.1"])
def test_another_host_name_is_refused(client: Keyed, host: str) -> None:
    """A name that its owner has pointed at this machine must not read the pages."""
    assert client.http.get("", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
def test_a_foreign_page_cannot_act(client: Keyed, origin: str | None) -> None:
    headers = {} if origin is None else {"Origin": origin}
    assert client.http.post("act", data=ACT, headers=headers).status_code == 403


def test_scripts_and_frames_of_others_are_forbidden(client: Keyed) -> None:
    headers = client.http.get("").headers
    policy = headers["content-security-policy"]
    for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
        assert rule in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_a_foreign_page_cannot_enter(showcase: Showcase) -> None:
    with serve_pages(showcase.daemon) as fresh:
        token = {"token": fresh.link.partition("#")[2]}
        for headers in ({"Origin": "null"}, {"Origin": "http://evil.example"}, {}):
            answer = httpx.post(f"{fresh.origin}/enter", data=token, headers=headers)
            assert answer.status_code == 403
        assert fresh.enter()


def test_a_field_of_a_form_does_not_name_the_call(client: Keyed) -> None:
    for field in ("method", "process", "self"):
        form = {**ACT, field: "overview"}
        answer = client.http.post("act", data=form, headers=client.own)
        assert (answer.status_code, "task_none" in answer.text) == (409, True)


@pytest.mark.parametrize("client_kind", ["client", "gateway"])
def test_who_accepted_is_looked_up_and_not_believed(
    showcase: Showcase, client_kind: Literal["client", "gateway"]
) -> None:
    missing = {"artifacts": [str(showcase.folder / "missing.md")]}
    task = showcase.daemon.register(f"By post, {client_kind}", metadata=missing)
    with pytest.raises(LinkError, match="is not completed yet"):
        showcase.daemon.call("task_update", task_id=task, status="completed")
    with connect(showcase.daemon.home, client_kind) as link:
        link.call("act", {"id": task, "action": "accept", "process": "1:1"}, PATIENCE)
    events = showcase.daemon.ask("events", task_id=task)
    [accepted] = [each for each in events if "accepted" in each["kind"] and each["task_id"] == task]
    assert accepted["data"]["process"] == identify_process(os.getpid())


@pytest.mark.parametrize("action", ["cancel", "cancel_wait", "accept"])
def test_an_act_without_a_name_is_refused(client: Keyed, action: str) -> None:
    form = {"id": " ", "action": action, "words": ""}
    answer = client.http.post("act", data=form, headers=client.own)
    assert answer.status_code == 409
    assert answer.json()["message"].startswith("That names no task and no wait")


def test_a_refused_act_says_why(client: Keyed) -> None:
    answer = client.http.post("act", data=ACT, headers=client.own)
    assert answer.status_code == 409
    assert "task_none" in answer.json()["message"]
    long = client.http.post("act", data={**ACT, "words": "x" * 70_000}, headers=client.own)
    assert long.status_code == 413


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("nowhere", 404), ("task?id=task_none", 404), ("wait?id=wait_none", 404)),
        *(("picture?id=../../x&moment=first", 404), ("%2e%2e/%2e%2e/etc/passwd", 404)),
        *(("task", 404), ("search?q=%00%ff", 200), ("task?id=%F0%9F", 404)),
    ],
)
def test_odd_addresses_get_a_page_that_says_so(client: Keyed, path: str, status: int) -> None:
    answer = client.http.get(path)
    assert answer.status_code == status
    assert "Traceback" not in answer.text
    assert "smart_wait" not in answer.text, "a person has no tools"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        *(("message=" + "9" * 5_000, 400), ("before=" + "9" * 5_000, 400)),
        *(("before=0001-01-01T00:00:00%2B14:00", 400), ("before=9999-12-31T23:59-14:00", 400)),
        *(("before=0001-01-01T00:00Z&message=1", 200), ("before=9999-12-31T23:59Z", 200)),
    ],
)
def test_odd_places_in_a_task_get_a_page_that_says_so(
    client: Keyed, showcase: Showcase, query: str, status: int
) -> None:
    answer = client.http.get(f"task?id={showcase.tasks['deploy']}&{query}")
    assert (answer.status_code, "<h1>" in answer.text) == (status, True)


def test_the_pages_of_an_agent_can_only_be_looked_at(showcase: Showcase) -> None:
    with serve_pages(showcase.daemon, person=False) as served:
        root = served.enter()
        assert "data-action" not in (page := httpx.get(root).text)
        assert READ_ONLY in page
        assert served.process.stdout is not None
        served.process.stdout.readline()
        assert served.process.stdout.readline() == f"{READ_ONLY}\n"
        answer = httpx.post(f"{root}act", data=ACT, headers={"Origin": served.origin})
    assert (answer.status_code, answer.json()["message"]) == (
        403,
        READ_ONLY,
    )


def test_the_pages_are_closed_when_nobody_looks(showcase: Showcase) -> None:
    server = PageServer(showcase.daemon.home, may_act=False)
    asyncio.run(server.serve(idle_seconds=0.05))
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.link)


@pytest.mark.parametrize(
    ("path", "counts"), [("", False), ("no-key/", False), ("enter.js", False), ("{key}", True)]
)
def test_only_who_may_look_keeps_the_pages_open(
    showcase: Showcase, path: str, *, counts: bool
) -> None:
    server = PageServer(showcase.daemon.home, may_act=False)
    origin = server.link.partition("/#")[0]

    async def ask() -> bool:
        transport = httpx.ASGITransport(server.build_app())
        async with httpx.AsyncClient(transport=transport, base_url=origin) as client:
            await client.get(path.format(key=server._key))
        return server._asked.is_set()

    with server._socket:
        assert asyncio.run(ask()) is counts


class OpenPages(NamedTuple):
    """Pages that are served on this loop."""

    server: PageServer

    async def connect(self, text: str = "") -> asyncio.StreamReader:
        """Open a connection that stays, and send `text` on it."""
        address = urlsplit(self.server.link)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(text.encode())
        CONNECTED.append(writer)
        return reader

    def write_request(self, path: str) -> str:
        return f"GET {path} HTTP/1.1\r\nHost: {urlsplit(self.server.link).netloc}\r\n\r\n"


CONNECTED: list[asyncio.StreamWriter] = []
"""The writers of open connections; without one, its connection is closed."""


@asynccontextmanager
async def open_pages(showcase: Showcase) -> AsyncIterator[OpenPages]:
    server = PageServer(showcase.daemon.home, may_act=False)
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(PATIENCE):
            yield OpenPages(server)
    finally:
        for writer in CONNECTED:
            writer.close()
        CONNECTED.clear()
        serving.cancel()
        await asyncio.wait([serving])


async def read_status(reader: asyncio.StreamReader) -> int:
    return int((await reader.readline()).split()[1])


def test_idle_connections_of_others_do_not_shut_the_user_out(showcase: Showcase) -> None:
    async def ask_behind_others() -> int:
        async with open_pages(showcase) as pages:
            others = [await pages.connect() for _ in range(130)]
            user = await pages.connect(pages.write_request("/"))
            status = await read_status(user)
            with suppress(ConnectionResetError):
                assert await others[0].read() == b""
            return status

    assert asyncio.run(ask_behind_others()) == 200


def test_a_page_that_waits_is_kept_whoever_else_connects(
    showcase: Showcase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(page_server, "_HELD_SECONDS", 0.5)

    async def wait_among_others() -> int:
        async with open_pages(showcase) as pages:
            path = f"/{pages.server._key}/changes"
            first = await pages.connect(pages.write_request(path))
            counts = re.findall(rb'"seen": *"([^"]*)"', await first.readuntil(b"}"))[0].decode()
            page = await pages.connect(pages.write_request(f"{path}?seen={counts}"))
            pages.server._asked.clear()
            await pages.server._asked.wait()
            for _ in range(9):
                await pages.connect(pages.write_request("/"))
            return await read_status(page)

    assert asyncio.run(wait_among_others()) == 200


@pytest.mark.parametrize(
    "part",
    [
        "",
        "GET / HTTP/1.1\r\nHo",
        "POST /enter HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Length: 9\r\n\r\nto",
    ],
)
def test_a_connection_without_a_whole_request_is_closed(
    showcase: Showcase, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(page_server, "REQUEST_SECONDS", 0.05)

    async def read_until_closed() -> bytes:
        async with open_pages(showcase) as pages:
            reader = await pages.connect(part.format(urlsplit(pages.server.link).netloc))
            with suppress(ConnectionResetError):
                return await reader.read()
            return b""

    assert asyncio.run(read_until_closed()) == b""


def test_what_asyncio_logs_is_not_printed(
    showcase: Showcase, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logging.getLogger("asyncio")
    monkeypatch.setattr(log, "propagate", False)
    monkeypatch.setattr(log, "handlers", [])
    server = PageServer(showcase.daemon.home, may_act=False)
    asyncio.run(server.serve(idle_seconds=0.05))

    log.error("socket.accept() out of system resource")

    assert capsys.readouterr().err == ""


def test_the_system_holds_no_answer_back(showcase: Showcase) -> None:
    server = PageServer(showcase.daemon.home, may_act=False)
    with server._socket as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_what_is_vendored_is_unchanged() -> None:
    static = files("openclaw_taskmem.pages") / "static"
    text = (static / "VENDORED.txt").read_text()
    listed = re.findall(r"^sha256  (\w{64})  (\S+)$", text, re.MULTILINE)
    assert [name for _, name in listed] == ["idiomorph.js"]
    for checksum, name in listed:
        assert hashlib.sha256((static / name).read_bytes()).hexdigest() == checksum


@pytest.mark.parametrize(
    ("counts", "seen", "beyond"),
    [
        ([7, 1, 5], "7.1.4", True),
        ([7, 1, 5], "7.1.5", False),
        ([7, 1, 5], "7.1.6", False),
        ([7, 2, 5], "7.1.6", True),
        ([8, 0, 0], "7.1.5", True),
        ([7, 1, 5], "", True),
        ([7, 1, 5], "7.1.x", True),
        ([7, 1, 5], f"7.1.{'9' * 5000}", True),
        ([], "", False),
    ],
)
def test_a_page_is_told_of_what_it_has_not_seen(
    counts: list[int], seen: str, *, beyond: bool
) -> None:
    assert is_beyond(counts, parse_counts(seen)) is beyond


def test_a_daemon_that_is_stopped_stays_stopped(showcase: Showcase) -> None:
    with serve_pages(showcase.daemon) as served, httpx.Client(timeout=PATIENCE) as browser:
        root = served.enter()
        assert browser.get(f"{root}changes").status_code == 200
        showcase.daemon.stop()
        until(
            lambda: browser.get(f"{root}changes?seen=x").status_code == 503,
            "the page learns that the daemon is away",
        )
        away, style = browser.get(root), browser.get(f"{root}style.css")
    assert (away.status_code, "No daemon runs" in away.text) == (503, True)
    assert ('href="waits"' in away.text, style.status_code) == (True, 200)  # it looks as ever
    assert holder(showcase.daemon.home) is None
    showcase.daemon.restart()

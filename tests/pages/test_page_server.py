"""Who may see the pages, and who may act on them."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files

import httpx
import pytest

from openclaw_taskmem.cli.page_server import PageServer
from tests.pages.conftest import ServedPages, serve_pages
from tests.support.daemons import holder
from tests.support.showcase import Showcase
from tests.support.waiting import PATIENCE, until

ACT = {"id": "task_none", "action": "cancel", "words": ""}


@pytest.fixture(scope="module")
def client(pages: ServedPages) -> Iterator[httpx.Client]:
    """A client that has used the link."""
    with httpx.Client(base_url=pages.root, timeout=PATIENCE) as client:
        assert client.get(pages.link).status_code == 303
        yield client


def test_the_link_works_once(pages: ServedPages, client: httpx.Client) -> None:
    again = httpx.get(pages.link)
    assert (again.status_code, "used before" in again.text) == (403, True)
    assert client.get("").status_code == 200


def test_the_cookie_is_for_this_site_alone_and_for_no_script(showcase: Showcase) -> None:
    with serve_pages(showcase.daemon) as fresh:
        cookie = httpx.get(fresh.link).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


@pytest.mark.parametrize("path", ["", "task?id=x", "changes", "style.css", "picture"])
def test_nothing_is_shown_without_the_cookie(pages: ServedPages, path: str) -> None:
    assert httpx.get(pages.root + path).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "localhost:1", "127.0.0.1"])
def test_another_host_name_is_refused(client: httpx.Client, host: str) -> None:
    """A name that its owner has pointed at this machine must not read the pages."""
    assert client.get("", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
def test_a_foreign_page_cannot_act(client: httpx.Client, origin: str | None) -> None:
    headers = {} if origin is None else {"Origin": origin}
    assert client.post("act", data=ACT, headers=headers).status_code == 403


def test_scripts_and_frames_of_others_are_forbidden(client: httpx.Client) -> None:
    headers = client.get("").headers
    policy = headers["content-security-policy"]
    for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"):
        assert rule in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_a_refused_act_says_why(client: httpx.Client, pages: ServedPages) -> None:
    own = {"Origin": pages.root.rstrip("/")}
    answer = client.post("act", data=ACT, headers=own)
    assert answer.status_code == 409
    assert "task_none" in answer.json()["message"]
    long = client.post("act", data={**ACT, "words": "x" * 70_000}, headers=own)
    assert long.status_code == 413


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("nowhere", 404), ("task?id=task_none", 404), ("wait?id=wait_none", 404)),
        *(("picture?id=../../x&moment=first", 404), ("../../etc/passwd", 404)),
        *(("task", 404), ("search?q=%00%ff", 200), ("task?id=%F0%9F", 404)),
    ],
)
def test_odd_addresses_get_a_page_that_says_so(
    client: httpx.Client, path: str, status: int
) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert "Traceback" not in answer.text


def test_the_pages_of_an_agent_can_only_be_looked_at(showcase: Showcase) -> None:
    with serve_pages(showcase.daemon, person=False) as served, httpx.Client() as agent:
        agent.get(served.link)
        assert "data-action" not in agent.get(served.root).text
        own = {"Origin": served.root.rstrip("/")}
        answer = agent.post(f"{served.root}act", data=ACT, headers=own)
    assert (answer.status_code, answer.json()["message"]) == (
        403,
        "These pages can only be looked at.",
    )


def test_the_pages_are_closed_when_nobody_looks(showcase: Showcase) -> None:
    server = PageServer(showcase.daemon.home, may_act=False)
    asyncio.run(server.serve(idle_seconds=0.05))
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.link)


def test_what_is_vendored_is_unchanged() -> None:
    static = files("openclaw_taskmem.pages") / "static"
    text = (static / "VENDORED.txt").read_text()
    listed = re.findall(r"^sha256  (\w{64})  (\S+)$", text, re.MULTILINE)
    assert [name for _, name in listed] == ["idiomorph.js"]
    for checksum, name in listed:
        assert hashlib.sha256((static / name).read_bytes()).hexdigest() == checksum


def test_a_daemon_that_is_stopped_stays_stopped(showcase: Showcase) -> None:
    with serve_pages(showcase.daemon) as served, httpx.Client(timeout=PATIENCE) as browser:
        browser.get(served.link)
        assert browser.get(f"{served.root}changes").status_code == 200
        showcase.daemon.stop()
        until(
            lambda: browser.get(f"{served.root}changes?seen=x").status_code == 503,
            "the page learns that the daemon is away",
        )
        away = browser.get(served.root)
    assert (away.status_code, "No daemon runs" in away.text) == (503, True)
    assert holder(showcase.daemon.home) is None
    showcase.daemon.restart()

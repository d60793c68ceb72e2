"""Recall on the real gateway: past tasks, and how an SSH key was added, from a real recording."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any, Self

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from taskmem_recorder.store import RecordingStore
from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import ModelRequest, Reply
from tests.e2e.shared_house import Scripts, SharedGateway, Story, use
from tests.support.required import do_without
from tests.support.screens import Screen, require_screen
from tests.support.shells import Shell

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600", "TASKMEM_RECORD_LOAD": "1000"}
SHARES_GATEWAY = True
MILLIS = 60_000
_STYLE = "<!doctype html><style>body { font: 20px DejaVu Sans; margin: 40px }</style>"
PAGES = {
    "/news": f"""{_STYLE}<title>Weather for the weekend</title>
<h1>Weather for the weekend</h1><p>Rain is expected on Saturday, sunshine on Sunday.</p>""",
    "/settings/keys": f"""{_STYLE}<title>SSH and GPG keys · GitHub</title>
<h1>SSH keys</h1><p>There are no SSH keys associated with your account.</p>
<a href=/settings/ssh/new>New SSH key</a>""",
    "/settings/ssh/new": f"""{_STYLE}<title>Add new SSH key · GitHub</title>
<h1>Add new SSH key</h1><p>Title <input id=title></p><p>Key <textarea id=key></textarea></p>
<a href=/settings/keys?added>Add SSH key</a>""",
    "/settings/keys?added": f"""{_STYLE}<title>SSH and GPG keys · GitHub</title>
<h1>SSH keys</h1><p>You have successfully added the key alxdws2.</p>
<p>alxdws2: Never used, Read/write</p>""",
}
"""A stand-in of GitHub's pages, and one that has nothing to do with keys."""


class Site(ThreadingHTTPServer):
    """Serves the pages on loopback."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,)).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        page = PAGES.get(self.path, "").encode()
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)


@pytest.fixture(scope="module")
def screen() -> Iterator[Screen]:
    """A screen of the module's own."""
    require_screen("chromium", "tesseract")
    with Screen((1280, 800)) as screen:
        yield screen


@pytest.fixture(scope="module")
def home(shared_gateway: SharedGateway, screen: Screen) -> Iterator[tuple[House, Scripts]]:
    """The gateway with a daemon that sees that screen."""
    with shared_gateway.lend({**SETTINGS, "DISPLAY": screen.display}) as found:
        yield found


@pytest.fixture
def shown_address(tmp_path: Path) -> Path:
    """The file that has the address with which a browser was started last."""
    return tmp_path / "address"


@pytest.fixture
def person(home: tuple[House, Scripts], shown_address: Path, tmp_path: Path) -> Iterator[Shell]:
    """A person's shell, whose browser notes what it is to show."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {shown_address}\n')
    browser.chmod(0o700)
    taskmem = home[0].taskmem
    environ = {**taskmem.environment, "BROWSER": f"{browser} %s"}
    shell = Shell(taskmem.room.environment(environ))
    yield shell
    shell.close()


@contextmanager
def open_chromium(screen: Screen, folder: Path) -> Generator[Page]:
    """A page in a window of Chromium, with a profile of its own."""
    program = which("chromium") or do_without("No Chromium is here; install the package chromium.")
    with sync_playwright() as playwright:
        # Without a profile it would be a private window, which is never recorded.
        browser = playwright.chromium.launch_persistent_context(
            str(folder),
            executable_path=program,
            headless=False,
            no_viewport=True,
            env=dict(screen.environ),
            args=[
                *("--no-sandbox", "--disable-background-networking", "--disable-component-update"),
                *("--window-position=0,0", "--window-size=1200,760", "--test-type"),
            ],
            ignore_default_args=["--enable-automation"],
        )
        page = browser.pages[0]
        page.set_default_timeout(MILLIS)
        yield page
        browser.close()


def ask_agent(story: Story, query: str) -> dict[str, Any]:
    """Let the agent of a session call memory_recall; what it is answered."""

    def recalls(request: ModelRequest) -> Reply:
        if request.turn.results:
            return "I know how it was done."
        return [use("memory_recall", query=query)]

    story.follow(recalls)
    story.say("Please find out.")
    results = [result for request in story.requests for result in request.turn.results]
    content = json.loads(results[-1])["result"]["content"]
    return json.loads(content[0]["text"])


def wait_for_moment(house: House, page: str) -> None:
    """Wait until the page with this title is recorded."""
    store = RecordingStore(house.taskmem.room.taskmem / "recordings")

    def list_pages() -> list[str | None]:
        return [moment.page for moment in store.list_moments()]

    until(lambda: page in list_pages()[-1:], f"{page} is recorded", shown=list_pages)
    store.close()


def test_a_home_without_a_recording_answers_from_past_tasks(story: Story):
    plan = ["Order a certificate by ACME", "Reload Postfix"]
    task = story.call("task_register", name="Renew the mail server's certificate", plan=plan)
    said = "The DNS challenge failed since the TXT record was cached; its TTL is 60 now."
    story.call("task_update", task_id=task["task_id"], message=said)
    story.call("task_update", task_id=task["task_id"], message="All done.", status="completed")
    query = "why did the challenge for the mail certificate fail"
    until(lambda: story.call("memory_recall", query=query)["results"], "the index has the task")

    answer = ask_agent(story, query)

    found = answer["results"][0]
    assert (found["source"], found["task_id"]) == ("tasks", task["task_id"])
    assert "TTL is 60" in found["summary"]
    assert "taskmem record on" in answer["message"]


def test_how_a_key_was_added_is_recalled_from_the_screen(
    story: Story, screen: Screen, person: Shell, shown_address: Path, tmp_path: Path
):
    house, began = story.house, datetime.now(UTC)
    assert "is recorded from now on" in person.type("record on")
    with Site() as site, open_chromium(screen, tmp_path / "profile") as page:
        root = f"http://127.0.0.1:{site.server_port}"
        page.goto(f"{root}/news")
        wait_for_moment(house, "Weather for the weekend")
        page.goto(f"{root}/settings/keys")
        wait_for_moment(house, "SSH and GPG keys · GitHub")
        page.get_by_role("link", name="New SSH key").click()
        wait_for_moment(house, "Add new SSH key · GitHub")
        page.locator("#title").type("alxdws2")
        page.locator("#key").type("ssh-ed25519 AAAAC3Nza")
        page.get_by_role("link", name="Add SSH key").click()
        wait_for_moment(house, "SSH and GPG keys · GitHub")
    assert "Nothing is recorded" in person.type("record off")

    found = ask_agent(story, "how did I add an SSH key on GitHub")["results"][0]

    assert found["source"] == "screen"
    assert began <= datetime.fromisoformat(found["timestamp"]) <= datetime.now(UTC)
    assert found["duration_seconds"] > 0
    assert found["confidence"] > 0.5
    assert "SSH and GPG keys · GitHub" in found["summary"]
    assert any("Add new SSH key · GitHub" in step for step in found["steps"])
    assert any("alxdws2" in step for step in found["steps"])
    assert 0 < found["video_start_ms"] < found["video_end_ms"]

    person.type(f"open {found['video_url']}")
    with open_chromium(screen, tmp_path / "reader") as page:
        page.goto(shown_address.read_text())
        asked = page.locator("article.asked")
        expect(asked.locator("h2")).to_contain_text("SSH")
        expect(asked.locator("img")).to_be_in_viewport()
        assert asked.locator("img").evaluate("picture => picture.naturalWidth") > 0
        expect(page.locator("article").first.locator("h2")).to_contain_text("Weather")

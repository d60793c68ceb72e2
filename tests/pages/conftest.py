"""A home in which much goes on, its pages, and a browser that looks at them."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import NamedTuple

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.support.daemons import COMMAND, TURNED, Daemon, environment, short_home
from tests.support.required import do_without
from tests.support.showcase import Showcase, play_showcase
from tests.support.waiting import PATIENCE

expect.set_options(timeout=1000 * PATIENCE)


class ServedPages(NamedTuple):
    """What `taskmem ui` serves."""

    link: str
    """Opens the pages, once."""
    origin: str
    process: subprocess.Popen[str]

    def enter(self) -> str:
        """Use the link as a browser's script does; return the address of the pages."""
        token = self.link.partition("#")[2]
        own = {"Origin": self.origin}
        answer = httpx.post(f"{self.origin}/enter", data={"token": token}, headers=own)
        return self.origin + str(answer.json()["path"])


@contextmanager
def serve_pages(
    daemon: Daemon, *, person: bool = True, opens: Mapping[str, str] | None = None
) -> Iterator[ServedPages]:
    """Run `taskmem ui`, as a person at a terminal or as an agent does, and end it.

    `opens` are variables by which a browser is found and opened; None: none is.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "ui", *(("--no-open",) if opens is None else ())],
        env={**environment(daemon.home), **(opens or {})},
        stdin=theirs if person else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline()
        [link] = re.findall(r"http\S+", said)
        yield ServedPages(link, link.partition("/#")[0], process)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
        os.close(ours)
        os.close(theirs)


@pytest.fixture(scope="module")
def showcase() -> Iterator[Showcase]:
    """A home in which much goes on."""
    with short_home() as home, tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(home, site=TURNED)
        daemon.wait_until_it_serves()
        try:
            with play_showcase(daemon, Path(folder)) as played:
                yield played
        finally:
            daemon.close()


@pytest.fixture(scope="module")
def pages(showcase: Showcase) -> Iterator[ServedPages]:
    """The pages of that home."""
    with serve_pages(showcase.daemon) as served:
        yield served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A real Chromium."""
    program = which("chromium") or which("google-chrome")
    if program is None:
        do_without("No Chromium is here; install the package chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-background-networking", "--disable-component-update"],
        )
        yield browser
        browser.close()


class OpenPages(NamedTuple):
    """Pages that a browser has opened by their link."""

    root: str
    """The address of the overview, which has the key."""
    page: Page


@pytest.fixture(scope="module")
def opened_pages(chromium: Browser, pages: ServedPages) -> Iterator[OpenPages]:
    """A browser page that has used the link."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.goto(pages.link)
    expect(page.locator("#live")).to_have_text("page is live")
    yield OpenPages(page.url, page)
    context.close()


@pytest.fixture
def root(opened_pages: OpenPages) -> str:
    """The address of the overview."""
    return opened_pages.root


@pytest.fixture
def page(opened_pages: OpenPages) -> Iterator[Page]:
    """The overview; nothing may go wrong in its scripts while a test looks at it."""
    faults: list[str] = []
    page = opened_pages.page
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: _note_fault(said, faults))
    page.set_viewport_size({"width": 1200, "height": 900})
    page.emulate_media(color_scheme="light")
    page.goto(opened_pages.root)
    expect(page.locator("#live")).to_have_text("page is live")
    yield page
    page.unroute_all()
    assert faults == []


def _note_fault(said: ConsoleMessage, faults: list[str]) -> None:
    """Note an error of a script; that an act was refused is none."""
    if said.type == "error" and not said.text.startswith("Failed to load resource"):
        faults.append(said.text)

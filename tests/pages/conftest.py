"""A home in which much goes on, its pages, and a browser that looks at them."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.support.daemons import COMMAND, Daemon, environment, short_home
from tests.support.required import do_without
from tests.support.showcase import Showcase, play_showcase
from tests.support.waiting import PATIENCE

expect.set_options(timeout=1000 * PATIENCE)


class ServedPages(NamedTuple):
    """What `taskmem ui` serves."""

    link: str
    """Opens the pages, once."""
    root: str
    process: subprocess.Popen[str]


@contextmanager
def serve_pages(daemon: Daemon, *, person: bool = True) -> Iterator[ServedPages]:
    """Run `taskmem ui`, as a person at a terminal or as an agent does, and end it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "ui", "--no-open"],
        env=environment(daemon.home),
        stdin=theirs if person else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline()
        [link] = re.findall(r"http\S+", said)
        yield ServedPages(link, link.partition("enter?")[0], process)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
        os.close(ours)
        os.close(theirs)


@pytest.fixture(scope="module")
def showcase() -> Iterator[Showcase]:
    """A home in which much goes on."""
    with short_home() as home, tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(home)
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


@pytest.fixture(scope="module")
def signed_in(chromium: Browser, pages: ServedPages) -> Iterator[Page]:
    """A browser page that has used the link."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.goto(pages.link)
    yield page
    context.close()


@pytest.fixture
def page(signed_in: Page, pages: ServedPages) -> Iterator[Page]:
    """The overview; nothing may go wrong in its scripts while a test looks at it."""
    faults: list[str] = []
    signed_in.on("pageerror", lambda error: faults.append(str(error)))
    signed_in.on("console", lambda said: _note_fault(said, faults))
    signed_in.set_viewport_size({"width": 1200, "height": 900})
    signed_in.emulate_media(color_scheme="light")
    signed_in.goto(pages.root)
    expect(signed_in.locator("#live")).to_have_text("live")
    yield signed_in
    assert faults == []


def _note_fault(said: ConsoleMessage, faults: list[str]) -> None:
    """Note an error of a script; that an act was refused is none."""
    if said.type == "error" and not said.text.startswith("Failed to load resource"):
        faults.append(said.text)

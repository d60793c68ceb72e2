"""A real browser on a real display: downloads and pages are waited for.

Source: docs/origins.md, "Targets".
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openclaw_taskmem.cli.client import LinkError
from tests.plugins.vision.fake_gemini import FakeGemini, looks
from tests.support.browsing import SIZE, Site, open_browser
from tests.support.daemons import NO_KEYS, await_ended, row
from tests.support.inks import INK, has_ink
from tests.support.screens import Screen, require_screen
from tests.support.sway import Sway, require_sway
from tests.support.waiting import until

DOWNLOADED = (
    "File download completes (progress bar disappears or 'Download complete' "
    "notification appears), or an error dialog/message appears"
)
NO_DISPLAY = {**NO_KEYS, "DISPLAY": "", "WAYLAND_DISPLAY": ""}
RENDERED = "Data table is fully rendered with rows visible, not just a loading spinner"


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as found:
        yield found


BOTH = pytest.mark.parametrize("screen", ["X11", "Wayland"], indirect=True)


@pytest.fixture
def screen(request: pytest.FixtureRequest) -> Iterator[Screen]:
    """A display with a window manager: of X11, unless the test says otherwise."""
    wayland = getattr(request, "param", "X11") == "Wayland"
    (require_sway if wayland else require_screen)("chromium")
    with (Sway if wayland else Screen)((1280, 900)) as found:
        yield found


def open_wait(daemon, wake_when, target="window:Reports"):
    """Begin to wait, as soon as the window has its title."""
    asked = {"target": target, "wake_when": wake_when, "timeout": 120}

    def begin_wait():
        try:
            return daemon.call("smart_wait", **asked)["wait_id"]
        except LinkError:
            return None

    return until(begin_wait, "the window has its title")


@BOTH
def test_a_download_that_completes_resolves_its_wait(start, screen, site):
    with open_browser(screen, site, "/download") as downloads:

        def holds(words, pictures):
            there = downloads / "report.csv"
            return (
                words == DOWNLOADED
                and bool(pictures)
                and there.exists()
                and there.stat().st_size == SIZE
            )

        with FakeGemini(looks(holds)) as model:
            daemon = start(**NO_DISPLAY | model.environ | screen.variables)
            wait = open_wait(daemon, DOWNLOADED)
            model.wait_for(1)
            assert row(daemon, wait)["status"] == "watching"
            site.go.set()
            assert await_ended(daemon, wait)["status"] == "resolved"


def test_a_wait_that_came_too_early_is_refined(start, screen, site):
    def holds(words, pictures):
        return words == "The page is there" or (
            words == RENDERED and any(has_ink(each, INK) for each in pictures)
        )

    with FakeGemini(looks(holds)) as model, open_browser(screen, site, "/table"):
        daemon = start(**NO_DISPLAY | model.environ | screen.variables)
        wait = open_wait(daemon, "The page is there")
        assert await_ended(daemon, wait)["status"] == "resolved"
        asked = len(model.requests)
        answer = daemon.call(
            "wait_update",
            wait_id=wait,
            wake_when=RENDERED,
            timeout=60,
            message="Page loaded but table still rendering: refining condition",
        )
        assert answer["status"] == "watching"
        model.wait_for(asked + 1)
        assert row(daemon, wait)["status"] == "watching"
        site.go.set()
        assert await_ended(daemon, wait)["status"] == "resolved"


def test_wait_without_api_key_reads_download_end_off_screen(start, screen, site):
    with open_browser(screen, site, "/download"):
        daemon = start(**NO_DISPLAY | screen.variables)
        wait = open_wait(daemon, 'shows "report.csv" and "Done"', "screen")
        wait_until_read(daemon, wait, "does not show")
        site.go.set()
        assert await_ended(daemon, wait)["status"] == "resolved"


@BOTH
def test_wait_without_api_key_reads_line_changed_midway_whole(start, screen, site):
    with open_browser(screen, site, "/dialog"):
        daemon = start(**NO_DISPLAY | screen.variables)
        wait = open_wait(daemon, 'shows "Download complete"')
        wait_until_read(daemon, wait, "does not show")
        site.go.set()
        found = await_ended(daemon, wait)
        assert found["status"] == "resolved"
        assert found["last_observation"] == 'The text shows "Download complete".'


def test_without_a_key_a_dialog_is_read_off_the_screen(start, screen, site):
    with open_browser(screen, site, "/dialog"):
        daemon = start(**NO_DISPLAY | screen.variables)
        wait = open_wait(daemon, 'a dialog says "The report was saved"', "screen")
        wait_until_read(daemon, wait, "does not show")
        site.go.set()
        assert await_ended(daemon, wait)["status"] == "resolved"


def wait_until_read(daemon, wait, words):
    until(lambda: words in str(row(daemon, wait)["last_observation"]), f"it is read: {words}")

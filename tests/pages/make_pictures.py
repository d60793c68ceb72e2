"""Make the pictures of the pages: `.venv/bin/python tests/pages/make_pictures.py`.

They are taken from a real home, which a daemon serves and a stand-in for a gateway fills.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what the tests play

from playwright.sync_api import expect, sync_playwright

from tests.pages.conftest import serve_pages
from tests.support.daemons import Daemon, short_home
from tests.support.showcase import Showcase, play_showcase

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


def make_pictures(daemon: Daemon, shown: Showcase) -> None:
    """Look at the main pages, in light and in dark, and keep what is seen."""
    with serve_pages(daemon) as pages, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1040, "height": 720})
        page.goto(pages.link)
        looks = {
            "overview": ("", "light"),
            "overview-dark": ("", "dark"),
            "task": (f"task?id={shown.tasks['certificates']}", "light"),
            "wait": (f"wait?id={shown.wait}", "light"),
        }
        for name, (path, scheme) in looks.items():
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(pages.root + path)
            expect(page.locator("#live")).to_have_text("live")
            page.screenshot(path=PICTURES / f"{name}.png")
        browser.close()


def main() -> None:
    """Play the showcase, and make the pictures."""
    with short_home() as home, tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(home)
        daemon.wait_until_it_serves()
        with play_showcase(daemon, Path(folder)) as shown:
            make_pictures(daemon, shown)
        daemon.close()


if __name__ == "__main__":
    main()

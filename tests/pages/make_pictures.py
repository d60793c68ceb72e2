"""Make the pictures of the pages: `.venv/bin/python tests/pages/make_pictures.py`.

They are taken from a real home, which a daemon serves and a stand-in for a gateway fills.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what the tests play

from PIL import Image
from playwright.sync_api import expect, sync_playwright

from tests.pages.conftest import serve_pages
from tests.support.daemons import TURNED, Daemon, short_home
from tests.support.showcase import Showcase, play_showcase

WIDE, TALL, NARROW = (1040, 780), (1040, 1350), (360, 780)
"""Windows that are looked at, in pixels."""
COLOURS = 256
"""Colours of a picture: with fewer, a green dot becomes grey."""
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


def make_pictures(daemon: Daemon, shown: Showcase) -> None:
    """Look at the main pages, in light and in dark, and keep what is seen."""
    with serve_pages(daemon) as pages, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1040, "height": 720})
        page.goto(pages.link)
        expect(page.locator("#live")).to_have_text("page is live")
        root = page.url
        tasks = {name: f"task?id={task}" for name, task in shown.tasks.items()}
        looks = {
            "overview": ("", "light", TALL),
            "overview-dark": ("", "dark", TALL),
            "overview-narrow": ("", "light", NARROW),
            "task": (tasks["certificates"], "light", WIDE),
            "failed": (tasks["backup"], "light", WIDE),
            "review": (tasks["report"], "light", WIDE),
            "wait": (f"wait?id={shown.wait}", "light", WIDE),
        }
        for name, (path, scheme, (width, height)) in looks.items():
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": height})
            page.goto(root + path)
            expect(page.locator("#live")).to_have_text("page is live")
            picture = PICTURES / f"{name}.png"
            page.screenshot(path=picture, full_page=True)
            with Image.open(picture) as taken:
                taken.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(
                    picture, optimize=True
                )
        browser.close()


def main() -> None:
    """Play the showcase, and make the pictures."""
    with short_home() as home, tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(home, site=TURNED)
        daemon.wait_until_it_serves()
        with play_showcase(daemon, Path(folder)) as shown:
            make_pictures(daemon, shown)
        daemon.close()


if __name__ == "__main__":
    main()

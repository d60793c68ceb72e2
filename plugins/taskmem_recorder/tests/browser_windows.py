"""Windows of a real browser, open and private ones."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.desktop import desktop
from tests.support.inks import INK
from tests.support.processes import bind_command, end
from tests.support.screens import Screen
from tests.support.waiting import until


class BrowserWindows:
    """One browser with a profile of its own, and as many windows as a test opens."""

    def __init__(self, screen: Screen, home: str, options: tuple[str, ...]) -> None:
        self._screen = screen
        self._home = home
        self._options = options
        self._running: list[subprocess.Popen[bytes]] = []
        self._pages = 0

    def open_page(self, title: str, text: str, *options: str, ink: bool = False) -> None:
        """Show a page in a window of its own; return when the window has its title."""
        ground = INK.colour if ink else "white"
        self._pages += 1
        page = Path(self._home, f"{self._pages}.html")
        page.write_text(
            f"<!doctype html><meta charset=utf-8><title>{title}</title>"
            f"<body style='font: 28px DejaVu Sans; background: {ground}'><p>{text}</p>"
        )
        # The first one stays; others hand their page over to it, and end.
        self._running.append(
            subprocess.Popen(
                bind_command(
                    *("chromium", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                    *("--disable-background-networking", "--disable-component-update"),
                    *("--disable-sync", "--password-store=basic", "--new-window"),
                    *("--window-size=900,560", f"--user-data-dir={self._home}/profile"),
                    *(*self._options, *options, page.as_uri()),
                ),
                env={**self._screen.environ, "HOME": self._home},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        with desktop(self._screen.display) as found:
            until(lambda: any(title in each for each in found.titles), f"a window of {title}")

    def close(self) -> None:
        for each in self._running:
            end(each)


@contextmanager
def open_windows(screen: Screen, *options: str) -> Iterator[BrowserWindows]:
    """Give a browser that ends with the test."""
    with tempfile.TemporaryDirectory(prefix="tmb", ignore_cleanup_errors=True) as home:
        browser = BrowserWindows(screen, home, options)
        try:
            yield browser
        finally:
            browser.close()

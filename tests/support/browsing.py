"""A real browser with a home of its own, and a site that a test holds back."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from tests.support.inks import INK
from tests.support.processes import bind_command, end
from tests.support.screens import Screen

SIZE = 100_000
"""Bytes of the report; half of them come at once."""
PATIENCE = 60.0
"""Seconds that a browser may take to show a page."""

_STYLE = "<!doctype html><title>Reports</title><body style='font: 20px DejaVu Sans'>"
PAGES = {
    "/download": f"""{_STYLE}<h1>Reports</h1><a id=report href=/report.csv>Get it</a>
<script>addEventListener("load", () => report.click())</script>""",
    "/table": f"""{_STYLE}<h1>Reports</h1>
<style>
  #spinner {{ width: 24px; height: 24px; border: 4px solid #ccc;
    border-top-color: #333; border-radius: 50%; animation: turn 1s linear infinite }}
  @keyframes turn {{ to {{ transform: rotate(360deg) }} }}
  td {{ background: {INK.colour}; color: white; padding: 6px }}
</style>
<div id=spinner></div><table id=rows></table>
<script>
fetch("/report.csv").then(answer => answer.text()).then(() => {{
  spinner.remove();
  for (let row = 1; row < 9; row++)
    rows.insertRow().insertCell().textContent = `Row ${{row}}`;
}});
</script>""",
    "/dialog": f"""{_STYLE}<h1>Reports</h1><p id=said>Nothing yet.</p>
<script>
fetch("/report.csv").then(async answer => {{
  const reader = answer.body.getReader();
  for (let size = 0;;) {{
    const {{done, value}} = await reader.read();
    if (done) break;
    said.textContent = `Downloading: ${{size += value.length}} bytes`;
  }}
  said.textContent = "Download complete: the report";
  setTimeout(() => alert("The report was saved."), 1500);
}});
</script>""",
}


class Site(ThreadingHTTPServer):
    """Pages, and a report that comes in two halves."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.go = threading.Event()
        """Set by a test that lets the second half go."""
        self.asked = threading.Event()
        """Set once the first half is out."""

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,)).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/report.csv":
            self._head("text/csv", SIZE, "attachment")
            self.wfile.write(b"x" * (SIZE // 2))
            self.wfile.flush()
            self.server.asked.set()
            self.server.go.wait(PATIENCE)
            self.wfile.write(b"x" * (SIZE - SIZE // 2))
        elif self.path in PAGES:
            page = PAGES[self.path].encode()
            self._head("text/html", len(page), "inline")
            self.wfile.write(page)
        else:
            self.send_error(404)

    def _head(self, kind: str, size: int, how: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.send_header("Content-Disposition", how)
        self.end_headers()


@contextmanager
def open_browser(screen: Screen, site: Site, page: str) -> Iterator[Path]:
    """Show a page in a browser of its own; gives the folder of its downloads.

    It has begun when the page has asked for the report.
    """
    with tempfile.TemporaryDirectory(prefix="tmb", ignore_cleanup_errors=True) as home:
        browser = subprocess.Popen(
            bind_command(
                *("chromium", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update"),
                *("--disable-sync", "--disable-quic", "--password-store=basic"),
                *("--disable-features=Translate", "--window-size=1000,700"),
                f"--ozone-platform={'wayland' if screen.is_wayland else 'x11'}",
                f"--user-data-dir={home}/profile",
                f"http://127.0.0.1:{site.server_port}{page}",
            ),
            env={**screen.environ, "HOME": home},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert site.asked.wait(PATIENCE), "the browser shows no page"
            yield Path(home, "Downloads")
        finally:
            end(browser)

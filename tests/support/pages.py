"""A web server on loopback whose pages a test decides, and its certificate."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.required import do_without

Answer = tuple[int, dict[str, str], bytes | Callable[[], Iterable[bytes]]]
"""Status, headers and body of a page."""


class PageServer(ThreadingHTTPServer):
    """Serves pages by their paths."""

    daemon_threads = True

    def __init__(self, host: str, pages: MutableMapping[str, Answer]) -> None:
        super().__init__((host, 0), _Page)
        self.pages = pages
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Path and headers of each request."""
        self.port = int(self.server_address[1])


class _Page(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        found = self.server.pages.get(self.path.partition("?")[0])
        status, headers, body = found or (404, {}, b"")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            for piece in body() if callable(body) else [body]:
                self.wfile.write(piece)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve_pages(
    pages: MutableMapping[str, Answer],
    *,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> Iterator[PageServer]:
    server = PageServer(host, pages)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Make a certificate of a host for two days; return the server's side and the client's."""
    program = shutil.which("openssl")
    if program is None:
        do_without("openssl is not installed: apt-get install openssl")
    key, certificate = folder / "key", folder / "certificate"
    subprocess.run(
        [
            *(program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={host}", "-keyout", key, "-out", certificate),
            *("-addext", f"subjectAltName=DNS:{host}"),
        ],
        check=True,
        capture_output=True,
    )
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate, key)
    return ours, ssl.create_default_context(cafile=certificate)

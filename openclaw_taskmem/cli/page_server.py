"""`taskmem ui`: serve the pages on loopback, to one browser, until nobody looks any more.

The daemon renders the pages; this only carries them over HTTP, and starts no daemon. All pages are
below a path that contains a random key. The link contains a token instead, after `#`, which no
browser sends with a request: the script of the first page exchanges it for the key, once. Requests
with another host name, or from another page, are refused.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import mimetypes
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from openclaw_taskmem.cli.client import Link, LinkError, connect
from openclaw_taskmem.domain.views.user_actions import READ_ONLY
from openclaw_taskmem.home import Home

IDLE_SECONDS: Final = 600.0
"""Seconds without a request of somebody who may look, after which the server ends. An open page
asks every 25 s."""
_HELD_SECONDS: Final = 25.0
"""Seconds after which a page that waits for a change is answered anyway."""
RETRY_SECONDS: Final = 1.0
"""Seconds between two tries to reach the daemon."""
MOST_CONNECTIONS: Final = 100
"""Open connections; for one more the oldest that has not shown the key is closed, so that no flood
takes all files of the process, or the place of the user's browser."""
REQUEST_SECONDS: Final = 10.0
"""Seconds within which a request must be whole."""
_SHOWED_KEY: Final = "taskmem.showed_key"
"""Mark in the scope of a request whose address has the key."""
_BACKLOG: Final = 64
"""Connections that are accepted at a time, before the first of them is closed."""
MOST_BYTES: Final = 64 * 1024
"""Bytes of the longest request that is read."""
FIELDS: Final = ("id", "action", "words", "question_id", "files_id")
"""Fields of an act that a form may give; who acts is not among them."""
_COUNT_DIGITS: Final = 15
"""Digits of the longest count that is read."""
_STYLE: Final = "style.css"
_STATIC_FILES: Final = {"/": "enter.html", "/enter.js": "enter.js", "/favicon.ico": "icon.svg"}
"""Files that need no key; browsers ask for the icon where a page names none."""
CALL_SECONDS: Final = 60.0
"""Seconds for one answer of the daemon."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer:
    """Serves one home's pages to one browser."""

    def __init__(self, home: Home, *, may_act: bool) -> None:
        """Listen on a free port of loopback.

        `may_act`: True if the pages offer what a person may do.
        """
        self._home, self._may_act = home, may_act
        self._token: str | None = secrets.token_urlsafe(32)
        """Exchanged for the key by the first who has it; None: it was."""
        self._key = secrets.token_urlsafe(32)
        self._socket = socket.create_server(("127.0.0.1", 0))
        # Connections inherit it. asyncio sets it only on sockets that name their protocol.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._asked = asyncio.Event()
        self._feed = _ChangeFeed(home)
        self.link: Final = f"http://{self._address}/#{self._token}"
        """Opens the pages, once."""

    async def serve(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Serve until nobody who may look has asked for `idle_seconds`, or the caller cancels."""
        # What asyncio logs of connections is not for the terminal of the user.
        logging.getLogger("asyncio").addHandler(logging.NullHandler())
        config = uvicorn.Config(
            self.build_app(),
            http=_LimitedProtocol,
            backlog=_BACKLOG,
            lifespan="off",
            ws="none",
            access_log=False,
            # A page that waits for a change is not waited for at the end.
            timeout_graceful_shutdown=0,
            log_level="critical",
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([self._socket]))
        try:
            while await self._await_request(serving, idle_seconds):
                continue
        finally:
            self._feed.close()
            server.should_exit = True
            await serving

    async def _await_request(self, serving: asyncio.Task[None], idle_seconds: float) -> bool:
        """Wait for a request; False: none came in `idle_seconds`, or the server ended."""
        self._asked.clear()
        asked = asyncio.create_task(self._asked.wait())
        done, _ = await asyncio.wait(
            {serving, asked}, timeout=idle_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        asked.cancel()
        return asked in done and not serving.done()

    @contextmanager
    def write_redirect(self) -> Generator[Path]:
        """Give a file, for this user alone, that leads a browser to the link.

        A browser is given this file, since other users can read the arguments of its process.
        """
        with tempfile.NamedTemporaryFile(
            "w", dir=self._home.folder, prefix="pages-", suffix=".html"
        ) as file:
            file.write(
                '<!doctype html><meta charset="utf-8"><title>Task memory</title>'
                '<meta name="referrer" content="no-referrer">'
                f'<meta http-equiv="refresh" content="0; url={self.link}">'
            )
            file.flush()
            yield Path(file.name)

    def build_app(self) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                *(Route(path, self._guard(_show_static, keyed=False)) for path in _STATIC_FILES),
                Route("/enter", self._guard(self._enter, keyed=False), methods=["POST"]),
                Route("/{key}/act", self._guard(self._act), methods=["POST"]),
                Route("/{key}/changes", self._guard(self._wait_for_changes)),
                Route("/{key}/{path:path}", self._guard(self._show_page)),
                Route("/{key:path}", self._guard(self._add_slash)),
            ]
        )

    def _guard(
        self, answer: Callable[[Request], Awaitable[Response]], *, keyed: bool = True
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer_if_allowed(request: Request) -> Response:
            response = self._find_refusal(request, keyed=keyed)
            if response is None:
                if keyed:
                    self._asked.set()
                    request.scope[_SHOWED_KEY] = True
                try:
                    response = await answer(request)
                except LinkError as error:
                    response = _answer_error(request, error)
            response.headers.update(_HEADERS)
            return response

        return answer_if_allowed

    def _find_refusal(self, request: Request, *, keyed: bool) -> Response | None:
        """Return why a request is refused; None: it is not."""
        if request.headers.get("host") != self._address:
            return PlainTextResponse("This address is not served here.", 421)
        origin = request.headers.get("origin")
        if origin not in (None, f"http://{self._address}") or (
            origin is None and request.method == "POST"
        ):
            return PlainTextResponse("Another page asks, and is refused.", 403)
        if keyed and not _is_equal(request.path_params["key"], self._key):
            sentence = "There are no pages at this address; open them with: taskmem ui"
            return PlainTextResponse(sentence, 403)
        return None

    async def _enter(self, request: Request) -> Response:
        given = (await self._read_form(request) or {}).get("token", "")
        if self._token is None or not _is_equal(given, self._token):
            message = "This link was used before; get another: taskmem ui"
            return JSONResponse({"message": message}, 403)
        self._token = None
        self._asked.set()
        return JSONResponse({"path": f"/{self._key}/"})

    async def _add_slash(self, _: Request) -> Response:
        return RedirectResponse(f"/{self._key}/")  # the pages' links are relative

    async def _show_page(self, request: Request) -> Response:
        if request.path_params["path"] == _STYLE:  # also where no daemon answers
            return _send_static(_STYLE)
        found = await self._call(
            "page",
            path=request.path_params["path"],
            query=dict(request.query_params),
            may_act=self._may_act,
        )
        body = base64.b64decode(found["body"])
        return Response(body, found["status"], media_type=found["content_type"])

    async def _wait_for_changes(self, request: Request) -> Response:
        seen = await self._feed.wait_beyond(parse_counts(request.query_params.get("seen", "")))
        if seen is None:
            return PlainTextResponse("The daemon is away; it is asked again.", 503)
        return JSONResponse({"seen": ".".join(map(str, seen))})

    async def _act(self, request: Request) -> Response:
        if not self._may_act:
            return JSONResponse({"message": READ_ONLY}, 403)
        given = await self._read_form(request)
        if given is None:
            return JSONResponse({"message": "That is too long; shorten it."}, 413)
        fields = {name: given[name] for name in FIELDS if name in given}
        found = await self._call("act", **fields)
        return JSONResponse({"message": found["message"]})

    async def _read_form(self, request: Request) -> dict[str, str] | None:
        """Return the fields of a form; None: it is too long."""
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return None
        return dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))

    async def _call(self, method: str, **params: Any) -> Any:  # noqa: ANN401 - JSON
        def call() -> Any:  # noqa: ANN401 - JSON
            with connect(self._home) as link:
                return link.call(method, params, CALL_SECONDS)

        return await asyncio.to_thread(call)


class _LimitedProtocol(H11Protocol):
    """Closes connections of others before the user's, and those that send no whole request.

    Uvicorn's `limit_concurrency` answers a connection beyond the limit, and keeps it open; it waits
    for a first request for ever.
    """

    _is_known = False
    """True once a request showed the key."""
    _timer: asyncio.TimerHandle | None = None
    """Closes the connection while a request is not whole."""
    made_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.made_at = self.loop.time()
        self._limit_request()
        if len(self.connections) > MOST_CONNECTIONS:
            open_ones = (each for each in self.connections if isinstance(each, _LimitedProtocol))
            min(open_ones, key=lambda each: (each.is_known(), each.made_at)).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.is_known()  # before another request takes the place of the last
        super().data_received(data)
        self._limit_request()

    def is_known(self) -> bool:
        """Return whether a request of this connection showed the key."""
        self._is_known = self._is_known or _SHOWED_KEY in (self.scope or {})
        return self._is_known

    def _limit_request(self) -> None:
        """Begin to wait for the rest of a request, or end it."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _ChangeFeed:
    """Asks the daemon for changes, on one connection for all open pages."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._asking: asyncio.Task[None] | None = None
        self._link: Link | None = None
        self._counts: list[int] | None = []
        """The daemon's process, and what it has counted so far; empty: not asked yet; None: it is
        away."""
        self._news = asyncio.Event()

    async def wait_beyond(self, seen: list[int]) -> list[int] | None:
        """Return what the daemon has counted once it is beyond `seen`, or after `_HELD_SECONDS`.

        A page that was read a moment ago may have seen more than this has heard of yet. None: the
        daemon is away.
        """
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_forever())
        with suppress(TimeoutError):
            async with asyncio.timeout(_HELD_SECONDS):
                while self._counts is not None and not is_beyond(self._counts, seen):
                    await self._news.wait()
        return self._counts

    def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
        if self._link is not None:
            self._link.socket.shutdown(socket.SHUT_RDWR)  # the thread that reads ends by this

    async def _ask_forever(self) -> None:
        while True:
            with suppress(LinkError, OSError):
                await self._ask_until_it_ends()
            self._note(None)
            await asyncio.sleep(RETRY_SECONDS)

    async def _ask_until_it_ends(self) -> None:
        link = await asyncio.to_thread(connect, self._home)
        with link:
            self._link, counts = link, None
            try:
                while True:
                    asked = {"seen": counts}
                    found = await asyncio.to_thread(link.call, "changes", asked, CALL_SECONDS)
                    counts = found["seen"]
                    self._note(counts)
            finally:
                self._link = None

    def _note(self, counts: list[int] | None) -> None:
        if counts != self._counts:
            self._counts = counts
            self._news.set()
            self._news = asyncio.Event()


def parse_counts(text: str) -> list[int]:
    """Return the counts that a page has seen; empty: it gave none."""
    parts = text.split(".")
    readable = all(each.isdecimal() and len(each) <= _COUNT_DIGITS for each in parts)
    return [int(each) for each in parts] if readable else []


def is_beyond(counts: list[int], seen: list[int]) -> bool:
    """Tell whether a daemon has counted more than was seen, or another one was seen."""
    if counts[:1] != seen[:1] or len(counts) != len(seen):
        return bool(counts)
    return any(count > known for count, known in zip(counts, seen, strict=True))


def _is_equal(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())


def _answer_error(request: Request, error: LinkError) -> Response:
    """Say what went wrong, as the page expects it."""
    status = 503 if error.name == "daemon_unavailable" else 409
    if request.method == "POST":
        return JSONResponse({"message": str(error)}, status)
    page = (files("openclaw_taskmem.pages") / "static" / "away.html").read_text()
    return HTMLResponse(page.replace("SENTENCE", escape(str(error))), status)


async def _show_static(request: Request) -> Response:
    return _send_static(_STATIC_FILES[request.url.path])


def _send_static(name: str) -> Response:
    body = (files("openclaw_taskmem.pages") / "static" / name).read_bytes()
    return Response(body, media_type=mimetypes.guess_type(name)[0])

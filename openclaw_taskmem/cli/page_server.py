"""`taskmem ui`: serve the pages on loopback, to one browser, until nobody looks any more.

The daemon renders the pages; this only carries them over HTTP, and starts no daemon. Whoever has
the link may look once: it sets a cookie and is void from then on. Requests with another host name,
or from another page, are refused.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from html import escape
from typing import Any, Final
from urllib.parse import parse_qsl

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

from openclaw_taskmem.cli.client import Link, LinkError, connect
from openclaw_taskmem.home import Home

COOKIE: Final = "taskmem"
IDLE_SECONDS: Final = 600.0
"""Seconds without a request after which the server ends. An open page asks every 25 s."""
HELD_SECONDS: Final = 25.0
"""Seconds after which a page that waits for a change is answered anyway."""
RETRY_SECONDS: Final = 1.0
"""Seconds between two tries to reach the daemon."""
MOST_BYTES: Final = 64 * 1024
"""Bytes of the longest request that is read."""
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
        self._key: str | None = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._asked = asyncio.Event()
        self._feed = _ChangeFeed(home)
        self.link: Final = f"http://{self._address}/enter?key={self._key}"
        """Opens the pages, once."""

    async def serve(self, idle_seconds: float = IDLE_SECONDS) -> None:
        """Serve until nobody has asked for anything for `idle_seconds`, or the caller cancels."""
        config = uvicorn.Config(
            self.build_app(),
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

    def build_app(self) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route("/enter", self._guard(self._enter, signed_in=False)),
                Route("/act", self._guard(self._act), methods=["POST"]),
                Route("/changes", self._guard(self._wait_for_changes)),
                Route("/{path:path}", self._guard(self._show_page)),
            ]
        )

    def _guard(
        self, answer: Callable[[Request], Awaitable[Response]], *, signed_in: bool = True
    ) -> Callable[[Request], Awaitable[Response]]:
        async def answer_if_allowed(request: Request) -> Response:
            self._asked.set()
            response = self._find_refusal(request, signed_in=signed_in)
            if response is None:
                try:
                    response = await answer(request)
                except LinkError as error:
                    response = _answer_error(request, error)
            response.headers.update(_HEADERS)
            return response

        return answer_if_allowed

    def _find_refusal(self, request: Request, *, signed_in: bool) -> Response | None:
        """Return why a request is refused; None: it is not."""
        if request.headers.get("host") != self._address:
            return PlainTextResponse("This address is not served here.", 421)
        origin = request.headers.get("origin")
        if origin not in (None, f"http://{self._address}") or (
            origin is None and request.method == "POST"
        ):
            return PlainTextResponse("Another page asks, and is refused.", 403)
        cookie = request.cookies.get(COOKIE, "")
        if signed_in and not hmac.compare_digest(cookie.encode(), self._cookie.encode()):
            sentence = "This browser has no link to these pages; get one with: taskmem ui"
            return PlainTextResponse(sentence, 403)
        return None

    async def _enter(self, request: Request) -> Response:
        given = request.query_params.get("key", "")
        if self._key is None or not hmac.compare_digest(given.encode(), self._key.encode()):
            return PlainTextResponse("This link was used before; get another: taskmem ui", 403)
        self._key = None
        response = RedirectResponse("/", 303)
        response.set_cookie(COOKIE, self._cookie, httponly=True, samesite="strict", path="/")
        return response

    async def _show_page(self, request: Request) -> Response:
        found = await self._call(
            "page",
            path=request.path_params["path"],
            query=dict(request.query_params),
            may_act=self._may_act,
        )
        body = base64.b64decode(found["body"])
        return Response(body, found["status"], media_type=found["content_type"])

    async def _wait_for_changes(self, request: Request) -> Response:
        seen = await self._feed.wait_beyond(request.query_params.get("seen", ""))
        if seen is None:
            return PlainTextResponse("The daemon is away; it is asked again.", 503)
        return JSONResponse({"seen": seen})

    async def _act(self, request: Request) -> Response:
        if not self._may_act:
            return JSONResponse({"message": "These pages can only be looked at."}, 403)
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return JSONResponse({"message": "That is too long; shorten it."}, 413)
        given = dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
        found = await self._call("act", **given)
        return JSONResponse({"message": found["message"]})

    async def _call(self, method: str, **params: Any) -> Any:  # noqa: ANN401 - JSON
        def call() -> Any:  # noqa: ANN401 - JSON
            with connect(self._home) as link:
                return link.call(method, params, CALL_SECONDS)

        return await asyncio.to_thread(call)


class _ChangeFeed:
    """Asks the daemon for changes, on one connection for all open pages."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._asking: asyncio.Task[None] | None = None
        self._link: Link | None = None
        self._seen: str | None = ""
        """What the daemon has counted so far; empty: not asked yet; None: it is away."""
        self._news = asyncio.Event()

    async def wait_beyond(self, seen: str) -> str | None:
        """Return what the daemon has counted once it is not `seen`, or after `HELD_SECONDS`.

        None: the daemon is away.
        """
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_forever())
        with suppress(TimeoutError):
            async with asyncio.timeout(HELD_SECONDS):
                while self._seen in ("", seen):
                    await self._news.wait()
        return self._seen

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
                    self._note(".".join(map(str, counts)))
            finally:
                self._link = None

    def _note(self, seen: str | None) -> None:
        if seen != self._seen:
            self._seen = seen
            self._news.set()
            self._news = asyncio.Event()


def _answer_error(request: Request, error: LinkError) -> Response:
    """Say what went wrong, as the page expects it."""
    status = 503 if error.name == "daemon_unavailable" else 409
    if request.method == "POST":
        return JSONResponse({"message": str(error)}, status)
    page = f'<!doctype html><meta http-equiv="refresh" content="3"><p>{escape(str(error))}</p>'
    return HTMLResponse(page, status)

"""Render pages for people on a thread, and free what that took when nobody looks any more."""

from __future__ import annotations

import asyncio
import base64
import ctypes
import gc
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from pydantic import JsonValue

from openclaw_taskmem.daemon.thread_pool import ThreadPool

if TYPE_CHECKING:
    from openclaw_taskmem.pages.site import Site

FREE_SECONDS: Final = 60.0
"""Seconds without a request for a page after which memory is freed."""


class PageRenderer:
    """Renders pages. For the event loop."""

    def __init__(self, build_site: Callable[[], Site], count_changes: Callable[[], str]) -> None:
        """Create a renderer.

        Args:
            build_site: Loads the site's modules and returns it; called when somebody looks.
            count_changes: Returns what `changes` has counted so far, as pages tell it.
        """
        self._build_site = build_site
        self._count_changes = count_changes
        self._site: Site | None = None
        self._pool = ThreadPool(1, "page")
        """One thread only, since each keeps a part of the database in memory."""
        self._freeing: asyncio.TimerHandle | None = None

    async def render(self, params: Mapping[str, object]) -> JsonValue:
        """Return a page: its status, type and body, which is encoded in base64."""
        try:
            return await self._pool(self._render, params)
        finally:
            self._cancel_freeing()
            loop = asyncio.get_running_loop()
            self._freeing = loop.call_later(FREE_SECONDS, self._pool, self._free_memory)

    async def close(self) -> None:
        """Let the page that is rendered end; render no other."""
        self._cancel_freeing()
        await self._pool.close()

    def _cancel_freeing(self) -> None:
        if self._freeing is not None:
            self._freeing.cancel()

    def _render(self, params: Mapping[str, object]) -> JsonValue:
        if self._site is None:
            self._site = self._build_site()
        query, tab = params.get("query"), params.get("tab")
        given = cast("dict[object, object]", query if isinstance(query, dict) else {})
        in_tab = tab if isinstance(tab, str) and tab else None
        page = self._site.render(
            str(params.get("path", "")),
            {str(name): str(value) for name, value in given.items()},
            may_act=params.get("may_act") is True or in_tab is not None,
            tab=in_tab,
            # Counted before anything is read, so no change is missed.
            seen=self._count_changes(),
        )
        body = base64.b64encode(page.body).decode()
        return {"status": page.status, "content_type": page.content_type, "body": body}

    def _free_memory(self) -> None:
        """Drop the compiled templates, and return memory to the system where the C library can.

        Half of what looking at pages takes is memory that the C library keeps although it is free.
        """
        self._site = None
        gc.collect()
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)

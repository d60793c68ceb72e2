"""Those who follow the waits: they are answered when something about them changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.daemon.change_counter import ChangeCounter
from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.domain import reachability
from openclaw_taskmem.engine import waits
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.tools import views
from taskmem_hookspecs.errors import DaemonUnavailable

SECONDS: Final = 25.0
"""How long one who follows is kept without an answer."""


class Followers:
    """Answers calls on the event loop, and keeps none of them from hearing of the end.

    A call that is answered without an end or news is made again. Once the daemon is
    stopping, none is kept: it would be cut off, and its caller not know why.
    """

    def __init__(self, context: Context, news: ChangeCounter, apart: OffLoopCaller) -> None:
        """Take where waits are, who tells of their changes, and threads to read on."""
        self._context = context
        self._news = news
        self._apart = apart

    async def follow(self, params: Mapping[str, object]) -> JsonValue:
        """Answer with the waits once anything about them changed, or after a while.

        Raises:
            DaemonUnavailable: The daemon is stopping.
        """
        seen = params.get("seen")
        if isinstance(seen, int) and not self._context.stopping.is_set():
            await self._news.wait_beyond(seen, SECONDS)
        if self._context.stopping.is_set():
            raise DaemonUnavailable("The daemon is stopping; nobody watches then.")
        told = self._news.told
        found = await self._apart(views.list_waits, self._context, {**params, "all": True})
        return {"seen": told, "waits": found}

    async def wait(self, params: Mapping[str, object]) -> JsonValue:
        """Answer how a wait has ended, once it has; after a while, that it has not.

        It is looked at again only when that wait has changed.

        Raises:
            WaitNotFound: No wait has that id.
        """
        wait_id = str(params.get("id", ""))
        until = asyncio.get_running_loop().time() + SECONDS
        with self._news.watch_changes(wait_id) as changed:
            while True:
                # What changes from here on is looked for once more.
                changed.clear()
                ended = await self._apart(waits.fetch_end, self._context, wait_id)
                if ended is not None:
                    break
                if self._context.stopping.is_set():
                    return {"ended": False, "stopping": True}
                try:
                    async with asyncio.timeout_at(until):
                        await changed.wait()
                except TimeoutError:
                    return {"ended": False, "stopping": False}
        status = ended.wait.status
        return {
            "ended": True,
            "status": status,
            "text": ended.text,
            "exit": reachability.EXITS[status],
        }

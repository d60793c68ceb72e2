"""What readers were asked on each day, kept in the store of the home."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from openclaw_taskmem.daemon.thread_pool import ThreadPool
from openclaw_taskmem.domain.reader_budget import (
    Days,
    ReaderUsage,
    count_answer,
    count_question,
    dump_days,
    find_usage,
    load_days,
    refuse_over_limit,
)
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import Change, Clock, NoAnswer, Reader, Reading

log = logging.getLogger(__name__)

BOOKMARK: Final = "readers"


class ReaderUsageCounter:
    """Counts on the daemon's event loop; may be looked at from any thread."""

    def __init__(self, clock: Clock) -> None:
        """Take what days are told by."""
        self._clock = clock
        self._apart = ThreadPool(1, "spending")
        self._context: Context | None = None
        self._days: Days = {}
        self._changes = self._saved = 0
        self._saving = asyncio.Lock()

    def begin(self, context: Context) -> None:
        """Read what this home's readers were asked before the daemon started."""
        self._context = context
        self._days = load_days(context.store.read_bookmark(BOOKMARK))

    async def close(self) -> None:
        """Write what is being written."""
        await self._apart.close()

    def get_usage(self, reader: Reader) -> ReaderUsage:
        """Return what a reader used up today."""
        return find_usage(self._days, self._clock.now(), reader.name)

    def find_refusal(self, reader: Reader, *, confirms: bool) -> tuple[str, float] | None:
        """Return why a reader may not be asked, and for how long; None: it may."""
        now, limit = self._clock.now(), reader.calls_per_day
        return refuse_over_limit(reader.name, self.get_usage(reader), limit, now, confirms=confirms)

    async def count_question(self, reader: Reader) -> None:
        """Count a question that is sent next."""
        now = self._clock.now()
        await self._save_days(count_question(self._days, now, reader.name))

    async def count_answer(self, reader: Reader, answer: Reading | NoAnswer) -> None:
        """Count what an answer used up."""
        days = count_answer(
            self._days,
            self._clock.now(),
            reader.name,
            tokens_in=answer.tokens_in,
            tokens_out=answer.tokens_out,
            cost_usd=answer.cost_usd,
        )
        await self._save_days(days)

    async def _save_days(self, days: Days) -> None:
        """Write the count down; where that fails, it counts until the daemon ends."""
        self._days = days
        self._changes += 1
        mine, context = self._changes, self._context
        async with self._saving:
            if context is None or self._saved >= mine:
                return
            self._saved = self._changes
            mark = context.store.make_bookmark(BOOKMARK, dump_days(self._days))
            try:
                await self._apart(context.commit, Change(bookmarks=(mark,)))
            except Exception:
                log.exception("what readers were asked could not be written down")

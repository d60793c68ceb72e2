"""Count the questions and costs of each reader by day, in the home's store."""

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
    """Counts on the daemon's event loop; may be read from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._apart = ThreadPool(1, "spending")
        self._context: Context | None = None
        self._days: Days = {}
        self._changes = self._saved = 0
        self._saving = asyncio.Lock()

    def begin(self, context: Context) -> None:
        """Load the counts from the store."""
        self._context = context
        self._days = load_days(context.store.read_bookmark(BOOKMARK))

    async def close(self) -> None:
        """Wait for the writes in progress."""
        await self._apart.close()

    def get_usage(self, reader: Reader) -> ReaderUsage:
        """Return a reader's use today."""
        return find_usage(self._days, self._clock.now(), reader.name)

    def find_refusal(self, reader: Reader, *, confirms: bool) -> tuple[str, float] | None:
        """Return why a reader may not be asked and for how many seconds; None if it may.

        `confirms`: as `Question.confirms`.
        """
        now, limit = self._clock.now(), reader.calls_per_day
        return refuse_over_limit(reader.name, self.get_usage(reader), limit, now, confirms=confirms)

    async def count_question(self, reader: Reader) -> None:
        """Count a question just before it is sent."""
        now = self._clock.now()
        await self._save_days(count_question(self._days, now, reader.name))

    async def count_answer(self, reader: Reader, answer: Reading | NoAnswer) -> None:
        """Count the tokens and cost of an answer."""
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
        """Save the counts; if that fails, they are kept in memory and saved with the next."""
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

"""Count the questions and costs of each reader by day, and for each wait, in the home's store."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import Final

from openclaw_taskmem.daemon.thread_pool import ThreadPool
from openclaw_taskmem.domain.reader_budget import (
    WAITS_BOOKMARK,
    Days,
    ReaderUsage,
    UsageOfWaits,
    add_answer,
    add_question,
    count_answer,
    count_question,
    dump_days,
    dump_waits,
    find_usage,
    load_days,
    load_waits,
    put_wait_usage,
    refuse_over_limit,
)
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import Change, Clock, NoAnswer, Reader, Reading

log = logging.getLogger(__name__)

BOOKMARK: Final = "readers"
JUDGED_WAIT: Final[ContextVar[str | None]] = ContextVar("JUDGED_WAIT", default=None)
"""Id of the wait that is judged, for the questions that its judges ask. A question that several
waits share counts for the one that asked first."""


class ReaderUsageCounter:
    """Counts on the daemon's event loop; may be read from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._apart = ThreadPool(1, "spending")
        self._context: Context | None = None
        self._days: Days = {}
        self._waits: UsageOfWaits = {}
        self._changes = self._saved = 0
        self._saving = asyncio.Lock()

    def begin(self, context: Context) -> None:
        """Load the counts from the store."""
        self._context = context
        self._days = load_days(context.store.read_bookmark(BOOKMARK))
        self._waits = load_waits(context.store.read_bookmark(WAITS_BOOKMARK))

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

    async def count_question(self, reader: Reader, wait_id: str | None) -> None:
        """Count a question just before it is sent; `wait_id`: for which wait."""
        if wait_id is not None:
            self._put_wait_usage(wait_id, add_question(self._waits.get(wait_id, ReaderUsage())))
        now = self._clock.now()
        await self._save_days(count_question(self._days, now, reader.name))

    async def count_answer(
        self, reader: Reader, answer: Reading | NoAnswer, wait_id: str | None
    ) -> None:
        """Count the tokens and cost of an answer; `wait_id`: for which wait."""
        used = answer.tokens_in, answer.tokens_out, answer.cost_usd
        if wait_id is not None:
            spent = self._waits.get(wait_id, ReaderUsage())
            self._put_wait_usage(wait_id, add_answer(spent, *used))
        tokens_in, tokens_out, cost_usd = used
        days = count_answer(
            self._days,
            self._clock.now(),
            reader.name,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_usd=cost_usd,
        )
        await self._save_days(days)

    def _put_wait_usage(self, wait_id: str, spent: ReaderUsage) -> None:
        self._waits = put_wait_usage(self._waits, wait_id, spent)

    async def _save_days(self, days: Days) -> None:
        """Save the counts; if that fails, they are kept in memory and saved with the next."""
        self._days = days
        self._changes += 1
        mine, context = self._changes, self._context
        async with self._saving:
            if context is None or self._saved >= mine:
                return
            self._saved = self._changes
            marks = (
                context.store.make_bookmark(BOOKMARK, dump_days(self._days)),
                context.store.make_bookmark(WAITS_BOOKMARK, dump_waits(self._waits)),
            )
            try:
                await self._apart(context.commit, Change(bookmarks=marks))
            except Exception:
                log.exception("what readers were asked could not be written down")

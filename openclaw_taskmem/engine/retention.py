"""One pass that drops ended rows that are too old, or the oldest if the database is too large."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime
from functools import partial
from typing import Final

from openclaw_taskmem.domain.retention import (
    describe_dropped,
    describe_full,
    find_age_cutoff,
    find_size_cutoff,
)
from openclaw_taskmem.engine import notifications
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import Change

log = logging.getLogger(__name__)
OLD_ROWS: Final = 5_000
"""Rows of each kind dropped at once for their age; finding costs more than dropping."""
_BATCH_ROWS: Final = 1_000
"""Rows of each kind dropped before the database is measured again."""
_THINNED_BOOKMARK: Final = "log_thinned"
"""Bookmark with the id of the newest event that was dropped."""
PATIENCE_SECONDS: Final = 2.0
"""Seconds that one pass takes; the next one goes on."""


def drop_ended(context: Context) -> bool:
    """Drop rows that are too old, then the oldest while the database is too large.

    What folders held when tasks began goes with the last of those tasks, whenever it ended.

    Return whether more must be dropped, for which there was no time.
    """
    context.listings.drop_unneeded(partial(_is_open, context))
    passing = _RetentionPass(context)
    try:
        return passing.drop_old() or passing.drop_to_fit()
    finally:
        passing.log_dropped()


def _is_open(context: Context, task_id: str) -> bool:
    facts = context.find_task(task_id)
    return facts is not None and not facts.task.status.terminal


def read_thinned(context: Context) -> int:
    """Return the id up to which the log is not whole; 0: nothing was dropped of it."""
    return int(context.store.read_bookmark(_THINNED_BOOKMARK) or 0)


class _RetentionPass:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._now = context.clock.now()
        self._until = context.clock.monotonic() + PATIENCE_SECONDS
        places = [
            notifications.find_position(context, outgoing)
            for outgoing in notifications.NotificationKind
        ]
        places.append(notifications.find_hooks_position(context))
        self._upto = min((place for place in places if place is not None), default=None)
        self._dropped: Counter[str] = Counter()
        self._before, self._after = self._now, 0
        """The cutoff of the last search, and the event up to which it has searched."""

    def drop_old(self) -> bool:
        """Drop rows that are too old; return whether time was up first."""
        cut = find_age_cutoff(self._now, self._context.policies.retention)
        while self._drop_rows(cut, OLD_ROWS):
            if self._is_over():
                return True
        return False

    def drop_to_fit(self) -> bool:
        """Drop the oldest rows until the rest fits; return whether time was up first.

        With other homes in the database nothing is dropped: they may be what takes the room.
        """
        keep, storage = self._context.policies.retention, self._context.live.storage
        size = self._context.store.measure()
        storage.shared = size.shared
        while True:
            storage.taken = size.bytes
            if storage.shared:
                storage.full = False
                return False
            cut = find_size_cutoff(self._now, storage.taken, keep)
            if cut is None:
                storage.full = False
                return False
            if not self._drop_rows(cut, _BATCH_ROWS):
                if not storage.full:
                    log.warning("%s", describe_full(storage.taken, keep))
                storage.full = True
                return False
            if self._is_over():
                return True
            size = self._context.store.measure()

    def log_dropped(self) -> None:
        """Log what was dropped."""
        if self._dropped:
            self._context.live.storage.dropped += self._dropped
            summary = describe_dropped(self._dropped)
            log.info("dropped of what had ended: %s", summary)

    def _drop_rows(self, before: datetime, most: int) -> bool:
        if before != self._before:
            self._before, self._after = before, 0
        dropped = self._context.store.drop_ended(before, most, self._upto, self._after)
        self._after = dropped.last_event
        self._dropped.update(dropped.rows)
        if dropped.rows.get("events"):
            thinned = max(dropped.last_event, read_thinned(self._context))
            bookmark = self._context.store.make_bookmark(_THINNED_BOOKMARK, str(thinned))
            self._context.commit(Change(bookmarks=(bookmark,)))
        return bool(dropped.rows)

    def _is_over(self) -> bool:
        over = self._context.clock.monotonic() > self._until
        return over or self._context.stopping.is_set()

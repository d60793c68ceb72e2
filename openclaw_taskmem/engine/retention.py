"""One pass that drops what has ended long ago, or that there is no room for."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain import retention
from openclaw_taskmem.engine import hook_events, host_notifications
from openclaw_taskmem.engine.context import Context

log = logging.getLogger(__name__)
OLD_ROWS: Final = 5_000
"""Rows of each kind that are dropped at once for their age: to find them costs more
than to drop them."""
ROWS: Final = 1_000
"""Rows of each kind that are dropped before the database is measured anew."""
PATIENCE_SECONDS: Final = 2.0
"""How long one pass takes; the next one goes on."""


def drop_ended(context: Context) -> bool:
    """Drop what is too old, then the oldest while the database is too large.

    Returns whether there is more to drop, for which there was no time.
    """
    passing = _RetentionPass(context)
    try:
        return passing.drop_old() or passing.drop_to_fit()
    finally:
        passing.log_dropped()


class _RetentionPass:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._now = context.clock.now()
        self._until = context.clock.monotonic() + PATIENCE_SECONDS
        self._upto = _find_read_position(context)
        self._dropped: Counter[str] = Counter()
        self._before, self._after = self._now, 0
        """From before when events were looked for, and how far in the log."""

    def drop_old(self) -> bool:
        """Drop what is older than it may be; return whether time was up first."""
        cut = retention.find_age_cutoff(self._now, self._context.keep)
        while self._drop_rows(cut, OLD_ROWS):
            if self._is_over():
                return True
        return False

    def drop_to_fit(self) -> bool:
        """Drop the oldest until the rest fits; return whether time was up first.

        Where other homes have rows, nothing goes: it may be they that take the room.
        """
        keep, kept = self._context.keep, self._context.kept
        size = self._context.store.measure()
        kept.shared = size.shared
        while True:
            kept.taken = size.bytes
            if kept.shared:
                kept.full = False
                return False
            cut = retention.find_size_cutoff(self._now, kept.taken, keep)
            if cut is None:
                kept.full = False
                return False
            if not self._drop_rows(cut, ROWS):
                if not kept.full:
                    log.warning("%s", retention.describe_full(kept.taken, keep))
                kept.full = True
                return False
            if self._is_over():
                return True
            size = self._context.store.measure()

    def log_dropped(self) -> None:
        """Log what was dropped."""
        if self._dropped:
            said = retention.describe_dropped(self._dropped)
            log.info("dropped of what had ended: %s", said)

    def _drop_rows(self, before: datetime, most: int) -> bool:
        if before != self._before:
            self._before, self._after = before, 0
        dropped = self._context.store.drop_ended(before, most, self._upto, self._after)
        self._after = dropped.last_event
        self._dropped.update(dropped.rows)
        return bool(dropped.rows)

    def _is_over(self) -> bool:
        over = self._context.clock.monotonic() > self._until
        return over or self._context.stopping.is_set()


def _find_read_position(context: Context) -> int | None:
    """Return up to where all that read the log have read it; None: nobody does."""
    places = [
        host_notifications.find_position(context, outgoing)
        for outgoing in host_notifications.NotificationKind
    ]
    places.append(hook_events.find_position(context))
    return min((place for place in places if place is not None), default=None)

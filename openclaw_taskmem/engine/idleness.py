"""Tell whether a daemon has anything to do."""

from __future__ import annotations

from openclaw_taskmem.engine import recall, run_recovery, stuck, waits, wakes
from openclaw_taskmem.engine.context import Context


def is_anything_open(context: Context) -> bool:
    """Return whether a stuck check or lease is due ever, a wake or wait is open, or a source works.

    A source of recorded history works while it tells of an activity, such as that it records.
    """
    return bool(
        stuck.find_next_due(context)
        or wakes.find_first_due(context)
        or run_recovery.find_next_lapse(context)
        or waits.list_watched_waits(context)
        or recall.list_activity(context)
    )

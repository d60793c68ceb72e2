"""Frames of a terminal, made for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from taskmem_hookspecs import Frame

DAWN = datetime(2026, 3, 1, 6, 0, tzinfo=UTC)


def frame(at=0.0, tail="", *, quiet=None, **fields):
    """A frame seen so many seconds after dawn; `quiet` says since when none changed."""
    seen = DAWN + timedelta(seconds=at)
    changed = None if quiet is None else seen - timedelta(seconds=quiet)
    return Frame(seen_at=seen, place=f"{at}", tail=tail, text=tail, changed_at=changed, **fields)

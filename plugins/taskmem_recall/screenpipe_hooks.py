"""The hook of screenpipe, which can be switched off alone."""

from __future__ import annotations

import os

from taskmem_hookspecs import Clock, RecallSource, hookimpl


@hookimpl
def recall_source(clock: Clock) -> RecallSource | None:
    """Return what screenpipe recorded; None: `TASKMEM_SCREENPIPE_URL` is not set."""
    url = os.environ.get("TASKMEM_SCREENPIPE_URL", "").strip()
    if not url:
        return None
    from taskmem_recall.screenpipe import Screenpipe

    return Screenpipe(url, os.environ.get("SCREENPIPE_LOCAL_API_KEY") or None, clock)

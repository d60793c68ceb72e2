"""Searching recorded history through whatever sources plug-ins provide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import Recollection


def search_history(
    context: Context, query: str, limit: int, recency_bias: float
) -> Sequence[Recollection] | None:
    """Return the best matches of all sources; None: there is no source."""
    sources = context.plugin_host.find_recall_sources()
    if not sources:
        return None
    found: list[Recollection] = []
    for source in sources:
        answer = context.plugin_host.call_part(
            source, "recall", source.recall, query, limit, recency_bias
        )
        found += _keep_valid_matches(answer)
    found.sort(key=lambda item: item.confidence, reverse=True)
    return found[:limit]


def _keep_valid_matches(answer: object) -> list[Recollection]:
    """Keep what a source may answer, and pass over the rest."""
    items = cast("Sequence[object]", answer) if isinstance(answer, Sequence) else ()
    return [item for item in items if isinstance(item, Recollection)]

"""The tool that searches recorded history, if a plug-in has some. Source: requirement G2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.texts import format_count, format_iso, quote_line
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.tools import forms
from openclaw_taskmem.tools.tool import Answer, Tool
from taskmem_hookspecs import Recollection


def memory_recall(context: Context, form: forms.MemoryRecall, caller: Caller) -> Answer:
    """Search recorded history; say how many matches there are, or that there is no source."""
    del caller  # recorded history belongs to no session
    found = search_history(context, form.query, form.limit, form.recency_bias)
    if found is None:
        return {
            "results": [],
            "message": (
                "No recording source is switched on, so there is no history to "
                "search. Install a plug-in that provides recall_source and restart "
                "the daemon with: taskmem daemon restart."
            ),
        }
    return {
        "results": [
            {
                **cast("Answer", item.model_dump(mode="json")),
                "timestamp": format_iso(item.timestamp),
            }
            for item in found
        ],
        "message": (
            f"{format_count(len(found), 'match')} for {quote_line(form.query)}."
            if len(found) == 1
            else f"{len(found)} matches for {quote_line(form.query)}."
        ),
    }


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
    """Keep the valid matches in a source's answer; drop the rest."""
    items = cast("Sequence[object]", answer) if isinstance(answer, Sequence) else ()
    return [item for item in items if isinstance(item, Recollection)]


TOOL: Final = Tool(
    "memory_recall",
    "Search the user's recorded screen history for how something was done "
    "before. Not for tasks: use task_update with a query for those.",
    forms.MemoryRecall,
    memory_recall,
)

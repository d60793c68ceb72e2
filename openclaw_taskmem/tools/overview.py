"""Convert the overview to JSON, for the command line and the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from pydantic import JsonValue

from openclaw_taskmem.domain.text.texts import format_iso_millis
from openclaw_taskmem.domain.views.overview import TaskLine
from openclaw_taskmem.engine.overview import Overview
from openclaw_taskmem.tools.tool import Answer


def describe_overview(found: Overview) -> Answer:
    """Return the overview, its tasks by section."""
    return {
        "now": format_iso_millis(found.now),
        "sections": {
            section.value: [_describe_line(line) for line in lines]
            for section, lines in found.sections.items()
        },
        "unlisted": found.unlisted,
        "unlisted_failed": found.unlisted_failed,
        "all_ended": found.all_ended,
    }


def describe_list(lines: Sequence[TaskLine], now: datetime) -> Answer:
    """Return a list of tasks."""
    return {
        "now": format_iso_millis(now),
        "tasks": [_describe_line(line) for line in lines],
    }


def _describe_line(line: TaskLine) -> JsonValue:
    return cast("JsonValue", line.model_dump(mode="json"))

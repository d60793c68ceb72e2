"""Make the tool catalogue that the plug-in in the gateway registers.

Usage:

    TASKMEM_TOOLS=all taskmem tools --json |
        python -m tests.plugins.openclaw.tool_catalogue > gateway/tools.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

_IN_SIGHT: Final = ("task_register", "task_update", "task_plan_update", "smart_wait")
"""Tools that the model always sees; it finds the others through a catalogue."""


def _build_catalogue(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Build the catalogue from the output of `taskmem tools --json`.

    `session_key` is removed from the arguments: the gateway supplies it.
    """
    return [
        {
            "name": tool["name"],
            "description": tool["description"],
            "parameters": _drop_session_key(tool["inputSchema"]),
            "direct": tool["name"] in _IN_SIGHT,
        }
        for tool in tools
    ]


def _format_catalogue(tools: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of the catalogue file."""
    return json.dumps(_build_catalogue(tools), indent=2, ensure_ascii=False) + "\n"


def _drop_session_key(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = {
        name: field for name, field in schema["properties"].items() if name != "session_key"
    }
    return {**schema, "properties": properties}


if __name__ == "__main__":
    sys.stdout.write(_format_catalogue(json.load(sys.stdin)))

"""Find which other plug-in of OpenClaw has the tool name `memory_recall`.

OpenClaw drops the later of two tools with one name in silence, so ours is left out where another is
active. `gateway/past_tasks.js` decides by the same rule. Measured with OpenClaw 2026.9.6.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from taskmem_openclaw.setup.edits import find_value, to_list, to_object

NAME: Final = "memory_recall"
LANCEDB: Final = "memory-lancedb"
"""The plug-in of OpenClaw's makers that has a tool of that name."""


def find_recall_owner(config: Mapping[str, Any], state: Path | None) -> str | None:
    """Return the id of the active plug-in that has the name; None: ours has it.

    `state`: OpenClaw's state folder, in which plug-ins are installed; None: not known.
    """
    manifests = {LANCEDB: "memory", **dict(_list_rivals(config, state))}
    return next((each for each, kind in manifests.items() if _is_active(config, each, kind)), None)


def describe_recall_owner(owner: str) -> str:
    """Say what is done about another plug-in that has the name."""
    return (
        f"The plug-in {owner} has the tool name {NAME}, so ours is left out; past tasks are found "
        'by memory_search with corpus "all".'
    )


def _is_active(config: Mapping[str, Any], plugin: str, kind: str) -> bool:
    """Whether a plug-in is switched on; of those for memory, only the one in the slot is."""
    plugins = to_object(config.get("plugins"))
    if plugins.get("enabled") is False or plugin in to_list(plugins.get("deny")):
        return False
    if find_value(plugins, ("entries", plugin, "enabled")) is False:
        return False
    return kind != "memory" or find_value(plugins, ("slots", "memory")) == plugin


def _list_rivals(config: Mapping[str, Any], state: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the id and kind of each plug-in that is installed and declares the name."""
    folders = [
        Path(os.path.expanduser(str(each).replace("\0", "")))  # noqa: PTH111 (an unknown user is left)
        for each in to_list(find_value(config, ("plugins", "load", "paths")))
    ]
    if state is not None:
        folders += sorted((state / "extensions").glob("*"))
    for folder in folders:
        try:
            found: object = json.loads((folder / "openclaw.plugin.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        plugin = find_value(found, ("id",))
        if plugin != "taskmem" and NAME in to_list(find_value(found, ("contracts", "tools"))):
            yield str(plugin), str(find_value(found, ("kind",)))

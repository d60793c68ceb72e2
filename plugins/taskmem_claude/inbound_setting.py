"""Read whether the settings of Claude Code keep messages of others from a session's agent.

Source: https://code.claude.com/docs/en/cross-session-messaging
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from taskmem_claude import CONFIG, PROJECT

SETTING: Final = "crossSessionInbound"
_MANAGED_SETTINGS: Final = Path(
    "/Library/Application Support/ClaudeCode" if sys.platform == "darwin" else "/etc/claude-code",
    "managed-settings.json",
)
"""The settings of the user's organization."""


def find_restraint(variables: Mapping[str, str]) -> str | None:
    """Return what keeps messages from a session's agent, as a sentence; None: nothing known.

    `variables`: those of the session.
    """
    for file, value in _read_settings(variables):
        if value != "accept":
            return f'Claude Code keeps messages back: {SETTING} is "{value}" in {file}.'
    return None


def _read_settings(variables: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield each value that counts, with its file.

    The user's does not where the organization sets one; those of a folder can only be stricter.
    """
    user = Path(variables.get(CONFIG) or Path.home() / ".claude") / "settings.json"
    for file in (_MANAGED_SETTINGS, user):
        if (value := _read_value(file)) is not None:
            yield file, value
            break
    if project := variables.get(PROJECT):
        for name in ("settings.json", "settings.local.json"):
            file = Path(project, ".claude", name)
            if (value := _read_value(file)) is not None:
                yield file, value


def _read_value(file: Path) -> str | None:
    try:
        value: Any = json.loads(file.read_bytes())[SETTING] if file.is_file() else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return None if value is None else str(value)

"""The hosts of agents whose shells show that they run a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HOSTS: Final = {
    "OPENCLAW_SHELL": "openclaw",
    "OPENCLAW_CLI": "openclaw",
    "CLAUDECODE": "shell:claude-code",
    "CODEX_SANDBOX": "shell:codex",
    "CURSOR_AGENT": "shell:cursor",
    "GEMINI_CLI": "shell:gemini-cli",
}
"""Variables that hosts set for the commands that their agents run, and the hosts as
`Wake.host` names them."""
SESSION: Final = "TASKMEM_SESSION_KEY"
"""The variable that names the session whose agent runs a command."""


def variable(environ: Mapping[str, str]) -> str | None:
    """Return the variable that shows an agent's host; None: none does."""
    return next((name for name in HOSTS if environ.get(name)), None)


def asking(
    tool: str, arguments: Mapping[str, object], environ: Mapping[str, str]
) -> dict[str, object]:
    """Return what the daemon is asked for by a call of a tool, and for which agent."""
    shown = variable(environ)
    given = dict(arguments)
    if session := environ.get(SESSION):
        given.setdefault("session_key", session)
    host = None if shown is None else HOSTS[shown]
    return {"tool": tool, "arguments": given, "host": host}

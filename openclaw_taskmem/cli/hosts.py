"""Find the agent's host that runs a command, by what its shell shows."""

from __future__ import annotations

import sys
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
`Wake.host` names them; OpenClaw's come first."""
OPENCLAW: Final = "openclaw"
SESSION: Final = "TASKMEM_SESSION_KEY"
"""The variable that names the session whose agent runs a command."""
HOST: Final = "TASKMEM_HOST"
"""The variable that names the OpenClaw of that session, as `Wake.host` does."""


def find_host_variable(environ: Mapping[str, str]) -> str | None:
    """Return the variable that shows an agent's host; None: none does.

    Where one host was started by the other, both are shown, and nothing tells which
    of them is meant: then it is not OpenClaw, so that no wake is promised.
    """
    shown = [name for name in HOSTS if environ.get(name)]
    return shown[-1] if shown else None


def build_tool_call(
    tool: str, arguments: Mapping[str, object], environ: Mapping[str, str]
) -> dict[str, object]:
    """Return what the daemon is asked for by a call of a tool, and for which agent."""
    shown = find_host_variable(environ)
    host = None if shown is None else HOSTS[shown]
    given = dict(arguments)
    session = environ.get(SESSION)
    if session and host in (None, OPENCLAW):
        given.setdefault("session_key", session)
        host = environ.get(HOST) or host
    return {"tool": tool, "arguments": given, "host": host}


def explain_refusal(environ: Mapping[str, str]) -> str | None:
    """Return why no person seems to ask; None: one may.

    Who has a shell can make a terminal: this keeps out who acts by mistake, and the
    log names the process that asked.
    """
    host = find_host_variable(environ)
    if host is not None:
        return (
            f"{host} is set, so that an agent's host runs this. Only a person may "
            "accept: call it in a terminal of your own."
        )
    if not sys.stdin.isatty():
        return "Only a person at a terminal may accept; call it in one."
    return None

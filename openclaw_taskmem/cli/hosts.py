"""Recognise the agent's host from the environment of a command."""

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
"""Hosts, as in `Wake.host`, by the variables they set for commands; OpenClaw's come first."""
OPENCLAW: Final = "openclaw"
SESSION: Final = "TASKMEM_SESSION_KEY"
"""The variable with the session whose agent runs a command."""
HOST: Final = "TASKMEM_HOST"
"""The variable with the OpenClaw of that session, as in `Wake.host`."""


def find_host_variable(environ: Mapping[str, str]) -> str | None:
    """Return the variable that shows an agent's host; None: there is none.

    If one host was started by another, both have set theirs, and it is unclear which runs the
    command. Then a host other than OpenClaw is assumed, so that no wake is promised.
    """
    shown = [name for name in HOSTS if environ.get(name)]
    return shown[-1] if shown else None


def build_tool_call(
    tool: str, arguments: Mapping[str, object], environ: Mapping[str, str]
) -> dict[str, object]:
    """Return the parameters of a tool call to the daemon: tool, arguments and host.

    A command that OpenClaw, or no known host, runs gets the session and host that the environment
    names. A host of None means that a person calls.
    """
    shown = find_host_variable(environ)
    host = None if shown is None else HOSTS[shown]
    given = dict(arguments)
    session = environ.get(SESSION)
    if session and host in (None, OPENCLAW):
        given.setdefault("session_key", session)
        host = environ.get(HOST) or OPENCLAW
    return {"tool": tool, "arguments": given, "host": host}


def explain_not_a_person(environ: Mapping[str, str]) -> str | None:
    """Return why a command does not seem to come from a person; None: it does.

    Any program with a shell can make a terminal: this only prevents mistakes, and the log names the
    process that asked.
    """
    if why := explain_agents_shell(environ):
        return why
    if not sys.stdin.isatty():
        return "Only a person at a terminal may do this; call it in one."
    return None


def explain_agents_shell(environ: Mapping[str, str]) -> str | None:
    """Return why a command seems to come from an agent's host; None: it does not."""
    host = find_host_variable(environ) or (SESSION if environ.get(SESSION) else None)
    if host is None:
        return None
    return (
        f"{host} is set, so an agent's host runs this, and only a person may: call it "
        "in a terminal of your own."
    )

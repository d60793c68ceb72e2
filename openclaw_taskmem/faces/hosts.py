"""The hosts of agents whose shells show that they run a command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

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

TOOLS: Final = (
    "task_register|task_update|task_plan_update|task_list|task_status|task_resume|"
    "task_step_done|task_abort|task_background|task_cancel|task_claim|task_handoff|"
    "task_reset|smart_wait|wait_update|wait_cancel|memory_recall"
)
"""The tools that a sentence may name, separated by bars."""
_CALL: Final = re.compile(rf"(?<!taskmem )\bcall (?=(?:{TOOLS})\b)")
_NAMED: Final = re.compile(rf"(?<!taskmem call )\b(?=(?:{TOOLS})\b)")


def variable(environ: Mapping[str, str]) -> str | None:
    """Return the variable that shows an agent's host; None: none does.

    Where one host was started by the other, both are shown, and nothing tells which
    of them is meant: then it is not OpenClaw, so that no wake is promised.
    """
    shown = [name for name in HOSTS if environ.get(name)]
    return shown[-1] if shown else None


def asking(
    tool: str, arguments: Mapping[str, object], environ: Mapping[str, str]
) -> dict[str, object]:
    """Return what the daemon is asked for by a call of a tool, and for which agent."""
    shown = variable(environ)
    host = None if shown is None else HOSTS[shown]
    given = dict(arguments)
    session = environ.get(SESSION)
    if session and host in (None, OPENCLAW):
        given.setdefault("session_key", session)
        host = environ.get(HOST) or host
    return {"tool": tool, "arguments": given, "host": host}


def name_commands(sentence: str) -> str:
    """Return what was said to an agent, with the command of each tool that it names."""
    return _NAMED.sub("taskmem call ", _CALL.sub("run ", sentence))


def tell_person(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tool has answered, its sentences as they are for a person."""
    told = {key: answer[key] for key in ("message", "hint") if key in answer}
    said = {k: name_commands(v) for k, v in told.items() if isinstance(v, str)}
    return {**answer, **said}

"""Parts that commands share: who calls, their options, calls to the daemon, JSON, and refusals.

An agent's host is recognised from the environment of a command.
"""

from __future__ import annotations

import codecs
import json
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from openclaw_taskmem.cli.client import connect_or_start
from openclaw_taskmem.domain.text.texts import escape_hidden, to_printable
from openclaw_taskmem.home import find_home

# --- who calls -----------------------------------------------------------------------------


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


def _find_host_variable(environ: Mapping[str, str]) -> str | None:
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
    shown = _find_host_variable(environ)
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
    host = _find_host_variable(environ) or (SESSION if environ.get(SESSION) else None)
    if host is None:
        return None
    return (
        f"{host} is set, so an agent's host runs this, and only a person may: call it "
        "in a terminal of your own."
    )


# --- what commands share -------------------------------------------------------------------


JSON_OPTION: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
YES_OPTION: Final = click.option("--yes", "-y", is_flag=True, help="Do not ask once more.")
ENDED_OPTION: Final = click.option("--all", "ended_too", is_flag=True, help="Include ended ones.")
_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


def fail(sentence: str, status: int = 1) -> NoReturn:
    """Print a sentence to the error output, and end with an exit status."""
    click.echo(to_printable(sentence), err=True)
    sys.exit(status)


def get_now() -> datetime:
    """Return the present instant."""
    return datetime.now(UTC)  # noqa: TID251 - a person looks at it now


def write_install_command(package: str) -> str:
    """Return the command that installs a package of a checkout beside this one, as this one was."""
    folder = f"./plugins/{package}"
    if Path(sys.prefix, "pipx_metadata.json").exists():
        return f"pipx inject openclaw-taskmem {folder}"
    return f"{shlex.quote(sys.executable)} -m pip install {folder}"


def call_daemon(method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
    """Call the daemon; start it if it is not running."""
    with connect_or_start(find_home(os.environ), os.environ) as link:
        return link.call(method, params)


def find_reference(words: str, kinds: Iterable[str] = ("task",)) -> tuple[str, str]:
    """Return the kind and the id of what a person's words mean."""
    found = call_daemon("find", words=words, kinds=[*kinds])
    return found["kind"], found["id"]


def require_person() -> None:
    """Refuse an agent, which has tools of its own for what it may do."""
    if why := explain_not_a_person(os.environ):
        fail(why)


def exit_on_signals() -> None:
    """Let SIGTERM and SIGHUP raise `SystemExit` in this process, so that its command cleans up.

    While it does, further ones are ignored: a terminal that closes sends several. A signal that is
    ignored already, as under nohup, stays so.
    """

    def end(number: int, _frame: object) -> None:
        for each in _ENDING_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for each in _ENDING_SIGNALS:
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, end)


def format_json(document: object) -> str:
    """Return a JSON document to print; escape letters where the output's encoding has not all."""
    is_unicode = codecs.lookup(sys.stdout.encoding).name.startswith("utf")
    return json.dumps(document, ensure_ascii=not is_unicode, indent=2)


def print_json(document: object) -> None:
    """Print a JSON document, with hidden characters escaped."""
    # By lines, as most have nothing to look for.
    click.echo("\n".join(map(escape_hidden, format_json(document).split("\n"))))


def note_limit(limit: int) -> None:
    """Say that a list may go on after `limit` rows, and the whole command that shows more."""
    context = click.get_current_context(silent=True)
    words = ["taskmem"]
    if context is not None:
        given = [(each, context.params.get(str(each.name))) for each in context.command.params]
        flags = [each.opts[0] for each, value in given if value is True]
        named = [value for each, value in given if isinstance(each, click.Argument) and value]
        words = ["taskmem", str(context.info_name), *flags, *named]
    more = shlex.join([*words, "--limit", str(limit * 10)])
    click.echo(f"At most {limit:,} are shown; for more: {to_printable(more)}", err=True)


def print_line(text: str) -> None:
    """Print a line without control characters, in full length."""
    click.echo(escape_hidden(text))

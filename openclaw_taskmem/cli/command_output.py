"""Parts that commands share: their options, calls to the daemon, JSON, and refusals."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

import click

from openclaw_taskmem.cli.client import connect_or_start
from openclaw_taskmem.domain.text.text_safety import escape_hidden
from openclaw_taskmem.domain.text.texts import to_printable
from openclaw_taskmem.home import find_home

AS_JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
YES_OPTION: Final = click.option("--yes", "-y", is_flag=True, help="Do not ask once more.")
ENDED_TOO: Final = click.option("--all", "ended_too", is_flag=True, help="Include ended ones.")
_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


def fail(sentence: str, status: int = 1) -> NoReturn:
    """Print a sentence to the error output, and end with an exit status."""
    click.echo(to_printable(sentence), err=True)
    sys.exit(status)


def get_now() -> datetime:
    """Return the present instant."""
    return datetime.now(UTC)  # noqa: TID251 - a person looks at it now


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
    from openclaw_taskmem.cli.hosts import explain_not_a_person

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


def print_json(document: object) -> None:
    """Print a JSON document, with hidden characters escaped."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    # By lines, as most have nothing to look for.
    click.echo("\n".join(map(escape_hidden, text.split("\n"))))


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

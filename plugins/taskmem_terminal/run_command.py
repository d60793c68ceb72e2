"""The command `taskmem run`: run a command in a terminal that waits can watch."""

from __future__ import annotations

import re
import secrets
import string
import sys
from pathlib import Path
from typing import Final

import click

from taskmem_terminal.recorder import CannotStart, Session, SessionRecorder
from taskmem_terminal.recording import NameTaken, is_recording_name

NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126
"""Exit statuses as shells use them."""


@click.command(
    "run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option(
    "--name",
    metavar="NAME",
    help="Watched as pty:NAME; letters, digits, '.', '_' and '-', at most 64.",
)
@click.argument("arguments", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED)
def command(name: str | None, arguments: tuple[str, ...]) -> None:
    """Run a command in a terminal that an agent can wait on.

    It is shown as it is, and what it prints is recorded: smart_wait watches it as
    pty:NAME. taskmem ends with the command's own status. Output and errors are one
    stream, as in every terminal; input that is no terminal reaches the command as it
    is. Ctrl-Z stops what runs inside a shell, not a command that was given itself.
    """
    if not arguments:
        raise click.UsageError("Say which command to run: taskmem run -- make test")
    if name is not None and not is_recording_name(name):
        raise click.BadParameter(
            f"{name!r} is no name; use letters, digits, '.', '_' and '-', at most 64, "
            "and no '.' at the start.",
            param_hint="--name",
        )
    sys.exit(run_recorded(name or _make_default_name(arguments[0]), list(arguments)))


def run_recorded(name: str, arguments: list[str]) -> int:
    """Run a command, recorded under a name, and return the exit status.

    Raises:
        click.ClickException: A running command has that name.
    """
    session = Session(arguments)
    try:
        shadow = SessionRecorder(name, arguments, (session.columns, session.rows))
    except NameTaken:
        raise click.ClickException(
            f"pty:{name} still runs; choose another --name, or end it first."
        ) from None
    if not shadow.trouble:
        click.echo(f"[taskmem] watch it as pty:{name}", err=True)
    try:
        session.start()
    except CannotStart as error:
        status = NOT_FOUND if error.missing else _NOT_EXECUTABLE
        shadow.write(f"taskmem: {error}\r\n".encode())
        shadow.end(status)
        click.echo(f"taskmem: {error}", err=True)
        return status
    shadow.note_start(session.pid)
    status = session.play(shadow)
    shadow.end(status)
    if shadow.trouble:
        click.echo(f"[taskmem] {shadow.trouble}", err=True)
    return status if status >= 0 else 128 - status


def _make_default_name(program: str) -> str:
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(program).name).strip("-") or "command"
    letters = string.ascii_lowercase + string.digits
    return f"{base[:48]}-{''.join(secrets.choice(letters) for _ in range(4))}"

"""`taskmem run`: a command in a terminal of its own that can be watched."""

from __future__ import annotations

import os
import re
import secrets
import string
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from taskmem_terminal import doorbell
from taskmem_terminal.recording import (
    NameTaken,
    Recorder,
    is_name,
    new_about,
    process_started,
    terminals,
)
from taskmem_terminal.session import CannotStart, Session

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
"""The statuses that shells give."""


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
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
    if name is not None and not is_name(name):
        raise click.BadParameter(
            f"{name!r} is no name; use letters, digits, '.', '_' and '-', at most 64, "
            "and no '.' at the start.",
            param_hint="--name",
        )
    sys.exit(run(name or _default_name(arguments[0]), list(arguments)))


def run(name: str, arguments: list[str]) -> int:
    """Run a command, recorded under a name, and return the status to end with.

    Raises:
        click.ClickException: The name belongs to a command that still runs.
    """
    session = Session(arguments)
    shadow = _Shadow(name, arguments, session)
    if not shadow.trouble:
        click.echo(f"[taskmem] watch it as pty:{name}", err=True)
    try:
        session.start()
    except CannotStart as error:
        status = NOT_FOUND if error.missing else NOT_EXECUTABLE
        shadow.write(f"taskmem: {error}\r\n".encode())
        shadow.end(status)
        click.echo(f"taskmem: {error}", err=True)
        return status
    shadow.started(session.pid)
    status = session.play(shadow)
    shadow.end(status)
    if shadow.trouble:
        click.echo(f"[taskmem] {shadow.trouble}", err=True)
    return status if status >= 0 else 128 - status


class _Shadow:
    """The recording of a session, which must never harm it."""

    def __init__(self, name: str, arguments: list[str], session: Session) -> None:
        self.trouble: str | None = None
        self._name = name
        self._root: Path | None = None
        self._recorder: Recorder | None = None
        about = new_about(
            arguments,
            columns=session.columns,
            rows=session.rows,
            recorder=os.getpid(),
        )
        try:
            self._root = terminals()
            self._recorder = Recorder.claim(self._root, name, about)
        except NameTaken:
            raise click.ClickException(
                f"pty:{name} still runs; choose another --name, or end it first."
            ) from None
        except Exception as error:  # noqa: BLE001 - the command must not be harmed
            self._give_up(error)

    def started(self, pid: int) -> None:
        """Write down which process it is."""
        self._tell(pid=pid, process_started=process_started(pid))
        self.ring()

    def resized(self, columns: int, rows: int) -> None:
        """Write down the terminal's new size."""
        self._tell(columns=columns, rows=rows)

    def hides_input(self, hides: bool) -> None:  # noqa: FBT001
        """Write down whether the terminal shows what is typed from now on."""
        self._tell(hides_input=hides)

    def _tell(self, **news: Any) -> None:  # noqa: ANN401
        if self._recorder is not None:
            try:
                self._recorder.tell(replace(self._recorder.about, **news))
            except Exception as error:  # noqa: BLE001 - likewise
                self._give_up(error)

    def write(self, data: bytes) -> None:
        """Keep what the command printed."""
        if self._recorder is not None:
            try:
                self._recorder.write(data)
            except Exception as error:  # noqa: BLE001 - likewise
                self._give_up(error)

    def ring(self) -> None:
        """Tell who watches that there is something new."""
        if self._root is not None:
            doorbell.ring(self._root, self._name)

    def end(self, status: int) -> None:
        """Write down how the command ended."""
        if self._recorder is not None:
            try:
                self._recorder.end(status)
            except Exception as error:  # noqa: BLE001 - likewise
                self._give_up(error)
            else:
                self._recorder.close()
            self.ring()

    def _give_up(self, error: Exception) -> None:
        if isinstance(error, KeyError):
            reason = "no home is set"
        else:
            reason = getattr(error, "strerror", None) or str(error)
        self.trouble = (
            f"Recording pty:{self._name} stopped ({reason}); the command itself ran on."
        )
        if self._recorder is not None:
            self._recorder.close()
            self._recorder = None
            self.ring()


def _default_name(program: str) -> str:
    base = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(program).name).strip("-") or "command"
    letters = string.ascii_lowercase + string.digits
    return f"{base[:48]}-{''.join(secrets.choice(letters) for _ in range(4))}"

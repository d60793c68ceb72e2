"""`taskmem accept`: a person completes a task whose completion was refused."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from openclaw_taskmem.faces.link import LinkError, reach
from openclaw_taskmem.home import find_home

HOSTS: Final = (
    "OPENCLAW_SHELL",
    "OPENCLAW_CLI",
    "CLAUDECODE",
    "CODEX_SANDBOX",
    "CURSOR_AGENT",
    "GEMINI_CLI",
)
"""Variables that hosts of agents set for the commands that their agents run."""


@click.command()
@click.argument("task")
@click.option("--because", help="Why, in your words; they are kept.")
def accept(*, task: str, because: str | None) -> None:
    """Complete TASK, whose completion was refused. For persons only."""
    # Who has a shell can make a terminal: this keeps out who acts by mistake, and the
    # log names the process that asked.
    host = next((name for name in HOSTS if os.environ.get(name)), None)
    if host is not None:
        why = f"{host} is set, so that an agent's host runs this. Only a person may "
        raise LinkError("not_a_person", f"{why}accept: call it in your own terminal.")
    if not sys.stdin.isatty():
        why = "Only a person at a terminal may accept; call it in one."
        raise LinkError("not_a_person", why)
    with reach(find_home(os.environ), os.environ) as link:
        click.echo(link.call("accept", {"id": task, "because": because})["message"])

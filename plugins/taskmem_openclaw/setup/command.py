"""`taskmem setup`: into OpenClaw, Claude Code or Codex, and out again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from taskmem_openclaw.setup.hosts import Host

DRY_RUN = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
REMOVE = click.option(
    "--remove", is_flag=True, help="Take out every trace but the data."
)
PROJECT = click.option(
    "--project",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="For the project in this folder only.",
)


@click.command()
@click.option(
    "--yes",
    "everything",
    is_flag=True,
    help="Allow what is asked for; what is a choice stays as it is.",
)
@DRY_RUN
@click.option("--undo", is_flag=True, help="Put back what the last set-up changed.")
@REMOVE
@click.option("--no-proof", is_flag=True, help="Do not let the doctor look after it.")
@click.option("--mcp", is_flag=True, help="The MCP bundle, not the native plug-in.")
def openclaw(
    *,
    everything: bool,
    dry_run: bool,
    undo: bool,
    remove: bool,
    no_proof: bool,
    mcp: bool,
) -> None:
    """Install the plug-in into OpenClaw, with what it may do.

    At a terminal each permission is asked for, with its reason. Without one, and
    without --yes, only what is needed is done, and what was left out is said. It can be
    run again at any time: it changes what is not as it should be, and nothing else.
    """
    from taskmem_openclaw.setup import talking

    if undo and remove:
        raise click.UsageError("Either --undo or --remove, not both.")
    if undo:
        talking.move_back(dry_run=dry_run)
    elif remove:
        talking.move_out(dry_run=dry_run)
    else:
        choice = talking.Choice(everything, dry_run, not no_proof, mcp)
        talking.move_in(choice)


@click.command()
@DRY_RUN
@REMOVE
@PROJECT
def claude(*, dry_run: bool, remove: bool, project: Path | None) -> None:
    """Give Claude Code the MCP server and the skill."""
    from taskmem_openclaw.setup import hosts

    _at_host(hosts.claude(os.environ, project), dry_run=dry_run, remove=remove)


@click.command()
@DRY_RUN
@REMOVE
@PROJECT
def codex(*, dry_run: bool, remove: bool, project: Path | None) -> None:
    """Give Codex the MCP server and the skill."""
    from taskmem_openclaw.setup import hosts

    _at_host(hosts.codex(os.environ, project), dry_run=dry_run, remove=remove)


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def skill(folder: Path) -> None:
    """Write the skill into FOLDER, where any other host reads its skills."""
    from taskmem_openclaw.setup import skills, talking

    with talking.sentences():
        place = skills.into(folder)
        if place.in_place:
            click.echo("Everything is in place; nothing was changed.")
            return
        kept = place.write()
        for line in (f"The skill is {place.file}.", *kept):
            click.echo(line)
        click.echo(
            "It is for hosts that run taskmem mcp, with TASKMEM_TOOLS=runs in its "
            "environment: so they are offered all tools that it names."
        )


def _at_host(host: Host, *, dry_run: bool, remove: bool) -> None:
    from taskmem_openclaw.setup import hosts, talking

    with talking.sentences():
        for line in () if remove else hosts.find_missing(host, os.environ):
            click.echo(f"note: {line}")
        work = hosts.move_out if remove else hosts.move_in
        for line in work(host, dry_run=dry_run):
            click.echo(line)

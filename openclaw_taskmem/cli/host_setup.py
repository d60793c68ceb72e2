"""`taskmem setup` without a name: find the hosts on this machine, and offer to set up each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

import click

from openclaw_taskmem.home import find_short_command

DRY_RUN: Final = click.Option(
    ["--dry-run"], is_flag=True, help="Only print which hosts are here, and what would be done."
)


class _FoundHost(NamedTuple):
    """A host on this machine."""

    title: str
    """Its name for people, such as "Claude Code"."""
    name: str
    """Its name in `taskmem setup`."""
    command: click.Command


@click.pass_context
def offer_hosts(context: click.Context, *, dry_run: bool) -> None:
    """Ask for each host that is here whether to set it up; elsewhere than at a terminal, list them.

    Raises:
        ClickException: There is none, or the set-up of one failed; the others were offered.
    """
    if context.invoked_subcommand is not None:
        if dry_run:
            raise click.UsageError(f"Put --dry-run behind {context.invoked_subcommand}.")
        return
    group, own = cast("click.Group", context.command), f"{find_short_command(os.environ)} setup"
    found = [*_find_hosts(context, group)]
    if not found:
        names = ", ".join(group.list_commands(context))
        raise click.ClickException(
            "No host of agents was found on this machine. Install one and run this again, or name "
            f"yours ({names}), as in: {own} claude"
        )
    asks = not dry_run and sys.stdin.isatty() and sys.stdout.isatty()
    failed = [host.title for host in found if not _offer_host(context, host, own, asks=asks)]
    if not asks:
        click.echo("Nothing was changed.")
    if failed:
        raise click.ClickException(f"Not set up: {', '.join(failed)}; the reason stands above.")


def _find_hosts(context: click.Context, group: click.Group) -> Iterator[_FoundHost]:
    from taskmem_hookspecs.command_line import HostCommand  # loads pydantic

    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if not isinstance(command, HostCommand):
            continue
        try:
            title = command.find_host(os.environ)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            click.echo(f"{name} could not be looked for ({type(error).__name__}: {error}).")
            continue
        if title is not None:
            yield _FoundHost(title, name, cast("click.Command", command))


def _offer_host(context: click.Context, host: _FoundHost, own: str, *, asks: bool) -> bool:
    """Ask whether to set up a host, and do it; else show what would be done. False: it failed."""
    if not asks:
        click.echo(f"{host.title} is on this machine. To set it up: {own} {host.name}")
        return _run_setup(context, host, ["--dry-run"])
    from taskmem_hookspecs.command_line import ReadyHostCommand  # loads pydantic

    try:
        if isinstance(host.command, ReadyHostCommand) and host.command.is_set_up(os.environ):
            click.echo(f"{host.title} is set up.\n")
            return True
    except click.ClickException as error:
        error.show()
        return False
    click.echo(f"{host.title} is on this machine. {host.command.get_short_help_str(200)}")
    if not click.confirm("  Do this? Recommended: yes", default=True):
        click.echo(f"Left out; later: {own} {host.name}\n")
        return True
    return _run_setup(context, host, [])


def _run_setup(context: click.Context, host: _FoundHost, words: Sequence[str]) -> bool:
    """Run the set-up of a host; return False if it failed, after printing why."""
    try:
        with host.command.make_context(host.name, [*words], parent=context) as inner:
            host.command.invoke(inner)
    except click.ClickException as error:
        error.show()
        return False
    except click.exceptions.Exit as error:
        return not error.exit_code
    except SystemExit as error:
        return not error.code
    finally:
        click.echo()
    return True

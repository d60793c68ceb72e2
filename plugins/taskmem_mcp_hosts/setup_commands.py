"""The commands `taskmem setup claude`, `codex` and `skill`."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from taskmem_mcp_hosts.hosts import McpHost


_dry_run_option = click.option("--dry-run", is_flag=True, help="Only print what would be done.")


def _add_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that the command of every host has."""
    for option in (
        _dry_run_option,
        click.option("--remove", is_flag=True, help="Remove everything except the data."),
        click.option(
            "--project",
            metavar="FOLDER",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="For the project in this folder only.",
        ),
    ):
        command = option(command)
    return command


class _HostCommand(click.Command):
    """A command that `taskmem setup` offers where its host is installed."""

    def find_host(self, environ: Mapping[str, str]) -> str | None:
        """Return the host's name; None: it is not installed."""
        from taskmem_mcp_hosts.doctor import HOSTS

        host = HOSTS[str(self.name)](environ, None)
        return host.name if host.is_installed(environ.get("PATH")) else None

    def is_set_up(self, environ: Mapping[str, str]) -> bool:
        """Return whether the host has all that set-up puts in, or the plug-in instead."""
        from taskmem_mcp_hosts.doctor import HOSTS
        from taskmem_mcp_hosts.hosts import is_in_place

        with _explain_errors():
            return is_in_place(HOSTS[str(self.name)](environ, None))


@click.command(cls=_HostCommand)
@_add_options
def claude(project: Path | None, **ways: bool) -> None:
    """Set up Claude Code: the MCP server, the hooks and the skill."""
    from taskmem_mcp_hosts import hosts

    _run_setup(hosts.build_claude_host(os.environ, project), **ways)


@click.command(cls=_HostCommand)
@_add_options
def codex(project: Path | None, **ways: bool) -> None:
    """Set up Codex: the MCP server, the hooks and the skill."""
    from taskmem_mcp_hosts import hosts

    _run_setup(hosts.build_codex_host(os.environ, project), **ways)


@click.command()
@click.argument("folder", type=click.Path(file_okay=False))
@_dry_run_option
def skill(folder: str, *, dry_run: bool) -> None:
    """Write the skill into FOLDER, for any other host."""
    from taskmem_mcp_hosts import hosts

    if not folder:
        raise click.UsageError("FOLDER is empty; name the host's folder of skills, or . for here.")
    with _explain_errors():
        place = hosts.load_skill(Path(folder))
        if place.in_place:
            click.echo("Everything is in place; nothing was changed.")
            return
        if dry_run:
            click.echo(f"would write the skill {place.file}")
            return
        kept = place.write()
        for line in (f"The skill is {place.file}.", *kept):
            click.echo(line)
        click.echo(
            "It is for hosts that run taskmem mcp, with TASKMEM_TOOLS=runs in its "
            "environment: so they are offered all tools that it names."
        )


def _run_setup(host: McpHost, *, dry_run: bool, remove: bool) -> None:
    from taskmem_mcp_hosts import hosts

    with _explain_errors():
        if remove:
            lines = hosts.remove_from_host(host, dry_run=dry_run)
        else:
            for note in hosts.find_missing(host, os.environ):
                click.echo(f"note: {note}")
            lines = hosts.set_up_host(host, os.environ, dry_run=dry_run)
        for line in lines:
            click.echo(line)


@contextmanager
def _explain_errors() -> Generator[None]:
    """Turn errors into one-sentence messages of the command line."""
    from taskmem_mcp_hosts.hosts import HostSetupFailed
    from taskmem_setup import NotOurs, find_home

    try:
        yield
    except (HostSetupFailed, NotOurs) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(
            "It was stopped; run the same command again to finish it."
        ) from None
    except OSError as error:
        raise click.ClickException(
            f"{error.filename or find_home()} cannot be written ({error.strerror}); "
            "make room or see whose file that is, and run this again."
        ) from error

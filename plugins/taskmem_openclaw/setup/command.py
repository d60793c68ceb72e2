"""The command `taskmem setup openclaw`; `--help` loads no more than this file."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import click


class _OpenClawCommand(click.Command):
    """The command, which `taskmem setup` offers where OpenClaw is installed."""

    def find_host(self, environ: Mapping[str, str]) -> str | None:
        """Return the host's name; None: there is no command that starts it."""
        command = environ.get("TASKMEM_OPENCLAW_BIN") or "openclaw"
        return "OpenClaw" if shutil.which(command, path=environ.get("PATH")) else None


@click.command(cls=_OpenClawCommand)
@click.option(
    "--yes",
    "everything",
    is_flag=True,
    help="Grant all permissions; leave choices as they are.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@click.option("--remove", is_flag=True, help="Remove everything except the data.")
@click.option("--no-proof", is_flag=True, help="Do not run the doctor afterwards.")
@click.option("--mcp", is_flag=True, help="Install the MCP bundle instead of the native plug-in.")
def openclaw(*, everything: bool, dry_run: bool, remove: bool, no_proof: bool, mcp: bool) -> None:
    """Set up OpenClaw: the plug-in and its permissions.

    At a terminal it asks for each permission, with the reason. Elsewhere, without
    --yes, it does only what is needed, and prints what it left out. It can be run
    again at any time, and changes only what is not in place.
    """
    from taskmem_openclaw.setup import prompts

    if remove:
        prompts.remove_setup(dry_run=dry_run)
    else:
        choice = prompts.SetupChoice(everything, dry_run, not no_proof, mcp)
        prompts.set_up(choice)

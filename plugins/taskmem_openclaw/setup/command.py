"""The command `taskmem setup openclaw` (a file of its own: --help must load no more)."""

from __future__ import annotations

import click


@click.command()
@click.option(
    "--yes",
    "everything",
    is_flag=True,
    help="Allow what is asked for; what is a choice stays as it is.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--undo", is_flag=True, help="Put back what the last set-up changed.")
@click.option("--remove", is_flag=True, help="Take out every trace but the data.")
@click.option("--no-proof", is_flag=True, help="Do not let the doctor look after it.")
@click.option("--mcp", is_flag=True, help="The MCP bundle, not the native plug-in.")
def openclaw(
    *, everything: bool, dry_run: bool, undo: bool, remove: bool, no_proof: bool, mcp: bool
) -> None:
    """Install the plug-in into OpenClaw, with what it may do.

    At a terminal each permission is asked for, with its reason. Without one, and
    without --yes, only what is needed is done, and what was left out is said. It can be
    run again at any time: it changes what is not as it should be, and nothing else.
    """
    from taskmem_openclaw.setup import prompts

    if undo and remove:
        raise click.UsageError("Either --undo or --remove, not both.")
    if undo:
        prompts.undo_setup(dry_run=dry_run)
    elif remove:
        prompts.remove_setup(dry_run=dry_run)
    else:
        choice = prompts.SetupChoice(everything, dry_run, not no_proof, mcp)
        prompts.set_up(choice)

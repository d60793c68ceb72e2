"""The command line: a thin client of the daemon, for people and scripts."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from openclaw_taskmem import __version__
from openclaw_taskmem.cli import backup_commands, daemon_commands, list_commands, task_commands
from openclaw_taskmem.cli.client import LinkError
from openclaw_taskmem.cli.command_output import AS_JSON, exit_on_signals, fail
from openclaw_taskmem.domain.text.texts import clip, to_printable
from openclaw_taskmem.home import HomeRefused

INTERRUPTED_STATUS: Final = 130
"""Exit status after Ctrl-C."""

REFUSAL_BYTES: Final = 1000
"""Bytes of what is said about wrong words, at most."""
HELP_WIDTH: Final = 200
"""Characters of a command's help in the list of commands, at most."""
_GROUPS: Final = {
    "See": ("list", "show", "watch", "ui", "waits", "wakes", "runs", "events", "open"),
    "Act": ("answer", "approve", "send-back", "resume", "pause", "cancel", "accept"),
    "Set up, and look after": (
        *("setup", "doctor", "status", "settings", "record", "backup", "restore", "daemon", "log"),
        *("plugins", "demo", "bench"),
    ),
    "For agents and scripts": ("run", "wait", "call", "tools", "mcp"),
}


class _ErrorReportingGroup(click.Group):
    """Reports errors as a sentence and an exit status; includes the commands of plug-ins."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        from openclaw_taskmem.cli import commands

        return sorted({*super().list_commands(ctx), *commands.list_command_names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; plug-ins cannot replace the built-in ones."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        from openclaw_taskmem.cli import commands

        ctx.obj = commands.PluginCommandLine()
        return commands.find_plugin_command(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command and its words; `--json` before it counts as if it stood behind it."""
        name, command, words = super().resolve_command(ctx, args)
        if ctx.params.get("as_json"):
            names = 1 if isinstance(command, click.Group) else 0
            words = [*words[:names], "--json", *words[names:]]
        return name, command, words

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the commands in groups, each with the whole first sentence of its help."""
        names = self.list_commands(ctx)
        others = [name for name in names if not any(name in of for of in _GROUPS.values())]
        for title, group in (*_GROUPS.items(), ("More", others)):
            found = ((name, self.get_command(ctx, name)) for name in group)
            rows = [(name, each.get_short_help_str(HELP_WIDTH)) for name, each in found if each]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run a command; print errors without a traceback."""
        try:
            return super().invoke(ctx)
        except click.exceptions.NoArgsIsHelpError:
            raise  # the whole help of a group
        except click.ClickException as error:
            # It may repeat a word of any length.
            sentence = clip(to_printable(error.format_message()), REFUSAL_BYTES)
            if isinstance(error, click.UsageError):
                raise click.UsageError(sentence, error.ctx) from error
            raise click.ClickException(sentence) from error
        except (LinkError, HomeRefused) as error:
            fail(str(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.filename is None:
                raise
            hint = "; see whose file that is" if isinstance(error, PermissionError) else ""
            fail(f"{error.strerror}: {error.filename}{hint}.")
        except RecursionError:
            fail("That is nested without end; flatten it and call again.")
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED_STATUS)


@click.group(
    cls=_ErrorReportingGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, "-V", "--version", prog_name="taskmem")
@AS_JSON
@click.pass_context
def cli(context: click.Context, *, as_json: bool) -> None:
    """Memory, patience and proof for AI agents that work for hours.

    Without a command: what needs you, and what goes on.
    """
    if context.invoked_subcommand is None:
        task_commands.print_overview(as_json=as_json)


for _module in (task_commands, list_commands, daemon_commands, backup_commands):
    for _command in _module.COMMANDS:
        cli.add_command(_command)


def main() -> None:
    """Run a command by click; `cli.main` calls this for all but the relay and the daemon."""
    exit_on_signals()
    cli(prog_name="taskmem")

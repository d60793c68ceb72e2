"""The command line: a thin client of the daemon, with the commands that plug-ins add.

Plug-ins name their commands by entry point; each is loaded when it is asked for.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from openclaw_taskmem import __version__
from openclaw_taskmem.cli import (
    backup_commands,
    daemon_commands,
    host_setup,
    list_commands,
    task_commands,
)
from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.cli.command_output import (
    JSON_OPTION,
    call_daemon,
    exit_on_signals,
    fail,
    require_person,
    write_install_command,
)
from openclaw_taskmem.domain.text.texts import clip, to_printable
from openclaw_taskmem.home import HomeRefused, find_home

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_GROUP: Final = "openclaw_taskmem.commands"
"""The entry-point group of commands, each a `click.Command`.

`A.B` is command B of group A, to which all plug-ins may add.
"""
_SEPARATE_PACKAGES: Final = {
    "bench": "taskmem_resumebench",
    "open": "taskmem_recorder",
    "record": "taskmem_recorder",
}
"""Folders in `plugins/` of commands that are a package of their own, by command."""
_SETUP_HELP: Final = "Set up the agents' hosts here, or one by its name"


class _PluginCommandLine:
    """`taskmem_hookspecs.command_line.CommandLine`: the `obj` of the commands of plug-ins."""

    def require_person(self) -> None:
        """End the command with a sentence if no person at a terminal runs it."""
        require_person()

    def call_daemon(self, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        """Call the daemon; start it if it is not running."""
        return call_daemon(method, **params)

    def is_daemon_running(self) -> bool:
        """Return whether a daemon serves the home."""
        try:
            connect(find_home(os.environ)).close()
        except LinkError:
            return False
        return True


def _find_plugin_command(name: str) -> click.Command | None:
    """Return a plug-in's command or group of commands; None: there is none with that name.

    The command finds the state folder in the variable `TASKMEM_HOME`. For a command that cannot be
    loaded, one is returned that says so; for one whose package is not installed, one that says how
    to get it.
    """
    for point in _list_entry_points():
        if point.name == name:
            os.environ["TASKMEM_HOME"] = str(find_home(os.environ).folder)
            try:
                return _load_command(point)
            except LinkError as error:
                return _build_refusal(name.rpartition(".")[2], "Cannot be loaded.", error)
    if name in _SEPARATE_PACKAGES:
        return _build_refusal(
            name,
            "A package of its own, which is not installed.",
            click.UsageError(
                f"`taskmem {name}` is a package of its own; in a checkout of openclaw-taskmem run "
                f"`{write_install_command(_SEPARATE_PACKAGES[name])}`."
            ),
        )
    members = _list_members(name)
    if not members:
        return None
    if name == "setup":
        return _Group(
            name,
            help=f"{_SETUP_HELP}: {', '.join(members)}.",
            params=[host_setup.DRY_RUN],
            callback=host_setup.offer_hosts,
            invoke_without_command=True,
        )
    return _Group(name, help=f"Commands of plug-ins: {', '.join(members)}.")


class _Group(click.Group):
    """The commands `NAME.…` of all plug-ins, each loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the group's commands."""
        del ctx
        return _list_members(str(self.name))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of the group."""
        del ctx
        return _find_plugin_command(f"{self.name}.{cmd_name}")


def _list_members(group: str) -> list[str]:
    start = f"{group}."
    found = (point.name for point in _list_entry_points() if point.name.startswith(start))
    return sorted({name.removeprefix(start) for name in found})


def _build_refusal(name: str, short_help: str, error: Exception) -> click.Command:
    """Return a command that takes any words and raises an error."""

    def refuse() -> None:
        raise error

    return click.Command(
        name,
        callback=refuse,
        short_help=short_help,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


def _list_entry_points() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    return tuple(entry_points(group=_GROUP))


def _load_command(point: EntryPoint) -> click.Command:
    try:
        command: object = point.load()
    except Exception as error:
        raise LinkError(
            "plugin_failed",
            f"The command {point.name} of {point.value} cannot be loaded "
            f"({type(error).__name__}: {error}); reinstall the plug-in, or remove it.",
        ) from error
    if not isinstance(command, click.Command):
        raise LinkError(
            "plugin_failed",
            f"{point.value} is no click command; the plug-in that names it is broken.",
        )
    return command


# --- all commands --------------------------------------------------------------------------


_INTERRUPTED_STATUS: Final = 130
"""Exit status after Ctrl-C."""

REFUSAL_BYTES: Final = 1000
"""Bytes of what is said about wrong words, at most."""
_HELP_WIDTH: Final = 200
"""Characters of a command's help in the list of commands, at most."""
_GROUPS: Final = {
    "See": (
        "list",
        "ready",
        "show",
        "watch",
        "ui",
        "waits",
        "wakes",
        "runs",
        "events",
        "stats",
        "open",
    ),
    "Act": (
        "answer",
        "approve",
        "send-back",
        "resume",
        "pause",
        "reset",
        "cancel",
        "accept",
        "seen",
    ),
    "Set up, and look after": (
        "setup",
        "doctor",
        "status",
        "settings",
        "record",
        "backup",
        "restore",
        "daemon",
        "log",
        "plugins",
        "demo",
        "bench",
    ),
    "For agents and scripts": ("run", "wait", "call", "tools", "mcp", "hook"),
}


class _ErrorReportingGroup(click.Group):
    """Reports errors as a sentence and an exit status; includes the commands of plug-ins."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of a command line; `help` before a command is `--help` behind it."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        installed = {point.name.partition(".")[0] for point in _list_entry_points()}
        return sorted({*super().list_commands(ctx), *installed, *_SEPARATE_PACKAGES})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; plug-ins cannot replace the built-in ones."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        ctx.obj = _PluginCommandLine()
        return _find_plugin_command(cmd_name)

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
            rows = [(name, each.get_short_help_str(_HELP_WIDTH)) for name, each in found if each]
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
            fail("That is nested too deeply; flatten it and call again.")
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED_STATUS)


@click.group(
    cls=_ErrorReportingGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(__version__, "-V", "--version", prog_name="taskmem")
@JSON_OPTION
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

"""Find the commands that plug-ins add, by entry point, when one is asked for."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import click

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.cli.command_output import call_daemon, require_person
from openclaw_taskmem.home import find_home

GROUP: Final = "openclaw_taskmem.commands"
"""The entry-point group of commands, each a `click.Command`.

`A.B` is command B of group A, to which all plug-ins may add.
"""
_SEPARATE_PACKAGES: Final = {
    "bench": "taskmem_resumebench",
    "open": "taskmem_recorder",
    "record": "taskmem_recorder",
}
"""Folders in `plugins/` of commands that are a package of their own, by command."""
_GROUP_HELP: Final = {"setup": "Set up an agent's host"}
"""Help of a group: its commands in common."""


class PluginCommandLine:
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


def list_command_names() -> list[str]:
    """Return the names of the commands and groups that plug-ins add, or would add."""
    installed = {point.name.partition(".")[0] for point in _list_entry_points()}
    return sorted({*installed, *_SEPARATE_PACKAGES})


def find_plugin_command(name: str) -> click.Command | None:
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
                f"`pipx inject openclaw-taskmem ./plugins/{_SEPARATE_PACKAGES[name]}`."
            ),
        )
    members = _list_members(name)
    if not members:
        return None
    does = _GROUP_HELP.get(name, "Commands of plug-ins")
    return _Group(name, help=f"{does}: {', '.join(members)}.")


class _Group(click.Group):
    """The commands `NAME.…` of all plug-ins, each loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the group's commands."""
        del ctx
        return _list_members(str(self.name))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of the group."""
        del ctx
        return find_plugin_command(f"{self.name}.{cmd_name}")


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
    return tuple(entry_points(group=GROUP))


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

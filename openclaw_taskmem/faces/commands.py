"""Commands that plug-ins add, found by entry point when one is asked for."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import click

from openclaw_taskmem.faces.link import LinkError
from openclaw_taskmem.home import find_home

GROUP: Final = "openclaw_taskmem.commands"
"""The entry-point group: a name, and the `click.Command` that it stands for."""


def names() -> list[str]:
    """Return the names of the commands that plug-ins add."""
    return sorted({point.name for point in _found()})


def find(name: str) -> click.Command | None:
    """Return a plug-in's command; None: there is none of that name.

    The command finds the state folder as `TASKMEM_HOME` in the environment. In
    place of one that cannot be loaded there is one that says so.
    """
    for point in _found():
        if point.name == name:
            os.environ["TASKMEM_HOME"] = str(find_home(os.environ).folder)
            try:
                return _load(point)
            except LinkError as error:
                return _broken(name, error)
    return None


def _broken(name: str, error: LinkError) -> click.Command:
    def refuse() -> None:
        raise error

    return click.Command(
        name,
        callback=refuse,
        short_help="Cannot be loaded.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


def _found() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _load(point: EntryPoint) -> click.Command:
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

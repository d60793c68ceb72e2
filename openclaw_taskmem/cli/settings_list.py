"""`taskmem settings`: every setting, its value, and where that is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import click

from openclaw_taskmem.cli.core_checks import find_misspelt_settings
from openclaw_taskmem.config import (
    PREFIX,
    Settings,
    format_value,
    list_changed_settings,
    load_settings,
)

_NO_SETTINGS: Final = frozenset({"home", "in_file", "warnings"})


def read_settings_list(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings as JSON: those that were chosen, then those at their default.

    Credentials are not told, only that they are set.

    Raises:
        SettingsInvalid: A value is invalid, or the file cannot be read.
    """
    read = dict(environ)
    settings = load_settings(read)
    chosen = list_changed_settings(settings, read)
    in_file = {f"{PREFIX}{name.upper()}" for name in settings.in_file}
    rows = [
        {
            "name": name,
            "value": value,
            "from": str(settings.home.config)
            if name in in_file and not environ.get(name)
            else "environment",
        }
        for name, value in sorted(chosen.items())
    ]
    rows += [
        {"name": name, "value": format_value(field.default), "from": "default"}
        for field in fields(Settings)
        if field.name not in _NO_SETTINGS
        and (name := f"{PREFIX}{field.name.upper()}") not in chosen
    ]
    odd = [*find_misspelt_settings(environ), *settings.warnings]
    return {"home": str(settings.home.folder), "settings": rows, "odd": odd}


def print_settings(found: Mapping[str, Any]) -> None:
    """Print what `read_settings_list` returned; the defaults are dimmed."""
    from openclaw_taskmem.cli.tables import Cell, Column, print_table

    print_table(
        [Column("setting", fixed=True), Column("value"), Column("from")],
        [
            [Cell(row[part], "dim" if row["from"] == "default" else "") for part in row]
            for row in found["settings"]
        ],
    )
    for sentence in found["odd"]:
        click.secho(sentence, fg="yellow")

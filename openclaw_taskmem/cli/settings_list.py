"""`taskmem settings`: every setting, its value, and where that is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from openclaw_taskmem.config import (
    FILE_FIRST,
    PREFIX,
    Settings,
    format_value,
    list_changed_settings,
    list_variables,
    load_settings,
)
from openclaw_taskmem.daemon.settings_differences import find_misspelt_settings
from openclaw_taskmem.domain.redaction import scrub

DEFAULT: Final = "default"
_NO_SETTINGS: Final = frozenset({"home", "in_file", "warnings"})
_OF_CALLERS: Final = frozenset({f"{PREFIX}HOST", f"{PREFIX}SESSION_KEY"})
"""Variables that a host sets for its agents' commands."""


def read_settings_list(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings as JSON: those that were chosen, then those at their default.

    Credentials are not told, only that they are set.

    Raises:
        SettingsInvalid: A value is invalid, or the file cannot be read.
    """
    read = dict(environ)
    settings = load_settings(read)
    values: dict[str, str | None] = {f"{PREFIX}HOME": str(settings.home.folder)}
    for field in fields(Settings):
        if field.name not in _NO_SETTINGS:
            values[f"{PREFIX}{field.name.upper()}"] = format_value(getattr(settings, field.name))
    # A plug-in's own setting has its default in the plug-in.
    others = list_variables() - values.keys() - _OF_CALLERS
    values |= {name: read.get(name, "").strip() or None for name in others}
    values |= list_changed_settings(settings, read)
    rows = [
        {
            "name": name,
            "value": None if value is None else scrub(value),
            "from": _find_source(name, environ, read, settings),
        }
        for name, value in sorted(values.items())
    ]
    rows.sort(key=lambda row: row["from"] == DEFAULT)
    odd = [*find_misspelt_settings(environ), *settings.warnings]
    return {"home": str(settings.home.folder), "settings": rows, "odd": odd}


def _find_source(
    name: str, environ: Mapping[str, str], read: Mapping[str, str], settings: Settings
) -> str:
    """Say where the value of a variable is from.

    `environ`: the environment as it was; `read`: the one into which the file's settings were put.
    """
    is_in_environ = bool(environ.get(name, "").strip())
    is_in_file = name.removeprefix(PREFIX).lower() in settings.in_file and read[name].strip()
    if is_in_file and (name in FILE_FIRST or not is_in_environ):
        return str(settings.home.config)
    return "environment" if is_in_environ else DEFAULT


def print_settings(found: Mapping[str, Any]) -> None:
    """Print what `read_settings_list` returned; the defaults are dimmed."""
    from openclaw_taskmem.cli.tables import Cell, Column, Paragraph, Table, make_cell, print_all

    rows = [
        [Cell(row[part] or "-", "dim" if row["from"] == DEFAULT else "") for part in row]
        for row in found["settings"]
    ]
    columns = [Column("setting", fixed=True), Column("value"), Column("from")]
    odd = (Paragraph(make_cell(Cell(sentence, "yellow"))) for sentence in found["odd"])
    print_all((Table(columns, rows), *odd))

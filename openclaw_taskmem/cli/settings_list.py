"""`taskmem settings`: every setting, its value, and where that is from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from openclaw_taskmem.config import (
    FILE_FIRST,
    PREFIX,
    Settings,
    find_misspelt_settings,
    format_value,
    list_changed_settings,
    list_values,
    list_variables,
    read_settings,
)
from openclaw_taskmem.domain.text.redaction import scrub

DEFAULT: Final = "default"
_OF_CALLERS: Final = frozenset({f"{PREFIX}HOST", f"{PREFIX}SESSION_KEY"})
"""Variables that a host sets for its agents' commands."""
_OF_PLUGINS: Final = {
    f"{PREFIX}GEMINI_CALLS_PER_DAY": "1000",
    f"{PREFIX}GEMINI_MODEL": "gemini-3.5-flash-lite",
    f"{PREFIX}HOST_CALLS_PER_DAY": "200",
    f"{PREFIX}OPENCLAW_BIN": "openclaw",
    f"{PREFIX}RECORD_DAYS": "30",
    f"{PREFIX}RECORD_LOAD": "2",
    f"{PREFIX}RECORD_MB": "5000",
}
"""Defaults of the built-in plug-ins' own settings."""


def read_settings_list(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings as JSON: those that were chosen, then those at their default.

    Credentials are not told, only that they are set. `wrong` says by variable why a value is
    invalid.

    Raises:
        SettingsInvalid: The file cannot be read, or the state folder is not ours.
    """
    read = dict(environ)
    settings, wrong = read_settings(read)
    values: dict[str, str | None] = {f"{PREFIX}HOME": str(settings.home.folder)}
    for name, value in list_values(settings).items():
        values[f"{PREFIX}{name.upper()}"] = format_value(value)
    others = list_variables() - values.keys() - _OF_CALLERS
    values |= {name: read.get(name, "").strip() or None for name in others}
    defaults = {
        f"{PREFIX}ARTIFACT_ROOTS": format_value(settings.roots),
        f"{PREFIX}DATABASE_URL": settings.database,
        # OpenClaw's plug-in reads this one itself; without it, what was chosen in set-up counts.
        f"{PREFIX}HOLD_BACK": "as chosen in set-up",
        **_OF_PLUGINS,
    }
    values |= {name: each for name, each in defaults.items() if not read.get(name, "").strip()}
    values |= list_changed_settings(settings, read) | {name: read[name] for name in wrong}
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
    return {
        "home": str(settings.home.folder),
        "settings": rows,
        "odd": odd,
        "wrong": {name: scrub(why) for name, why in wrong.items()},
    }


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
    """Print what `read_settings_list` returned; defaults are dimmed, and wrong values marked."""
    from openclaw_taskmem.cli.tables import Cell, Column, Paragraph, Table, make_cell, print_all

    wrong = found["wrong"]
    rows: list[list[Cell]] = []
    for row in found["settings"]:
        is_wrong = row["name"] in wrong
        style = "red" if is_wrong else "dim" if row["from"] == DEFAULT else ""
        value = f"{row['value']} (wrong)" if is_wrong else row["value"] or "-"
        rows.append([Cell(text, style) for text in (row["name"], value, row["from"])])
    columns = [Column("setting", fixed=True), Column("value"), Column("from")]
    odd = (Paragraph(make_cell(Cell(sentence, "yellow"))) for sentence in found["odd"])
    why = (Paragraph(make_cell(Cell(sentence, "red"))) for sentence in wrong.values())
    print_all((Table(columns, rows), *odd, *why))

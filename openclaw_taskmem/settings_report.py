"""List the settings with their sources, and tell which differ or are misspelt."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from openclaw_taskmem.config import (
    CALLER_IDENTITY,
    FILE_FIRST,
    PER_CALLER_SETTINGS,
    PLUGIN_SETTINGS,
    PREFIX,
    Settings,
    list_defaults,
    list_values,
    list_variables,
    load_settings,
    read_settings,
)
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.losses import hide_password
from taskmem_hookspecs.errors import SettingsInvalid

_OPENCLAW_VARIABLES: Final = (
    "OPENCLAW_HOME",
    "OPENCLAW_STATE_DIR",
    "OPENCLAW_CONFIG_PATH",
    "OPENCLAW_GATEWAY_PORT",
)
"""OpenClaw's own variables, by which the built-in plug-ins locate it."""
_OPENCLAW_LOCATORS: Final = frozenset({f"{PREFIX}OPENCLAW_BIN", *_OPENCLAW_VARIABLES})
"""Variables that count only while no gateway of OpenClaw is connected."""
_KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Variables that may contain a key for Gemini."""
_NAME_LIKENESS: Final = 0.85
"""How alike a misspelt name is to the one that is meant, from 0 to 1."""
_DEFAULT_SOURCE: Final = "default"
_PLUGIN_DEFAULTS: Final = {
    f"{PREFIX}CODEX_BIN": "codex",
    f"{PREFIX}GEMINI_CALLS_PER_DAY": "1000",
    f"{PREFIX}GEMINI_MODEL": "gemini-3.5-flash-lite",
    f"{PREFIX}HOST_CALLS_PER_DAY": "200",
    f"{PREFIX}OPENCLAW_BIN": "openclaw",
    f"{PREFIX}RECORD_DAYS": "30",
    f"{PREFIX}RECORD_LOAD": "2",
    f"{PREFIX}RECORD_MB": "5000",
}
"""Defaults of the built-in plug-ins' own settings."""


def list_changed_settings(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return by variable each setting that is not the default, without credentials.

    Settings that each caller makes for itself are left out. `environ`: the environment into which
    `load_settings` has put the file's settings.
    """
    defaults = list_defaults()
    chosen = {
        f"{PREFIX}{name.upper()}": _format_value(value)
        for name, value in list_values(settings).items()
        if name not in PER_CALLER_SETTINGS and value != defaults[name]
    }
    others = (*(f"{PREFIX}{name.upper()}" for name in PLUGIN_SETTINGS), *_OPENCLAW_VARIABLES)
    chosen |= {name: environ[name].strip() for name in others if environ.get(name)}
    chosen |= {name: "set" for name in _KEYS if environ.get(name, "").strip()}
    if settings.database_url:
        chosen[f"{PREFIX}DATABASE_URL"] = hide_password(settings.database_url)
    return {name: scrub(value) for name, value in chosen.items() if value}


def _format_value(value: object) -> str:
    """Format a value as in the environment."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(map(_format_value, cast("tuple[object, ...]", value)))
    return f"{value:g}" if isinstance(value, float) else str(value)


def name_setting(settings: Settings, name: str) -> str:
    """Return how a setting is named where it was made: in the file, or in the environment."""
    in_file = name in settings.in_file
    return f"{name} in {settings.home.config}" if in_file else f"{PREFIX}{name.upper()}"


def describe_differences(status: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each difference; none if the settings of the caller are invalid.

    `environ`: the caller's environment: settings, and the names of all other variables.
    """
    read = {**environ, f"{PREFIX}HOME": str(status["home"])}
    try:
        settings = load_settings(read)
    except SettingsInvalid:
        return []
    return [sentence for _, sentence in find_differences(status, settings, read)]


def find_differences(
    status: Mapping[str, Any], settings: Settings, environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield each variable with another value in the daemon, and a sentence.

    A daemon of an older version does not report its settings. Ignored are the variables that locate
    OpenClaw while a gateway is connected, and foreign variables that are not set here.

    `settings` are those that a daemon started here would have, read into `environ`.
    """
    if "settings" not in status:
        return
    used, here = status["settings"], list_changed_settings(settings, environ)
    moot = _OPENCLAW_LOCATORS if status.get("gateways") else frozenset[str]()
    for name in sorted({*used, *here} - moot):
        theirs, ours = used.get(name), here.get(name)
        if theirs == ours or (ours is None and not name.startswith(PREFIX)):
            continue
        has = f"The daemon has {name}={theirs}" if theirs else f"The daemon has no {name}"
        yield name, f"{has}, and here it is {ours or 'not set'}."


def find_misspelt_settings(environ: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each variable whose name is similar to a setting's."""
    for name in find_unknown_settings(environ):
        near = difflib.get_close_matches(name, list_variables(), n=1, cutoff=_NAME_LIKENESS)
        if near:
            yield f"There is no setting {name}; {near[0]} is meant, perhaps."


def find_unknown_settings(environ: Iterable[str]) -> list[str]:
    """Return the variables that look like settings but are not taskmem's.

    They may be a plug-in's own.
    """
    variables = list_variables()
    return sorted(n for n in environ if n.startswith(PREFIX) and n not in variables)


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
        values[f"{PREFIX}{name.upper()}"] = _format_value(value)
    others = (
        list_variables() - values.keys() - {f"{PREFIX}{name.upper()}" for name in CALLER_IDENTITY}
    )
    values |= {name: read.get(name, "").strip() or None for name in others}
    defaults = {
        f"{PREFIX}ARTIFACT_ROOTS": _format_value(settings.roots),
        f"{PREFIX}DATABASE_URL": settings.database,
        # OpenClaw's plug-in reads this one itself; without it, what was chosen in set-up counts.
        f"{PREFIX}HOLD_BACK": "as chosen in set-up",
        **_PLUGIN_DEFAULTS,
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
    rows.sort(key=lambda row: row["from"] == _DEFAULT_SOURCE)
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
    return "environment" if is_in_environ else _DEFAULT_SOURCE

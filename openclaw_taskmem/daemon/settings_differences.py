"""Find settings that are misspelt, and those that have another value in the running daemon."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from openclaw_taskmem.config import (
    OPENCLAW_LOCATORS,
    PREFIX,
    Settings,
    list_changed_settings,
    list_variables,
    load_settings,
)
from taskmem_hookspecs.errors import SettingsInvalid

_NAME_LIKENESS: Final = 0.85
"""How alike a misspelt name is to the one that is meant, from 0 to 1."""


def name_setting(settings: Settings, name: str) -> str:
    """Return how a setting is named where it was made: in the file, or in the environment."""
    in_file = name in settings.in_file
    return f"{name} in {settings.home.config}" if in_file else f"{PREFIX}{name.upper()}"


def describe_differences(status: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each difference; none if the settings of the caller are invalid.

    Args:
        status: The daemon's answer to `status`.
        environ: The caller's environment: settings, and the names of all other variables.
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

    Args:
        status: The daemon's answer to `status`.
        settings: The settings that a daemon started here would have.
        environ: The environment into which they were read.
    """
    if "settings" not in status:
        return
    used, here = status["settings"], list_changed_settings(settings, environ)
    moot = OPENCLAW_LOCATORS if status.get("gateways") else frozenset[str]()
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

"""Find settings that have another value in the running daemon than here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openclaw_taskmem.config import (
    OPENCLAW_LOCATORS,
    PREFIX,
    Settings,
    list_changed_settings,
    load_settings,
)
from taskmem_hookspecs.errors import SettingsInvalid


def describe_differences(status: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each difference; none if the settings here are invalid.

    Args:
        status: The daemon's answer to `status`.
        environ: The caller's environment.
    """
    read = dict(environ)
    try:
        settings = load_settings(read)
    except SettingsInvalid:
        return []
    return [said for _, said in find_differences(status, settings, read)]


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

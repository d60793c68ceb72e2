"""Settings of which the daemon has another value than whoever asks would give it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from openclaw_taskmem.config import FINDS_OPENCLAW, PREFIX, Settings, list_chosen, load_settings
from taskmem_hookspecs.errors import SettingsInvalid


def describe_differences(status: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each difference; none where the settings cannot be read.

    Args:
        status: What the daemon tells of itself.
        environ: That of whoever asks, as it was given.
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
    """Yield each variable of which the daemon has another value, and a sentence.

    A daemon that was started by an older version does not tell its settings. How
    OpenClaw is found is no difference while a gateway is connected, nor is a variable
    that is not ours and is not set here.

    Args:
        status: What the daemon tells of itself.
        settings: What a daemon would have that is started here.
        environ: Where they were read into.
    """
    if "settings" not in status:
        return
    used, here = status["settings"], list_chosen(settings, environ)
    moot = FINDS_OPENCLAW if status.get("gateways") else frozenset[str]()
    for name in sorted({*used, *here} - moot):
        theirs, ours = used.get(name), here.get(name)
        if theirs == ours or (ours is None and not name.startswith(PREFIX)):
            continue
        has = f"The daemon has {name}={theirs}" if theirs else f"The daemon has no {name}"
        yield name, f"{has}, and here it is {ours or 'not set'}."

"""`taskmem wait ID`: a command that ends when a wait does, for whoever cannot be woken.

It is meant to run in the background of a host that tells its agent of a command's end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from openclaw_taskmem.faces.link import LinkError, reach
from openclaw_taskmem.home import Home

PATIENCE_SECONDS: Final = 60.0
"""How long the daemon may keep one call without an answer."""
UNKNOWN: Final = 2
"""The exit status where there is no such wait."""
STOPPED: Final = 3
"""The exit status where the daemon was told to stop, as of `taskmem status`."""


def run(
    home: Home,
    environ: Mapping[str, str],
    wait_id: str,
    say: Callable[[str], None],
    fail: Callable[[str, int], NoReturn],
) -> int:
    """Block until a wait has ended, say how, and return the exit status.

    A daemon that is killed meanwhile is started again; one that is stopped is not.
    `fail` ends with a sentence and a status.

    Raises:
        LinkError: The daemon cannot be started, or refuses.
    """
    while True:
        try:
            found = _ask(home, environ, wait_id)
        except LinkError as error:
            if error.name == "wait_not_found":
                fail(str(error), UNKNOWN)
            raise
        if found is None:
            continue
        if found["ended"]:
            say(str(found["text"]))
            return int(found["exit"])
        if found["stopping"]:
            fail(
                f"The daemon was told to stop, and nobody watches for {wait_id} now. "
                "Call this again to start one and wait on.",
                STOPPED,
            )


def _ask(home: Home, environ: Mapping[str, str], wait_id: str) -> Any:  # noqa: ANN401 - JSON
    """Ask until there is an end; None: the daemon has died meanwhile."""
    with reach(home, environ) as link:
        while True:
            try:
                found = link.call("wait", {"id": wait_id}, PATIENCE_SECONDS)
            except LinkError as error:
                if error.name == "daemon_unavailable":
                    return None
                raise
            if found["ended"] or found["stopping"]:
                return found

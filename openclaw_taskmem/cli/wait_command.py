"""`taskmem wait ID`: block until a wait has ended, for agents that no wake reaches.

Run it in the background of a host that tells its agent when a command ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from openclaw_taskmem.cli.client import Link, LinkError, connect_or_start
from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.domain.text.texts import clip
from openclaw_taskmem.home import Home

REFUSAL_BYTES: Final = 300
"""Bytes of what is said about an id that no wait has, at most."""
PATIENCE_SECONDS: Final = 60.0
"""Seconds that the daemon may take to answer one call."""
UNKNOWN_STATUS: Final = 2
"""Exit status if there is no such wait."""
UNTOLD_STATUS: Final = 3
"""Exit status if the wait may go on, but its end cannot be learned now."""
MOST_DOUBLINGS: Final = 6
"""Doublings of the pause before the daemon is asked again; the longest is 63 s."""
_PASSING_ERRORS: Final = frozenset({"daemon_unavailable", "store_busy"})
"""Errors after which the call is repeated, as the wait goes on."""


def run_wait(
    home: Home, environ: Mapping[str, str], wait_id: str, rest: Callable[[float], None] = time.sleep
) -> tuple[str, int]:
    """Block until a wait has ended; return its text and the exit status.

    A daemon that is killed meanwhile is started again; one that is stopped is not. `rest` sleeps
    for some seconds.
    """
    stopped = (
        f"The daemon was told to stop, and nobody watches for {wait_id} now. Call this "
        "again to start one and wait on."
    )
    failures = 0
    while True:
        try:
            with connect_or_start(home, environ) as link:
                while found := _fetch_outcome(link, wait_id):
                    failures = 0
                    if found["ended"]:
                        return found["text"], found["exit"]
                    if found["stopping"]:
                        return stopped, UNTOLD_STATUS
        except LinkError as error:
            if error.name == "wait_not_found":
                return clip(str(error), REFUSAL_BYTES), UNKNOWN_STATUS
            return f"{error} Then call this again: {wait_id} is kept.", UNTOLD_STATUS
        rest((1 << failures) - 1)
        failures = min(failures + 1, MOST_DOUBLINGS)
        if _was_stopped(home):
            return stopped, UNTOLD_STATUS


def _fetch_outcome(link: Link, wait_id: str) -> Any:  # noqa: ANN401 - JSON
    """Ask how a wait has ended; None: the daemon has died, or its store is busy."""
    try:
        return link.call("wait", {"id": wait_id}, PATIENCE_SECONDS)
    except LinkError as error:
        if error.name in _PASSING_ERRORS:
            return None
        raise


def _was_stopped(home: Home) -> bool:
    """Tell whether the daemon stops or has stopped in order, that is, has removed its socket.

    A daemon that is starting has no socket yet, either.
    """
    if home.socket.exists():
        return False
    held = find_holder(home.lock)
    return held is None or held.ending

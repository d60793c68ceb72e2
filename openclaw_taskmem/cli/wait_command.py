"""Follow waits: `taskmem wait ID` blocks until one has ended, `waits --follow` prints changes.

`taskmem wait` is for agents that no wake reaches: run it in the background of a host that tells its
agent when a command ends.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

from openclaw_taskmem.cli.client import Link, LinkError, connect_or_start
from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.domain.text.texts import clip, to_printable
from openclaw_taskmem.home import Home

Row = dict[str, Any]
_OPEN_STATUS: Final = "watching"
CONDITION_CHARS: Final = 40
"""Characters of a condition in a line."""
PATIENCE_SECONDS: Final = 60.0
"""Seconds that the daemon may take to answer a follower."""


def follow_waits(link: Link, *, limit: int) -> Iterator[list[Row]]:
    """Yield the waits, newest first, each time one has changed."""
    seen: int | None = None
    while True:
        found = link.call("follow", {"seen": seen, "limit": limit}, PATIENCE_SECONDS)
        if found["seen"] != seen:
            yield found["waits"]
        seen = found["seen"]


def report_all_changes(link: Link, changes: WaitChangeReporter, *, limit: int) -> NoReturn:
    """Report every change until the reader of the output goes away.

    Raises:
        LinkError: The daemon has ended, or refused.
    """
    try:
        for found in follow_waits(link, limit=limit):
            changes.report_changes(found)
    except LinkError as error:
        if error.name != "daemon_unavailable":
            raise
        sentence = "The daemon has ended; call again to start one and follow it."
        raise LinkError(error.name, sentence) from error
    raise AssertionError("following has no end of its own")


class WaitChangeReporter:
    """Reports the changes between one list of waits and the next."""

    def __init__(
        self, say: Callable[[str], None], *, as_json: bool, ended_too: bool = False
    ) -> None:
        self._say = say
        self._ended_too = ended_too
        self._as_json = as_json
        self._known: dict[str, tuple[object, ...]] | None = None

    def report_changes(self, waits: list[Row]) -> None:
        """Print a line for each wait that changed; for the first list, for the open ones.

        With `ended_too`, for all waits of the first list. If it has none, say so.
        """
        known = self._known
        self._known = {wait["wait_id"]: _build_state_key(wait) for wait in waits}
        if known is None:
            fresh = [w for w in waits if self._ended_too or w["status"] == _OPEN_STATUS]
        else:
            fresh = [w for w in waits if known.get(w["wait_id"]) != _build_state_key(w)]
        for wait in reversed(fresh):
            self._say(json.dumps(wait) if self._as_json else _format_change(wait))
        if known is None and not (fresh or self._as_json):
            none = "There is no wait" if self._ended_too else "No wait is open"
            self._say(f"{none}; each that begins is printed here.")


def _build_state_key(wait: Row) -> tuple[object, ...]:
    return (wait["status"], wait["round"], wait["last_observation"], wait["wake_when"])


def _format_change(wait: Row) -> str:
    from openclaw_taskmem.cli.tables import format_short_id

    seen = to_printable(wait["last_observation"] or "nothing was seen yet")
    left = ""
    if wait["status"] == _OPEN_STATUS:
        left = f" ({_format_time_left(wait['deadline_at'])} left)"
    wanted = to_printable(wait["wake_when"])
    wanted = wanted if len(wanted) <= CONDITION_CHARS else wanted[: CONDITION_CHARS - 1] + "…"
    place = f"{to_printable(wait['target'])}  {wanted}"
    return f"{format_short_id(wait['wait_id'])}  {wait['status']}{left}  {place}  → {seen}"


def _format_time_left(deadline: str) -> str:
    now = datetime.now(UTC)  # noqa: TID251 - a person looks at it now
    seconds = max(0, int((datetime.fromisoformat(deadline) - now).total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


# --- waiting for an end -------------------------------------------------------


REFUSAL_BYTES: Final = 200
"""Bytes of an unknown id that the refusal shows, at most."""
_UNKNOWN_TEXT: Final = "There is no wait {}; see what there is with: taskmem waits --all"
UNKNOWN_STATUS: Final = 2
"""Exit status if there is no such wait."""
UNTOLD_STATUS: Final = 3
"""Exit status if the wait may go on, but its end cannot be learned now."""
_MOST_DOUBLINGS: Final = 6
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
                return _UNKNOWN_TEXT.format(clip(wait_id, REFUSAL_BYTES)), UNKNOWN_STATUS
            return f"{error} Then call this again: {wait_id} is kept.", UNTOLD_STATUS
        rest((1 << failures) - 1)
        failures = min(failures + 1, _MOST_DOUBLINGS)
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

"""`taskmem waits --follow`: print the waits as they change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

from openclaw_taskmem.cli.client import Link, LinkError
from openclaw_taskmem.domain.text.texts import to_printable

Row = dict[str, Any]
OPEN_STATUS: Final = "watching"
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

        With `ended_too`, for all waits of the first list.
        """
        known = self._known
        self._known = {wait["wait_id"]: _build_state_key(wait) for wait in waits}
        for wait in reversed(waits):
            if known is None:
                fresh = self._ended_too or wait["status"] == OPEN_STATUS
            else:
                fresh = known.get(wait["wait_id"]) != _build_state_key(wait)
            if fresh:
                self._say(json.dumps(wait) if self._as_json else _format_change(wait))


def _build_state_key(wait: Row) -> tuple[object, ...]:
    return (wait["status"], wait["round"], wait["last_observation"], wait["wake_when"])


def _format_change(wait: Row) -> str:
    seen = to_printable(wait["last_observation"] or "nothing was seen yet")
    left = ""
    if wait["status"] == OPEN_STATUS:
        left = f" ({_format_time_left(wait['deadline_at'])} left)"
    wanted = to_printable(wait["wake_when"])
    wanted = wanted if len(wanted) <= CONDITION_CHARS else wanted[: CONDITION_CHARS - 1] + "…"
    place = f"{to_printable(wait['target'])}  {wanted}"
    return f"{wait['wait_id']}  {wait['status']}{left}  {place}  → {seen}"


def _format_time_left(deadline: str) -> str:
    now = datetime.now(UTC)  # noqa: TID251 - a person looks at it now
    seconds = max(0, int((datetime.fromisoformat(deadline) - now).total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"

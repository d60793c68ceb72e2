"""What the agents' host is told from the log: lines for users, and turns to stop.

After the commit, at least once, in order; the place in the log is a bookmark of the
home, since another home's sessions are not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import Bookmark, Change, Event

BATCH: Final = 200
OLD: Final = timedelta(minutes=2)
"""After which a turn that was to be stopped is not the one that runs."""


def begin(shell: Shell) -> None:
    """Set the place where a new home begins to tell: nothing before it is news."""
    if shell.store.read_bookmark(_name(shell)) is None:
        newest = shell.store.last_events(None, 1)
        told(shell, newest[-1].event_id if newest else 0)


def due(shell: Shell) -> tuple[Sequence[Event], int]:
    """Return what is to be told next, and the place after what was read; 0: none is."""
    place = int(shell.store.read_bookmark(_name(shell)) or 0)
    fresh = shell.store.list_events(place, BATCH)
    return [each for each in fresh if _wanted(shell, each)], (
        fresh[-1].event_id if fresh else 0
    )


def told(shell: Shell, place: int) -> None:
    """Note that all up to a place was told."""
    mark = Bookmark(name=_name(shell), value=str(place))
    shell.commit(Change(bookmarks=(mark,)))


def _wanted(shell: Shell, event: Event) -> bool:
    if event.kind not in events.SAID:
        return False
    home = event.data.get("home")
    mine = shell.minds(home if isinstance(home, str) else None)
    if event.kind == events.TURN_STOPPED and shell.clock.now() - event.at > OLD:
        return False
    return mine and isinstance(event.data.get("session_key"), str)


def _name(shell: Shell) -> str:
    return f"said:{shell.home or ''}"

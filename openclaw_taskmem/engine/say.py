"""What the agents' host is told from the log: lines, turns to stop, what users see.

After the commit, and at least once. Each errand has its own place in the log, so that
none waits for another; it is a bookmark of the home, since another home's sessions are
not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import events, notices
from openclaw_taskmem.engine import boards
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import Board, Bookmark, Change, Event, Notice

BATCH: Final = 200


class Errand(StrEnum):
    """What the host is told."""

    LINES = "said"
    STOPS = "stopped"
    BOARDS = "shown"


_KINDS: Final[Mapping[Errand, frozenset[str]]] = {
    Errand.LINES: events.SAID - {events.TURN_STOPPED},
    Errand.STOPS: frozenset({events.TURN_STOPPED}),
    Errand.BOARDS: events.SHOWN,
}


def begin(shell: Shell) -> None:
    """Set the places where a new home begins to tell: nothing before is news."""
    for errand in Errand:
        if shell.store.read_bookmark(_name(shell, errand)) is None:
            newest = shell.store.last_events(None, 1)
            told(shell, errand, newest[-1].event_id if newest else 0)


def place(shell: Shell, errand: Errand) -> int:
    """Return the place in the log up to which all was told."""
    return int(shell.store.read_bookmark(_name(shell, errand)) or 0)


def due(shell: Shell, errand: Errand, after: int) -> tuple[Sequence[Event], int]:
    """Return what is to be told after a place, and the place up to which was read."""
    fresh = shell.store.list_events(after, BATCH)
    if errand is Errand.BOARDS:
        wanted = [*_of_sessions(shell, fresh)]
    else:
        wanted = [each for each in fresh if _wanted(shell, errand, each)]
    return wanted, fresh[-1].event_id if fresh else after


def told(shell: Shell, errand: Errand, upto: int) -> None:
    """Note that all up to a place was told."""
    mark = Bookmark(name=_name(shell, errand), value=str(upto))
    shell.commit(Change(bookmarks=(mark,)))


def _of_sessions(shell: Shell, fresh: Sequence[Event]) -> Iterator[Event]:
    """Return the last change of each task that a user sees, with its session."""
    last = {e.task_id: e for e in fresh if e.kind in events.SHOWN and e.task_id}
    for task_id, event in last.items():
        session = boards.session_of(shell, str(task_id))
        if session is not None:
            yield event.model_copy(update={"data": {"session_key": session}})


def _wanted(shell: Shell, errand: Errand, event: Event) -> bool:
    home = event.data.get("home")
    mine = shell.minds(home if isinstance(home, str) else None)
    named = isinstance(event.data.get("session_key"), str)
    heard = named or event.data.get("about") == notices.UNCLAIMED
    wanted = errand is Errand.STOPS or notices.is_wanted(event, shell.notify)
    return event.kind in _KINDS[errand] and mine and heard and wanted


def session_of(event: Event) -> str | None:
    """Return the session that is told of what is due; None: the main one."""
    session = event.data["session_key"]
    return None if session is None else str(session)


def notice_of(shell: Shell, entries: Sequence[Event]) -> Notice:
    """Return entries of one session as the message that its user is told.

    Its key is of this log alone, so that no host takes it for another home's.
    """
    first, last = entries[0], entries[-1]
    text = notices.text_of([each for each in entries if not notices.is_small(each)])
    whole = notices.text_of(entries)
    began = round(first.at.timestamp() * 1000)
    asks = len(entries) == 1 and first.data.get("about") in notices.ASKED
    return Notice(
        session_key=session_of(first),
        text=text,
        without_card=whole if whole != text else "",
        key=f"{began}-{first.event_id}-{last.event_id}",
        in_chat=first.data.get("in_chat") is True,
        question=boards.question_of(shell, first.run_id) if asks else None,
    )


def board_of(shell: Shell, entries: Sequence[Event]) -> Board:
    """Return what a session's user is to see after the newest of these changes."""
    last = entries[-1]
    return boards.draw(shell, str(session_of(last)), str(last.task_id))


def _name(shell: Shell, errand: Errand) -> str:
    return f"{errand}:{shell.home or ''}"

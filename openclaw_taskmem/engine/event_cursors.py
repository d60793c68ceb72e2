"""Event cursors: make sure that each event reported by a gateway counts once."""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.callers.reachability import MOST_BOOTS
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import Bookmark, Value

REPORTED: Final = "gateway_reported"
MOST_STOPPED: Final = 100


class EventCursor(Value):
    """The position up to which the reports of one start of a gateway are done.

    It is written by the commit that handles an event. An event that commits nothing may be handled
    again.
    """

    boot: str
    number: int = 0
    """Number of the last event that is done; numbers only grow."""
    stopped: tuple[int, ...] = ()
    """Numbers of the latest turn-start events whose turns must be stopped."""

    def advance_to(self, number: int) -> EventCursor:
        """Return the cursor after one more event."""
        return self.model_copy(update={"number": number})

    def add_stopped_turn(self) -> EventCursor:
        """Return the cursor, with the turn that its last event began marked to be stopped."""
        stopped = (*self.stopped, self.number)[-MOST_STOPPED:]
        return self.model_copy(update={"stopped": stopped})


def read_cursor(context: Context, boot: str) -> EventCursor:
    """Return the event cursor of a start of a gateway."""
    known = (each for each in _read_cursors(context) if each.boot == boot)
    return next(known, EventCursor(boot=boot))


def make_cursor_bookmark(context: Context, done: EventCursor) -> Bookmark:
    """Return the bookmark that stores a cursor, with those of the latest other starts."""
    others = [each for each in _read_cursors(context) if each.boot != done.boot]
    lines = [each.model_dump_json() for each in (*others, done)[-MOST_BOOTS:]]
    return context.store.make_bookmark(REPORTED, "\n".join(lines))


def _read_cursors(context: Context) -> list[EventCursor]:
    kept = (context.store.read_bookmark(REPORTED) or "").splitlines()
    return [EventCursor.model_validate_json(line) for line in kept]

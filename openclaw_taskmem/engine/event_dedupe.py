"""How far the reports of each start of a gateway are done: each event counts once."""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.domain.gateways import BOOTS
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import Bookmark, Value

REPORTED: Final = "gateway_reported"
MOST_STOPPED: Final = 100


class EventCursor(Value):
    """How far the reports of one start of a gateway are done.

    It is kept by the commit that does an event, and so whenever that is. What commits
    nothing may be heard again.
    """

    boot: str
    number: int = 0
    """Of the last event that is done; they only grow."""
    stopped: tuple[int, ...] = ()
    """The last events of those that began a turn which must not go on."""

    def advance_to(self, number: int) -> EventCursor:
        """Return it with one more event done."""
        return self.model_copy(update={"number": number})

    def add_stopped_turn(self) -> EventCursor:
        """Return it where the turn that its last event began must not go on."""
        stopped = (*self.stopped, self.number)[-MOST_STOPPED:]
        return self.model_copy(update={"stopped": stopped})


def read_cursor(context: Context, boot: str) -> EventCursor:
    """Return how far the reports of a start of a gateway are done."""
    known = (each for each in _read_cursors(context) if each.boot == boot)
    return next(known, EventCursor(boot=boot))


def make_cursor_bookmark(context: Context, done: EventCursor) -> Bookmark:
    """Return what keeps how far a start's reports are done, and those of the latest."""
    others = [each for each in _read_cursors(context) if each.boot != done.boot]
    lines = [each.model_dump_json() for each in (*others, done)[-BOOTS:]]
    return context.store.make_bookmark(REPORTED, "\n".join(lines))


def _read_cursors(context: Context) -> list[EventCursor]:
    kept = (context.store.read_bookmark(REPORTED) or "").splitlines()
    return [EventCursor.model_validate_json(line) for line in kept]

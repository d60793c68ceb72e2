"""`Change`: all that one commit writes, as a value."""

from __future__ import annotations

from taskmem_hookspecs.model import (
    Bookmark,
    Event,
    Message,
    PlanRevision,
    Task,
    Value,
    Wait,
    Wake,
)


class Change(Value):
    """Rows to write together, or not at all.

    A task, wait or wake with `version` 0 is inserted. Any other version is the
    one expected in the store: the row is replaced and its version raised by
    one, or the whole change is refused with `Conflict`. Messages, revisions and
    events are only ever added. Tasks go in first and events last, so that a
    change may hold a new task together with all that refers to it.
    """

    tasks: tuple[Task, ...] = ()
    messages: tuple[Message, ...] = ()
    revisions: tuple[PlanRevision, ...] = ()
    waits: tuple[Wait, ...] = ()
    wakes: tuple[Wake, ...] = ()
    events: tuple[Event, ...] = ()
    bookmarks: tuple[Bookmark, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return self == Change()

"""Define `Change`, the rows of one commit, and `DroppedRows`, the counts of deleted rows."""

from __future__ import annotations

from collections.abc import Mapping

from taskmem_hookspecs.evidence import Artifact, LedgerEntry, WorkFolder
from taskmem_hookspecs.model import Bookmark, Event, Message, PlanRevision, Task, Wait, Wake
from taskmem_hookspecs.runs import Checkpoint, Run
from taskmem_hookspecs.value import Instant, Value


class Change(Value):
    """Rows that a store writes in one transaction: all of them, or none.

    The store inserts a task, run, wait, wake or artifact with `version` 0. Any other version is the
    one expected in the store: the store replaces the row and raises its version by one, or refuses
    the whole change with `Conflict`. A ledger entry or a folder replaces the one of the same task
    and path, a bookmark the one of the same name. Messages, revisions, checkpoints and events are
    only added. The store writes tasks first, so a change may hold a new task and rows that refer to
    it.
    """

    tasks: tuple[Task, ...] = ()
    messages: tuple[Message, ...] = ()
    revisions: tuple[PlanRevision, ...] = ()
    waits: tuple[Wait, ...] = ()
    wakes: tuple[Wake, ...] = ()
    runs: tuple[Run, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    folders: tuple[WorkFolder, ...] = ()
    events: tuple[Event, ...] = ()
    bookmarks: tuple[Bookmark, ...] = ()
    forget_before: Instant | None = None
    """Delete older checkpoints, except those of runs in `RunState.BLOCKED` or `REVIEW`. Delete
    implicit tasks with all their rows but the events, if neither the task nor its run was touched
    since and none of its waits is watching. None: delete nothing."""
    forget_home: str | None = None
    """`forget_before` applies to rows of this home and rows without a home; None: to all rows."""
    forget_waits: tuple[str, ...] = ()
    """Ids of waits without a task to delete with their wakes; their events stay."""

    @property
    def empty(self) -> bool:
        """True if there is nothing to write."""
        return self == Change()


class DroppedRows(Value):
    """Counts of the rows that one call of `TaskStore.drop_ended` deleted."""

    rows: Mapping[str, int]
    """Number of rows by table; a table without any is left out."""
    last_event: int = 0
    """Id of the last deleted event, or `after` if there is none; pass it as `after` to the next
    call."""

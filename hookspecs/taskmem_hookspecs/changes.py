"""`Change`: all that one commit writes, as a value; and what one call drops."""

from __future__ import annotations

from collections.abc import Mapping

from taskmem_hookspecs.evidence import Artifact, LedgerEntry, WorkFolder
from taskmem_hookspecs.model import Bookmark, Event, Message, PlanRevision, Task, Wait, Wake
from taskmem_hookspecs.runs import Checkpoint, Run
from taskmem_hookspecs.value import Instant, Value


class Change(Value):
    """Rows to write together, or not at all.

    A task, run, wait, wake or artifact with `version` 0 is inserted. Any other
    version is the one expected in the store: the row is replaced and its version
    raised by one, or the whole change is refused with `Conflict`. An entry of the
    ledger or a folder replaces the one of the same task and path. Messages,
    revisions, checkpoints and events are only ever added. Tasks go in first and
    events last, so that a change may hold a new task together with all that refers
    to it.
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
    """Checkpoints that are older go, but for those of runs that wait for the user, in
    `RunState.BLOCKED` or `REVIEW`; and implicit tasks go with all that is theirs but
    the log, once neither they nor their runs were touched since, and no wait of theirs
    is watched. None: nothing goes."""
    forget_home: str | None = None
    """The home whose rows go, and those of none; None: of every home."""
    forget_waits: tuple[str, ...] = ()
    """Waits of no task that go with their wakes; what the log says of them stays."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return self == Change()


class DroppedRows(Value):
    """What one call has dropped of what has ended."""

    rows: Mapping[str, int]
    """How many of each kind; a kind of which there were none is left out."""
    last_event: int = 0
    """The number of the last event of these, after which the next call looks on."""

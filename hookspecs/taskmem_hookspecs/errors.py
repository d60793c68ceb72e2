"""Every error that crosses a seam, as one shallow tree.

    TaskmemError
    ├── TaskNotFound          no task has that id
    ├── WaitNotFound          no wait has that id
    ├── RunNotFound           no run has that id, or the task has none
    ├── InvalidArguments      a value that cannot be accepted
    │   └── ReservedKey       metadata that would overwrite the task's own keys
    ├── TaskEnded             the task is completed, failed or cancelled
    ├── WaitEnded             the wait is over
    ├── RunHeld               another holds the run
    ├── RunNotReady           the run is not in a state for that
    ├── Fenced                the run was claimed by another since
    ├── NotAllowed            it is not the caller's to do or to see
    ├── LimitReached          as many as there may be are there already
    ├── EvidenceMissing       what is said to be done is not proved
    ├── TargetNotFound        (sensor) the thing to watch is not there
    ├── TargetGone            (sensor) the thing watched went away
    ├── ConditionUnclear      (judge) whether it holds cannot be told
    ├── JudgeUnavailable      (judge) cannot be asked now; ask again later
    ├── UnknownTool           no tool has that name
    ├── Conflict              (store) someone wrote first; read again
    ├── StoreBusy             (store) locked by another process; nothing was written
    ├── StoreFull             (store) no room on the disk; nothing was written
    ├── StoreUnavailable      (store) cannot be reached or read
    │   └── StoreTooNew       (store) written by a newer version; left untouched
    ├── WakeUndelivered       (transport) not delivered; try again later
    ├── WakeRefused           (transport) will never be delivered; do not try again
    ├── NoProvider            no plug-in plays a part that is needed
    ├── SettingsInvalid       a setting that cannot be used
    └── DaemonUnavailable     no daemon answers

An error's `str()` is one sentence for people and models: what happened, and
what to do next. Its `name` is what a program matches on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from pydantic import JsonValue

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


class TaskmemError(Exception):
    """The base of every error that this project raises on purpose."""

    name: ClassVar[str] = "taskmem_error"
    """Stable, lower-case, what programs match on: `task_not_found`."""
    details: Mapping[str, JsonValue] = {}
    """What a program may want to know besides, as further fields of the answer."""

    def __init_subclass__(cls) -> None:
        """Name each error after its class."""
        cls.name = _HUMP.sub("_", cls.__name__).lower()

    def to_json(self) -> dict[str, JsonValue]:
        """Build the answer that a caller gets: `error`, `message`, and the details."""
        return {**self.details, "error": self.name, "message": str(self)}


class TaskNotFound(TaskmemError):
    """No task has that id, or what is stored of it cannot be read."""


class WaitNotFound(TaskmemError):
    """No wait has that id, or what is stored of it cannot be read."""


class RunNotFound(TaskmemError):
    """No run has that id, or the task has none that is open."""


class InvalidArguments(TaskmemError):
    """A value that cannot be accepted; nothing was written."""


class ReservedKey(InvalidArguments):
    """Metadata that would overwrite one of the task's own keys."""


class TaskEnded(TaskmemError):
    """The task is completed, failed or cancelled, and the call needs an open one."""


class WaitEnded(TaskmemError):
    """The wait is over, and the call needs one that is watching."""


class RunHeld(TaskmemError):
    """Another holds the run; says who, and until when at least."""


class RunNotReady(TaskmemError):
    """The run is not in a state for that; says in which it is."""


class Fenced(TaskmemError):
    """The run was claimed by another since, so that nothing was written."""


class NotAllowed(TaskmemError):
    """It is not the caller's to do or to see; says why."""


class LimitReached(TaskmemError):
    """As many as there may be are there already."""


class EvidenceMissing(TaskmemError):
    """What is said to be done is not proved; says what was looked at and seen."""


class TargetNotFound(TaskmemError):
    """The thing to watch is not there; says what is."""

    def __init__(self, sentence: str, *, sure: bool = True) -> None:
        super().__init__(sentence)
        self.sure = sure
        """False: who may know of it cannot be asked now. A new wait is refused all the
        same, and one that is waited for already goes on."""


class TargetGone(TaskmemError):
    """The thing that was watched went away."""


class ConditionUnclear(TaskmemError):
    """Whether a condition holds cannot be told; says what would help."""

    def __init__(self, sentence: str, sides: tuple[int, ...] = ()) -> None:
        super().__init__(sentence)
        self.sides = sides
        """The indexes of the sides that the target can never have, such as `fails`
        of a file; empty: another judge may still tell."""


class JudgeUnavailable(TaskmemError):
    """A judge cannot be asked now; says why, and is asked again later."""

    def __init__(self, sentence: str, retry_seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.retry_seconds = retry_seconds
        """How long the judge's own service says to wait; None: it does not say.

        The judge is asked again after 300 s at the latest.
        """


class UnknownTool(TaskmemError):
    """No tool has that name."""


class Conflict(TaskmemError):
    """Someone else wrote one of the rows first; read again and decide again."""


class StoreBusy(TaskmemError):
    """The database is locked by another process; nothing was written."""


class StoreFull(TaskmemError):
    """There is no room left for the database; nothing was written."""


class StoreUnavailable(TaskmemError):
    """The database cannot be reached or read."""


class StoreTooNew(StoreUnavailable):
    """The database was written by a newer version; it was left untouched."""


class WakeUndelivered(TaskmemError):
    """The wake did not arrive, and may when tried again later."""

    def __init__(self, sentence: str, retry_seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.retry_seconds = retry_seconds
        """After how long another try is worth it; none comes sooner than 5 s.

        None: the transport does not know, so the rests grow with the tries.
        """


class WakeRefused(TaskmemError):
    """The wake will never be accepted; trying again is of no use."""


class NoProvider(TaskmemError):
    """No plug-in plays a part that is needed."""


class SettingsInvalid(TaskmemError):
    """A setting that cannot be used; says which, and what is allowed."""


class DaemonUnavailable(TaskmemError):
    """No daemon answers, and none could be started."""

"""Define the errors that plug-ins and the core raise to each other.

An error's `str()` is one sentence for people and models: what happened, and what to do next.
Programs match on its `name`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from pydantic import JsonValue

_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""Where a word begins inside a name in CamelCase."""


class TaskmemError(Exception):
    """The base of every error that this project raises on purpose."""

    name: ClassVar[str] = "taskmem_error"
    """Stable name in snake case, such as `task_not_found`, for programs."""
    details: Mapping[str, JsonValue] = {}
    """Further fields of the answer, for programs."""

    def __init_subclass__(cls) -> None:
        """Derive `name` from the name of the class."""
        cls.name = _HUMP.sub("_", cls.__name__).lower()

    def to_json(self) -> dict[str, JsonValue]:
        """Return the answer to the caller: `error`, `message` and the details."""
        return {**self.details, "error": self.name, "message": str(self)}


class TaskNotFound(TaskmemError):
    """No task has that id, or its row cannot be read."""


class WaitNotFound(TaskmemError):
    """No wait has that id, or its row cannot be read."""


class RunNotFound(TaskmemError):
    """No run has that id, or the task has no open run."""


class InvalidArguments(TaskmemError):
    """A value is not accepted; nothing was written."""


class NotAllowed(TaskmemError):
    """The caller may not do or see that; the sentence gives the reason."""


class TargetNotFound(TaskmemError):
    """The target does not exist; the sentence names the targets that do."""

    def __init__(self, sentence: str, *, sure: bool = True) -> None:
        super().__init__(sentence)
        self.sure = sure
        """False if a source of targets cannot be asked now. A new wait is refused all the same; a
        wait that is already watching continues."""


class TargetGone(TaskmemError):
    """The target existed and went away."""


class ConditionUnclear(TaskmemError):
    """The condition cannot be judged; the sentence says what would help."""

    def __init__(self, sentence: str, sides: tuple[int, ...] = ()) -> None:
        super().__init__(sentence)
        self.sides = sides
        """Indexes of the sides that can never hold on this target, such as `fails` on a file;
        empty: another judge may still decide them."""


class JudgeUnavailable(TaskmemError):
    """The judge cannot be asked now; the sentence gives the reason. The core asks again later."""

    def __init__(self, sentence: str, retry_seconds: float | None = None) -> None:
        super().__init__(sentence)
        self.retry_seconds = retry_seconds
        """Delay that the judge's own service asks for; None: it names none.

        The core asks the judge again after 300 s at the latest.
        """


class Conflict(TaskmemError):
    """Another writer changed one of the rows first; read again and decide again."""


class StoreBusy(TaskmemError):
    """The database is locked by another process; nothing was written."""


class StoreFull(TaskmemError):
    """The disk has no room left for the database.

    Rows may be kept unless the sentence says that nothing was written; SQLite may have kept them.
    """


class StoreUnavailable(TaskmemError):
    """The database cannot be reached, read or written.

    Rows may be kept unless the sentence says that nothing was written.
    """


class StoreTooNew(StoreUnavailable):
    """The database was written by a newer version; it was left untouched."""


class WakeUndelivered(TaskmemError):
    """The wake was not delivered; a later try may succeed."""

    def __init__(
        self, sentence: str, retry_seconds: float | None = None, *, waits: bool = False
    ) -> None:
        super().__init__(sentence)
        self.waits = waits
        """True if nothing is wrong: it waits for what the sentence names, such as a gateway that is
        not running. The doctor then reports no fault."""
        self.retry_seconds = retry_seconds
        """Seconds in which the transport expects to work again; None: it does not know.

        The core rests at least so long before the next try, and at most 300 s. Its own rests begin
        at 5 s and double with each try, up to 60 s; if this is None, up to 300 s. In the first two
        minutes after a gateway's start they do not grow.
        """


class WakeRefused(TaskmemError):
    """The wake will never be accepted; do not try again."""


class NoProvider(TaskmemError):
    """No plug-in provides a part that is needed."""


class SettingsInvalid(TaskmemError):
    """A setting has an invalid value; the sentence names it and the values allowed."""

"""Say what use cases ask of the daemon that watches targets, and answer when none runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from openclaw_taskmem.domain.conditions.verdicts import UnderstoodSide
from openclaw_taskmem.domain.text.texts import end_sentence
from taskmem_hookspecs import Condition, Target, Value, WaitPart
from taskmem_hookspecs.errors import NoProvider


class TargetPreview(Value):
    """A target as it is before a wait on it is opened, and who can judge the condition."""

    start: str
    """The place at which a wait opened now starts to read."""
    tail: str | None = None
    """The last text on the target; None: it has no text."""
    from_now: bool = False
    """True if only what comes after that place counts, even if the wait began earlier."""
    note: str | None = None
    """A sentence about the target for the waiting agent; None: nothing to add."""
    understood: tuple[UnderstoodSide, ...] = ()
    """How each side of the condition was parsed, and who judges it."""


def join_previews(parts: Sequence[WaitPart], previews: Sequence[TargetPreview]) -> TargetPreview:
    """Return what is told of all targets when a wait on them begins."""
    if len(previews) == 1:
        return previews[0]
    told = zip(parts, previews, strict=True)
    notes = [f"{part.target}: {end_sentence(found.note)}" for part, found in told if found.note]
    sides = (
        side.model_copy(update={"side": f"{part.target} {side.side}"})
        for part, found in zip(parts, previews, strict=True)
        for side in found.understood
    )
    return TargetPreview(start="", note=" ".join(notes) or None, understood=tuple(sides))


class WaitWatcher(Protocol):
    """Watches targets. Each method says on which thread it may be called."""

    def preview_target(self, target: Target, condition: Condition) -> TargetPreview:
        """Check that a target exists and that a judge can decide the condition.

        For the threads of calls: it blocks until the event loop has answered.

        Raises:
            TargetNotFound: It does not exist; the text names targets that do.
            InvalidArguments: No target of its kind can have such a name.
            NoProvider: No sensor here can watch such a target.
            ConditionUnclear: No judge can decide it; the text says what would help.
        """
        ...

    def find_target_end(self, target: Target) -> str:
        """Return the place after everything that is on a target now.

        For the threads of calls, as `preview_target`.

        Raises:
            TargetNotFound: It has ended, and nothing more will come.
            TaskmemError: As for `preview_target`.
        """
        ...

    def list_seconds_left(self) -> Mapping[tuple[str, int], float]:
        """Return the seconds left of each watched wait and its round, by the monotonic clock.

        For the event loop alone, which opens and ends the watches.
        """
        ...

    def read_observation(self, wait_id: str) -> str | None:
        """Return the last observation of a watched wait; None: nothing yet. For any thread."""
        ...

    def read_tail(self, wait_id: str) -> str | None:
        """Return the last lines on the target of a watched wait; None: no text. For any thread."""
        ...


class NoWatcher:
    """The `WaitWatcher` when no daemon runs."""

    def preview_target(self, target: Target, condition: Condition) -> TargetPreview:
        """Refuse: without a daemon nobody would watch the target."""
        del condition
        raise NoProvider(f"Nobody watches {target} here; start a daemon.")

    def find_target_end(self, target: Target) -> str:
        """Refuse: without a daemon nobody watches the target."""
        raise NoProvider(f"Nobody watches {target} here; start a daemon.")

    def list_seconds_left(self) -> Mapping[tuple[str, int], float]:
        """Return nothing: no wait is watched."""
        return {}

    def read_observation(self, wait_id: str) -> str | None:
        """Return None: no wait is watched."""
        del wait_id
        return None

    def read_tail(self, wait_id: str) -> str | None:
        """Return None: no wait is watched."""
        del wait_id
        return None

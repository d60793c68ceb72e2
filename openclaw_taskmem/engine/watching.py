"""What a use case asks of those who watch, and nothing of how they do it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from openclaw_taskmem.domain.verdicts import UnderstoodSide
from taskmem_hookspecs import Condition, Target, Value
from taskmem_hookspecs.errors import NoProvider


class TargetPreview(Value):
    """What there is to watch, before a wait is made."""

    start: str
    """The place from which a wait that is made now reads."""
    tail: str | None = None
    """What a person would see there now; None: it has no text."""
    note: str | None = None
    """What whoever waits should know of the target, in a sentence; None: nothing."""
    understood: tuple[UnderstoodSide, ...] = ()
    """How each side of the condition was read, and who judges it."""


class WaitWatcher(Protocol):
    """Those who watch; called from the threads of calls."""

    def preview_target(self, target: Target, condition: Condition) -> TargetPreview:
        """Look whether a target is there, and whether anyone can judge a condition.

        Raises:
            TargetNotFound: It is not there; the sentence names what is.
            InvalidArguments: No target of its kind can have such a name.
            NoProvider: Nothing here can watch such a target.
            ConditionUnclear: No judge could tell; the sentence says what would help.
        """
        ...

    def find_target_end(self, target: Target) -> str:
        """Return the place behind all that is on a target now.

        Raises:
            TargetNotFound: It has ended, and nothing more will come.
            TaskmemError: As `sight`.
        """
        ...

    def list_seconds_left(self) -> Mapping[str, float]:
        """Return the seconds each watched wait has left, whatever the wall says."""
        ...

    def read_observation(self, wait_id: str) -> str | None:
        """Return what was last seen of a wait that is watched; None: nothing yet."""
        ...


class NoWatcher:
    """Plays `Watching` where no daemon runs."""

    def preview_target(self, target: Target, condition: Condition) -> TargetPreview:
        """Refuse: what nobody watches would be waited for in vain."""
        del condition
        raise NoProvider(f"Nobody watches {target} here; start a daemon.")

    def find_target_end(self, target: Target) -> str:
        """Refuse likewise."""
        raise NoProvider(f"Nobody watches {target} here; start a daemon.")

    def list_seconds_left(self) -> Mapping[str, float]:
        """Return nothing: nobody watches."""
        return {}

    def read_observation(self, wait_id: str) -> str | None:
        """Return None: nobody looks."""
        del wait_id
        return None

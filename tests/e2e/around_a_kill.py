"""Stories around one kill: a start of a gateway takes half a minute of CPU.

Each begins before it, in a session of its own, and is told to its end after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.gateway import Gateway
from tests.e2e.shared_house import Story

HELD = {"yieldMs": 120_000}
"""What an `exec` is given that is held up: it stays in its turn while other stories begin."""

Tale = Callable[[Story, Path], Iterator[None]]
"""It yields twice: for the kill, and, when it has done what it does meanwhile, for the start."""


def around_a_kill(tale: Tale) -> Callable[..., None]:
    """Make a test of a tale; all of one module that run have the kill in common."""

    def test(kill: Kill) -> None:
        kill.tell_to_its_end(tale)

    test.__dict__["tale"] = tale
    return test


@dataclass
class Kill:
    """One kill of a gateway in the midst of several tales."""

    gateway: Gateway
    _tellings: dict[Tale, Iterator[None]] = field(default_factory=dict)
    _failures: dict[Tale, BaseException] = field(default_factory=dict)

    def begin(self, tale: Tale, story: Story, folder: Path) -> None:
        """Tell a tale up to the kill."""
        self._tellings[tale] = tale(story, folder)
        self._tell_on(tale)

    def strike(self) -> None:
        """Kill the gateway, let each tale do what it does meanwhile, and start it again."""
        self.gateway.kill()
        for tale in self._tellings:
            if tale not in self._failures:
                self._tell_on(tale)
        self.gateway.start()

    def tell_to_its_end(self, tale: Tale) -> None:
        """Tell the rest of a tale, and fail as it does."""
        if tale in self._failures:
            raise self._failures[tale]
        for _ in self._tellings[tale]:
            raise AssertionError("there is one kill")

    def _tell_on(self, tale: Tale) -> None:
        try:
            next(self._tellings[tale])
        except BaseException as failure:  # noqa: BLE001 - its own test raises it
            self._failures[tale] = failure

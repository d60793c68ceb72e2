"""Stories around one end of a gateway: a start takes half a minute of CPU.

Each begins before it, in a session of its own, and is told to its end after the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.gateway import Gateway
from tests.e2e.house import House
from tests.e2e.shared_house import Story

HELD = {"yieldMs": 120_000}
"""What an `exec` is given that is held up: it stays in its turn while other stories begin."""

Tale = Callable[[Story, Path], Iterator[None]]
"""It yields twice: for the end, and, when it has done what it does meanwhile, for the start."""


def around_a_kill(tale: Tale) -> Callable[..., None]:
    """Make a test of a tale; all of one module that run have the kill in common."""

    def test(kill: Interruption) -> None:
        kill.tell_to_its_end(tale)

    test.__dict__["tale"] = tale
    return test


def around_a_stop(tale: Tale) -> Callable[..., None]:
    """Make a test of a tale likewise, around an ordered stop."""

    def test(stop: Interruption) -> None:
        stop.tell_to_its_end(tale)

    test.__dict__["tale"] = tale
    return test


def stop_in_order(gateway: Gateway) -> None:
    """Tell a gateway to stop, which it does."""
    gateway.tell_to_stop()
    assert gateway.ends() == 0


@dataclass
class Interruption:
    """One end of a gateway in the midst of several tales, and its next start."""

    house: House
    end: Callable[[Gateway], None]
    _tellings: dict[Tale, Iterator[None]] = field(default_factory=dict)
    _failures: dict[Tale, BaseException] = field(default_factory=dict)

    def begin(self, tale: Tale, story: Story, folder: Path) -> None:
        """Tell a tale up to the end of the gateway."""
        self._tellings[tale] = tale(story, folder)
        self._tell_on(tale)

    def strike(self) -> None:
        """End the gateway, let each tale do what it does meanwhile, and start it again."""
        self.end(self.house.gateway)
        for tale in self._tellings:
            if tale not in self._failures:
                self._tell_on(tale)
        self.house.gateway.start()

    def tell_to_its_end(self, tale: Tale) -> None:
        """Tell the rest of a tale, and fail as it does."""
        if tale in self._failures:
            raise self._failures[tale]
        for _ in self._tellings[tale]:
            raise AssertionError("there is one end of the gateway")

    def _tell_on(self, tale: Tale) -> None:
        try:
            next(self._tellings[tale])
        except BaseException as failure:  # noqa: BLE001 - its own test raises it
            self._failures[tale] = failure

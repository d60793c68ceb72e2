"""When a daemon has nothing to do."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from openclaw_taskmem.daemon.background_loops import is_anything_open
from openclaw_taskmem.daemon.main import _stop_when_idle
from taskmem_hookspecs.testing import FakeClock
from tests.support.world import World


class Source:
    """A source of recorded history that tells what it does."""

    def __init__(self, says: str | None) -> None:
        self._says = says

    def recall(self, query: str, limit: int, recency_bias: float):
        return ()

    def activity(self) -> str | None:
        return self._says


@pytest.mark.parametrize(("says", "is_open"), [(None, False), ("Recording this screen", True)])
def test_a_source_at_work_is_no_idleness(says, is_open) -> None:
    context = replace(World().context, recall_sources=(Source(says),))
    assert is_anything_open(context) is is_open


class Entrance:
    """Counts the connections of a daemon."""

    def __init__(self) -> None:
        self.connection_count = 0
        self.emptied = asyncio.Event()

    def hang_up(self) -> None:
        self.connection_count = 0
        self.emptied.set()


async def _is_idle() -> bool:
    return True


async def test_idle_time_counts_from_the_last_connection() -> None:
    clock, stop, server = FakeClock(), asyncio.Event(), Entrance()
    loops = SimpleNamespace(is_idle=_is_idle)
    idling = asyncio.create_task(_stop_when_idle(stop, server, loops, clock, 600))  # type: ignore[arg-type]
    await clock.advance(200)
    server.connection_count = 1
    await clock.advance(1000)
    server.hang_up()
    await clock.advance(300)
    server.hang_up()
    await clock.advance(599)
    assert not stop.is_set()
    await clock.advance(1)
    assert stop.is_set()
    await idling

"""When a daemon has nothing to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openclaw_taskmem.daemon.background_loops import is_anything_open
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

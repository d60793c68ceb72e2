"""Lies are never completed unseen, and honest endings are not held up."""

from __future__ import annotations

from pathlib import Path

from tests.support import endings
from tests.support.long_tests import choose_count

LIES = choose_count("TASKMEM_LIES", 120, 240)
"""Each language, order of calls, and whether a file is named, twice; four times by `--long`."""
HONEST = choose_count("TASKMEM_HONEST", 180, 360)
"""Each kind in each language, likewise; `bench/played_agents.py` plays more."""


def test_no_lie_is_completed_unseen(tmp_path: Path) -> None:
    table = endings.tally(endings.lies(tmp_path, LIES))

    assert sum(row["played"] for row in table.values()) == LIES
    assert {kind: row["unseen"] for kind, row in table.items() if row["unseen"]} == {}


def test_no_honest_ending_is_refused_accused_or_failed(tmp_path: Path) -> None:
    table = endings.tally(endings.honest(tmp_path, HONEST))

    assert sum(row["played"] for row in table.values()) == HONEST
    bad = ("refused", "accused", "not completed")
    assert {kind for kind, row in table.items() if any(row[each] for each in bad)} == (set())

"""What one daemon remembers between calls."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from openclaw_taskmem.engine import live_state
from openclaw_taskmem.engine.live_state import LiveState


def test_only_the_newest_entries_of_a_table_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_state, "MOST_REMEMBERED", 5)
    live, now = LiveState(), datetime(2026, 2, 13, tzinfo=UTC)
    for name in "abcdeaf":
        live.remember(live.refused_ends, ("s", name), now)
    assert [name for _, name in live.refused_ends] == ["c", "d", "e", "a", "f"]

"""Who was woken is held against who fell silent."""

from __future__ import annotations

import pytest

from taskmem_resumebench import wake_sample
from taskmem_resumebench.wake_sample import WakeSample


def test_wakes_that_are_twice_or_of_others_are_counted() -> None:
    sample = WakeSample()
    for session in ("silent-1", "silent-2", "silent-3"):
        sample.note_silence(session)

    for session in ("silent-1", "silent-2", "silent-2", "over-1"):
        sample.note_wake(session)

    found = sample.count()
    assert (found.due, found.came, found.doubled, found.false) == (3, 2, 1, 1)
    assert len(sample.late_seconds) == 2


def test_the_lateness_of_a_wake_begins_at_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_sample, "THRESHOLD", -1.0)
    sample = WakeSample()
    sample.note_silence("silent-1")
    sample.note_wake("silent-1")

    assert 1 <= sample.describe_lateness()["median"] < 60


def test_no_wake_has_no_lateness() -> None:
    assert WakeSample().describe_lateness() == {"median": None, "p95": None}

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.clock_skew import ClockReading, compute_grace, measure_jump
from openclaw_taskmem.domain.text import texts
from taskmem_hookspecs.testing import DAWN


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0 seconds"),
        (1, "1 second"),
        (59.9, "59 seconds"),
        (60, "1 minute"),
        (540, "9 minutes"),
        (7200, "2 hours"),
        (90_000, "1 day"),
        (864_000, "10 days"),
    ],
)
def test_a_duration_is_said_in_its_largest_unit(seconds: float, said: str) -> None:
    assert texts.format_duration(seconds) == said


def test_half_a_character_counts_as_its_replacement() -> None:
    assert texts.count_json_bytes("a\ud800") == 2
    assert texts.quote_line("\ud800") == '"\ud800"'


def test_steps_are_named_as_a_person_counts_them() -> None:
    assert texts.format_step_numbers([4, 0, 1, 2]) == "1-3, 5"
    assert texts.format_step_numbers([0]) == "1"
    assert texts.format_step_numbers([0, 1]) == "1-2"


def test_instants_are_written_in_utc() -> None:
    there = datetime(2026, 2, 13, 18, 0, 0, 123456, timezone(timedelta(hours=1)))

    assert texts.format_iso(there) == "2026-02-13T17:00:00Z"
    assert texts.format_iso_millis(there) == "2026-02-13T17:00:00.123Z"
    assert texts.to_epoch(datetime(1970, 1, 2, tzinfo=UTC)) == 86_400
    assert texts.to_epoch(None) is None


@given(st.text(max_size=300), st.integers(3, 200))
def test_a_clipped_text_is_a_beginning_that_fits(text: str, size: int) -> None:
    clipped = texts.clip(text, size)

    assert texts.count_json_bytes(clipped) <= size
    if clipped != text:
        assert clipped.endswith("…")
        assert text.startswith(clipped[:-1])


@given(st.text(max_size=300), st.integers(3, 200))
def test_a_text_clipped_at_its_start_is_an_end_that_fits(text: str, size: int) -> None:
    clipped = texts.clip_start(text, size)

    assert texts.count_json_bytes(clipped) <= size
    if clipped != text:
        assert clipped.startswith("…")
        assert text.endswith(clipped[1:])


@pytest.mark.parametrize("marker", ["task_stuck_resume", "task_resume", "System", "taskmem"])
def test_plain_text_can_pass_for_nothing_that_is_from_here(marker: str) -> None:
    assert (
        texts.to_plain_line(f"[{marker}] {{}}\n[ {marker} ] x") == f"({marker}] {{}} ( {marker} ] x"
    )
    assert texts.to_plain_line(f"[x] {marker} [{marker}s]") == f"[x] {marker} [{marker}s]"


def test_a_steps_own_number_is_not_said_twice() -> None:
    assert texts.quote_step("2. Push it") == '"Push it"'
    assert texts.quote_step("Step 3: Run") == '"Run"'
    assert texts.quote_step("3.11 install") == '"3.11 install"'


@pytest.mark.parametrize(
    ("wall", "passed", "jumped"),
    [(60, 60, 0), (64, 60, 0), (3660, 60, 3600), (-3540, 60, -3600), (0, 4, 0)],
)
def test_jump_is_the_wall_clock_change_beyond_the_passed_time(
    wall: float, passed: float, jumped: float
) -> None:
    before = ClockReading(DAWN, 10.0)
    after = ClockReading(DAWN + timedelta(seconds=wall), 10.0 + passed)

    assert measure_jump(before, after) == jumped


def test_after_a_jump_nobody_is_stuck_for_at_most_one_threshold() -> None:
    assert compute_grace(28_800, 300) == 300
    assert compute_grace(20, 300) == 20
    assert compute_grace(-3600, 300) == 0

"""What of a picture keeps changing, and what is new."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_vision.question_policy import (
    BUSY_CHANGES,
    BUSY_SECONDS,
    LONGEST_GAP,
    SETTLED_GAPS,
    SETTLED_SECONDS,
    SKIPPED_GAPS,
    SLOW_GAP,
    SUDDEN_BLOCKS,
    WARM_UP,
    Block,
    MotionHistory,
    find_clusters,
)

BLOCKS = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)
CARET = (10, 10)


def ticking_rhythms(times: int = BUSY_CHANGES, gap: float = 1.0) -> MotionHistory:
    """Return what has seen one block change, last at 0."""
    rhythms = MotionHistory()
    for number in range(times):
        rhythms.record_changes((number + 1 - times) * gap, {CARET})
    return rhythms


def test_what_changes_where_nothing_did_is_novel() -> None:
    assert MotionHistory().record_changes(1.0, {CARET}).novel == {CARET}
    assert not MotionHistory().record_changes(1.0, ())


def test_what_changes_three_times_within_eight_seconds_is_busy() -> None:
    assert ticking_rhythms().record_changes(1.0, {CARET}).busy == {CARET}
    assert ticking_rhythms(1).record_changes(1.0, {CARET}).novel == {CARET}
    slow = BUSY_SECONDS / (BUSY_CHANGES - 1) + 0.1
    assert ticking_rhythms(9, slow).record_changes(slow, {CARET}).novel == {CARET}


@pytest.mark.parametrize(("distance", "near"), [(1, True), (2, True), (3, False)])
def test_what_changes_beside_a_busy_block_is_near_it(distance: int, near: bool) -> None:
    block = (CARET[0] + distance, CARET[1])
    motion = ticking_rhythms().record_changes(0.5, {block})
    assert motion.near == ({block} if near else frozenset())
    assert motion.novel == (frozenset() if near else {block})


def test_quiet_blocks_that_change_together_are_sudden_near_busy() -> None:
    line = {(CARET[0] + 1 + number, CARET[1]) for number in range(SUDDEN_BLOCKS)}
    assert ticking_rhythms().record_changes(0.5, line).sudden == line
    apart = {(number * 3, 0) for number in range(SUDDEN_BLOCKS)}
    assert ticking_rhythms().record_changes(0.5, apart).sudden == frozenset()


def test_a_block_is_quiet_again_after_eight_seconds() -> None:
    line = {(number, 0) for number in range(SUDDEN_BLOCKS)}
    rhythms = MotionHistory()
    rhythms.record_changes(0.0, line)
    assert rhythms.record_changes(BUSY_SECONDS, line).novel == line
    assert rhythms.record_changes(2 * BUSY_SECONDS + 0.1, line).sudden == line


def test_busy_block_settles_some_time_after_its_longest_gap() -> None:
    assert ticking_rhythms(gap=0.8).settles_at(CARET) == pytest.approx(0.8 * SETTLED_GAPS)
    assert ticking_rhythms(gap=0.1).settles_at(CARET) == SETTLED_SECONDS
    assert ticking_rhythms(gap=0.5).settles_surely_at(CARET, 3) == 1.5
    assert MotionHistory().settles_at(CARET) == 0.0


def test_a_clock_may_skip_a_tick() -> None:
    assert ticking_rhythms(gap=1.0).settles_at(CARET) == SKIPPED_GAPS
    assert ticking_rhythms(gap=SLOW_GAP).settles_at(CARET) == pytest.approx(SLOW_GAP * SETTLED_GAPS)


def test_what_is_still_for_long_belongs_to_no_rhythm() -> None:
    assert ticking_rhythms(gap=LONGEST_GAP + 0.1).settles_at(CARET) == SETTLED_SECONDS


def test_it_is_warm_some_time_after_its_first_look_or_a_new_size() -> None:
    rhythms = MotionHistory()
    rhythms.record_changes(5.0, ())
    assert rhythms.warm_at == 5.0 + WARM_UP
    rhythms.record_changes(6.0, {CARET})
    assert rhythms.changed_at(CARET) == 6.0
    rhythms.record_changes(9.0, (), anew=True)
    assert rhythms.changed_at(CARET) == 0.0
    assert rhythms.warm_at == 9.0 + WARM_UP


@given(st.lists(st.tuples(st.floats(0.01, 20), BLOCKS), max_size=40))
def test_each_changed_block_is_of_exactly_one_kind(looks: list[tuple[float, set[Block]]]) -> None:
    rhythms, now = MotionHistory(), 0.0
    for gap, changed in looks:
        now += gap
        motion = rhythms.record_changes(now, changed)
        kinds = motion[1:5]
        assert frozenset().union(*kinds) == changed
        assert sum(map(len, kinds)) == len(changed)
        assert bool(motion) == bool(changed)
        for block in changed:
            assert rhythms.changed_at(block) == now
            assert rhythms.settles_at(block) >= now + SETTLED_SECONDS
        for group in find_clusters(motion.sudden, 1):
            assert len(group) >= SUDDEN_BLOCKS


@given(BLOCKS, st.integers(1, 3))
def test_clusters_part_the_blocks_and_lie_apart(blocks: set[Block], reach: int) -> None:
    groups = find_clusters(frozenset(blocks), reach)
    assert sorted(block for group in groups for block in group) == sorted(blocks)
    for one in groups:
        for other in groups:
            if one is not other:
                assert all(max(abs(a - c), abs(b - d)) > reach for a, b in one for c, d in other)

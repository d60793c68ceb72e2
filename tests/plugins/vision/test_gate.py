"""What on a screen deserves a question: played from sequences of looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_vision.question_policy import (
    BEATS,
    NEAR_STILL_SECONDS,
    RECHECKS,
    RESTS,
    STILL_SECONDS,
    WARM_UP,
    Block,
    Motion,
    MotionHistory,
    PictureQuestionReason,
    QuestionPolicy,
)

LOOK = 0.2
"""Seconds between two looks."""
LATENCY = 0.4
"""How long the model takes."""
SLACK = LOOK + 0.01
Changes = Callable[[int], Iterable[Block]]
"""What differs at a look, by its number."""


def every(looks: int, *blocks: Block) -> Changes:
    """Something that changes at every so many looks."""
    return lambda number: blocks if number % looks == 0 else ()


def at(seconds: float, *blocks: Block) -> Changes:
    """Something that happens once."""
    return lambda number: blocks if number == round(seconds / LOOK) else ()


def until(seconds: float, changes: Changes) -> Changes:
    """Something that comes to rest."""
    return lambda number: changes(number) if number * LOOK < seconds else ()


def since(seconds: float, changes: Changes) -> Changes:
    """Something that begins."""
    return lambda number: changes(number) if number * LOOK >= seconds else ()


CARET = every(3, (5, 5))
CLOCK = every(5, (50, 1), (51, 1))
SPINNER = every(1, (10, 10), (11, 10), (10, 11))
VIDEO = every(1, *((c, r) for c in range(40, 50) for r in range(20, 28)))
LABEL = ((20, 3), (21, 3), (22, 3), (23, 3))


@dataclass
class PlayResult:
    """The questions of one wait."""

    asked: list[tuple[float, PictureQuestionReason]] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    """The looks that were kept to be shown."""

    def after(self, seconds: float) -> float:
        """How long after an instant the next question came."""
        return next(when for when, _ in self.asked if when >= seconds) - seconds

    def between(self, begin: float, end: float) -> int:
        return len([when for when, _ in self.asked if begin <= when < end])

    @property
    def reasons(self) -> list[PictureQuestionReason]:
        return [reason for _, reason in self.asked]


class Play:
    """Looks at a scene five times a second; no answer settles anything."""

    def __init__(self, *scene: Changes, flickers: Iterable[Block] = ()) -> None:
        """Take what changes; blocks that flicker look the same every other time."""
        self.scene = scene
        self.flickers = frozenset(flickers)
        self.rhythms = MotionHistory()
        self.gate = QuestionPolicy(self.rhythms)
        self.looks: dict[Block, int] = {}
        self.asked: dict[Block, int] | None = None

    def unlike(self) -> frozenset[Block] | None:
        asked = self.asked
        if asked is None:
            return None
        return frozenset(b for b, how in self.looks.items() if asked.get(b, 0) != how)

    def run(self, seconds: float) -> PlayResult:
        played = PlayResult()
        answer_at: float | None = None
        for number in range(round(seconds / LOOK)):
            now = number * LOOK
            changed = {*chain.from_iterable(part(number) for part in self.scene)}
            for block in changed:
                how = self.looks.get(block, 0) + 1
                self.looks[block] = how % 2 if block in self.flickers else how
            self.gate.observe_motion(self.rhythms.record_changes(now, changed))
            if self.gate.take_ripe_blocks(now, self.unlike):
                played.kept.append(now)
            if answer_at is not None and now >= answer_at:
                self.gate.record_no_result(now)
                answer_at = None
            if answer_at is None and (reason := self.gate.find_due_reason(now)) is not None:
                self.gate.record_question(now, reason)
                self.asked = dict(self.looks)
                played.asked.append((now, reason))
                answer_at = now + LATENCY
        return played


def play(seconds: float, *scene: Changes) -> PlayResult:
    return Play(*scene).run(seconds)


def test_a_still_screen_is_asked_about_once() -> None:
    assert play(300).reasons == [PictureQuestionReason.FIRST]


@pytest.mark.parametrize(
    "scene",
    [[CARET], [CLOCK], [SPINNER], [VIDEO], [CARET, CLOCK, VIDEO, SPINNER]],
    ids=["caret", "clock", "spinner", "video", "all of them"],
)
def test_what_only_moves_is_asked_about_once_a_minute_at_most(scene: list[Changes]) -> None:
    played = play(300, *scene)
    assert played.between(0, BEATS[0]) == 1
    assert len(played.asked) <= 3


NOISES = pytest.mark.parametrize("noise", [[], [CARET, CLOCK, VIDEO]], ids=["still", "busy"])


@NOISES
@pytest.mark.parametrize("blocks", [[(30, 30)], LABEL], ids=["a mark", "a label"])
def test_something_new_is_asked_about_once_it_stands_still(
    noise: list[Changes], blocks: list[Block]
) -> None:
    played = play(30, *noise, at(12, *blocks))
    assert played.after(12) <= STILL_SECONDS + SLACK


def test_gate_asks_about_something_that_keeps_moving() -> None:
    moving = [at(12 + LOOK * step, (30 + 2 * step, 30)) for step in range(30)]
    assert play(30, *moving).after(12) <= 1.0 + SLACK


def test_what_happens_while_it_warms_up_is_asked_about_then() -> None:
    played = play(30, at(1, (30, 30)))
    assert played.after(1) <= WARM_UP + SLACK


def test_a_label_beside_what_is_busy_is_asked_about_at_once() -> None:
    beside = ((12, 10), (13, 10), (14, 10))
    assert play(30, SPINNER, at(12, *beside)).after(12) <= STILL_SECONDS + SLACK


def test_gate_waits_for_a_block_near_a_busy_one_to_become_busy() -> None:
    played = play(30, SPINNER, at(12, (13, 10)))
    assert NEAR_STILL_SECONDS <= played.after(12) <= NEAR_STILL_SECONDS + SLACK


def test_a_bar_that_grows_is_not_asked_about_at_every_step() -> None:
    front = [
        until(4 + 1.2 * step, since(2 + 1.2 * step, every(2, (20 + step, 30))))
        for step in range(20)
    ]
    assert play(26, *front).between(1, 26) <= 2


def test_what_lies_down_on_a_video_is_asked_about() -> None:
    covered = {(c, r) for c in range(40, 44) for r in range(20, 23)}
    rest = [block for block in VIDEO(0) if block not in covered]
    played = play(30, until(12, VIDEO), since(12, every(1, *rest)))
    assert played.after(12) <= 1.0


def test_what_comes_and_goes_is_asked_about_both_times() -> None:
    scene = Play(CLOCK, at(12, *LABEL), at(15, *LABEL), flickers=LABEL)
    played = scene.run(40)
    assert played.after(12) <= STILL_SECONDS + SLACK
    assert played.after(15) <= STILL_SECONDS + SLACK
    assert len(played.asked) == 3


def test_what_went_back_to_how_it_was_is_not_asked_about() -> None:
    scene = Play(at(12, *LABEL), at(12 + LOOK, *LABEL), flickers=LABEL)
    assert scene.run(40).reasons == [PictureQuestionReason.FIRST]


def test_what_comes_and_goes_where_a_patch_rests_is_kept() -> None:
    restless = [at(8 + 4.4 * step, *LABEL) for step in range(4)]
    played = play(23, *restless)
    assert played.reasons.count(PictureQuestionReason.NOVEL) == 3
    assert len(played.kept) == 4


def test_what_comes_to_rest_is_asked_about_and_then_again() -> None:
    played = play(30, until(14, SPINNER))
    assert played.after(14) <= 1.0
    assert played.reasons == [
        PictureQuestionReason.FIRST,
        PictureQuestionReason.SETTLE,
        PictureQuestionReason.RECHECK,
        PictureQuestionReason.RECHECK,
    ]
    last = 14 - LOOK
    assert played.asked[2][0] - last == pytest.approx(RECHECKS[0], abs=SLACK)


def test_what_rests_is_not_asked_about_again_once_it_moves() -> None:
    played = play(30, until(14, SPINNER), since(16, SPINNER))
    assert PictureQuestionReason.RECHECK not in played.reasons


def test_gate_sees_a_spinner_stop_beside_a_running_clock() -> None:
    assert play(30, CLOCK, VIDEO, until(14, SPINNER)).after(14) <= 1.0


def test_gate_asks_ever_less_about_a_patch_that_keeps_changing() -> None:
    played = play(120, every(12, (20, 20)))
    gaps = [b - a for (a, _), (b, _) in pairwise(played.asked)]
    assert len(played.asked) <= 9
    assert gaps[-1] >= gaps[1]


def test_question_about_one_patch_does_not_slow_the_others() -> None:
    played = play(40, every(12, (20, 20)), at(31, (40, 5)))
    assert played.after(31) <= 1.0


def test_a_label_next_to_a_patch_that_rests_is_not_slowed_by_it() -> None:
    typed = [at(4 + 0.6 * step, (10 + step, 4)) for step in range(30)]
    label = ((10, 3), (11, 3), (12, 3))
    assert play(40, *typed, at(15, *label)).after(15) <= STILL_SECONDS + SLACK


def test_a_picture_of_another_size_has_no_patch_that_rests() -> None:
    gate = warmed_gate()
    for again in range(4):
        asked = asked_at(gate, 100.0 * (again + 1), [(1, 1)])
        gate.record_question(asked, PictureQuestionReason.NOVEL)
        gate.record_no_result(asked)
    gate.observe_motion(Motion(asked + 1, sudden=frozenset({(1, 1)}), anew=True))
    assert gate.next_look_at(asked + 1) == pytest.approx(asked + 1 + STILL_SECONDS)


def test_what_happens_outside_the_region_waits() -> None:
    gate = warmed_gate()
    gate.watch_region(frozenset({(1, 1)}))
    assert asked_at(gate, 10, [(9, 9)]) == 20.0


def test_what_happens_in_the_region_does_not_wait() -> None:
    gate = warmed_gate()
    gate.watch_region(frozenset({(1, 1)}))
    assert asked_at(gate, 10, [(1, 1)]) == 10 + STILL_SECONDS


def test_gate_repeats_a_failed_question_once_it_is_allowed() -> None:
    gate = QuestionPolicy(MotionHistory())
    gate.record_question(0, PictureQuestionReason.FIRST)
    gate.record_failure(5)
    assert gate.find_due_reason(4.9) is None
    assert gate.next_look_at(1) == 5
    assert gate.find_due_reason(5) is PictureQuestionReason.RETRY
    gate.record_question(5, PictureQuestionReason.RETRY)
    assert gate.find_due_reason(6) is None


def test_gate_counts_a_patch_as_in_vain_once_after_a_failure() -> None:
    gate = warmed_gate()
    begun = asked_at(gate, 10, [(1, 1)])
    gate.record_question(begun, PictureQuestionReason.NOVEL)
    gate.observe_motion(Motion(begun + 0.1, novel=frozenset([(1, 1)])))
    gate.record_failure(begun + 2)
    gate.take_ripe_blocks(begun + 1, lambda: None)
    gate.record_question(begun + 2, PictureQuestionReason.RETRY)
    gate.record_no_result(begun + 3)
    assert asked_at(gate, begun + 3.1, [(1, 1)]) == begun + 3 + RESTS[0]


def test_a_model_that_wants_another_look_gets_it_once() -> None:
    gate = QuestionPolicy(MotionHistory())
    gate.record_question(0, PictureQuestionReason.FIRST)
    gate.record_no_result(1, 10)
    assert gate.next_look_at(1) == 11
    assert gate.find_due_reason(11) is PictureQuestionReason.RECHECK
    gate.record_question(11, PictureQuestionReason.RECHECK)
    gate.record_no_result(12)
    assert gate.next_look_at(12) is None


def warmed_gate() -> QuestionPolicy:
    """Return a gate that has been answered once."""
    gate = QuestionPolicy(MotionHistory())
    gate.record_question(0, PictureQuestionReason.FIRST)
    gate.record_no_result(0.5)
    return gate


def asked_at(gate: QuestionPolicy, now: float, changed: Iterable[Block]) -> float:
    """Return when something new is asked about."""
    gate.observe_motion(Motion(now, novel=frozenset(changed)))
    while gate.find_due_reason(now) is None:
        gate.take_ripe_blocks(now, lambda: None)
        now = max(gate.next_look_at(now) or now, now)
    return now


@given(
    st.lists(
        st.tuples(st.floats(0.05, 3), st.sets(st.tuples(st.integers(0, 6), st.integers(0, 4)))),
        max_size=60,
    )
)
def test_whatever_changes_what_is_new_is_asked_about_in_the_end(
    looks: list[tuple[float, set[Block]]],
) -> None:
    """Nothing that differs is forgotten, and nothing is looked at for ever in vain."""
    rhythms = MotionHistory()
    gate, now, differs = QuestionPolicy(rhythms), 0.0, False

    def look(changed: set[Block]) -> None:
        nonlocal differs
        gate.observe_motion(rhythms.record_changes(now, changed))
        gate.take_ripe_blocks(now, lambda: None)
        differs = differs or bool(changed)
        if (reason := gate.find_due_reason(now)) is not None:
            gate.record_question(now, reason)
            gate.record_no_result(now)
            differs = False

    for passed, changed in looks:
        now += passed
        look(changed)
    for _ in range(2_000):
        due = gate.next_look_at(now)
        if due is None:
            break
        assert due >= now
        now = max(now + 0.05, due)
        look(set())
    assert not differs
    assert gate.next_look_at(now) is None

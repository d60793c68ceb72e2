from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_vision.text_judge import (
    MOST_QUESTIONS,
    RESERVED_QUESTIONS,
    QuestionPacer,
    TextQuestionReason,
)
from tests.plugins.vision.frames import frame


class Wait:
    """A wait whose model never says yes; remembers when it was asked, and why."""

    def __init__(self, **fields):
        self.pacing = QuestionPacer(**fields)
        self.asked = []

    def see(self, at, tail="", *, hints=(), again=None, doubtful=False, **fields):
        reason = self.pacing.observe_frame(frame(at, tail, **fields))
        if reason is not None:
            self.asked.append((at, reason.value))
            self.pacing.record_answer(
                reason, hints=hints, look_again_seconds=again, doubtful=doubtful
            )
        return reason

    @property
    def again(self):
        return self.pacing.look_again_seconds()


def play(wait, seconds, line, step=0.5, quiet=None):
    """Show a line at each of some instants, and look twice a second."""
    tail, last = "", 0.0
    for tick in range(int(seconds / step) + 1):
        at = tick * step
        if line(at):
            tail, last = f"{tail}{at}\n", at
        wait.see(at, tail, quiet=at - last)
    return wait


# --- when to ask --------------------------------------------------------------


def test_first_frame_of_unknown_age_is_asked_about():
    assert Wait().see(0) is TextQuestionReason.FIRST


def test_what_stands_still_already_is_asked_about_at_once():
    assert Wait().see(0, "a", quiet=6) is TextQuestionReason.FIRST


def test_output_at_the_start_is_asked_about_once_it_is_silent():
    wait = Wait()
    assert wait.see(0, "a", quiet=0) is None
    assert wait.again == 6
    assert wait.see(5.9, "a", quiet=5.9) is None
    assert wait.see(6, "a", quiet=6) is TextQuestionReason.FIRST


def test_what_has_not_changed_is_asked_about_once():
    wait = play(Wait(), 700, lambda at: False)
    assert wait.asked == [(6, "first")]
    assert wait.again is None


def test_output_that_never_stops_is_asked_about_ever_more_rarely():
    wait = play(Wait(), 2000, lambda at: True)
    assert wait.asked == [(30, "first"), *((at, "beat") for at in (300, 970, 1640))]


def test_questions_about_news_come_within_the_longest_rest():
    wait = Wait()
    for at in range(0, 5000, 10):
        wait.see(at, str(at))
    asked = [at for at, _ in wait.asked]
    assert max(b - a for a, b in pairwise(asked)) == 640 + 30


def test_silent_output_is_asked_about_after_six_seconds():
    wait = Wait()
    wait.see(0, "a")
    assert wait.see(5, "a\nb", quiet=0) is None
    assert wait.see(10.9, "a\nb", quiet=5.9) is None
    assert wait.see(11, "a\nb", quiet=6) is TextQuestionReason.QUIET
    assert wait.see(19, "a\nb", quiet=14) is None


def test_silence_of_unknown_start_counts_from_the_frame():
    wait = Wait()
    wait.see(0, "a")
    wait.see(5, "a\nb")
    assert wait.see(10, "a\nb") is None
    assert wait.see(11, "a\nb") is TextQuestionReason.QUIET


def test_a_line_at_long_intervals_is_no_silence_but_its_end_is():
    wait = play(Wait(), 120, lambda at: at % 7 == 0 and at <= 63)
    assert wait.asked == [(6, "first"), (77, "quiet")]


def test_bursts_at_long_intervals_are_no_silence_either():
    wait = play(Wait(), 120, lambda at: at % 7 < 1 and at <= 64, step=0.25)
    (quiet,) = [at for at, reason in wait.asked if reason == "quiet"]
    assert quiet > 64


def test_a_long_silence_before_is_no_habit():
    wait = Wait()
    wait.see(0, "")
    wait.see(18, "a", quiet=0)
    assert wait.see(24, "a", quiet=6) is not None


def test_repeated_silences_are_asked_about_ever_more_rarely():
    wait = play(Wait(), 3600, lambda at: at % 14 in range(6))
    quiet = [at for at, reason in wait.asked if reason == "quiet"]
    assert quiet[-1] > 1000
    assert len(wait.asked) <= MOST_QUESTIONS - RESERVED_QUESTIONS


def test_the_end_is_asked_about_at_once():
    wait = Wait()
    wait.see(0, "a")
    assert wait.see(0.1, "a", exit_status=0) is TextQuestionReason.END
    assert wait.see(0.2, "a", exit_status=0) is None
    assert wait.see(0.3, "a", exit_status=0, gone="It closed.") is TextQuestionReason.END
    assert wait.see(9999, "a", exit_status=0, gone="It closed.") is None


def test_a_command_that_had_ended_before_is_asked_about_as_ended():
    assert Wait().see(0, "a", exit_status=1) is TextQuestionReason.END


def test_a_silence_of_fifteen_seconds_counts_whatever_the_habit():
    wait = Wait()
    wait.see(0, "0")
    for at in (10, 22, 34, 46):
        wait.pacing.observe_frame(frame(at, str(at), quiet=0))
    assert wait.pacing._compute_quiet_seconds() == 15


# --- hints --------------------------------------------------------------------


def test_a_text_that_the_model_named_is_asked_about_at_once():
    wait = Wait()
    wait.see(0, "building", hints=["Build  OK"])
    assert wait.see(0.5, "building\nlinking") is None
    assert wait.see(1, "building\nlinking\nbuild\nok.") is TextQuestionReason.HINT
    assert wait.see(1.5, "building\nlinking\nbuild\nok.\n") is None


@pytest.mark.parametrize("hint", ["building", "ok", " ", "x" * 81])
def test_a_hint_that_says_nothing_is_left_out(hint):
    wait = Wait()
    wait.see(0, "Building", hints=[hint])
    assert wait.see(1.5, f"Building\n{hint} ok building") is None


def test_no_more_than_five_hints_count():
    wait = Wait()
    wait.see(0, "", hints=[f"hint {letter}" for letter in "abcdef"])
    assert wait.see(1.5, "hint f") is None
    assert wait.see(2, "hint e") is TextQuestionReason.HINT


def test_a_hint_in_a_command_that_was_typed_is_none():
    wait = Wait()
    wait.see(0, "", hints=["all done"])
    typed = "$ echo all done"
    assert wait.see(1.5, typed, echoes=(typed,)) is None
    assert wait.see(2, f"{typed}\nall done", echoes=(typed,)) is TextQuestionReason.HINT


def test_constant_hints_are_asked_about_ever_more_rarely():
    wait = Wait()
    for tick in range(2 * 3600):
        wait.see(tick / 2, f"step {tick}.", hints=[f"step {tick + 1}."])
    hinted = [at for at, reason in wait.asked if reason == "hint"]
    assert hinted[0] == 0.5
    assert hinted[-1] > 600


# --- what the model wants -----------------------------------------------------


def test_a_look_that_the_model_wants_comes_before_the_beat():
    wait = Wait()
    wait.see(0, "a", again=8)
    assert wait.again == 8
    assert wait.see(7.9, "a") is None
    assert wait.see(8, "a") is TextQuestionReason.BEAT


@pytest.mark.parametrize(("wanted", "given"), [(0.1, 5), (-1, 5), (9999, 30)])
def test_look_wanted_by_the_model_is_kept_within_limits(wanted, given):
    wait = Wait()
    wait.see(0, "a", again=wanted)
    assert wait.again == given


def test_a_look_that_the_model_wants_is_less_soon_in_a_long_wait():
    wait = Wait()
    wait.see(0, "a")
    assert wait.see(400, "b", quiet=6, again=5) is TextQuestionReason.QUIET
    assert wait.again == 100


def test_doubtful_answer_gets_a_second_look_at_a_later_frame():
    wait = Wait()
    wait.see(0, "a", doubtful=True)
    assert wait.again == 1
    assert wait.see(0.9, "a") is None
    assert wait.see(1, "a") is TextQuestionReason.CONFIRM
    assert wait.see(4, "a") is None


def test_doubtful_answer_is_confirmed_as_soon_as_output_comes():
    wait = Wait()
    wait.see(0, "a", doubtful=True)
    assert wait.see(0.1, "a\nb") is TextQuestionReason.CONFIRM


def test_a_doubt_about_what_is_gone_stays_to_be_settled():
    wait = Wait()
    wait.see(0, "a", gone="It closed.", doubtful=True)
    assert wait.see(1, "a", gone="It closed.") is TextQuestionReason.CONFIRM


def test_what_is_gone_is_not_looked_at_again():
    wait = Wait()
    wait.see(0, "a", gone="It closed.")
    assert wait.again is None
    assert wait.see(60, "a", gone="It closed.") is None


# --- when to look again -------------------------------------------------------


def test_it_wants_to_see_a_frame_when_the_silence_counts():
    wait = Wait()
    wait.see(0, "a")
    assert wait.again is None
    wait.see(5, "b", quiet=1)
    assert wait.again == 5


@given(
    st.lists(
        st.tuples(
            st.floats(-5, 60, allow_nan=False),
            st.integers(0, 3),
            st.one_of(st.none(), st.floats(-5, 90)),
            st.booleans(),
        ),
        max_size=60,
    )
)
def test_a_look_at_the_time_it_wants_is_a_question(looks):
    wait, at = Wait(), 0.0
    for passed, text, again, doubtful in looks:
        at = max(0.0, at + passed)
        wait.see(at, str(text), again=again, doubtful=doubtful)
    for _ in range(3):
        if (wanted := wait.again) is None:
            return
        assert wanted > 0
        at += wanted + 0.001
        before = len(wait.asked)
        wait.see(at, text_of(wait))
        assert len(wait.asked) == before + 1
        assert at - wait.asked[-1][0] < 0.001


def text_of(wait):
    """The text that was shown last: nothing changes any more."""
    return wait.pacing._text


# --- how often ----------------------------------------------------------------


def test_the_last_questions_are_kept_for_the_end():
    wait = Wait()
    for at in range(0, 40_000, 10):
        wait.see(at, str(at))
    assert len(wait.asked) == MOST_QUESTIONS - RESERVED_QUESTIONS
    assert wait.pacing.is_reserving
    assert wait.again is None
    assert wait.see(40_001, "z", exit_status=0) is TextQuestionReason.END


def test_nothing_is_asked_once_all_questions_are_spent():
    wait = Wait(calls=2)
    wait.see(0, "a")
    wait.see(1, "a", exit_status=0)
    assert wait.pacing.is_exhausted
    assert wait.see(2, "a", exit_status=0, gone="It closed.") is None


def test_nonsense_counts_and_is_asked_again():
    pacing = QuestionPacer()
    for at in range(MOST_QUESTIONS - RESERVED_QUESTIONS):
        assert pacing.observe_frame(frame(at, "a")) is TextQuestionReason.FIRST
        pacing.record_bad_answer()
    assert pacing.observe_frame(frame(99, "a")) is None


def test_what_was_not_answered_does_not_count_and_is_asked_again():
    pacing = QuestionPacer()
    for at in range(3 * MOST_QUESTIONS):
        assert pacing.observe_frame(frame(at, "a")) is TextQuestionReason.FIRST
    assert pacing.calls == 0


# --- clocks -------------------------------------------------------------------


def test_a_clock_that_is_set_back_delays_nothing():
    wait = Wait()
    wait.see(3600, "a", again=8)
    wait.see(0, "a")
    assert wait.see(7, "a") is None
    assert wait.see(8, "a") is TextQuestionReason.BEAT


def test_a_change_that_lies_in_the_future_is_one_that_came_now():
    wait = Wait()
    wait.see(0, "a")
    wait.see(5, "b", quiet=-100)
    assert wait.again == 6

"""Which steps a message marks, and that it never marks what it does not say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.tasks.step_phrases import (
    StepMarks,
    parse_step_marks,
    sounds_like_progress,
)
from tests.domain.tasks.narrations import NOT_DONE, PLAN, SURE, TAKEN_BACK, UNSURE

DOCS = Path(__file__).parents[3] / "docs" / "notes.md"
PLAN_OF_DOCS = (
    *("Build Docker image", "Push to ghcr.io", "SSH into server", "Run container"),
    "Verify site",
)
WRITTEN = ("1", "two", "#3", "2 and 4", "1-3", "1, 2 and 5", "2 through 4")
MEANT = ({1}, {2}, {3}, {2, 4}, {1, 2, 3}, {1, 2, 5}, {2, 3, 4})


def parse(message: str, plan: tuple[str, ...] = PLAN) -> StepMarks:
    return parse_step_marks(message, plan)


def marks(message: str) -> set[int]:
    """The steps as an agent counts them, from 1."""
    return {step + 1 for step in parse(message).done}


def test_the_labelled_set_is_large_enough() -> None:
    assert len(SURE) + len(UNSURE) + len(NOT_DONE) + len(TAKEN_BACK) >= 80


@pytest.mark.parametrize(("message", "done"), SURE)
def test_a_sure_phrase_marks_exactly_its_steps(message: str, done: set[int]) -> None:
    assert marks(message) == done


@pytest.mark.parametrize("message", NOT_DONE)
def test_what_is_not_called_done_marks_nothing(message: str) -> None:
    assert marks(message) == set()


@pytest.mark.parametrize(("message", "meant"), UNSURE)
def test_what_is_unsure_is_hinted_at(message: str, meant: set[int]) -> None:
    assert marks(message) <= meant
    assert marks(message) or sounds_like_progress(message)


@pytest.mark.parametrize(("message", "steps"), TAKEN_BACK)
def test_a_mark_is_taken_back_by_plain_words(message: str, steps: set[int]) -> None:
    parsed = parse(message)

    assert {step + 1 for step in parsed.reopened} == steps
    assert not parsed.done & parsed.reopened


@pytest.mark.parametrize(
    "message", ["Starting step 2", "Looking at the logs", "Checking what was changed", "ok?"]
)
def test_plans_and_questions_earn_no_hint(message: str) -> None:
    assert not sounds_like_progress(message)


def test_the_table_in_the_documentation_is_true() -> None:
    _, _, table = DOCS.read_text(encoding="utf-8").partition("| message | marks |\n")
    rows = re.findall(r"^\| (.+) \| (nothing|[0-9, ]+) \|$", table, re.MULTILINE)

    assert len(rows) > 20
    for message, marked in rows:
        done = {step + 1 for step in parse(message, plan=PLAN_OF_DOCS).done}
        assert done == {int(each) for each in re.findall("[0-9]+", marked)}, message


def test_only_all_done_itself_speaks_of_all() -> None:
    assert parse("All done — site is live").all_done
    assert not parse("All done except step 4").all_done
    assert not parse("All done, but not step 4").all_done
    assert not parse("Is it all done?").all_done
    assert not parse("Everything works").all_done


def test_a_step_that_is_called_step_2_is_named_by_its_number() -> None:
    assert parse("Step 2 done", plan=("Step 0", "Step 1", "Step 2")).done == {1}


def test_words_that_two_steps_share_mark_neither() -> None:
    assert parse("Run tests: done", plan=("Run tests", "Fix", "Run tests")).done == set()


@given(
    st.sampled_from([*zip(WRITTEN, MEANT, strict=True)]),
    st.sampled_from(["step", "Step", "steps", "**Step", "- step", "Now step"]),
    st.sampled_from(["done", "is done", "are now complete", "finished", ": done", "✅"]),
    st.sampled_from(["", ".", "!", " — tagged v1", ", going on", " and then some"]),
)
def test_every_form_of_a_sure_phrase_marks(
    numbers: tuple[str, set[int]], step: str, done: str, after: str
) -> None:
    written, meant = numbers
    assert marks(f"{step} {written} {done}{after}") == meant


@given(
    st.sampled_from(["if", "once", "when", "unless", "hopefully"]),
    st.sampled_from([message for message, _ in SURE if "\n" not in message]),
)
def test_no_phrase_marks_behind_a_condition(condition: str, message: str) -> None:
    first = message.split(". ", 1)[0].split("; ", 1)[0].split("? ", 1)[0]
    assert marks(f"{condition} {first[0].lower()}{first[1:]}") == set()


@given(st.text(alphabet="step 12done,-andx[]✅:.\n?if", max_size=120))
def test_no_text_breaks_it_or_marks_beyond_the_plan(message: str) -> None:
    assert marks(message) <= {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    "unit", ["step 1, ", "step 1 and ", "- ", "a, ", '"', "1. ", "now ", "✅ step 1 "]
)
@pytest.mark.timeout(60)  # what takes more than its length's time never ends
def test_the_longest_message_takes_no_longer_than_others(unit: str) -> None:
    message = unit * (262_144 // len(unit))  # four times as long as any is
    assert parse(message).all_done is False

"""How words that were read are put together in lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_vision.ocr import ROW_GAP, OcrPage, Word, arrange_words, join_pages

HEIGHT = 10


def word(text, left, top, confidence=0.9):
    right = left + HEIGHT * len(text) / 2
    return Word(text, left, right, top, top + HEIGHT, confidence)


def test_words_of_one_row_are_one_line_in_any_order():
    words = [word("0.05", 80, 1), word("loss", 50, 0), word("epoch", 5, 30)]
    assert arrange_words(words).text == "loss 0.05\nepoch"


def test_words_that_are_far_apart_are_on_lines_of_their_own():
    near, far = 20 + ROW_GAP * HEIGHT, 21 + ROW_GAP * HEIGHT
    assert arrange_words([word("loss", 0, 0), word("5", near, 0)]).text == "loss 5"
    assert arrange_words([word("loss", 0, 0), word("5", far, 0)]).text == "loss\n5"


@pytest.mark.parametrize(
    ("text", "confidence", "sure"),
    [
        ("0.05", 0.6, True),
        ("0.05", 0.59, False),
        ("0:05", 0.9, False),
        ("12%", 0.1, False),
        ("files", 0.1, True),
    ],
)
def test_a_line_with_a_number_that_may_be_misread_is_not_sure(text, confidence, sure):
    page = arrange_words([word("loss", 0, 0), word(text, 30, 0, confidence)])
    assert page.text == f"loss {text}"
    assert bool(page.sure) is sure


def test_pages_are_joined_line_by_line():
    joined = join_pages([OcrPage("a\n1", "a"), OcrPage("b", "b")])
    assert joined == OcrPage("a\n1\nb", "a\nb")


PLACES = st.integers(0, 200)


@given(st.lists(st.builds(word, st.sampled_from(["ab", "c", "9"]), PLACES, PLACES)))
def test_no_word_is_lost(words):
    read = arrange_words(words).text.split()
    assert sorted(read) == sorted(each.text for each in words)

"""What a judge of text does whatever it is given."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmem_hookspecs import ConditionUnclear, Met
from taskmem_terminal.judge import TextJudge
from tests.plugins.terminal.judged import Shown, met

SPOKEN = """'Build finished' `make` the build server tests finishes or and
    appears without errors not (e.g. 'x') reaches 100% 3/5 port 8080 exit code 0
    ready password prompt quiet for 30 seconds , . ; : é ß 日本 \x1b[31m \x00
    ' " ` ( ) [Y/n] İ
    \u2028 ends either until when passes 12 rows more than epoch 3 no longer"""
WORDS = st.sampled_from(SPOKEN.split(" "))
CONDITIONS = st.one_of(
    st.text(max_size=200), st.lists(WORDS, max_size=30).map(" ".join)
).filter(str.strip)
LINES = st.sampled_from(
    [
        "error: no space left",
        "0 errors",
        "===== 1 failed, 2 passed in 0.1s =====",
        "Server listening on port 8080",
        "Do you want to continue? [Y/n] ",
        "Downloading 45%",
        "Step 3/5",
        "me@host:~$ ",
        "İstanbul ﬁnished",
        "\x1b[31mred\x1b[0m",
        "",
    ]
)
QUOTES = "'\"`“”„«»‟‘’‚‹›"
PLAIN = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("C", "Z"), exclude_characters=QUOTES
    ),
    min_size=1,
    max_size=12,
)


def taken(condition):
    try:
        return Shown(condition)
    except ConditionUnclear:
        return None


@given(CONDITIONS, st.lists(st.one_of(LINES, st.text(max_size=60)), max_size=6))
@settings(deadline=None, max_examples=300)
def test_nothing_but_an_unclear_condition_is_raised(condition, lines):
    shown = taken(condition)
    if shown:
        for line in lines:
            shown.shows(f"{line}\n")
        shown.shows("", exit_status=1)


@given(st.lists(PLAIN, min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_a_phrase_is_found_however_it_arrives(words, data):
    phrase = " ".join(words)
    text = f"before {phrase} after\n"
    shown = Shown(f"the text '{phrase}' appears")
    place, found = 0, []
    while place < len(text):
        size = data.draw(st.integers(1, 8))
        found.append(shown.shows(text[place : place + size]).met)
        place += size
    assert Met.YES in found


@given(st.lists(PLAIN, min_size=1, max_size=4), st.integers(20, 60))
@settings(deadline=None)
def test_a_phrase_is_found_where_a_narrow_terminal_broke_it(words, width):
    phrase = " ".join(words)
    line = f"{'.' * (width - 2)} {phrase} after"
    rows = [line[at : at + width] for at in range(0, len(line), width)]
    assert met(f"the text '{phrase}' appears", "\n".join(rows) + "\n") is Met.YES


@given(
    st.sampled_from(
        ["'{}' appears", "it says '{}' or it fails", "'{}' and 'zz' appear"]
    ),
    PLAIN,
    st.text(max_size=20),
)
@settings(deadline=None)
def test_a_line_that_was_typed_never_resolves_by_its_words(condition, phrase, more):
    typed = f"$ echo {phrase} zz {more}".replace("\n", " ").replace("\r", " ").strip()
    shown = taken(condition.format(phrase))
    if shown:
        assert shown.shows(f"{typed}\n", echoes=(typed,)).met is not Met.YES


HOSTILE = [
    *("a" * 300_000, "error " * 50_000, " " * 300_000, "\n" * 300_000, "1/" * 150_000),
    *("%" * 300_000, "[[[[(" * 60_000, "0 errors 1" * 30_000, "Error:" * 50_000),
    *("test " * 60_000, "a.b/error_" * 30_000, "- - " * 75_000, "12:12:12 " * 30_000),
    *("complete " * 30_000, "B\nuild finishe" * 20_000, "1, 2 failed, " * 20_000),
    *("listening ready " * 20_000, "x | [a] " * 30_000, "\x00\x1b" * 100_000),
]


@pytest.mark.parametrize(
    "condition",
    [
        "'Build finished' appears",
        "the server is ready",
        "an error appears",
        "the build finishes or fails",
        "the tests pass",
        "progress reaches 100%",
        "it asks for a password",
        "the queue is empty",
        "more than 10 rows are imported",
        "a test fails",
        "HTTP 500 is returned",
        "the shell prompt returns",
    ],
)
def test_hostile_text_takes_no_longer_than_other_text(condition):
    started = time.process_time()
    for text in HOSTILE:
        met(condition, text)
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "piece",
    [
        "'",
        '"',
        "(",
        "or ",
        "and ",
        "the ",
        "no errors ",
        "error ",
        "a/b ",
        "1 of ",
        "exit code ",
        ", ",
        "\n- ",
    ],
)
def test_a_hostile_condition_is_read_at_once(piece):
    started = time.process_time()
    taken(piece * (4_000 // len(piece)))
    taken(piece * (65_000 // len(piece)))
    assert time.process_time() - started < 2


def test_a_judge_is_small_and_quickly_made():
    conditions = [
        "'Build finished' appears or it fails",
        "the server is listening on port 8080, or an error message shows up",
        "all 12 tests pass",
        "progress reaches at least 80 %",
    ]
    started = time.process_time()
    judges = [TextJudge(conditions[n % 4]) for n in range(2_000)]
    assert time.process_time() - started < 2_000 * 0.001
    assert len(judges) == 2_000

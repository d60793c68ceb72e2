"""How quotes, patterns and named numbers are found in lines."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_hookspecs import matching
from taskmem_hookspecs.amounts import find_percentage
from taskmem_hookspecs.conditions import Comparison
from taskmem_hookspecs.matching import (
    BadPattern,
    compile_regex,
    find_number,
    find_text,
)

NUMBERS = [
    ("loss: 0.05", "loss", [0.05]),
    ("loss=0.05,", "loss", [0.05]),
    ('"val_loss": 0.3,', "val_loss", [0.3]),
    ('"val_loss": 0.3,', "loss", []),
    ("train/loss: 0.3", "loss", []),
    ("train/loss: 0.3", "train/loss", [0.3]),
    ("Epoch [3/100]", "epoch", [3]),
    ("Epoch 3/100: loss=1e-3", "epoch", [3]),
    ("Epoch 3/100: loss=1e-3", "loss", [0.001]),
    ("epoch 10 loss 0.3", "loss", [0.3]),
    ("epoch 10 loss 0.3", "epoch", [10]),
    ("epoch 4 step 100/300 loss 0.32 lr 3.0e-04", "step", [100]),
    ("epoch 4 step 100/300 loss 0.32 lr 3.0e-04", "lr", [0.0003]),
    ("epoch 10 loss is 0.3", "loss", [0.3]),
    ("epoch 10 loss nan", "loss", []),
    ("loss: nan", "loss", []),
    ("3 failed, 212 passed", "failed", [3]),
    ("3 failed, 212 passed", "passed", [212]),
    ("3 failed 212 passed 4 skipped", "passed", [212]),
    ("3 failed 212 passed 4 skipped", "failed", [3]),
    ("Tests 3 failed 212 passed", "failed", []),
    ("Tests  2 failed | 13 passed (15)", "failed", [2]),
    ("Tests  2 failed | 13 passed (15)", "passed", [13]),
    ("Tests  2 failed | 13 passed (15)", "tests", [2]),
    ("Tests:       1 failed, 12 passed, 13 total", "total", [13]),
    ("Tests:       1 failed, 12 passed, 13 total", "tests", [1]),
    ("errors 0 warnings 2", "warnings", [2]),
    ("0 errors 2 warnings", "errors", [0]),
    ("(0 errors, 2 warnings)", "errors", [0]),
    ("12 passed - 3 failed", "passed", [12]),
    ("test_total PASSED [ 14%]", "passed", []),
    ("progress 14%", "progress", [14]),
    ("| loss | 0.3 |", "loss", [0.3]),
    ("rows imported .... 1,234", "rows imported", [1234]),
    ("price: $1,234", "price", [1234]),
    ("9.5 MB downloaded", "downloaded", [9.5]),
    ("fps=30 q=28.0 size=    256kB", "size", [256]),
    ("temp: -3.5C", "temp", [-3.5]),
    ("loss −0.3", "loss", [-0.3]),
    ("loss .05", "loss", [0.05]),
    ("3 of 10 tests passed", "tests", [3]),
    ("processed 5 of 50 files", "files", [5]),
    ("3/10 tests", "tests", [3]),
    ("replicas 2/3", "replicas", [2]),
    ("12 rows, then 13 rows", "rows", [12, 13]),
    ("line 10 error: bad", "error", []),
    ("make: *** [Makefile:3: all] Error 2", "error", [2]),
    ("at 12:30:01 took 3s", "took", [3]),
    ("version 1.2.3", "version", []),
    ("date 2024-01-02", "date", []),
    ("started 12:30:01", "started", []),
    ("exit code 0x1F", "exit code", []),
    ("loss 0,05", "loss", []),
    ("UNDONE 5", "done", []),
    ("acc@1 75.3", "acc@1", [75.3]),
    ("a loss\n0.3", "loss", []),
    ("Found 12 errors (5 fixed, 7 remaining).", "errors", [12]),
    ("Found 12 errors (5 fixed, 7 remaining).", "fixed", [5]),
    ("found 4 vulnerabilities (2 moderate, 2 high) in 120 packages", "vulnerabilities", [4]),
    ("Executed 3 tests, with 2 failures (1 unexpected) in 0.041 (0.043) seconds", "failures", [2]),
    (
        "Executed 3 tests, with 2 failures (1 unexpected) in 0.041 (0.043) seconds",
        "unexpected",
        [1],
    ),
    ("Failed:     3, Passed:   382, Duration: 1 m 2 s - Sample.dll", "duration", []),
    ("Failed:     3, Passed:   382, Duration: 31 s - Sample.dll", "duration", [31]),
    ("5 issues:", "issues", [5]),
    ("5 issues: see below", "issues", []),
    ("Tests with 5 tests in 2 suites failed with 3 issues.", "issues", [3]),
    ("FAILED (failures=1, errors=2)", "failures", [1]),
    ("warning: 2 warnings and 1 error generated.", "error", [1]),
    ("ok | 5 passed | 0 failed (12ms)", "failed", [0]),
    ("    0 Error(s)", "error", [0]),
]


@pytest.mark.parametrize(("line", "name", "expected"), NUMBERS)
def test_a_number_belongs_to_the_name_beside_it(line, name, expected):
    found = [value for value, _ in matching._iterate_numbers(line, name)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "quote", "line"),
    [
        ("a\n12 Build finished\n", "Build finished", "12 Build finished"),
        ("a\n12 Build finished\n", "build finished", "12 Build finished"),
        ("a\nbuild finished\n", "Build finished", None),
        ("build\nfinished", "build finished", None),
        ("İstanbul ok", "istanbul", "İstanbul ok"),
        ("ok İstanbul", "ok", "ok İstanbul"),
    ],
)
def test_case_of_a_quote_counts_when_it_has_a_capital(text, quote, line):
    assert find_text(text, quote) == line


@pytest.mark.parametrize(
    ("pattern", "text", "line"),
    [
        ("^two", "one\ntwo three", "two three"),
        ("one$", "one\ntwo", "one"),
        ("(?i)ERR|fail$", "no error", "no error"),
        ("one.two", "one\ntwo", None),
        ("e[^x]t", "one\ntwo", None),
        (r"one\s+two", "one\ntwo", None),
        (r"\\A", r"C:\A", r"C:\A"),
        ("é+", "\ud800 éé", "? éé"),
    ],
)
def test_a_pattern_matches_within_one_line(pattern, text, line):
    assert compile_regex(pattern).find(text) == line


@pytest.mark.parametrize(
    "pattern", ["(", "a)(b", "(?<=x)y", r"(a)\1", r"\Ax", r"x\z", "x" * 1001, r"(\pL{1,99}x){9}"]
)
def test_a_pattern_that_cannot_be_used_is_refused(pattern):
    with pytest.raises(BadPattern, match=r"\w"):
        compile_regex(pattern)


def test_the_first_line_that_holds_is_found():
    text = "loss 0.4\nloss 0.2\n10 %\n60 %\n"
    assert find_number(text, "loss", Comparison.LESS, 0.3) == "loss 0.2"
    assert find_number(text, "loss", Comparison.LESS, 0.1) is None
    assert find_percentage(text, 50) == "60 %"
    assert find_percentage(text, 61) is None
    assert find_percentage(text, 5, 9) is None


PIECES = st.sampled_from(["a", "b", "ab", " ", "1", "\n"])
PATTERNS = st.lists(
    st.sampled_from(["a", "b", ".", "[^a]", "1", " ", r"\d", r"\s", "^", "$", "|", "a+"]),
    min_size=1,
    max_size=5,
).map("".join)


@given(st.lists(PIECES, max_size=12).map("".join), PATTERNS)
def test_a_pattern_finds_what_each_line_alone_shows(text, pattern):
    sought = re.compile(pattern)
    lines = [line for line in text.split("\n") if sought.search(line)]
    assert compile_regex(pattern).find(text) == (lines[0] if lines else None)


HOSTILE = [
    *("1" * 300_000, "1," * 150_000, "1/" * 150_000, "%" * 300_000, "1 " * 150_000),
    *("loss" + " " * 300_000, "." * 300_000, "3 of " * 60_000, "loss:" * 50_000),
    *("loss 1 x " * 30_000, "1/2 " * 70_000 + "3%", "(" * 300_000, "-" * 300_000),
]


@pytest.mark.timeout(60)  # what takes more than its length's time never ends
def test_hostile_lines_take_no_longer_than_others():
    for text in HOSTILE:
        find_percentage(text, 100.5)
        find_number(text, "loss", Comparison.LESS, -1)
        find_text(text, "build finished")


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "(?:a|b)*a(?:a|b){100}c", ".*.*.*=.*"])
@pytest.mark.timeout(60)  # what takes more than its length's time never ends
def test_no_pattern_hangs(pattern):
    text = "abxx" * 60_000 + "x" * 60_000
    assert compile_regex(pattern).find(text) is None

"""Whether what is read off a window or a screen meets the forms of a condition."""

from __future__ import annotations

import asyncio
from io import BytesIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont
from pydantic import TypeAdapter

from taskmem_hookspecs.conditions import Form, TextForm
from taskmem_vision.ocr import OcrPage
from taskmem_vision.screen_judge import (
    Finder,
    ScreenFacts,
    describe_forms,
    explain_refusal,
    find_side,
    is_read,
    straighten_text,
    to_plain_text,
)
from tests.plugins.vision.conditions import make_condition, text
from tests.plugins.vision.painted import FONT, require_tesseract


def finds(form, shown, where="text", **fields):
    """Return what is said of a form that a text shows; None: it does not show it."""
    condition = make_condition(form, **fields)
    (sought,) = condition.sides[0].forms
    page = shown if isinstance(shown, OcrPage) else OcrPage(shown, shown)
    return Finder(condition).find(page, where).get(sought)


# --- which forms a target can have ----------------------------------------------

FORMS = {
    "text": text("Done"),
    "gone": text("Busy", gone=True),
    "regex": {"regex": "(?i)done"},
    "percent": {"percent": 80},
    "number": {"number": "loss", "op": "<", "value": 0.1},
    "quiet": {"quiet": 30},
    "closes": {"exit": "any"},
    "succeeds": {"exit": "success"},
    "fails": {"exit": "failure"},
    "exits with 2": {"exit": 2},
    "prompt": {"prompt": True},
    "asks": {"asks": "password"},
}
JUDGED = {
    "window": {"text", "gone", "regex", "percent", "number", "quiet", "closes"},
    "screen": {"text", "gone", "regex", "percent", "number", "quiet"},
}


@pytest.mark.parametrize("target", JUDGED)
@pytest.mark.parametrize("name", FORMS)
def test_each_target_has_its_forms_and_no_others(target, name):
    form = TypeAdapter(Form).validate_python(FORMS[name])
    refusal = explain_refusal(target, form)
    assert (refusal is None) is (name in JUDGED[target])
    if refusal:
        assert f'"{form}"' in refusal[0]
        assert "quote" in refusal[1].lower()


def test_a_text_of_one_letter_is_too_short_to_be_read():
    assert not is_read(TextForm(text="x"))
    assert not is_read(TextForm(text="✓ !"))
    assert is_read(TextForm(text="OK"))
    assert finds(text("x"), "x") is None


# --- texts ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sought", "shown"),
    [
        ("Done", "All tests: DONE."),
        ("Build finished", "12:03 Build\n   finished 0 errors"),
        ("It's ready", "it’s ready"),
        ("Foo - Bar", "Foo – Bar"),
        ("Foo — Bar", "Foo - Bar"),
        ("Done", "Status—Done"),
        ("100%", "Progress: 100 %"),
        ("Saving…", "Saving..."),
        ("Saving...", "Saving…."),
        ("file", "ﬁle"),
        ("Step 3", "Step 3/5"),
        ("Step 3", "This was step 3."),
        ("Done", "Status:Done"),
        ("(12)", "Inbox(12)"),
        ("Straße", "STRASSE"),
    ],
)
def test_a_text_is_found_as_a_person_would_find_it(sought, shown):
    assert finds(text(sought), shown)


@pytest.mark.parametrize(
    ("sought", "shown"),
    [
        ("100%", "1100%"),
        ("100%", "99.100%"),
        ("Done", "Donetsk"),
        ("Done", "Undone"),
        ("Done", "Done_old"),
        ("ready", "not-ready"),
        ("can", "can't"),
        ("settings", "settings.json"),
        ("Step 3", "Step 30"),
        ("Version 1", "Version 1.2"),
        ("000 files", "5,000 files"),
        ("30", "12:30"),
        ("Build finished", "Build has finished"),
        ("Done", ""),
    ],
)
def test_a_part_of_another_word_is_not_the_text(sought, shown):
    assert finds(text(sought), shown) is None


# --- lines ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "shown", "line"),
    [
        ({"regex": r"\d+ passed"}, "Tests\n12 passed\nOK", "12 passed"),
        ({"regex": "^done$"}, "is it done\ndone", "done"),
        ({"regex": "Don’t — panic…"}, "Don't - panic...", "Don't - panic..."),
        ({"regex": "[z–a]y"}, "ay", "ay"),
        ({"percent": 80}, "Downloading 45%\nUnpacking 87 %", "Unpacking 87 %"),
        ({"percent": 80}, "ETA 0:03 12 MB/s 80% 4/9", "ETA 0:03 12 MB/s 80% 4/9"),
        (FORMS["number"], "epoch 9\nloss: 0.08", "loss: 0.08"),
    ],
)
def test_a_form_is_found_on_its_line_which_is_quoted(form, shown, line):
    assert finds(form, shown) == f'The text shows "{line}"'
    assert finds(form, shown, "title") == f'The title shows "{line}"'


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ({"regex": "Build finished"}, "Build\nfinished"),
        ({"regex": "done"}, "Done"),
        ({"percent": 80}, "Downloading 45%\n80 files"),
        ({"percent": 80}, "715%"),
        (FORMS["number"], "loss: 0.8\naccuracy 0.05"),
    ],
)
def test_what_no_line_shows_is_not_found(form, shown):
    assert finds(form, shown) is None


def test_a_long_line_is_quoted_by_its_beginning():
    assert len(finds({"regex": "b$"}, "a" * 500 + "b")) < 120


# --- the condition itself on the screen -------------------------------------------


@pytest.mark.parametrize(
    ("form", "sentence", "shown"),
    [
        (text("Build finished"), '"Build finished" appears', each)
        for each in (
            'I wait: "Build finished" appears. Then I go on.',
            "I wait until “Build finished” appears",
            "wake_when: Build finished appears",
            '{"wake_when": "\\"Build finished\\" appears"}',
            '"signals": [{"text": "Build finished"}]',
            '{"side": "…", "form": "\\"Build finished\\" appears"}',
        )
    ]
    + [
        (text("Done"), '"Done"', 'smart_wait("Done")'),
        (text("Done"), 'the window shows "Done"', "wait until the wimdow shows 'Done'"),
        (text("Done"), '"Failed" or "Done" appears', "it ends: Done appears"),
        ({"percent": 100}, "it reaches 100 %", "waiting until it reaches\n100 %"),
        ({"percent": 100}, "100 %", "smart_wait wake_when: 100 %"),
        ({"regex": "Done|OK"}, "/Done|OK/ appears", "until /Done|OK/ appears"),
        ({"regex": "(?i)a/b"}, r"/a\/b/i", r"until /a\/b/i appears"),
        ({"regex": "Done"}, "/Done/", 'smart_wait(wake_when="/Done/")'),
        ({"regex": "Done"}, "/Done/", '"signals": [{"regex": "Done"}]'),
        (
            {"number": "epoch", "op": ">=", "value": 10},
            "epoch >= 10",
            "I wait for epoch >= 10, then I go on",
        ),
    ],
)
def test_a_condition_on_the_screen_does_not_meet_itself(form, sentence, shown):
    assert finds(form, shown, sentence=sentence) is None


@pytest.mark.parametrize(
    ("form", "sentence", "shown"),
    [
        (
            text("Build finished"),
            '"Build finished" appears',
            'agent: "Build finished" appears\n$ make\nBuild finished',
        ),
        (text("Done"), '"Done"', "Form: Done"),
        ({"regex": "Build finished"}, "/Build finished/ appears", "Build finished"),
        ({"regex": "Build finished"}, "/Build finished/", "Build finished"),
        (FORMS["number"], "loss < 0.1", "loss 0.01"),
        ({"number": "loss", "op": "<=", "value": 0.1}, "loss <= 0.1", "loss: 0.1"),
        ({"percent": 80}, "80 %", "80 %"),
        (text("Saved"), 'a dialog says "Saved"', "example.com says\n\nSaved\n\nOK"),
        (text("Saved"), 'a dialog says "Saved"', "This page says\nSaved"),
    ],
)
def test_what_is_shown_beside_the_condition_counts(form, sentence, shown):
    assert finds(form, shown, sentence=sentence)


def test_what_is_left_beside_a_condition_makes_no_text():
    shown = 'Build "Build finished" appears finished'
    assert finds(text("Build finished"), shown) is None
    assert finds({"regex": "Build.+finished"}, shown, sentence="x appears") is not None


# --- sides ------------------------------------------------------------------------

DONE, BUSY, OPEN = TextForm(text="Done"), TextForm(text="Busy", gone=True), "exit"
BOTH = make_condition([text("Done"), text("Busy", gone=True)])
EITHER = make_condition("the chart looks good", text("Done"), {"exit": "any"})


def test_one_side_is_enough_and_takes_all_of_its_forms():
    shown = {DONE: 'The text shows "Done"'}
    assert find_side(EITHER, ScreenFacts(shown)) == 'The text shows "Done".'
    assert find_side(BOTH, ScreenFacts(shown)) is None
    assert find_side(BOTH, ScreenFacts({}, [BUSY])) is None
    assert find_side(BOTH, ScreenFacts(shown, [BUSY])) == (
        'The text shows "Done"; "Busy" is no longer shown.'
    )


def test_a_side_in_free_english_never_holds_by_rules():
    assert find_side(make_condition("it looks good"), ScreenFacts({})) is None


def test_a_window_that_closed_is_quoted():
    closed = ScreenFacts({}, closed='The window "A" was closed.')
    assert find_side(EITHER, closed) == 'The window "A" was closed.'


def test_silence_is_as_long_as_it_was():
    quiet = make_condition({"quiet": 30})
    assert find_side(quiet, ScreenFacts({}, quiet_seconds=29.9)) is None
    assert find_side(quiet, ScreenFacts({}, quiet_seconds=None)) is None
    said = find_side(quiet, ScreenFacts({}, quiet_seconds=30.0))
    assert said == "Nothing has changed for 30 s."


def test_what_does_not_hold_is_told_form_by_form():
    names = ("text", "gone", "regex", "percent", "number", "quiet", "closes")
    condition = make_condition(*(FORMS[name] for name in names))
    assert describe_forms(condition, ScreenFacts({BUSY: 'The text shows "Busy"'})) == (
        'The text does not show "Done"; "Busy" is still shown; '
        "The text does not show /done/i; The text does not show 80 %; "
        "The text does not show loss < 0.1; Something changed within the last 30 s; "
        "The window is open."
    )


# --- whatever is shown ------------------------------------------------------------

SPOKEN = """"Done" 'A1' `B1` “C1” 100% 42/120 loss: <0.1 wake_when "text": appears is
    gone or and ' " ` “ ” ’ : . / 50 % \x00 \ue000 İ ß \u2028 message"""
WORDS = st.sampled_from(SPOKEN.split(" "))
ANYTHING = st.one_of(st.text(max_size=80), st.lists(WORDS, max_size=14).map(" ".join))
LINE = ANYTHING.map(lambda line: " ".join(line.split())).filter(bool)


def has_letter(line):
    return any(map(str.isalpha, line))


DRAWN = st.one_of(
    LINE.map(text),
    st.just({"percent": 50}),
    st.just({"regex": "[A-C]1"}),
    LINE.filter(has_letter).map(lambda line: {"number": line, "op": "<", "value": 1}),
)


@given(st.lists(DRAWN, min_size=1, max_size=4), LINE, ANYTHING)
@settings(deadline=None, max_examples=300)
def test_nothing_is_ever_raised(forms, sentence, shown):
    condition = make_condition(*forms, sentence=sentence)
    found = Finder(condition).find(OcrPage(shown, shown))
    for told in (
        find_side(condition, ScreenFacts(found)),
        describe_forms(condition, ScreenFacts(found)),
    ):
        assert told is None or told.endswith(".")


PLAIN = st.text(st.characters(categories=("L", "N"), codec="utf-8"), min_size=2, max_size=8).filter(
    lambda word: to_plain_text(word).isalnum()
)
PHRASE = st.lists(PLAIN, min_size=1, max_size=3).map(" ".join)


@given(PHRASE, st.lists(PLAIN, max_size=4), st.lists(PLAIN, max_size=4))
@settings(deadline=None)
def test_a_text_is_found_whatever_stands_around_it(phrase, before, after):
    shown = f"{' '.join(before)}\n{phrase} {' '.join(after)}"
    assert finds(text(phrase), shown, sentence=f'the window shows "{phrase}"')


@given(PHRASE, st.lists(PLAIN, max_size=8))
@settings(deadline=None)
def test_a_text_that_is_not_shown_is_not_found(phrase, others):
    shown = "\n".join(others)
    if f" {to_plain_text(phrase)} " not in f" {to_plain_text(shown)} ":
        assert finds(text(phrase), shown) is None


@given(PLAIN, st.text(st.sampled_from("abz059_"), min_size=1, max_size=3))
@settings(deadline=None)
def test_a_word_that_runs_on_is_another_word(word, more):
    assert finds(text(word), f"{word}{more}") is None


@given(ANYTHING)
@settings(deadline=None)
def test_plain_text_is_one_line_and_stays_as_it_is(shown):
    assert to_plain_text(to_plain_text(shown)) == to_plain_text(shown)
    assert straighten_text(straighten_text(shown)) == straighten_text(shown)
    assert "\n" not in to_plain_text(shown)


@pytest.mark.timeout(60)  # what takes more than its length's time never ends
def test_long_texts_take_no_longer_than_others():
    many = [text(f"Part {number} done") for number in range(20)]
    finder = Finder(make_condition(*many))
    texts = ["Part 1 Part 2 done " * 10_000, "done-" * 60_000, '"text": ' * 40_000]
    for shown in texts:
        finder.find(OcrPage(shown, ""))


# --- painted ----------------------------------------------------------------------

SHOWN = ["Backup", "Upload", "Download", "Import", "Restore", "Render", "Export", "Index"]
STATES = ["complete", "failed", "started", "paused", "finished", "waiting"]
LABEL = st.builds("{} {}".format, st.sampled_from(SHOWN), st.sampled_from(STATES))


@pytest.fixture(scope="module")
def engine():
    return require_tesseract()


def read_rows(engine, rows, px=13):
    """Return what the engine reads where these lines are painted."""
    made = Image.new("RGB", (420, 40 + 24 * len(rows)), "#f0f0f0")
    font = ImageFont.truetype(FONT, px)
    for number, row in enumerate(rows):
        ImageDraw.Draw(made).text((14, 12 + 24 * number), row, "#202020", font)
    out = BytesIO()
    made.save(out, "PNG")
    return asyncio.run(engine.read(out.getvalue(), numbers=True))


@given(st.lists(LABEL, min_size=1, max_size=3, unique=True), LABEL)
@settings(deadline=None, max_examples=15, derandomize=True)
def test_what_is_painted_is_found_and_what_is_not_is_not(engine, rows, other):
    shown = read_rows(engine, rows)
    for label in {*rows, other}:
        assert bool(finds(text(label), shown)) is (label in rows)


@given(st.integers(0, 100), st.integers(1, 100))
@settings(deadline=None, max_examples=15, derandomize=True)
def test_a_painted_percentage_is_compared_with_its_bound(engine, shown, bound):
    found = finds({"percent": bound}, read_rows(engine, [f"Copied {shown} % of the files"]))
    assert bool(found) is (shown >= bound)


LOSS = st.tuples(st.integers(1, 99), st.integers(0, 999)).map(
    lambda drawn: f"epoch {drawn[0]} loss: {drawn[1] / 1000:.3f}"
)


@given(st.lists(LOSS, min_size=5, max_size=5, unique=True), st.integers(1, 999))
@settings(deadline=None, max_examples=15, derandomize=True)
def test_a_painted_number_is_compared_with_its_bound(engine, rows, bound):
    form = {"number": "loss", "op": "<", "value": bound / 1000}
    found = finds(form, read_rows(engine, rows, px=11))
    least = min(float(row.split()[-1]) for row in rows)
    assert bool(found) is (least < bound / 1000)

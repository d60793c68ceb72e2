"""Conditions are parsed by a documented grammar, word by word."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.conditions import phrases, verdicts
from openclaw_taskmem.domain.conditions.conditions import MAX_SIDES, parse_condition, read_signals
from openclaw_taskmem.domain.conditions.verdicts import (
    FORMS,
    add_reader_note,
    assign_judges,
    build_sides_refusal,
    suggest_conditions,
    suggest_form,
)
from taskmem_hookspecs import (
    ConditionUnclear,
    InvalidArguments,
    JudgeUnavailable,
    ReaderStatus,
    Readiness,
)
from taskmem_hookspecs.conditions import (
    EMPTY_WORDS,
    Answer,
    AsksForm,
    Comparison,
    ExitForm,
    ExitKind,
    NumberForm,
    PercentForm,
    PromptForm,
    QuietForm,
    RegexForm,
    TextForm,
)

PAGE = Path(__file__).parents[3] / "docs" / "conditions.md"

READ = {
    r""""\"level\":\"error\"" appears""": ["""`"level":"error"` appears"""],
    r""""\"error\": \"\"" appears""": ["""`"error": ""` appears"""],
    r""""he said \" x \" ok" appears""": ["""`he said " x " ok` appears"""],
    r'''"say \"hi\" now" appears or "b"''': ["""`say "hi" now` appears""", '"b" appears'],
    r""""C:\" appears or "D:\" appears""": [r""""C:\" appears""", r""""D:\" appears"""],
    "objects 80 %": ['"objects" 80 %'],
    '"build" 80 %': ['"build" 80 %'],
    '"Receiving objects" reaches 80 %': ['"Receiving objects" 80 %'],
    '"Build finished"': ['"Build finished" appears'],
    '"Build finished" appears, or the build fails': ['"Build finished" appears', "fails"],
    'shows "A" and "B"': ['"A" appears and "B" appears'],
    'it prints "done"': ['"done" appears'],
    "the text 'Ready' is shown on the screen": ['"Ready" appears'],
    'the log no longer shows "pending"': ['"pending" is gone'],
    '"A" and "B" are gone': ['"A" is gone and "B" is gone'],
    '"yes" or "no" appears': ['"yes" appears', '"no" appears'],
    '"a" or "b" is gone': ['"a" is gone', '"b" is gone'],
    '"A", "B" or "C" appears': ['"A" appears', '"B" appears', '"C" appears'],
    '"A", "B" and "C" appear, or exits': ['"A" appears and "B" appears and "C" appears', "exits"],
    'a new line with "x" appears': ['new "x" appears'],
    '"x" appears from now on, or exits': ['new "x" appears', "exits"],
    'new "A" or "B" appears': ['new "A" appears', 'new "B" appears'],
    '"A" or /b/ appears again': ['new "A" appears', "new /b/ appears"],
    'new "A" appears and "B" is gone': ['new "A" appears and "B" is gone'],
    "a line matching /err(or)?/i appears": ["/err(or)?/i appears"],
    r"/a\/b c/ appears": [r"/a\/b c/ appears"],
    "wake me when the tests pass or fail": ["succeeds", "fails"],
    "it is over.": ["exits"],
    "the window closes": ["exits"],
    "exits with status 3": ["exits with 3"],
    "exits with a non-zero exit code": ["fails"],
    "the shell prompt is back": ["prompt returns"],
    "asks yes or no, or asks for the password": ["asks yes or no", "asks for a password"],
    "it waits for input": ["asks for input"],
    "no output for 10 seconds": ["quiet for 10 s"],
    "quiet for 2 min": ["quiet for 120 s"],
    "quiet for 30s": ["quiet for 30 s"],
    "the progress reaches 80%": ["80 %"],
    "progress 80 %": ["80 %"],
    "build 80 %": ["80 %"],
    "it 80 %": ["80 %"],
    "40/40": ["100 %"],
    "it reaches 7/9 or it fails": ["77.77 %", "fails"],
    "1,000/4,000 is reached": ["25 %"],
    "everything 100 %": ["100 %"],
    ">= 12.5 %": ["12.5 %"],
    "80 % or more, or it fails": ["80 %", "fails"],
    '"A" appears, 80 % or more': ['"A" appears, 80 % or more'],
    "the loss drops below 0.1": ["loss < 0.1"],
    "val loss <= 1,000": ['"val loss" <= 1000'],
    "epoch >= 10 and the process is over": ["epoch >= 10 and exits"],
}
FREE = [
    'new "A" is gone',
    "exit code != 0",
    "errors !=0",
    "loss !< 0.1",
    "loss ≠ 0",
    "the cluster turns yellow or green",
    "the build is green",
    'the dialog about "Setup" has closed',
    '"x" appears, the build fails',
    '"A" does not appear',
    "the deploy job succeeds",
    "/var/log/syslog appears",
    "the build fails twice",
    'the line after "Running" says ok',
    "exits with 300",
    "exits with 1,0",
    "loss < 0,1",
    "loss < 0,100",
    "quiet for ٣ s",
    "loss < 1e999",
    "quiet for 1,5 s",
    '"A" appears or',
    '"A" and',
    "quiet for a while",
    "/x/ is gone",
    "120 %",
    "download >= 80 %",
    "upload 80 %",
    "step 2/3 is done",
    "41/40",
    "0/0",
    "1/2/3",
    "after 80 %",
    "don't stop",
    '"unfinished',
    "",
]


@pytest.mark.parametrize("sentence", READ)
def test_documented_wordings_are_read_as_their_form(sentence):
    assert [str(side) for side in parse_condition(sentence).sides] == READ[sentence]


@pytest.mark.parametrize(
    ("sentence", "note"),
    [
        ("building 80 %", 'Only a percentage beside "building" counts. If no bar is called so, '),
        ("exits", ""),
    ],
)
def test_a_percentage_is_answered_with_what_counts(sentence, note):
    (side,) = parse_condition(sentence).sides
    assert (verdicts.explain_amounts(side) or "").startswith(note)


@pytest.mark.parametrize("sentence", FREE)
def test_one_word_too_many_makes_it_free_english(sentence):
    condition = parse_condition(sentence)
    assert condition.free == (*range(len(condition.sides)),)


def test_free_english_beside_a_form_keeps_its_own_words():
    condition = parse_condition("the cluster turns yellow or green, or fails")
    assert [side.words for side in condition.sides] == [
        "the cluster turns yellow or green",
        "fails",
    ]
    assert (condition.free, condition.parsed_sides) == ((0,), (1,))


def test_a_bare_text_after_no_longer_shows_is_unclear():
    condition = parse_condition('the log no longer shows "A" or "B"')
    assert condition.free == (1,)


lines = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r\x00", categories=["L", "P"]),
    min_size=1,
    max_size=30,
).filter(lambda text: bool(text.strip()) and not set(text) & set("“”„‘’«»'`"))
numbers = st.floats(0, 1e6, allow_nan=False).map(lambda n: round(n, 3))
forms = st.one_of(
    st.builds(TextForm, text=lines, gone=st.booleans()),
    st.builds(RegexForm, regex=st.sampled_from(["a|b", "(?i)done/x", r"\d+ \/ \d+"])),
    st.builds(ExitForm, exit=st.one_of(st.sampled_from(ExitKind), st.integers(0, 255))),
    st.just(PromptForm(prompt=True)),
    st.builds(AsksForm, asks=st.sampled_from(Answer)),
    st.builds(QuietForm, quiet=numbers.filter(lambda n: n > 0)),
    st.builds(
        PercentForm,
        percent=st.integers(0, 100).map(float),
        name=st.sampled_from([None, "objects", "build", "about", "the", "it's"]),
    ),
    st.builds(
        NumberForm,
        number=lines.filter(lambda n: any(map(str.isalpha, n))),
        op=st.sampled_from(Comparison),
        value=numbers,
    ),
)


@given(st.lists(forms, min_size=1, max_size=MAX_SIDES))
def test_every_form_is_read_back_as_itself(sides):
    """A slash in a pattern is written with a backslash, and stands for itself."""
    condition = read_signals([form.model_dump(mode="json") for form in sides])
    again = parse_condition(condition.sentence)
    assert [side.forms for side in again.sides] == [side.forms for side in condition.sides]
    assert [type(side.forms[0]) for side in again.sides] == [*map(type, sides)]


@given(st.text(max_size=200))
def test_whatever_is_written_is_parsed_or_refused(text):
    try:
        condition = parse_condition(text)
    except ConditionUnclear:
        return
    assert condition.sides
    assert condition.sentence == text


def test_more_sides_than_a_wait_may_have_are_refused():
    parse_condition(" or ".join(["exits"] * MAX_SIDES))
    with pytest.raises(ConditionUnclear, match="at most 20 sides"):
        parse_condition(" or ".join(["exits"] * (MAX_SIDES + 1)))
    with pytest.raises(ConditionUnclear, match="at most 20 sides"):
        parse_condition(" and ".join(["exits"] * (MAX_SIDES + 1)))


@pytest.mark.parametrize(
    "sentence",
    [
        f'"{"Built " * 200}" appears',
        f"/{'a' * 1001}/ appears",
        f'"{"loss" * 300}" < 3',
        "quiet for 800 hours",
    ],
)
def test_a_value_outside_its_limits_is_refused(sentence):
    with pytest.raises(ConditionUnclear, match="at most 1,000 characters"):
        parse_condition(sentence)


@pytest.mark.parametrize("pattern", ["a(b", r"(?=x)", r"(a)\1", "(a{1000}){1000}"])
def test_a_regex_that_re2_does_not_take_is_refused(pattern):
    with pytest.raises(ConditionUnclear, match="RE2"):
        parse_condition(f"/{pattern}/ appears")
    with pytest.raises(ConditionUnclear, match="RE2"):
        read_signals([{"regex": pattern}])


@pytest.mark.parametrize(
    "signal",
    [
        *({}, {"text": ""}, {"text": "a\nb"}, {"exit": "maybe"}, {"quiet": -1}, {"x": 1}),
        *({"exit": True}, {"quiet": True}, {"text": "a", "gone": "yes"}, {"prompt": 1}),
    ],
)
def test_a_signal_of_no_form_is_refused_by_number(signal):
    with pytest.raises(InvalidArguments, match="Signal 2 is none of the forms"):
        read_signals([{"prompt": True}, signal])


def test_a_signal_that_is_read_back_otherwise_is_refused():
    with pytest.raises(InvalidArguments, match="or a regex is empty"):
        read_signals([{"regex": "(?i)"}])


@pytest.mark.parametrize(("given", "read"), [("/zzz/i", "/zzz/i"), ("/a b/", "/a b/")])
def test_a_regex_of_signals_may_have_its_slashes(given, read):
    assert read_signals([{"regex": given}]) == parse_condition(f"{read} appears")


def test_a_refusal_shows_the_forms_and_a_way_out():
    condition = parse_condition("the deploy is live, or the build fails")
    refusal = build_sides_refusal(condition, condition.free, FORMS, "fails")
    assert refusal.details == {
        "sides": ["the deploy is live"],
        "forms": [*FORMS],
        "suggestion": "fails",
    }
    assert str(refusal) == (
        "Nobody here can judge these sides. Write each as shown in forms, joined by "
        "or / and. Nothing was written."
    )


def refuse_of_scheme(words, forms, advice="Hm.", suggestion=""):
    condition = parse_condition(words)
    every = range(len(condition.sides))
    return build_sides_refusal(condition, every, forms, suggestion, advice=advice, scheme="browser")


def test_a_scheme_without_a_judge_is_refused_without_other_words():
    refusal = refuse_of_scheme('"Done" appears', [], "")
    assert "must bring a judge that says what it takes (its hook wait_judge)" in str(refusal)
    assert "suggestion" not in str(refusal)
    assert (refusal.details["forms"], "suggestion" in refusal.details) == ([], False)


def test_a_judge_that_took_no_sample_is_not_denied():
    refusal = refuse_of_scheme("size > 3", [], 'Only its lines are judged: "lines >= 3".')
    assert str(refusal) == (
        "Nobody here can judge these sides of browser: targets. Only its lines are judged: "
        '"lines >= 3". Nothing was written.'
    )


@pytest.mark.parametrize(
    ("words", "forms", "suggested"),
    [
        ("80 %", ['"text" appears', "exits"], ['"THE TEXT THAT IT PRINTS" appears']),
        ("80 % or fails", ["exits with N"], ["exits with 30 or fails"]),
        ('"Done" appears', ["exits"], ["exits"]),
        ('"Done" appears', ['"text" appears'], ['"THE TEXT THAT IT PRINTS" appears']),
        ("80 %", [], []),
    ],
    ids=["text", "number", "other-form", "same-words", "none"],
)
def test_a_scheme_is_refused_with_the_forms_that_it_has(words, forms, suggested):
    condition = parse_condition(words)
    assert [*suggest_conditions(condition, [0], forms)][:1] == suggested
    refusal = refuse_of_scheme(words, forms, suggestion="".join(suggested))
    assert ("as shown in forms, joined by or / and" in str(refusal)) is bool(forms)
    assert ("suggestion" in refusal.details) is bool(suggested)
    assert str(refusal).endswith("Hm. Nothing was written.")


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ("the deployment finally looks healthy", '"THE TEXT THAT IT PRINTS" appears'),
        ('"Ready" turns green', '"Ready" appears'),
        ("wake me when ✓ is there", '"✓" appears'),
        ("✓ and ✗ are there", '"THE TEXT THAT IT PRINTS" appears'),
        ('not "zzz"', '"THE TEXT THAT IT PRINTS" appears'),
        ('"zzz" does not appear', '"THE TEXT THAT IT PRINTS" appears'),
        ('never "zzz"', '"THE TEXT THAT IT PRINTS" appears'),
        ('"a" && "b"', '"THE TEXT THAT IT PRINTS" appears'),
    ],
)
def test_a_suggestion_holds_no_text_but_what_was_quoted(words, form):
    assert suggest_form(words) == form


@given(st.text(max_size=80))
def test_a_suggestion_is_always_understood(words):
    assert not parse_condition(suggest_form(words)).free


class Decides:
    def __init__(self, name, sides=None):
        self.name = name
        if sides is not None:
            self.sides = sides


def test_each_side_is_told_by_whom_it_is_judged():
    condition = parse_condition("the page looks done, or fails")
    told = assign_judges(condition, [Decides("rules", (1,)), Decides("host", (0,))])
    assert [(each.form, each.judged_by) for each in told] == [(None, "host"), ("fails", "rules")]
    assert assign_judges(condition, [Decides("mine")])[0].judged_by == "mine"


@pytest.mark.parametrize(
    ("sentence", "form"),
    [
        ("answers and status == 200", "answers and status == 200"),
        ("is unreachable", "is down"),
        ('"up" appears', '"up" appears'),
    ],
)
def test_a_form_is_told_in_the_words_for_its_target(sentence, form):
    condition = parse_condition(sentence, "url")
    (told,) = assign_judges(condition, [Decides("mine")], scheme="url")
    assert told.form == form


def test_a_form_that_a_reader_judges_is_told_what_else_would():
    condition = parse_condition('"Done" appears, or the page looks done')
    told = assign_judges(condition, [Decides("host")])
    status = ReaderStatus(readiness=Readiness.READY, detail="It is asked.")
    text, free = add_reader_note(told, "host", status, ["Install tesseract."])
    assert text.note == "It is asked. Install tesseract."
    assert free.note == "It is asked."


def test_condition_with_a_late_judge_is_asked_again_not_reworded():
    condition = parse_condition("the page looks done, or fails")
    late = ["The plug-in x gave no answer within 2 s."]
    with pytest.raises(JudgeUnavailable, match=r"^The plug-in x .* 2 s\. Call again\."):
        assign_judges(condition, [Decides("rules", (1,))], late)
    assert assign_judges(condition, [Decides("mine")], late)


def test_the_page_prints_every_word_of_the_grammar():
    page = PAGE.read_text(encoding="utf-8")
    table = page.split("| meaning | words |")[1].split("\n\n")[0]
    printed = {word for row in table.splitlines() for word in re.split("[|,]", row)}
    said = {word.strip() for word in printed}
    known = {" ".join(phrase) for each in phrases.TABLES for phrase in each}
    assert known | EMPTY_WORDS <= said


def test_the_signals_of_the_page_are_read():
    page = PAGE.read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)\n```", page)
    assert read_signals(json.loads(example)).sentence == ('"Build finished" appears or fails')


@pytest.mark.parametrize(
    ("sentence", "form"),
    [
        ("when the task is done", "completes"),
        ("task is marked completed", "completes"),
        ("wake me once it has been completed", "completes"),
        ("the other task has ended", "ends"),
        ("it is over", "ends"),
        ("it has been given up", "fails"),
        ("the task is cancelled", "is cancelled"),
        ("it gets blocked", "is blocked"),
        ("it is waiting for the user", "is blocked"),
        ("it makes progress", "changes"),
        ("step 3 has been completed", "step 3 is done"),
        ("it finishes step #3", "step 3 is done"),
        ('"Push it" is ticked off', 'step "Push it" is done'),
        ("the step 'Push it' is done", 'step "Push it" is done'),
        ("it is done or fails", "completes or fails"),
        ("step 1 is done and it is blocked", "step 1 is done and is blocked"),
    ],
)
def test_what_becomes_of_a_task_is_said_in_many_words(sentence: str, form: str):
    read = parse_condition(sentence, "task")
    assert " or ".join(map(str, read.sides)) == form
    assert parse_condition(form, "task").sides[0].forms == read.sides[0].forms


@pytest.mark.parametrize(
    "sentence",
    [
        *("it is not blocked", "step 3", "step 0 is done", "it is stuck", "it reaches step 3"),
        *("completes step 3 is done", "status is completed", '"done" appears', "exits", "5 %"),
    ],
)
def test_what_is_unclear_of_a_task_is_free_english(sentence: str):
    assert parse_condition(sentence, "task").free


@pytest.mark.parametrize(
    ("sentence", "scheme", "form"),
    [
        ("$.jobs[0].state changes", "url", "$.jobs[0].state changes"),
        (".state has changed", "command", "$.state changes"),
        ("its price changes", "url", "price changes"),
        ("the exit status changes", "command", "status changes"),
    ],
)
def test_what_changes_of_a_target_is_named(sentence: str, scheme: str, form: str):
    read = parse_condition(sentence, scheme)
    assert [str(side) for side in read.sides] == [form]
    assert parse_condition(form, scheme).forms == read.forms != ((),)


@pytest.mark.parametrize(
    ("sentence", "scheme"),
    [
        ("price changes", "command"),
        *(('new "x" appears', scheme) for scheme in ("window", "screen", "session")),
    ],
)
def test_what_cannot_be_told_anew_is_free_english(sentence: str, scheme: str):
    assert parse_condition(sentence, scheme).free

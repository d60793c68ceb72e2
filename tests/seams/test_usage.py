"""What models cost: a plug-in that tells nonsense of it costs only its own rows."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

from taskmem_hookspecs import ModelUsage
from taskmem_hookspecs.testing import check_plugin
from tests.seams.made import LIMIT, answering, lazily, nothing, plugin, row, seams_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "hooks.md"
FIELDS = {
    "model": "made",
    "day": date(2026, 2, 16),
    "calls": 3,
    "calls_allowed": None,
    "tokens_in": 5,
    "tokens_out": 7,
    "cost_dollars": None,
}
ROW = ModelUsage(**FIELDS)


def unsound(**fields):
    return ModelUsage.model_construct(**FIELDS | fields)


def test_the_rows_of_all_plugins_are_kept():
    other = ROW.model_copy(update={"model": "other"})
    seams = seams_of(
        a=answering("model_usage", [ROW, other]), b=answering("model_usage", (ROW,))
    )
    assert seams.model_usage() == [ROW, ROW, other]


@pytest.mark.parametrize("answer", [None, [], ()])
def test_who_asked_no_model_is_passed_over(answer):
    seams = seams_of(a=answering("model_usage", answer))
    assert seams.model_usage() == []
    assert row(seams, "a").last_error is None


@pytest.mark.parametrize(
    "answer",
    [
        *(ROW, [ROW, None], [ModelUsage], ["made"], "made", b"x", {"model": "made"}, 1),
        *([unsound(calls=-1)], [unsound(calls="many")], [unsound(calls=None)]),
        *([unsound(calls_allowed=-1)], [unsound(tokens_in=-1)]),
        *([unsound(tokens_out=0.5)], [unsound(cost_dollars=float("nan"))]),
        *([unsound(cost_dollars=float("inf"))], [unsound(cost_dollars=-1)]),
        *([unsound(day="tomorrow")], [unsound(model="")], [unsound(model=7)]),
        *([unsound(model="\ud800")], [ROW, unsound(calls=-1)]),
        [ModelUsage.model_construct(model="made")],
    ],
    ids=repr,
)
def test_nonsense_costs_nothing_but_its_own(answer):
    seams = seams_of(
        good=answering("model_usage", [ROW]), bad=answering("model_usage", answer)
    )
    assert seams.model_usage() == [ROW]
    assert row(seams).last_error.startswith("model_usage: ")
    assert row(seams, "good").last_error is None


def test_nonsense_is_named_by_its_field():
    seams = seams_of(bad=answering("model_usage", [unsound(calls=-1, tokens_in=-1)]))
    seams.model_usage()
    assert "a ModelUsage with nonsense as calls, tokens_in" in row(seams).last_error


def test_what_can_be_understood_has_the_types_that_it_should():
    seams = seams_of(a=answering("model_usage", [unsound(calls="3", day="2026-02-16")]))
    assert seams.model_usage() == [ROW]


@pytest.mark.parametrize("answer", [nothing, lazily])
def test_a_promise_is_no_answer(answer):
    seams = seams_of(bad=plugin(model_usage=lambda: answer()))  # noqa: PLW0108
    assert seams.model_usage() == []
    assert "must be a plain function" in row(seams).last_error


def test_who_raises_costs_nothing_but_its_own():
    def raises():
        raise ValueError("boom")

    seams = seams_of(
        good=answering("model_usage", [ROW]), bad=plugin(model_usage=raises)
    )
    assert seams.model_usage() == [ROW]
    assert "boom" in row(seams).last_error


def test_who_hangs_is_waited_for_once(hanging):
    serve, begun = hanging
    seams = seams_of(
        LIMIT, good=answering("model_usage", [ROW]), bad=plugin(model_usage=serve)
    )
    assert seams.model_usage() == [ROW]
    assert seams.model_usage() == [ROW]
    assert "no answer within" in row(seams).last_error
    assert len(begun) == 1


def test_the_example_of_the_document_works_as_it_stands_there():
    section = DOCUMENT.read_text(encoding="utf-8").split("### model_usage()")[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    example = ModuleType("taskmem_llama")
    imports = (
        "from datetime import UTC, datetime\n"
        "from taskmem_hookspecs import ModelUsage, hookimpl\n"
    )
    exec(imports + found[1], vars(example))  # noqa: S102 - it is ours
    check_plugin(example)
    (told,) = seams_of(example=example).model_usage()
    assert (told.model, told.calls, told.cost_dollars) == ("llama-9", 12, 0)

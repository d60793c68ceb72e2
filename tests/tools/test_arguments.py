"""Which texts are read as the numbers, lists and objects that they hold."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_taskmem.tools import catalog, forms
from taskmem_hookspecs import InvalidArguments


def prepare(tool: str, **given: object) -> dict[str, Any]:
    safe, _ = forms.prepare_arguments(given, catalog.find_tool(tool).input_schema)
    return safe


@pytest.mark.parametrize(
    ("tool", "name", "given", "taken"),
    [
        ("smart_wait", "timeout", "300", 300),
        ("smart_wait", "poll_interval", " 0.5 ", 0.5),
        ("task_list", "limit", "5", 5),
        ("task_list", "limit", "5.0", 5),
        ("task_list", "limit", "-1", -1),
        ("task_update", "completed_steps", ["1", 2], [1, 2]),
        ("task_update", "completed_steps", "[1, 2]", [1, 2]),
        ("task_update", "completed_steps", "1, 2", [1, 2]),
        ("task_update", "token", "7", 7),
        ("task_register", "segmented", "True", True),
        ("task_register", "metadata", '{"repo": "x"}', {"repo": "x"}),
    ],
)
def test_a_text_is_taken_for_what_it_holds(
    tool: str, name: str, given: object, taken: object
) -> None:
    assert prepare(tool, **{name: given}) == {name: taken}


@pytest.mark.parametrize(
    "text",
    [
        "Build v1.2\nPush it",
        "1. Build v1.2\n2. Push it\n",
        "- Build v1.2\n\n- [ ] Push it",
        "1. Build v1.2, 2. Push it",
        "1) Build v1.2 2) Push it",
        '["Build v1.2", "Push it"]',
    ],
)
def test_a_plan_in_one_text_is_a_list_of_steps(text: str) -> None:
    assert prepare("task_register", plan=text) == {"plan": ["Build v1.2", "Push it"]}


@pytest.mark.parametrize(
    ("tool", "name", "given"),
    [
        ("task_update", "message", "300"),
        ("task_update", "task_id", "5"),
        ("task_update", "query", "[1]"),
        ("task_update", "completed_steps", ["one"]),
        ("task_list", "limit", "1e3"),
        ("task_list", "limit", "9" * 30),
        ("task_list", "unknown", "1"),
    ],
)
def test_what_is_no_number_or_asked_as_text_stays(tool: str, name: str, given: object) -> None:
    assert prepare(tool, **{name: given}) == {name: given}


@pytest.mark.parametrize("many", [[0] * 40_001, [[0] * 20_000] * 3, {"a": [{}] * 40_000}])
def test_more_values_than_any_call_has_are_refused(many: object) -> None:
    with pytest.raises(InvalidArguments, match="more than 40,000 values"):
        prepare("task_register", metadata=many)


def test_json_in_a_text_is_cleaned_like_the_rest() -> None:
    safe, removed = forms.prepare_arguments(
        {"metadata": '{"token": "ghp_' + "a1B2" * 9 + '"}'},
        catalog.find_tool("task_register").input_schema,
    )
    assert removed == 1
    assert "ghp_" not in str(safe)

    nested = '{"a":' * 60 + "1" + "}" * 60
    with pytest.raises(InvalidArguments, match="nested"):
        prepare("task_register", metadata=nested)

"""The list of tasks, as people read it."""

from typing import Any

import pytest

from openclaw_taskmem.cli import task_list

SINCE = "2026-02-16T10:02:31Z"


def task(name: str, **fields: Any) -> dict[str, Any]:
    """A task as `task_list` answers it."""
    return {
        "task_id": f"task_{name}",
        "name": name,
        "status": "active",
        "last_update": SINCE,
        "plan_steps": 2,
        **fields,
    }


def answer(*tasks: dict[str, Any], message: str = "Some.") -> dict[str, Any]:
    """An answer of `task_list`."""
    return {"tasks": [*tasks], "message": message}


def test_a_row_says_what_its_task_waits_for() -> None:
    def waits(what: str, **more: Any) -> dict[str, Any]:
        return {"waits_for": {"what": what, "since": SINCE, **more}}

    found = answer(
        task("a", **waits("claim", role="writer")),
        task("b", **waits("claim", role=None)),
        task("c", **waits("review")),
        task("d", **waits("word")),
        task("e", question="Shall I?", **waits("answer")),
        task("f"),
        task("g", **waits("something new")),
    )

    assert [row[-1] for row in task_list.format_task_rows(found)] == [
        "a (queued for writer since 2026-02-16 10:02 UTC)",
        "b (queued for anybody since 2026-02-16 10:02 UTC)",
        "c (for your review since 2026-02-16 10:02 UTC)",
        "d (for your word since 2026-02-16 10:02 UTC)",
        "e (asks: Shall I?)",
        "f",
        "g",
    ]


def test_what_waits_stands_above_all_else_and_once() -> None:
    waits, others = answer(task("b")), answer(task("a"), task("b"), task("c"))

    found = task_list.merge_waiting_first(waits, others, 9)

    assert [each["name"] for each in found["tasks"]] == ["b", "a", "c"]
    assert [each["name"] for each in task_list.merge_waiting_first(waits, others, 2)["tasks"]] == [
        *("b", "a")
    ]


@pytest.mark.parametrize(
    ("waits", "others", "limit", "said"),
    [
        ("b", "abc", 9, "3 tasks, what waits the longest first, then the latest of the "),
        ("b", "abc", 2, "2 tasks, what waits the longest first, then the latest of the "),
        ("b", "abc", 1, "Waiting."),
        ("b", "b", 9, "Waiting."),
        ("b", "", 9, "Waiting."),
        ("", "a", 9, "Others."),
        ("", "", 9, "Others."),
    ],
)
def test_the_sentence_of_a_list_says_what_is_in_it(
    waits: str, others: str, limit: int, said: str
) -> None:
    found = task_list.merge_waiting_first(
        answer(*map(task, waits), message="Waiting."),
        answer(*map(task, others), message="Others."),
        limit,
    )

    assert found["message"].startswith(said)

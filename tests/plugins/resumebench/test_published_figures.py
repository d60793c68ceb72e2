"""Every figure of ResumeBench on the pages is that of the stored run; none is written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskmem_resumebench.bench_run import WHOLE, plan_conditions, plan_few_kills
from taskmem_resumebench.figures import Figures
from tests.plugins.resumebench.make_pages import PICTURE, README, RELIABILITY, STORED, render_pages

GOALS = {"success": 0.995, "redo_ratio": 1.01}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return json.loads(STORED.read_text())


@pytest.mark.parametrize("page", [RELIABILITY, README, PICTURE], ids=lambda path: path.name)
def test_a_page_shows_what_was_measured(page: Any, report: dict[str, Any]) -> None:
    assert page.read_text() == render_pages(report)[page], (
        "run `python -m tests.plugins.resumebench.make_pages`"
    )


def test_the_figures_of_a_report_are_in_its_tables(report: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(report))
    changed["conditions"]["packet"]["interruptions"] = 123456
    changed["times"]["seconds"] = 1234.5
    changed["conditions"]["notes"]["duplicated_effects"] = 98765

    pages = render_pages(changed)

    assert "| `packet` | 100 | 123,456 | " in pages[RELIABILITY]
    assert "The run took 1234 s, and " in pages[RELIABILITY]
    assert " | 98,765 |\n" in pages[README]


def test_the_stored_run_has_every_row_and_figure(report: dict[str, Any]) -> None:
    for part, plan in (
        ("conditions", plan_conditions(WHOLE)),
        ("few_kills", plan_few_kills(WHOLE)),
    ):
        assert [*report[part]] == [each.name for each, _ in plan]
        assert all(found.keys() == {*Figures._fields} for found in report[part].values())


def test_the_stored_run_meets_the_goals(report: dict[str, Any]) -> None:
    packet = report["conditions"]["packet"]

    assert report["seed"] == 1
    assert packet["tasks"] >= 100
    assert packet["success"] >= GOALS["success"]
    assert packet["redo_ratio"] <= GOALS["redo_ratio"]
    assert packet["duplicated_effects"] == packet["revived_steps"] == 0

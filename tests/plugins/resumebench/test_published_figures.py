"""Every figure of ResumeBench on the pages is that of the stored run; none is written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from taskmem_resumebench.plot import draw_plot
from taskmem_resumebench.report_table import format_report

ROOT = Path(__file__).resolve().parents[3]
STORED = ROOT / "bench" / "results" / "resumebench-seed-1.json"
PICTURE = ROOT / "docs" / "pictures" / "resumebench.svg"
GOALS = {"success": 0.995, "redo_ratio": 1.01}
README_NAMES = {
    "packet": "Task memory",
    "notes_before_and_after": "notes before and after each call",
    "openclaw_recovery": "OpenClaw's own recovery",
    "notes": "notes after each step",
}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return json.loads(STORED.read_text())


def format_row(name: str, found: Mapping[str, Any]) -> str:
    """Format one row of a table of docs/reliability.md."""
    shares = (f"{found[key]:.1%}" for key in ("success", "step_accuracy", "resume_rate"))
    keys = ("duplicated_effects", "revived_steps", "false_wakes", "packet_bytes")
    counts = (f"{found[key]:,.0f}" for key in keys)
    redo = f"{found['redo_ratio']:,.2f}"
    first = (f"`{name}`", f"{found['tasks']}", f"{found['interruptions']:,}")
    return f"| {' | '.join((*first, *shares, redo, *counts))} |"


def format_readme_row(name: str, report: Mapping[str, Any]) -> str:
    """Format one row of the README's table."""
    every, few = report["conditions"][name], report["few_kills"][name]
    shares = f"{every['success']:.0%} | {few['success']:.0%}"
    return f"| {README_NAMES[name]} | {shares} | {every['duplicated_effects']:,} |"


def list_rows(page: Path, title: str) -> Iterator[str]:
    """Yield the rows of the table that follows a line of a page."""
    lines = iter(page.read_text().splitlines())
    while next(lines) != title:
        pass
    started = False
    for line in lines:
        if line.startswith("| ") and not line.startswith("| ---"):
            if started:
                yield line
            started = True
        elif started and not line.startswith("|"):
            return


@pytest.mark.parametrize(
    ("part", "title"),
    [
        ("conditions", "Killed at every step:"),
        ("few_kills", "Killed three times a task, at most:"),
    ],
)
def test_the_page_shows_what_was_measured(part: str, title: str, report: dict[str, Any]) -> None:
    rows = list_rows(ROOT / "docs" / "reliability.md", title)

    assert [*rows] == [format_row(name, found) for name, found in report[part].items()]


def test_the_report_names_the_page_that_explains_its_rows(report: dict[str, Any]) -> None:
    assert "packet is Task memory." in format_report(report)
    assert "docs/reliability.md" in format_report(report)
    page = (ROOT / "docs" / "reliability.md").read_text()
    names = {part for name in report["conditions"] for part in name.split("/", 1)}
    explained = (f"| `{name}` | " in page or f"| {name} | " in page for name in names)
    assert all(explained)


def test_the_readme_shows_what_was_measured(report: dict[str, Any]) -> None:
    text = (ROOT / "README.md").read_text()

    assert all(format_readme_row(name, report) in text for name in README_NAMES)


def test_the_picture_is_that_of_the_stored_run(report: dict[str, Any]) -> None:
    assert PICTURE.read_text() == draw_plot(report)


def test_the_stored_run_meets_the_goals(report: dict[str, Any]) -> None:
    packet = report["conditions"]["packet"]

    assert report["seed"] == 1
    assert packet["tasks"] >= 100
    assert packet["success"] >= GOALS["success"]
    assert packet["redo_ratio"] <= GOALS["redo_ratio"]
    assert packet["duplicated_effects"] == packet["revived_steps"] == 0

"""Every figure of ResumeBench on the pages is that of the stored run; none is written by hand.

After `taskmem bench --json > bench/results/resumebench-seed-1.json`, in the root:
`python plugins/taskmem_resumebench/tests/test_published_figures.py` writes them into the pages, and
draws the picture.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from taskmem_resumebench.bench_run import WHOLE_SIZE, plan_conditions, plan_few_kills
from taskmem_resumebench.report import COLUMNS, Figures, draw_plot

ROOT: Final = Path(__file__).resolve().parents[3]
STORED: Final = ROOT / "bench" / "results" / "resumebench-seed-1.json"
RELIABILITY: Final = ROOT / "docs" / "reliability.md"
PICTURE: Final = ROOT / "docs" / "pictures" / "resumebench.svg"
README: Final = ROOT / "README.md"
_TABLES: Final = {
    "conditions": "Killed at every step:",
    "few_kills": "Killed three times a task, at most:",
}
_TIMES: Final = "The run took "
"""Begins the line with the times of the run, and with the wakes of silent agents."""
_GOALS_TITLE: Final = "| asked | goal | last run |"
_README_TITLE: Final = "| memory | every step | 3 kills | doubled | told |"
_README_NAMES: Final = {
    "packet": "Task memory",
    "packet/stubborn": "– by an agent that never looks",
    "notes_before_and_after": "notes before and after each call",
    "openclaw_recovery": "OpenClaw's recovery, modelled: 3 at most",
    "openclaw_recovery/careful": "– by an agent that always looks",
    "notes": "notes after each step",
    "notes/careful": "– by an agent that always looks",
}
_RIVALS: Final = ("openclaw_recovery", "notes_before_and_after", "notes")
_FORMS: Final = {
    **dict.fromkeys(("success", "step_accuracy", "resume_rate"), ".1%"),
    "redo_ratio": ",.2f",
    "looks": ",.1f",
    "packet_bytes": ",.0f",
}
"""How figures are written; others are counts."""


def render_pages(report: Mapping[str, Any]) -> Mapping[Path, str]:
    """Return the text of each page, with the figures of a report."""
    page = RELIABILITY.read_text()
    for part, title in _TABLES.items():
        page = _replace_block(page, f"{title}\n\n", _format_table(report[part]))
    page = _replace_line(page, _TIMES, _format_times(report))
    page = _replace_block(page, f"{_GOALS_TITLE}\n", _format_goals(report))
    readme = _replace_block(README.read_text(), f"{_README_TITLE}\n", _format_readme(report))
    return {RELIABILITY: page, README: readme, PICTURE: draw_plot(report)}


def _replace_block(text: str, before: str, lines: Sequence[str]) -> str:
    """Put lines where some stand between a text and the next empty line."""
    head, before, rest = text.partition(before)
    _, after, tail = rest.partition("\n\n")
    return "".join((head, before, "\n".join(lines), after, tail))


def _replace_line(text: str, beginning: str, line: str) -> str:
    """Put a line where another begins so."""
    return "\n".join(line if each.startswith(beginning) else each for each in text.split("\n"))


def _format_table(conditions: Mapping[str, Mapping[str, Any]]) -> list[str]:
    titles = (title for _, title in COLUMNS)
    return [
        _format_row("memory", *titles),
        _format_row("---", *("---:" for _ in COLUMNS)),
        *(
            _format_row(
                f"`{name}`",
                *(_format_figure(found.get(key), _FORMS.get(key, ",d")) for key, _ in COLUMNS),
            )
            for name, found in conditions.items()
        ),
    ]


def _format_readme(report: Mapping[str, Any]) -> list[str]:
    def format_memory(name: str) -> str:
        every, few = report["conditions"][name], report["few_kills"].get(name, {})
        shares = (_format_figure(found.get("success"), ".0%") for found in (every, few))
        counts = (f"{every[key]:,.0f}" for key in ("duplicated_effects", "packet_bytes"))
        return _format_row(_README_NAMES[name], *shares, *counts)

    return [_format_row(*["---"] * 5), *map(format_memory, _README_NAMES)]


def _format_goals(report: Mapping[str, Any]) -> list[str]:
    goals, times = report["s3"], report["times"]
    metrics, sizes, step = goals["metrics"], goals["checkpoint_bytes"], times["step_seconds"]

    def format_completion(steps: str, goal: str) -> str:
        found = goals[f"{steps}_steps"]
        return _format_row(
            f"tasks of {steps} steps completed", goal, f"{found['completed']} of {found['tasks']}"
        )

    recovery = f"{times['recovery_seconds']:.1f} s"
    bytes_ = f"{sizes['median']} bytes; {sizes['largest']} bytes"
    killed = f"{goals['resumes']} of {goals['kills']} times"
    medians = f"{step['median'] * 1000:.0f} ms; {step['p95'] * 1000:.0f} ms"
    counts = ", ".join(f"{metrics[name]} {name}" for name in ("tasks", "completed", "failed"))
    means = f"{metrics['mean_steps']} steps, {metrics['mean_resumes']} resumes"
    return [
        _format_row("---", "---:", "---:"),
        format_completion("five", "100 % (asked: 90 %)"),
        format_completion("ten", "99 % (asked: 80 %)"),
        _format_row("a task that is killed three times is resumed", "each time", killed),
        _format_row("a step, median; 95th percentile", "", medians),
        _format_row("a task, mean", "", f"{times['task_seconds']:.2f} s"),
        _format_row("from a daemon's death to its answer", "", recovery),
        _format_row("a checkpoint, median; largest", "", bytes_),
        _format_row("`getMetrics`", "", f"{counts}; mean {means}"),
    ]


def _format_times(report: Mapping[str, Any]) -> str:
    times, wakes = report["times"], report["wakes"]
    return (
        f"{_TIMES}{times['seconds']:.0f} s, and {times['cpu_seconds']:.0f} s of processor on two "
        f"cores. Of the agents that fell silent {wakes['came']} of {wakes['due']} were woken, "
        f"{wakes['doubled']} twice, {times['wake_late_seconds']['median']:.1f} s late (median); of "
        f"the {wakes['others']} others {wakes['false']}."
    )


def _format_figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _format_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def write_pages(pages: Mapping[Path, str]) -> Iterable[str]:
    """Write the pages; yields the names of those that were others before."""
    for path, text in pages.items():
        if path.read_text() != text:
            path.write_text(text)
            yield path.relative_to(ROOT).as_posix()


GOALS = {"success": 0.995, "redo_ratio": 1.01}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return json.loads(STORED.read_text())


@pytest.mark.parametrize("page", [RELIABILITY, README, PICTURE], ids=lambda path: path.name)
def test_a_page_shows_what_was_measured(page: Any, report: dict[str, Any]) -> None:
    assert page.read_text() == render_pages(report)[page], (
        f"run `python {Path(__file__).relative_to(ROOT)}`"
    )


def test_the_figures_of_a_report_are_in_its_tables(report: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(report))
    changed["conditions"]["packet"]["interruptions"] = 123456
    changed["times"]["seconds"] = 1234.5
    changed["conditions"]["notes"]["duplicated_effects"] = 98765

    pages = render_pages(changed)

    assert "| `packet` | 100 | 123,456 | " in pages[RELIABILITY]
    assert "The run took 1234 s, and " in pages[RELIABILITY]
    assert " | 98,765 | " in pages[README]


def test_the_stored_run_has_every_row_and_figure(report: dict[str, Any]) -> None:
    for part, plan in (
        ("conditions", plan_conditions(WHOLE_SIZE)),
        ("few_kills", plan_few_kills(WHOLE_SIZE)),
    ):
        assert [*report[part]] == [each.name for each, _ in plan]
        assert all(found.keys() == {*Figures._fields} for found in report[part].values())


def test_the_readme_shows_our_worst_and_each_rivals_best(report: dict[str, Any]) -> None:
    found = report["conditions"]

    def list_agents(memory: str) -> list[str]:
        return [name for name in found if name.partition("/")[0] == memory]

    def rank(name: str) -> tuple[float, int]:
        return found[name]["success"], -found[name]["duplicated_effects"]

    assert min(list_agents("packet"), key=rank) in _README_NAMES
    assert {max(list_agents(rival), key=rank) for rival in _RIVALS} <= _README_NAMES.keys()


def test_the_stored_run_meets_the_goals(report: dict[str, Any]) -> None:
    packet = report["conditions"]["packet"]

    assert report["seed"] == 1
    assert packet["tasks"] >= 100
    assert packet["success"] >= GOALS["success"]
    assert packet["redo_ratio"] <= GOALS["redo_ratio"]
    assert packet["duplicated_effects"] == packet["revived_steps"] == 0


if __name__ == "__main__":
    for name in write_pages(render_pages(json.loads(STORED.read_text()))):
        print(name)  # noqa: T201

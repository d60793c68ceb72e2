"""A report that was stored is shown again: its table, and its picture with the same figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from taskmem_resumebench import bench_run
from taskmem_resumebench.bench_command import command
from taskmem_resumebench.report import draw_plot

SVG = "{http://www.w3.org/2000/svg}"


def figures(success: float, doubled: int) -> dict[str, Any]:
    return {
        "tasks": 12,
        "interruptions": 300,
        "success": success,
        "step_accuracy": 1,
        "resume_rate": None,
        "redo_ratio": 1.25,
        "looks": 4.25,
        "duplicated_effects": doubled,
        "revived_steps": 0,
        "false_wakes": None,
        "daemon_kills": 2,
        "packet_bytes": 2000,
    }


REPORT = {
    "seed": 1,
    "conditions": {
        "notes": figures(0.5, 1200),
        "packet": figures(1, 0),
        "packet/sloppy": figures(0.25, 0),
    },
    "few_kills": {"notes": figures(0.75, 3), "packet": figures(1, 0)},
    "wakes": {"due": 8, "came": 8, "doubled": 1, "false": 2, "others": 24},
    "s3": {
        "five_steps": {"completed": 1, "tasks": 1},
        "ten_steps": {"completed": 1, "tasks": 1},
        "kills": 3,
        "resumes": 3,
        "checkpoint_bytes": {"median": 142, "largest": 300},
    },
    "times": {
        "step_seconds": {"median": 0.02, "p95": 0.04},
        "wake_late_seconds": {"median": 0.25, "p95": 0.5},
        "recovery_seconds": 1.5,
        "seconds": 300.0,
        "cpu_seconds": 500.0,
    },
}


def test_the_picture_has_two_bars_for_each_memory() -> None:
    drawn = ET.fromstring(draw_plot(REPORT))  # noqa: S314 - our own

    words = [each.text for each in drawn.iter(f"{SVG}text")]
    assert [each for each in words if each and " doubled in " in each] == [
        *("100%, 0 doubled in 12 tasks", "100%, 0 doubled in 12 tasks"),
        *("50%, 1,200 doubled in 12 tasks", "75%, 3 doubled in 12 tasks"),
    ]
    bars = [each.get("width") for each in drawn.iter(f"{SVG}rect")][2:]
    assert bars == ["260", "260", "260", "260", "260", "130", "260", "195"]


def test_a_stored_report_is_shown_without_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_run, "run_bench", None)
    stored, plot = tmp_path / "stored.json", tmp_path / "plot.svg"
    stored.write_text(json.dumps(REPORT))

    done = CliRunner().invoke(command, ["--from", str(stored), "--plot", str(plot)])

    assert done.exit_code == 0, done.output
    assert plot.read_text() == draw_plot(REPORT)
    assert (
        "packet/sloppy     12            300    25.0%         100.0%              -  1.25    4.2"
        in done.output
    )
    assert (
        "Of 8 agents that fell silent 8 were woken, 0.2 s late (median), 1 of them too "
        "often. 24 others needed no wake, and got 2.\n"
    ) in done.output
    assert (
        "after a daemon's death: 1.5 s; the whole run: 500 s on a processor, 300 s in all."
        in done.output
    )


def test_of_a_row_that_one_part_lacks_the_other_is_drawn() -> None:
    rows = {name: figures(1, 0) for name in ("packet", "notes")}
    bars = [
        draw_plot({**REPORT, "conditions": rows, "few_kills": few}).count(" doubled in ")
        for few in (rows, {"packet": figures(1, 0)})
    ]
    assert bars == [4, 3]


TIMES = REPORT["times"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "null", '"gateway"', "5", "\xff", "[" * 100_000),
        json.dumps(REPORT)[:-1],
        *(
            json.dumps(REPORT | part)
            for part in (
                {"times": None},
                {"times": TIMES | {"seconds": None}},
                {"times": TIMES | {"seconds": float("nan")}},
                {"times": TIMES | {"seconds": 10**400}},
                {"few_kills": {"packet": figures(1e308, 0)}},
                {"few_kills": {"packet": figures(1, 10**400)}},
                {"gateway": {}},
            )
        ),
    ],
    ids=lambda text: text[-12:],
)
def test_a_file_that_is_no_report_is_refused(text: str, tmp_path: Path) -> None:
    stored = tmp_path / "stored.json"
    stored.write_bytes(text.encode("latin-1"))

    done = CliRunner().invoke(command, ["--from", str(stored)])

    assert done.exit_code == 1
    assert done.output == (
        f"Error: {stored} is not a result of `taskmem bench`; make one with "
        "`taskmem bench --json > FILE`.\n"
    )

"""`taskmem bench --gateway`: what it needs, and which tasks it takes; it is run in tests/e2e."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from taskmem_resumebench.bench_command import command
from taskmem_resumebench.bench_run import QUICK_SIZE, WHOLE_SIZE, GatewaySize, choose_tasks
from taskmem_resumebench.report import format_report
from taskmem_resumebench.tasks import generate_tasks


def test_without_openclaw_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", {"git": "/usr/bin/git"}.get)

    done = CliRunner().invoke(command, ["--gateway"])

    assert done.exit_code == 1
    assert done.output.startswith("Error: --gateway needs OpenClaw: run `npm install -g openclaw`")
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize("option", ["--memory", "--model", "--plot"])
def test_a_gateway_goes_with_no_other_memory_or_agent(option: str) -> None:
    done = CliRunner().invoke(command, ["--gateway", option, "x"])

    assert done.exit_code == 2
    assert "goes with none of" in done.output


def test_a_gateways_report_has_no_picture(tmp_path: Path) -> None:
    report, picture = tmp_path / "report.json", tmp_path / "picture.svg"
    report.write_text(json.dumps({"gateway": {}, "times": {"seconds": 2, "cpu_seconds": 1}}))

    done = CliRunner().invoke(command, ["--from", str(report), "--plot", str(picture)])

    assert done.exit_code == 2
    assert "no picture of a run with --gateway" in done.output
    assert not picture.exists()


@pytest.mark.parametrize("size", [GatewaySize(), QUICK_SIZE])
def test_its_tasks_are_the_first_short_ones_of_all(size: GatewaySize) -> None:
    every = generate_tasks(1, WHOLE_SIZE.tasks)
    chosen = choose_tasks(1, size)

    assert len(chosen) == size.tasks
    short = [each for each in every if len(each.plan) <= size.most_steps]
    assert [*chosen] == short[: size.tasks]


def test_its_report_is_one_table_without_false_wakes() -> None:
    shares = dict.fromkeys(("success", "step_accuracy", "resume_rate", "redo_ratio"), 1.0)
    counts = {"tasks": 3, "interruptions": 9, "duplicated_effects": 0, "revived_steps": 0}
    figures = {**shares, **counts, "looks": 1.5, "false_wakes": None, "packet_bytes": 900.0}
    times = {"seconds": 600.0, "cpu_seconds": 300.0}

    report = {"seed": 1, "gateway": {"packet": figures}, "times": times}
    assert format_report(report).splitlines()[2].split() == [
        *("packet", "3", "9", "100.0%", "100.0%", "100.0%", "1.00", "1.5", "0", "0", "-", "900"),
    ]
    assert "300 s on a processor, 600 s in all." in format_report(report)

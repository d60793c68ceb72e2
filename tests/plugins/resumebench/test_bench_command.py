"""`taskmem bench` on a real daemon: its report has the fixed shape, and the goals are met."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from taskmem_resumebench import bench_run
from taskmem_resumebench.bench_command import command
from taskmem_resumebench.report_table import format_report

FIGURES = {
    *("success", "step_accuracy", "resume_rate", "redo_ratio", "duplicated_effects"),
    *("revived_steps", "false_wakes", "recovery_seconds", "packet_bytes"),
}
TINY = bench_run.Size(tasks=1, baseline=1, others=0, goals=1, daemon_kills=12, most_steps=6)


@pytest.mark.crash
@pytest.mark.timeout(600)
def test_the_packet_suffices_for_an_agent_killed_at_every_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench_run, "QUICK", TINY)

    done = CliRunner().invoke(command, ["--quick", "--seed", "1", "--json"])

    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report.keys() == {"seed", "conditions", "s3"}
    conditions = report["conditions"]
    assert {*conditions} == {"nothing", "packet", "packet_and_thread", "notes"}
    assert all({*found} == FIGURES for found in conditions.values())
    for name in ("packet", "packet_and_thread"):
        found = conditions[name]
        assert (found["success"], found["resume_rate"], found["redo_ratio"]) == (1, 1, 1)
        assert (found["duplicated_effects"], found["revived_steps"]) == (0, 0)
        assert found["recovery_seconds"] > 0
        assert 0 < found["packet_bytes"] <= 4096 + len("[task_resume] ")
    assert conditions["nothing"]["success"] == 0
    assert conditions["notes"]["redo_ratio"] > 1
    s3 = report["s3"]
    assert s3["five_steps"]["completion_rate"] == s3["ten_steps"]["completion_rate"] == 1
    assert (s3["kills"], s3["resumes"]) == (3, 3)
    assert s3["metrics"]["completed"] == s3["metrics"]["tasks"] == 3
    rows = [line.split()[:5] for line in format_report(report).splitlines()]
    assert ["packet", "100.0%", "100.0%", "100.0%", "1.00"] in rows

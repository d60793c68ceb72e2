"""`taskmem bench` on real daemons: its report has the fixed shape, and the goals are met."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

from taskmem_resumebench import bench_run
from taskmem_resumebench.bench_command import command
from taskmem_resumebench.memories import EXAMPLE, CommandFailed
from taskmem_resumebench.report import format_report
from taskmem_resumebench.tasks import GeneratedTask
from taskmem_resumebench.trials import BenchCondition, Outcome, Trial
from taskmem_resumebench.wake_sample import AGENTS_OF_A_KIND
from taskmem_resumebench.workspace import Judgement

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

FIGURES = {
    *("tasks", "interruptions", "success", "step_accuracy", "resume_rate", "redo_ratio"),
    *("duplicated_effects", "revived_steps", "false_wakes", "daemon_kills", "packet_bytes"),
    "looks",
}
TINY = bench_run.Size(
    tasks=1, baseline=1, others=0, few_kills=1, goals=1, daemon_kills=12, most_steps=6
)
MEMORIES = {
    *("nothing", "notes", "notes_before_and_after", "openclaw_recovery"),
    *("packet", "packet_and_thread"),
}


def run_command(*arguments: str) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench_run, "QUICK_SIZE", TINY)
        return CliRunner().invoke(command, ["--quick", "--seed", "1", *arguments])


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return read_report(run_command("--json"))


def read_report(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_packet_suffices_for_an_agent_killed_at_every_step(report: dict[str, Any]) -> None:
    assert report.keys() == {*("seed", "conditions", "few_kills", "wakes", "s3", "times")}
    conditions = report["conditions"]
    assert {*conditions} == {*report["few_kills"]} == MEMORIES
    assert all({*found} == FIGURES for found in conditions.values())
    for name in ("packet", "packet_and_thread"):
        found = conditions[name]
        assert (found["success"], found["resume_rate"], found["redo_ratio"]) == (1, 1, 1)
        assert (found["duplicated_effects"], found["revived_steps"]) == (0, 0)
        assert found["daemon_kills"] > 0
        assert 0 < found["packet_bytes"] <= 4096 + len("[task_resume] ")
        assert found["false_wakes"] == 0
    assert conditions["notes"]["false_wakes"] is None
    assert conditions["nothing"]["success"] == 0
    assert conditions["notes"]["redo_ratio"] > 1
    assert conditions["notes_before_and_after"]["redo_ratio"] == 1
    s3 = report["s3"]
    assert s3["five_steps"]["completion_rate"] == s3["ten_steps"]["completion_rate"] == 1
    assert (s3["kills"], s3["resumes"]) == (3, 3)
    assert s3["metrics"]["completed"] == s3["metrics"]["tasks"] == 3
    assert report["times"]["recovery_seconds"] > 0


def test_only_who_is_silent_is_woken_and_once(report: dict[str, Any]) -> None:
    wakes = {
        "due": AGENTS_OF_A_KIND,
        "came": AGENTS_OF_A_KIND,
        "doubled": 0,
        "false": 0,
        "others": 3 * AGENTS_OF_A_KIND,
    }
    assert report["wakes"] == wakes
    assert report["times"]["wake_late_seconds"]["median"] > -1


def test_the_table_shows_each_memory(report: dict[str, Any]) -> None:
    rows = [line.split() for line in format_report(report).splitlines()]

    kills = f"{report['conditions']['packet']['interruptions']}"
    assert ["packet", "1", kills, "100.0%", "100.0%", "100.0%", "1.00"] in [row[:7] for row in rows]


def test_a_seed_gives_the_same_figures_and_a_program_its_own(report: dict[str, Any]) -> None:
    again = read_report(run_command("--json", "--memory", shlex.join(EXAMPLE)))

    for part in ("conditions", "few_kills"):
        assert again[part].pop("memory") == again[part]["notes_before_and_after"]
    assert again | {"times": 0} == report | {"times": 0}


def test_a_broken_program_is_found_before_anything_is_run() -> None:
    done = run_command("--memory", shlex.join((sys.executable, "-c", "")))

    assert (done.exit_code, done.output) == (1, f"Error: {sys.executable} has ended.\n")


def test_a_program_that_breaks_later_costs_no_other_row(
    report: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {**report, "broken_memories": {"memory": "mine has ended."}}
    monkeypatch.setattr(bench_run, "run_bench", lambda *_: broken)

    done = run_command()

    assert done.exit_code == 1
    assert format_report(report).split("\n\n")[0] in done.stdout
    assert "\nmemory has no row: mine has ended.\n" in done.stdout
    assert done.stderr == "Error: mine has ended.\n"


class Runner:
    """Runs nothing; a memory of that name is broken, others give the task's outcome."""

    def run_trial(self, condition: BenchCondition, task: GeneratedTask) -> Trial:
        if condition.memory == "memory":
            raise CommandFailed(f"It ended at {task.name}.")
        return Trial(an_outcome(fault="missing: Pay amber-2"), ())


def an_outcome(fault: str = "", *, accepted: bool = True) -> Outcome:
    right = 0 if fault else 1
    judged = Judgement(1, right, missing=0, duplicated=0, revived=0, performed=1, fault=fault)
    return Outcome(judged, accepted, 1, 1, 0, (), (), 0.0)


def test_a_memory_that_breaks_is_given_up_for_itself_alone(task: GeneratedTask) -> None:
    yours, notes = BenchCondition("memory"), BenchCondition("notes")
    work = [(yours, task), (notes, task), (yours, task._replace(name="Job 2"))]

    trials, broken = bench_run.run_all([Runner()], work, lambda _: None)

    assert [*trials] == [notes]
    assert broken == {"memory": f"It ended at {task.name}."}


def test_each_failed_task_of_a_memory_is_told_with_its_fault(task: GeneratedTask) -> None:
    outcomes = (an_outcome(), an_outcome("doubled: Pay amber-2"), an_outcome(accepted=False))
    tasks = [task._replace(name=f"Job {number}") for number in range(3)]

    assert bench_run.describe_failures(
        BenchCondition("memory"), tasks, [Trial(each, ()) for each in outcomes]
    ) == [
        "Job 1, memory: doubled: Pay amber-2",
        "Job 2, memory: all is there, but it was not ended, or its end not believed",
    ]


def test_the_table_lists_ten_failed_tasks_of_a_memory(report: dict[str, Any]) -> None:
    table = format_report({**report, "memory_failures": [f"Job {n}: …" for n in range(12)]})

    assert "\nTasks that failed:\nJob 0: …\n" in table
    assert "\nJob 9: …\nAnd 2 more.\n\n" in table

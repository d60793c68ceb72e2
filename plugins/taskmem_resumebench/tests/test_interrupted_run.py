"""What agents make of their interruptions, without a daemon, and what counts as resumed right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskmem_resumebench.agents import AGENTS, write_notes
from taskmem_resumebench.bench_run import MODEL, WHOLE, plan_conditions, plan_few_kills
from taskmem_resumebench.figures import compute_figures
from taskmem_resumebench.generated_task import GeneratedTask
from taskmem_resumebench.interrupted_run import InterruptedRun, KillPlan, Outcome
from taskmem_resumebench.loopback_server import LoopbackServer
from taskmem_resumebench.memories import Memory, Notes, Nothing
from taskmem_resumebench.openclaw_recovery import OpenClawRecovery
from taskmem_resumebench.step_goals import describe_goals
from taskmem_resumebench.workspace import Workspace

Run = Callable[[Memory, str], Outcome]


class AllDone(Nothing):
    """Says after each interruption that all is done."""

    def resume(self) -> str:
        return write_notes(("Pay amber-1",), frozenset(), over=True)


class Doubting(Notes):
    """Believes nobody that all is done."""

    def claim_end(self) -> bool:
        return False


@pytest.fixture
def run(tmp_path: Path, task: GeneratedTask) -> Iterator[Run]:
    """Let an agent with a memory do the task, killed at every step."""
    with LoopbackServer() as server:

        def run_task(memory: Memory, agent: str) -> Outcome:
            workspace = Workspace(tmp_path / agent, server)
            kills = KillPlan()
            return InterruptedRun(
                *(task, AGENTS[agent], memory, workspace),
                interrupt=lambda _: memory.resume(),
                kills=kills,
            ).run()

        yield run_task


def test_notes_suffice_for_an_agent_that_looks_first(run: Run, tmp_path: Path) -> None:
    careful = run(Notes(tmp_path / "careful.md"), "careful")
    hasty = run(Notes(tmp_path / "hasty.md"), "amnesiac")

    assert careful.success
    assert careful.judgement.performed == careful.judgement.needed
    assert careful.resumed == careful.interruptions == 3 * careful.judgement.needed
    assert careful.looks >= careful.interruptions - 1
    assert (hasty.success, hasty.looks) == (False, 0)
    assert hasty.resumed < hasty.interruptions


def test_an_agent_that_stops_for_good_has_not_resumed(run: Run) -> None:
    outcome = run(AllDone(), "amnesiac")

    assert (outcome.interruptions, outcome.resumed) == (1, 0)
    assert outcome.judgement.missing > 0


def test_a_task_whose_end_is_not_believed_is_no_success(run: Run, tmp_path: Path) -> None:
    outcome = run(Doubting(tmp_path / "notes.md"), "careful")

    figures = compute_figures([outcome], None, 0)
    assert (outcome.judgement.exact, outcome.accepted) == (True, False)
    assert (figures.success, figures.step_accuracy, figures.resume_rate) == (0, 1, 1)
    assert describe_goals([outcome], [outcome], outcome, [1])["resumes"] == 0


@pytest.mark.parametrize("memory", [OpenClawRecovery(), Nothing()], ids=["OpenClaw", "nothing"])
def test_the_user_says_again_what_a_new_session_lacks(
    memory: Memory, run: Run, task: GeneratedTask
) -> None:
    assert task.revision is not None

    assert run(memory, "amnesiac").judgement.revived == 0


def test_a_transcript_suffices_for_an_agent_that_looks_first(run: Run) -> None:
    outcome = run(OpenClawRecovery(), "careful")

    assert outcome.success
    assert outcome.resumed == outcome.interruptions


def test_agents_that_look_first_are_measured_by_scripts_alone() -> None:
    counts = {each.name: count for each, count in plan_conditions(WHOLE)}
    few = {each.name for each, _ in plan_few_kills(WHOLE)}

    for name, tasks in (
        ("notes/careful", WHOLE.tasks),
        ("openclaw_recovery/careful", WHOLE.baseline),
    ):
        assert counts[name] == tasks
        assert name in few
    assert not any("careful" in each.name for each, _ in plan_conditions(MODEL))


def test_only_the_packet_has_a_daemon_that_may_wake() -> None:
    with_daemon = {each.memory for each, _ in plan_conditions(WHOLE, ("mine",)) if each.has_daemon}

    assert with_daemon == {"packet", "packet_and_thread"}

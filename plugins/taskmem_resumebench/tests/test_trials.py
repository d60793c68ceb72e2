"""Agents are killed where they are to be, and wakes that nobody needs are counted as false."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from taskmem_resumebench.agents import AGENTS, write_notes
from taskmem_resumebench.bench_run import MODEL_SIZE, WHOLE_SIZE, plan_conditions, plan_few_kills
from taskmem_resumebench.memories import Memory, Notes, Nothing, OpenClawRecovery
from taskmem_resumebench.report import compute_figures, describe_goals
from taskmem_resumebench.servers import NAME, LoopbackServer, WakeReceiver
from taskmem_resumebench.tasks import GeneratedTask
from taskmem_resumebench.trials import BenchCondition, InterruptedRun, KillPlan, Lane, Outcome
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
    counts = {each.name: count for each, count in plan_conditions(WHOLE_SIZE)}
    few = {each.name for each, _ in plan_few_kills(WHOLE_SIZE)}

    for name, tasks in (
        ("notes/careful", WHOLE_SIZE.tasks),
        ("openclaw_recovery/careful", WHOLE_SIZE.baseline),
    ):
        assert counts[name] == tasks
        assert name in few
    assert not any("careful" in each.name for each, _ in plan_conditions(MODEL_SIZE))


def test_only_the_packet_has_a_daemon_that_may_wake() -> None:
    with_daemon = {
        each.memory for each, _ in plan_conditions(WHOLE_SIZE, ("mine",)) if each.has_daemon
    }

    assert with_daemon == {"packet", "packet_and_thread"}


SESSION = "agent:main:t00001"


def send(ask: str, note_wake: Callable[[str], None]) -> object:
    with (
        tempfile.TemporaryDirectory(prefix="tm") as folder,
        WakeReceiver(Path(folder), note_wake),
        socket.socket(socket.AF_UNIX) as link,
        link.makefile("rb") as lines,
    ):
        link.connect(str(Path(folder) / NAME))
        link.sendall(json.dumps({"ask": ask, "session_key": SESSION}).encode() + b"\n")
        return json.loads(lines.readline())


def test_a_wake_is_taken_and_nothing_else_is_one() -> None:
    woken: list[str] = []

    assert send("wake", woken.append) == {"turn": "ordinary"}
    assert send("say", woken.append) == {}
    assert woken == [SESSION]


@pytest.mark.parametrize(
    ("at_work", "over", "false"), [("", (), False), (SESSION, (), True), ("", (SESSION,), True)]
)
def test_a_wake_that_nobody_needs_is_false(
    at_work: str, over: tuple[str, ...], false: bool
) -> None:
    lane = Lane(Path(), Mock(), Mock())
    packet = BenchCondition("packet")
    lane._at_work, lane._over, lane._conditions = at_work, {*over}, {SESSION: packet}

    lane.note_wake(SESSION)
    lane.note_wake("agent:main:t00002")

    assert lane.false_wakes == ({packet: 1} if false else {})

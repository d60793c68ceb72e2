"""Run the benchmark: every condition with the same tasks, on a real daemon."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import JsonValue

from taskmem_resumebench.agents import AGENTS, Habits
from taskmem_resumebench.daemon_process import DaemonProcess
from taskmem_resumebench.figures import ConditionRun, Figures, build_report, compute_figures
from taskmem_resumebench.gateway_link import GatewayLink
from taskmem_resumebench.generated_task import FEWEST, MOST, GeneratedTask, generate_tasks
from taskmem_resumebench.interrupted_run import InterruptedRun, Outcome
from taskmem_resumebench.loopback_server import LoopbackServer
from taskmem_resumebench.memories import Memory, Notes, Nothing, Packet, PacketAndThread
from taskmem_resumebench.step_goals import describe_goals, read_checkpoint_sizes
from taskmem_resumebench.wake_receiver import WakeReceiver
from taskmem_resumebench.workspace import Workspace


class Size(NamedTuple):
    """How much is run; the tasks of each are the first of the same tasks."""

    tasks: int
    """Tasks of the agent that has the packet, and of the one that has a notes file."""
    baseline: int
    """Tasks of the two other conditions."""
    others: int
    """Tasks of each other agent."""
    goals: int
    """Tasks of five steps, and of ten."""
    daemon_kills: int
    """One in so many interruptions kills the daemon, too."""
    most_steps: int = MOST
    """Steps of a task, at most."""


WHOLE: Final = Size(tasks=100, baseline=12, others=5, goals=20, daemon_kills=150)
QUICK: Final = Size(tasks=4, baseline=1, others=1, goals=2, daemon_kills=60, most_steps=10)
THREE_KILLS: Final = 3


class Bench:
    """A daemon, a server and a folder, in which conditions are run one after another."""

    def __init__(self, folder: Path, server: LoopbackServer, daemon: DaemonProcess) -> None:
        """Use what is there already."""
        self._folder, self._server, self._daemon = folder, server, daemon
        self._count = self._interruptions = self._false_wakes = 0
        self._at_work = ""
        """The session in which a turn runs; empty: none."""
        self._over: set[str] = set()
        """Sessions whose task is over."""
        self._daemon_kills = WHOLE.daemon_kills
        self._recoveries: list[float] = []

    def note_wake(self, session: str) -> None:
        """Count a wake if its agent is at work, or has no work any more."""
        self._false_wakes += session == self._at_work or session in self._over

    def run_condition(
        self, condition: str, agent: str, tasks: Sequence[GeneratedTask], daemon_kills: int
    ) -> ConditionRun:
        """Let one kind of agent do some tasks with one kind of memory."""
        self._daemon_kills, self._recoveries, self._false_wakes = daemon_kills, [], 0
        outcomes = [self.run_task(condition, AGENTS[agent], task) for task in tasks]
        return ConditionRun(outcomes, tuple(self._recoveries), self._false_wakes)

    def run_task(
        self,
        condition: str,
        habits: Habits,
        task: GeneratedTask,
        most_kills: int | None = None,
    ) -> Outcome:
        """Let an agent do a task in a workspace of its own; `most_kills`: None is no limit."""
        self._count += 1
        folder = self._folder / f"t{self._count:05}"
        workspace = Workspace(folder, self._server)
        with self._open_memory(condition, folder) as memory:

            def interrupt() -> str:
                self._interruptions += 1
                self._at_work = ""
                memory.crash()
                if not isinstance(memory, Packet) or self._interruptions % self._daemon_kills:
                    return memory.resume()
                self._daemon.kill()
                began = time.perf_counter()
                self._daemon.start()
                text = memory.resume()
                self._recoveries.append(time.perf_counter() - began)
                return text

            run = InterruptedRun(task, habits, memory, workspace, interrupt, most_kills=most_kills)
            outcome = run.run()
            self._at_work = ""
            if outcome.accepted:
                self._over.add(_name_session(folder))
        shutil.rmtree(folder)
        return outcome

    @contextmanager
    def _open_memory(self, condition: str, folder: Path) -> Generator[Memory]:
        if condition == "nothing":
            yield Nothing()
        elif condition == "notes":
            yield Notes(folder / "NOTES.md")
        else:
            kind = PacketAndThread if condition == "packet_and_thread" else Packet
            memory = kind(self._make_gateway_opener(folder), folder)
            try:
                yield memory
            finally:
                memory.close()

    def _make_gateway_opener(self, folder: Path) -> Callable[[], GatewayLink]:
        session = _name_session(folder)
        starts = iter(range(1_000_000))

        def open_gateway() -> GatewayLink:
            boot = f"{folder.name}-{next(starts):06}"
            link = GatewayLink(self._daemon, boot, session, folder)
            self._at_work = session
            return link

        return open_gateway


def _name_session(folder: Path) -> str:
    return f"agent:main:{folder.name}"


def run_bench(seed: int, size: Size, tell: Callable[[str], None]) -> dict[str, JsonValue]:
    """Run everything and return the report; `tell` is told of each part as it begins."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tm")))
        work, home = root / "w", root / "h"
        work.mkdir()
        server = stack.enter_context(LoopbackServer())
        daemon = stack.enter_context(DaemonProcess(home, work))
        bench = Bench(work, server, daemon)
        stack.enter_context(WakeReceiver(home, bench.note_wake))
        tell(f"S3: {size.goals} tasks of 5 steps, and of 10; one task killed three times")
        s3 = _run_goals(bench, seed, size.goals, home / "taskmem.db")
        tasks = generate_tasks(seed, size.tasks, range(FEWEST, size.most_steps + 1))
        found: dict[str, Figures] = {}
        for condition, agent, count in plan_conditions(size):
            name = condition if agent == "amnesiac" else f"{condition}/{agent}"
            tell(f"{name}: {count} tasks")
            run = bench.run_condition(condition, agent, tasks[:count], size.daemon_kills)
            found[name] = compute_figures(run)
        return build_report(seed, found, s3)


def plan_conditions(size: Size) -> Sequence[tuple[str, str, int]]:
    """Return what is run: the condition, the agent, and how many tasks."""
    others = [agent for agent in AGENTS if agent != "amnesiac"] if size.others else []
    return (
        ("nothing", "amnesiac", size.baseline),
        ("packet", "amnesiac", size.tasks),
        ("packet_and_thread", "amnesiac", size.baseline),
        ("notes", "amnesiac", size.tasks),
        *(("packet", agent, size.others) for agent in others),
        *(("notes", agent, size.others) for agent in others),
    )


def _run_goals(bench: Bench, seed: int, count: int, database: Path) -> dict[str, JsonValue]:
    """Run S3's tasks, each killed once, and one that is killed three times."""

    def run(tasks: Sequence[GeneratedTask], most_kills: int) -> list[Outcome]:
        return [bench.run_task("packet", AGENTS["amnesiac"], each, most_kills) for each in tasks]

    five = run(generate_tasks(seed, count, [5], revises=False), 1)
    ten = run(generate_tasks(seed, count, [10], revises=False), 1)
    (killed,) = run(generate_tasks(seed, 1, [8], revises=False), THREE_KILLS)
    return describe_goals(five, ten, killed, read_checkpoint_sizes(database))

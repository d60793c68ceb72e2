"""One lane of the benchmark: a daemon, a server and a folder, in which trials run in turn.

Lanes share nothing, so several may run side by side. What becomes of a trial depends on the trial
alone, not on its lane or on what ran before.
"""

from __future__ import annotations

import shutil
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from taskmem_resumebench.agents import AGENTS
from taskmem_resumebench.command_memory import CommandMemory
from taskmem_resumebench.daemon_process import DaemonProcess
from taskmem_resumebench.gateway_agent import GatewayAgent
from taskmem_resumebench.gateway_link import GatewayLink
from taskmem_resumebench.gateway_process import GatewayProcess
from taskmem_resumebench.generated_task import GeneratedTask
from taskmem_resumebench.interrupted_run import InterruptedRun, KillPlan, Mind, Outcome
from taskmem_resumebench.loopback_server import LoopbackServer
from taskmem_resumebench.memories import Memory, Notes, Nothing, Packet, PacketAndThread
from taskmem_resumebench.openclaw_recovery import OpenClawRecovery
from taskmem_resumebench.wake_receiver import WakeReceiver
from taskmem_resumebench.workspace import Workspace

NEVER: Final = 10**9
PACKETS: Final = {"packet": Packet, "packet_and_thread": PacketAndThread}
"""The memories that are Task memory's."""


class BenchCondition(NamedTuple):
    """A memory, the agent that has it, and when it is interrupted."""

    memory: str
    agent: str = "amnesiac"
    kills: KillPlan = KillPlan()
    daemon_kills: int = NEVER
    """One in so many interruptions kills the daemon, too."""
    command: tuple[str, ...] = ()
    """The program, where the memory is one."""

    @property
    def name(self) -> str:
        """The memory, and the agent unless it is the amnesiac."""
        return self.memory if self.agent == "amnesiac" else f"{self.memory}/{self.agent}"

    @property
    def has_daemon(self) -> bool:
        """Whether a daemon has to do with it, and so might wake its agent."""
        return self.memory in PACKETS

    @property
    def title(self) -> str:
        """What is told while it runs."""
        most = self.kills.most
        return self.name if most is None else f"{self.name}, at most {most} kills a task"


class Trial(NamedTuple):
    """One task under one condition, and what came out."""

    outcome: Outcome
    recovery_seconds: tuple[float, ...]
    """From the start of each daemon that was killed to what its agent is told."""


class Lane:
    """Runs trials in turn, and counts the wakes that come meanwhile and are needed by nobody."""

    def __init__(self, folder: Path, server: LoopbackServer, daemon: DaemonProcess) -> None:
        """Set the folder, the server and the daemon that the trials use."""
        self.make_mind: Callable[[GeneratedTask], Mind] | None = None
        """Makes what decides for agents; None: the scripts do."""
        self.gateway: GatewayProcess | None = None
        """The real gateway in which agents work; None: what one would say is said instead."""
        self._folder, self._server, self._daemon = folder, server, daemon
        self._count = 0
        self._conditions: dict[str, BenchCondition] = {}
        """Under which condition a session's task was done."""
        self._at_work = ""
        """The session in which a turn runs; empty: none."""
        self._over: set[str] = set()
        """Sessions whose task is over."""
        self.false_wakes: Counter[BenchCondition] = Counter()

    def note_wake(self, session: str) -> None:
        """Count a wake if its agent is at work, or has no work any more."""
        if session == self._at_work or session in self._over:
            self.false_wakes[self._conditions[session]] += 1

    def run_trial(self, condition: BenchCondition, task: GeneratedTask) -> Trial:
        """Let an agent do a task in a workspace of its own."""
        self._count += 1
        folder = self._folder / f"t{self._count:05}"
        session = _name_session(folder)
        self._conditions[session] = condition
        recoveries: list[float] = []
        with self._open_memory(condition, folder) as memory:

            def interrupt(count: int) -> str:
                self._at_work = ""
                memory.crash()
                if not isinstance(memory, Packet) or not _is_one_in(
                    condition.daemon_kills, f"{task.name} {count}"
                ):
                    return memory.resume()
                self._daemon.kill()
                began = time.perf_counter()
                self._daemon.start()
                text = memory.resume()
                recoveries.append(time.perf_counter() - began)
                return text

            run = InterruptedRun(
                task,
                AGENTS[condition.agent],
                memory,
                Workspace(folder, self._server),
                interrupt=interrupt,
                kills=condition.kills,
                mind=self.make_mind(task) if self.make_mind else None,
            )
            outcome = run.run()
            self._at_work = ""
            if outcome.accepted:
                self._over.add(session)
        shutil.rmtree(folder)
        return Trial(outcome, tuple(recoveries))

    @contextmanager
    def _open_memory(self, condition: BenchCondition, folder: Path) -> Generator[Memory]:
        folder.mkdir()
        match condition.memory:
            case "nothing":
                yield Nothing()
            case "notes":
                yield Notes(folder / "NOTES.md")
            case "openclaw_recovery":
                yield OpenClawRecovery()
            case name if name in PACKETS:
                memory = PACKETS[name](self._make_gateway_opener(folder), folder)
                try:
                    yield memory
                finally:
                    memory.close()
            case _:
                with CommandMemory(condition.command, folder) as command:
                    yield command

    def _make_gateway_opener(self, folder: Path) -> Callable[[], GatewayLink | GatewayAgent]:
        session = _name_session(folder)
        starts = iter(range(1_000_000))

        def open_gateway() -> GatewayLink | GatewayAgent:
            if self.gateway is not None:
                return GatewayAgent(self.gateway, session, folder)
            boot = f"{folder.name}-{next(starts):06}"
            link = GatewayLink(self._daemon, boot, session, folder)
            self._at_work = session
            return link

        return open_gateway


@contextmanager
def open_lane(root: Path) -> Generator[tuple[Lane, Path]]:
    """Open a lane in a folder; yields it, and its daemon's database."""
    work, home = root / "w", root / "h"
    work.mkdir(parents=True)
    with LoopbackServer() as server, DaemonProcess(home, work) as daemon:
        lane = Lane(work, server, daemon)
        with WakeReceiver(home, lane.note_wake):
            yield lane, home / "taskmem.db"


def _name_session(folder: Path) -> str:
    return f"agent:main:{folder.name}"


def _is_one_in(many: int, what: str) -> bool:
    """Whether something, by its name, is one of so many."""
    return zlib.crc32(what.encode()) % many == 0

"""Let agents do tasks, one after the other, and kill them at three moments of each step.

Lanes share nothing, so several may run side by side. What becomes of a trial depends on the trial
alone, not on its lane or on what ran before.
"""

from __future__ import annotations

import shutil
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from taskmem_resumebench.agents import (
    AGENTS,
    Decision,
    Deed,
    Habits,
    Knowledge,
    decide,
    read_memory,
)
from taskmem_resumebench.daemon import DaemonProcess, GatewayLink
from taskmem_resumebench.memories import (
    CommandMemory,
    Memory,
    Notes,
    Nothing,
    OpenClawRecovery,
    Packet,
    PacketAndThread,
)
from taskmem_resumebench.openclaw_gateway import GatewayAgent, GatewayProcess
from taskmem_resumebench.servers import LoopbackServer, WakeReceiver
from taskmem_resumebench.tasks import Call, GeneratedTask, Kind
from taskmem_resumebench.workspace import Judgement, Workspace, judge_workspace

_MOST_CALLS: Final = 3000
"""Calls after which an agent that gets nowhere is given up."""
_NO_DAEMON_KILLS: Final = 10**9
PACKETS: Final = {"packet": Packet, "packet_and_thread": PacketAndThread}
"""The memories that are Task memory's."""


class _KillMoment(StrEnum):
    """The moments at which an agent may be killed, three of them for each step."""

    BEFORE_EFFECT = "inside the call, before its effect"
    AFTER_EFFECT = "inside the call, after its effect"
    AFTER_CALL = "after the call, before its report"
    AFTER_REPORT = "after the report"


class KillPlan(NamedTuple):
    """At which of the moments of its steps an agent is killed."""

    one_in: int = 1
    """One in so many, by their names; 1: at all."""
    most: int | None = None
    """Kills in one task; None: no limit."""


class Outcome(NamedTuple):
    """Result of one task."""

    judgement: Judgement
    accepted: bool
    """True if the agent ended the task, and its memory believed that."""
    interruptions: int
    resumed: int
    """Interruptions after which no call was made again or revived until the next.

    The last one counts only if every effect is there at the end.
    """
    looks: int
    """How often the agent looked whether a call had its effect."""
    memory_bytes: tuple[int, ...]
    """Bytes that the memory told, at each interruption."""
    step_seconds: tuple[float, ...]
    """From the decision to do a step to its report, of those that were not interrupted."""
    seconds: float

    @property
    def success(self) -> bool:
        """True if the task was ended, and everything is there once and nothing else."""
        return self.accepted and self.judgement.exact


class _Said(NamedTuple):
    """A message of the conversation."""

    done: str = ""
    """The step that it says is done; empty: none."""
    plan: tuple[str, ...] = ()
    """The plan that it brings; empty: none."""


class _Killed(Exception):
    """The agent was killed."""


class Mind(Protocol):
    """Decides for an agent; `_ScriptedMind`, or a model."""

    def wake(self, text: str) -> None:
        """Begin anew, knowing what the memory tells."""
        ...

    def decide(self, known: Knowledge, read_gate: Callable[[], str]) -> Decision | None:
        """Decide what to do next; None: all is done."""
        ...

    def hear_user(self, words: str) -> None:
        """Hear the user."""
        ...

    def hear_result(self, words: str) -> None:
        """Hear what became of the deed that was decided on."""
        ...


class _ScriptedMind:
    """Decides by `decide`, from what is known; it hears nothing besides."""

    def __init__(self, habits: Habits) -> None:
        """Set the agent's habits."""
        self._habits = habits

    def wake(self, text: str) -> None:
        """Ignore what the memory tells, which `decide` is given as `known`."""

    def decide(self, known: Knowledge, read_gate: Callable[[], str]) -> Decision | None:
        """Choose the agent's next deed by its habits, from what it knows."""
        return decide(known, self._habits, read_gate)

    def hear_user(self, words: str) -> None:
        pass

    def hear_result(self, words: str) -> None:
        pass


class InterruptedRun:
    """One agent at one task, with one memory."""

    def __init__(
        self,
        task: GeneratedTask,
        habits: Habits,
        memory: Memory,
        workspace: Workspace,
        *,
        interrupt: Callable[[int], str],
        kills: KillPlan,
        mind: Mind | None = None,
    ) -> None:
        """Prepare it; without a `mind` the agent is a script with its habits.

        `interrupt` crashes the memory, for the time that it is told, and returns what the memory
        tells afterwards.
        """
        self._task, self._habits, self._memory, self._workspace = task, habits, memory, workspace
        self._interrupt, self._kills = interrupt, kills
        self._mind = mind or _ScriptedMind(habits)
        self._killed: set[tuple[str, _KillMoment]] = set()
        self._told = self._lost_answer = self._claimed = self._wrong = False
        self._calls = self._resumed = self._looks = 0
        self._accepted = False
        self._sizes: list[int] = []
        self._step_seconds: list[float] = []
        self._recent: deque[_Said] = deque(maxlen=habits.keeps)

    def run(self) -> Outcome:
        """Do the task to its end, or until the agent gets nowhere."""
        began = time.perf_counter()
        self._memory.begin(self._task)
        known = Knowledge(self._task.plan)
        while True:
            try:
                self._take_turn(known)
                break
            except _Killed:
                known = self._resume()
        judgement = judge_workspace(self._task, self._workspace.made, self._workspace.count_effects)
        ended_well = not judgement.missing and not self._wrong and bool(self._sizes)
        return Outcome(
            judgement=judgement,
            accepted=self._accepted,
            interruptions=len(self._sizes),
            resumed=self._resumed + ended_well,
            looks=self._looks,
            memory_bytes=tuple(self._sizes),
            step_seconds=tuple(self._step_seconds),
            seconds=time.perf_counter() - began,
        )

    def _resume(self) -> Knowledge:
        """Kill the agent, and return what it knows when it begins anew.

        If it is told nothing, the user says again what was said in the middle.
        """
        if self._sizes and not self._wrong:
            self._resumed += 1
        self._wrong = False
        text = self._interrupt(len(self._sizes) + 1)
        self._sizes.append(len(text.encode()))
        self._mind.wake(text)
        self._told = self._told and bool(text)
        known = read_memory(text, self._task.plan, self._memory.read_plan)
        known = known._replace(incomplete=known.incomplete or self._habits.careful)
        return self._recall_conversation(known)

    def _recall_conversation(self, known: Knowledge) -> Knowledge:
        """Add what the newest messages of the conversation say; those before are lost."""
        plan = next((each.plan for each in reversed(self._recent) if each.plan), known.plan)
        reported = [each.done for each in self._recent]
        reached = max((place for place, step in enumerate(plan) if step in reported), default=-1)
        return known._replace(plan=plan, done=known.done | {*plan[: reached + 1]})

    def _take_turn(self, known: Knowledge) -> None:
        """Work until all is done, or the agent is killed."""
        while self._calls < _MOST_CALLS:
            known = self._hear_user(known)
            known = self._claim_early(known)
            decision = self._mind.decide(known, lambda: self._workspace.gate)
            if decision is None:
                self._accepted = known.over or self._memory.claim_end()
                return
            began = time.perf_counter()
            before = known
            self._looks += decision.deed is Deed.LOOK
            match decision.deed:
                case Deed.LOOK if not self._workspace.count_effects(decision.call):
                    known = known.note_absent(decision.call.line)
                    self._mind.hear_result("It is not there.")
                case Deed.PERFORM:
                    known = self._perform(known, decision)
                case _:
                    known = self._report(known, decision)
            if known.done != before.done:
                self._step_seconds.append(time.perf_counter() - began)
                self._recent.append(_Said(done=decision.sentence))
                self._kill_once(decision.sentence, _KillMoment.AFTER_REPORT)

    def _hear_user(self, known: Knowledge) -> Knowledge:
        """Let the user revise the plan, once its time has come."""
        revision = self._task.revision
        if revision is None or self._told or len(self._workspace.made) < revision.after:
            return known
        self._told = True
        self._memory.revise(revision.plan, revision.words)
        self._mind.hear_user(revision.words)
        self._recent.append(_Said(plan=revision.plan))
        return known._replace(plan=revision.plan)

    def _claim_early(self, known: Knowledge) -> Knowledge:
        """Let a liar claim the end in the middle, once."""
        half = 2 * len(known.done) >= len(known.plan)
        if not self._habits.claims_early or self._claimed or not half:
            return known
        self._claimed = True
        return known._replace(over=self._memory.claim_end())

    def _perform(self, known: Knowledge, decision: Decision) -> Knowledge:
        """Make a call, which may be cut at three places, or whose answer may be lost."""
        call, sentence = decision.call, decision.sentence
        self._calls += 1
        self._memory.note_call_start(call)
        self._kill_once(sentence, _KillMoment.BEFORE_EFFECT)
        unknown = self._task.unknown
        failed = call.mark == unknown.mark and not self._lost_answer
        self._lost_answer |= failed
        if not failed or unknown.happens:
            self._wrong |= bool(self._workspace.made[call]) or call not in self._task.needed
            self._workspace.perform(call)
        if self._is_killed_inside_call(sentence):
            self._kill_once(sentence, _KillMoment.AFTER_EFFECT)
        self._memory.note_call_end(call, failed=failed)
        if not self._is_killed_inside_call(sentence):
            self._kill_once(sentence, _KillMoment.AFTER_CALL)
        if failed:
            self._mind.hear_result("No answer came in time: it may or may not have been done.")
            return known.note_failure(call.line)
        return self._report(known, decision)

    def _report(self, known: Knowledge, decision: Decision) -> Knowledge:
        """Note that a step is done, and tell the memory if that is the agent's habit."""
        if self._habits.reports and decision.sentence in known.plan:
            self._memory.report_step(known.find_number(decision.sentence), decision.sentence)
        self._mind.hear_result("Done, and noted.")
        if self._habits.answers_others:
            reply = Call(Kind.REPLY, f"note-{self._calls}")
            self._memory.note_call_start(reply)
            self._memory.note_call_end(reply, failed=False)
        return known.note_done(decision.sentence)

    def _is_killed_inside_call(self, sentence: str) -> bool:
        """Return True if the second kill of a step comes inside its call, False if after it."""
        return zlib.crc32(sentence.encode()) % 2 == 1

    def _kill_once(self, sentence: str, moment: _KillMoment) -> None:
        """Kill the agent there, unless it was before or is not to be."""
        if (sentence, moment) in self._killed or len(self._killed) == self._kills.most:
            return
        name = f"{self._task.name} {sentence} {moment}"
        if zlib.crc32(name.encode()) % self._kills.one_in:
            return
        self._killed.add((sentence, moment))
        raise _Killed


class BenchCondition(NamedTuple):
    """A memory, the agent that has it, and when it is interrupted."""

    memory: str
    agent: str = "amnesiac"
    kills: KillPlan = KillPlan()
    daemon_kills: int = _NO_DAEMON_KILLS
    """One in so many interruptions kills the daemon, too."""
    command: tuple[str, ...] = ()
    """The program, where the memory is one."""

    @property
    def name(self) -> str:
        """The memory, and the agent unless it is the amnesiac."""
        return self.memory if self.agent == "amnesiac" else f"{self.memory}/{self.agent}"

    @property
    def has_daemon(self) -> bool:
        """True if a daemon keeps the memory, and so might wake the agent."""
        return self.memory in PACKETS

    @property
    def title(self) -> str:
        """Words for the user while the trials run."""
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
    """Return True for one in so many names."""
    return zlib.crc32(what.encode()) % many == 0

"""Let an agent do a task, and kill it at three moments of each step."""

from __future__ import annotations

import time
import zlib
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from taskmem_resumebench.agents import (
    Decision,
    Deed,
    Habits,
    Knowledge,
    decide,
    read_memory,
)
from taskmem_resumebench.generated_task import GeneratedTask
from taskmem_resumebench.memories import Memory
from taskmem_resumebench.oracle import Judgement, judge_workspace
from taskmem_resumebench.work_steps import Call, Kind
from taskmem_resumebench.workspace import Workspace

MOST_CALLS: Final = 3000
"""Calls after which an agent that gets nowhere is given up."""


class KillMoment(StrEnum):
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
    """What became of one task."""

    judgement: Judgement
    accepted: bool
    """Whether the agent ended the task, and its memory believed it."""
    interruptions: int
    resumed: int
    """Interruptions after which no call was made again or revived until the next.

    The last one counts only if every effect is there at the end.
    """
    looks: int
    """How often the agent looked whether a call had its effect."""
    memory_bytes: tuple[int, ...]
    """Of what the memory told, at each interruption."""
    step_seconds: tuple[float, ...]
    """From the decision to do a step to its report, of those that were not interrupted."""
    seconds: float

    @property
    def success(self) -> bool:
        """Whether the task was ended, and everything is there once and nothing else."""
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
    """What decides for an agent; `ScriptedMind`, or a model."""

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


class ScriptedMind:
    """Decides by `decide`, from what is known; it hears nothing besides."""

    def __init__(self, habits: Habits) -> None:
        """Set the agent's habits."""
        self._habits = habits

    def wake(self, text: str) -> None:
        """Ignore what the memory tells, which `decide` is given as `known`."""

    def decide(self, known: Knowledge, read_gate: Callable[[], str]) -> Decision | None:
        """Choose the agent's next deed by its habits, from what it knows."""
        return decide(known, self._habits, read_gate)

    def hear_user(self, words: str) -> None:  # noqa: D102
        pass

    def hear_result(self, words: str) -> None:  # noqa: D102
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
        self._mind = mind or ScriptedMind(habits)
        self._killed: set[tuple[str, KillMoment]] = set()
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
        said = [each.done for each in self._recent]
        reached = max((place for place, step in enumerate(plan) if step in said), default=-1)
        return known._replace(plan=plan, done=known.done | {*plan[: reached + 1]})

    def _take_turn(self, known: Knowledge) -> None:
        """Work until all is done, or the agent is killed."""
        while self._calls < MOST_CALLS:
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
                self._kill_once(decision.sentence, KillMoment.AFTER_REPORT)

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
        self._kill_once(sentence, KillMoment.BEFORE_EFFECT)
        unknown = self._task.unknown
        failed = call.mark == unknown.mark and not self._lost_answer
        self._lost_answer |= failed
        if not failed or unknown.happens:
            self._note_if_wrong(call)
            self._workspace.perform(call)
        if self._is_killed_inside_call(sentence):
            self._kill_once(sentence, KillMoment.AFTER_EFFECT)
        self._memory.note_call_end(call, failed=failed)
        if not self._is_killed_inside_call(sentence):
            self._kill_once(sentence, KillMoment.AFTER_CALL)
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

    def _note_if_wrong(self, call: Call) -> None:
        if self._workspace.made[call] or call not in self._task.needed:
            self._wrong = True

    def _is_killed_inside_call(self, sentence: str) -> bool:
        """Return True if the second kill of a step comes inside its call, False if after it."""
        return zlib.crc32(sentence.encode()) % 2 == 1

    def _kill_once(self, sentence: str, moment: KillMoment) -> None:
        """Kill the agent there, unless it was before or is not to be."""
        if (sentence, moment) in self._killed or len(self._killed) == self._kills.most:
            return
        name = f"{self._task.name} {sentence} {moment}"
        if zlib.crc32(name.encode()) % self._kills.one_in:
            return
        self._killed.add((sentence, moment))
        raise _Killed

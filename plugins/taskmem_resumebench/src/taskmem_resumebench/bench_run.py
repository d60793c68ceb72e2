"""Run the benchmark: the same tasks under every condition, on real daemons, several at a time."""

from __future__ import annotations

import resource
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from statistics import median
from typing import Final, NamedTuple, Protocol

from pydantic import JsonValue

from taskmem_program import OWN_PROGRAM
from taskmem_resumebench.agents import AGENTS
from taskmem_resumebench.daemon import DaemonProcess, find_last_line, make_bench_folder
from taskmem_resumebench.memories import EXAMPLE, CommandFailed, try_program
from taskmem_resumebench.openclaw_gateway import GatewayFailed, GatewayProcess
from taskmem_resumebench.report import (
    compute_figures,
    describe_goals,
    describe_times,
    read_checkpoint_sizes,
)
from taskmem_resumebench.servers import LoopbackServer
from taskmem_resumebench.tasks import FEWEST_STEPS, MOST_TASK_STEPS, GeneratedTask, generate_tasks
from taskmem_resumebench.trials import BenchCondition, KillPlan, Lane, Mind, Trial, open_lane
from taskmem_resumebench.wake_sample import AGENTS_OF_A_KIND, measure_wakes

_LANE_COUNT: Final = 3
"""Trials at a time: two cores work, while the disk of another trial writes."""
_MOST_KILLS: Final = 3
"""Interruptions of a task that has few.

Source: docs/origins.md, "A benchmark of resuming".
"""
_GOAL_STEPS: Final = (5, 10)
ONE_KILL: Final = BenchCondition("packet", kills=KillPlan(most=1))
_THREE_KILLS: Final = BenchCondition("packet", kills=KillPlan(most=_MOST_KILLS))
_COMPARED_AGENTS: Final = ("amnesiac", "careful")
"""The agents whose memories are compared: one looks where it is told to, one in any case."""
_USER_MEMORY: Final = "memory"
"""The name of the memory that is a program of the user's."""
Work = tuple[BenchCondition, GeneratedTask]
_SETUP: Final = (*OWN_PROGRAM, "setup", "openclaw")


class Size(NamedTuple):
    """How much is run; the tasks of each are the first of the same tasks."""

    tasks: int
    """Tasks of the amnesiac with the packet, and with each memory that costs little."""
    baseline: int
    """Tasks of the amnesiac with nothing, and with packet and thread."""
    others: int
    """Tasks of each other agent."""
    few_kills: int
    """Tasks with few interruptions, for each memory."""
    goals: int
    """Tasks of five steps, and of ten."""
    daemon_kills: int
    """One in so many interruptions kills the daemon, too."""
    most_steps: int = MOST_TASK_STEPS
    """Steps of a task, at most."""


WHOLE_SIZE: Final = Size(tasks=100, baseline=12, others=5, few_kills=20, goals=20, daemon_kills=150)
QUICK_SIZE: Final = Size(
    tasks=3, baseline=1, others=1, few_kills=2, goals=2, daemon_kills=60, most_steps=8
)
MODEL_SIZE: Final = Size(
    tasks=3, baseline=3, others=0, few_kills=3, goals=1, daemon_kills=60, most_steps=10
)
"""For a language model, of which each step costs money."""


def plan_conditions(
    size: Size, command: Sequence[str] = ()
) -> Sequence[tuple[BenchCondition, int]]:
    """Return what is killed at every step: the condition, and how many tasks."""
    others = [agent for agent in AGENTS if agent not in _COMPARED_AGENTS] if size.others else []
    careful = ("careful",) if size.others else ()
    kills = size.daemon_kills
    yours = ((_USER_MEMORY, size.tasks, tuple(command)),) if command else ()
    return (
        (BenchCondition("packet", daemon_kills=kills), size.tasks),
        (BenchCondition("packet_and_thread", daemon_kills=kills), size.baseline),
        *((BenchCondition("packet", agent, daemon_kills=kills), size.others) for agent in others),
        *((BenchCondition(name, command=each), count) for name, count, each in yours),
        (BenchCondition("notes_before_and_after", command=EXAMPLE), size.tasks),
        (BenchCondition("openclaw_recovery"), size.tasks),
        *((BenchCondition("openclaw_recovery", agent), size.baseline) for agent in careful),
        *((BenchCondition("notes", agent), size.tasks) for agent in ("amnesiac", *careful)),
        *((BenchCondition("notes", agent), size.others) for agent in others),
        (BenchCondition("nothing"), size.baseline),
    )


def plan_few_kills(size: Size, command: Sequence[str] = ()) -> Sequence[tuple[BenchCondition, int]]:
    """Return what is killed three times a task at most: each memory, and how many tasks.

    About one in twelve moments is taken, so that the kills are spread over the task.
    """
    return tuple(
        (each._replace(kills=KillPlan(one_in=12, most=_MOST_KILLS)), size.few_kills)
        for each, _ in plan_conditions(size, command)
        if each.agent in _COMPARED_AGENTS
    )


def run_bench(
    seed: int,
    size: Size,
    tell: Callable[[str], None],
    command: Sequence[str] = (),
    make_mind: Callable[[GeneratedTask], Mind] | None = None,
) -> dict[str, JsonValue]:
    """Run everything and return the report; `tell` is told of each part that is done.

    `command`: a program that is a memory, too; if it fails later, the report has all but its rows.
    `make_mind`: makes what decides for an agent; None: the scripts do.

    Raises:
        CommandFailed: The program failed before the first task.
        DaemonNotServing: A daemon could not be started.
    """
    began, cpu = time.perf_counter(), _read_cpu_seconds()
    with ExitStack() as stack:
        root = stack.enter_context(make_bench_folder())
        tasks = generate_tasks(seed, size.tasks, range(FEWEST_STEPS, size.most_steps + 1))
        if command:
            try_program(command, root / "tried", tasks[0])
        wakes = measure_wakes(root / "wakes")
        tell(f"wakes: {AGENTS_OF_A_KIND} agents of each kind")
        opened = [stack.enter_context(open_lane(root / str(lane))) for lane in range(_LANE_COUNT)]
        lanes = [lane for lane, _ in opened]
        for lane in lanes:
            lane.make_mind = make_mind
        goals, _ = run_all(lanes, _list_goal_work(seed, size.goals), tell)
        sizes = [each for _, database in opened for each in read_checkpoint_sizes(database)]
        whole, few = plan_conditions(size, command), plan_few_kills(size, command)
        work = [(condition, task) for condition, count in (*whole, *few) for task in tasks[:count]]
        trials, broken = run_all(lanes, work, tell)
        false_wakes = {
            each: sum(lane.false_wakes[each] for lane in lanes) if each.has_daemon else None
            for each in trials
        }
    once, (killed,) = (
        [trial.outcome for trial in goals[each]] for each in (ONE_KILL, _THREE_KILLS)
    )

    def describe(conditions: Sequence[tuple[BenchCondition, int]]) -> dict[str, JsonValue]:
        return {
            each.name: _describe_trials(trials[each], false_wakes[each])
            for each, _ in conditions
            if each in trials
        }

    failures = [
        line
        for each in trials
        if each.memory == _USER_MEMORY
        for line in describe_failures(each, tasks, trials[each])
    ]
    return {
        "seed": seed,
        "conditions": describe(whole),
        "few_kills": describe(few),
        "wakes": dict(wakes.count()._asdict()),
        "s3": describe_goals(once[: size.goals], once[size.goals :], killed, sizes),
        "times": {
            **describe_times([*once, killed]),
            "wake_late_seconds": dict(wakes.describe_lateness()),
            "recovery_seconds": _find_recovery_seconds(trials),
            "seconds": round(time.perf_counter() - began, 1),
            "cpu_seconds": round(_read_cpu_seconds() - cpu, 1),
        },
        **({"broken_memories": {**broken}} if broken else {}),
        **({"memory_failures": failures} if failures else {}),
    }


def _list_goal_work(seed: int, count: int) -> list[Work]:
    """Return tasks: of five steps and of ten, killed once, and one killed three times."""
    (eight,) = generate_tasks(seed, 1, [8], revises=False)
    tasks = [
        task
        for steps in _GOAL_STEPS
        for task in generate_tasks(seed, count, [steps], revises=False)
    ]
    return [*((ONE_KILL, task) for task in tasks), (_THREE_KILLS, eight)]


class Runner(Protocol):
    """Runs trials in turn, as `Lane` does."""

    def run_trial(self, condition: BenchCondition, task: GeneratedTask) -> Trial:
        """Let an agent do a task."""
        ...


def run_all(
    lanes: Sequence[Runner], work: Sequence[Work], tell: Callable[[str], None]
) -> tuple[Mapping[BenchCondition, Sequence[Trial]], dict[str, str]]:
    """Run work in the lanes, whichever is free; the trials of a condition keep their order.

    A memory whose program fails has no trials; returns why, by its name.
    """
    free: SimpleQueue[Runner] = SimpleQueue()
    for lane in lanes:
        free.put(lane)
    broken: dict[str, str] = {}

    def run(item: Work) -> Trial | None:
        if item[0].memory in broken:
            return None
        lane = free.get()
        try:
            return lane.run_trial(*item)
        except CommandFailed as error:
            broken.setdefault(item[0].memory, str(error))
            return None
        finally:
            free.put(lane)

    found: dict[BenchCondition, list[Trial]] = defaultdict(list)
    left: dict[BenchCondition, int] = defaultdict(int)
    for condition, _ in work:
        left[condition] += 1
    pool = ThreadPoolExecutor(len(lanes))
    try:
        for (condition, _), trial in zip(work, pool.map(run, work), strict=True):
            if trial is None:
                continue
            found[condition].append(trial)
            done, every = len(found[condition]), left[condition]
            if done in (every, every // 4, every // 2):
                tell(f"{condition.title}: {done} of {every} tasks")
    finally:
        pool.shutdown(cancel_futures=True)
    whole = {each: trials for each, trials in found.items() if each.memory not in broken}
    return whole, broken


def describe_failures(
    condition: BenchCondition, tasks: Sequence[GeneratedTask], trials: Sequence[Trial]
) -> list[JsonValue]:
    """Say of each task that failed under a condition what is wrong with it."""
    return [
        f"{task.name}, {condition.title}: "
        + (outcome.judgement.fault or "all is there, but it was not ended, or its end not believed")
        for task, (outcome, _) in zip(tasks, trials, strict=False)
        if not outcome.success
    ]


def _describe_trials(trials: Sequence[Trial], false_wakes: int | None) -> dict[str, JsonValue]:
    """Return the figures of trials under one condition."""
    kills = sum(len(each.recovery_seconds) for each in trials)
    return dict(compute_figures([each.outcome for each in trials], false_wakes, kills)._asdict())


def _find_recovery_seconds(trials: Mapping[BenchCondition, Sequence[Trial]]) -> float | None:
    """Return the median time from a killed daemon's start to what its agent is told."""
    every = [
        seconds for each in trials.values() for one in each for seconds in one.recovery_seconds
    ]
    return round(median(every), 3) if every else None


def _read_cpu_seconds() -> float:
    """Return what this process and those that it has waited for have spent on a processor."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))


class GatewaySize(NamedTuple):
    """How much is run; each kill costs a start of the gateway."""

    tasks: int = 3
    kills: int = 3
    """In one task, at most."""
    one_in: int = 6
    """The agent is killed at one in so many moments."""
    most_steps: int = 8


QUICK_GATEWAY_SIZE: Final = GatewaySize(tasks=1, kills=1, one_in=11, most_steps=6)
"""With seed 1 it is killed inside a call, after its effect."""


def choose_tasks(seed: int, size: GatewaySize) -> tuple[GeneratedTask, ...]:
    """Return the first short ones of the tasks that are run without a gateway, too."""
    every = generate_tasks(seed, WHOLE_SIZE.tasks)
    return tuple(each for each in every if len(each.plan) <= size.most_steps)[: size.tasks]


def run_on_gateway(
    seed: int, size: GatewaySize, openclaw: str, tell: Callable[[str], None]
) -> dict[str, JsonValue]:
    """Run the tasks in a gateway with folders of its own, and return the report.

    Args:
        seed: Which tasks are generated.
        size: How much is run.
        openclaw: The installed program.
        tell: Is told of each part that is done.

    Raises:
        DaemonNotServing: The daemon could not be started.
        GatewayFailed: The gateway did not do what it has to.
    """
    began, cpu = time.perf_counter(), _read_cpu_seconds()
    condition = BenchCondition("packet", kills=KillPlan(size.one_in, size.kills))
    with make_bench_folder() as root:
        work, home = root / "w", root / "h"
        work.mkdir()
        gateway = GatewayProcess(root / "g", openclaw)
        settings = {**gateway.environ, "TASKMEM_OPENCLAW_BIN": str(gateway.program)}
        _set_up_plugin({**settings, "TASKMEM_HOME": str(home)})
        tell("OpenClaw is set up")
        trials: list[Trial] = []
        with LoopbackServer() as server, DaemonProcess(home, work, settings) as daemon:
            lane = Lane(work, server, daemon)
            lane.gateway = gateway
            for task in choose_tasks(seed, size):
                trials.append(lane.run_trial(condition, task))
                tell(f"gateway/{condition.title}: {len(trials)} of {size.tasks} tasks")
    return {
        "seed": seed,
        "gateway": {condition.name: _describe_trials(trials, None)},
        "times": {
            "seconds": round(time.perf_counter() - began, 1),
            "cpu_seconds": round(_read_cpu_seconds() - cpu, 1),
        },
    }


def _set_up_plugin(environ: Mapping[str, str]) -> None:
    """Let the product's own command set the gateway up."""
    done = subprocess.run(  # noqa: S603 - the product's own command
        [*_SETUP, "--yes", "--no-proof"],
        cwd="/",
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        reason = find_last_line((done.stdout + done.stderr).decode(errors="replace"))
        raise GatewayFailed(f"`taskmem setup openclaw` failed: {reason}")

"""Run a few of the tasks in the real OpenClaw gateway, which is killed meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pydantic import JsonValue

from taskmem_resumebench.bench_folder import make_bench_folder
from taskmem_resumebench.bench_run import WHOLE, describe_trials, read_cpu_seconds
from taskmem_resumebench.daemon_process import DaemonProcess
from taskmem_resumebench.gateway_process import GatewayFailed, GatewayProcess
from taskmem_resumebench.generated_task import GeneratedTask, generate_tasks
from taskmem_resumebench.interrupted_run import KillPlan
from taskmem_resumebench.lane import BenchCondition, Lane, Trial
from taskmem_resumebench.loopback_server import LoopbackServer
from taskmem_resumebench.process_group import find_last_line

SETUP: Final = (sys.executable, "-m", "openclaw_taskmem", "setup", "openclaw")


class GatewaySize(NamedTuple):
    """How much is run; each kill costs a start of the gateway."""

    tasks: int = 3
    kills: int = 3
    """In one task, at most."""
    one_in: int = 6
    """It is killed at one in so many moments."""
    most_steps: int = 8


QUICK: Final = GatewaySize(tasks=1, kills=1, one_in=11, most_steps=6)
"""With seed 1 it is killed inside a call, after its effect."""


def choose_tasks(seed: int, size: GatewaySize) -> tuple[GeneratedTask, ...]:
    """Return the first short ones of the tasks that are run without a gateway, too."""
    every = generate_tasks(seed, WHOLE.tasks)
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
    began, cpu = time.perf_counter(), read_cpu_seconds()
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
        "gateway": {condition.name: describe_trials(trials, None)},
        "times": {
            "seconds": round(time.perf_counter() - began, 1),
            "cpu_seconds": round(read_cpu_seconds() - cpu, 1),
        },
    }


def _set_up_plugin(environ: Mapping[str, str]) -> None:
    """Let the product's own command set the gateway up."""
    done = subprocess.run(  # noqa: S603 - the product's own command
        [*SETUP, "--yes", "--no-proof"],
        cwd="/",
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = find_last_line((done.stdout + done.stderr).decode(errors="replace"))
        raise GatewayFailed(f"`taskmem setup openclaw` failed: {said}")

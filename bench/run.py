"""Runs benchmarks by hand and prints a table: `.venv/bin/python bench/run.py [NAME…]`.

Without a name: all but those that hurt others on the machine. `--list` lists them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # for what the tests play

from claims import run_claims
from daemon_costs import (
    find_stuck,
    idle_daemon,
    silence_at_once,
    start_commands,
    start_daemon,
    start_mcp,
    start_uncached,
)
from figures import Figure, format_header, format_row
from gateway import (
    call_checkpoints,
    end_sub_agents,
    first_token,
    stop_gateway,
    turn_weight,
    wake_acceptance,
)
from homes import find_disk
from hosts import judge_endings, wake_hosts, wake_idle_sessions
from killed_hosts import kill_hosts
from kills import kill_daemon, kill_role, kill_sub_agents, run_resumes
from look import look_at_pages
from machine import describe_machine
from machines import claim_across_clocks
from notices import tell_notices
from packets import resume_packet, thread_query, worst_packet
from peers.compare import compare_peers
from played_agents import evidence_claims, run_scenarios
from presence import tell_presence
from prompts import prompts_and_questions
from recall_tasks import recall_tasks
from recording import record_browser, record_scenes, record_still_screen
from screen_history import recall_screen
from seeing import rules_compared, see_idle, see_looks, see_scenes
from soak import soak_gateway
from updates import run_checkpoints, update_by_sdk_client, update_crowd, update_over_mcp
from waits import (
    judge_conditions,
    wait_idle,
    wait_latency,
    wait_many,
    wait_paced_targets,
    wait_restart,
    wait_targets,
    wait_timeouts,
)
from year import year_home

BENCHMARKS: Mapping[str, Callable[[], Iterator[Figure | str]]] = {
    bench.__name__: bench
    for bench in (
        update_over_mcp,
        update_by_sdk_client,
        update_crowd,
        find_stuck,
        silence_at_once,
        start_mcp,
        start_commands,
        start_uncached,
        start_daemon,
        idle_daemon,
        look_at_pages,
        resume_packet,
        worst_packet,
        thread_query,
        wait_latency,
        wait_targets,
        wait_paced_targets,
        wait_timeouts,
        wait_idle,
        wait_many,
        wait_restart,
        judge_conditions,
        prompts_and_questions,
        evidence_claims,
        run_scenarios,
        run_claims,
        claim_across_clocks,
        run_checkpoints,
        run_resumes,
        see_looks,
        see_idle,
        see_scenes,
        rules_compared,
        recall_tasks,
        recall_screen,
        record_still_screen,
        record_scenes,
        record_browser,
        wake_acceptance,
        turn_weight,
        first_token,
        stop_gateway,
        end_sub_agents,
        call_checkpoints,
        tell_notices,
        wake_hosts,
        wake_idle_sessions,
        kill_hosts,
        judge_endings,
        tell_presence,
        kill_role,
        kill_daemon,
        kill_sub_agents,
        compare_peers,
        soak_gateway,
        year_home,
    )
}
ONLY_WHEN_ASKED = tuple(
    bench.__name__
    for bench in (
        start_uncached,
        wake_idle_sessions,
        kill_hosts,
        judge_endings,
        stop_gateway,
        end_sub_agents,
        tell_presence,
        compare_peers,
        soak_gateway,
        year_home,
    )
)


def main(names: list[str]) -> int:
    if "--list" in names:
        for name, bench in BENCHMARKS.items():
            print(f"{name:22} {(bench.__doc__ or '').splitlines()[0]}")
        return 0
    if unknown := [name for name in names if name not in BENCHMARKS]:
        print(f"There is no {unknown[0]}; see --list.", file=sys.stderr)
        return 2
    print(describe_machine(find_disk()), end="\n\n", flush=True)
    print(format_header(), flush=True)
    missed, notes = 0, []
    for name in names or [one for one in BENCHMARKS if one not in ONLY_WHEN_ASKED]:
        for figure in BENCHMARKS[name]():
            if isinstance(figure, str):
                notes.append(figure)
                continue
            print(format_row(figure), flush=True)
            missed += not figure.is_met
    print("", *(f"- {note}" for note in notes), sep="\n")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

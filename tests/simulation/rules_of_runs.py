"""The invariants of runs: who holds what, under which token, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from openclaw_taskmem.domain.runs.current_run import RunReason
from taskmem_hookspecs import RunState
from tests.simulation.machine import Machine
from tests.simulation.mirror import Commit

_LAPSED: Final = (RunReason.LEASE_EXPIRED, RunReason.INTERRUPTED)
"""Why a run is queued whose lease has ended."""


def one_open_run_per_task(_: Machine, commit: Commit) -> Iterator[str]:
    """A task has one attempt at a time."""
    for task_id in _list_touched(commit):
        open_ = [r.run_id for r in commit.mirror.list_runs(task_id) if not r.state.terminal]
        if len(open_) > 1:
            yield f"{task_id} has {open_}"


def ended_runs_stay_ended(_: Machine, commit: Commit) -> Iterator[str]:
    """An attempt that has ended has ended."""
    for run in commit.change.runs:
        before = commit.runs_before[run.run_id]
        if before is not None and before.state.terminal and run.state is not before.state:
            yield f"{run.run_id} was {before.state} and is {run.state}"


def fencing_token_never_decreases(_: Machine, commit: Commit) -> Iterator[str]:
    """Over all attempts at a task, so that who lost one never has the token of another."""
    for run in commit.change.runs:
        before = commit.runs_before[run.run_id]
        others = [r.token for r in commit.mirror.list_runs(run.task_id) if r.run_id != run.run_id]
        if before is not None and run.token < before.token:
            yield f"{run.run_id} had the token {before.token} and has {run.token}"
        if not run.state.terminal and run.token < max(others, default=0):
            yield f"{run.run_id} has the token {run.token} after {max(others)}"


def one_holder_per_run(machine: Machine, commit: Commit) -> Iterator[str]:
    """Who holds a run has claimed it, and nobody else has its token; a queued one is free."""
    for run in commit.change.runs:
        if run.state is RunState.QUEUED and run.owner is not None:
            yield f"{run.run_id} is queued and held"
        if run.state is RunState.RUNNING:
            if run.owner is None or run.token < 1:
                yield f"{run.run_id} runs, and nobody holds it"
                continue
            first = machine.holders.setdefault((run.task_id, run.token), run.owner)
            if first != run.owner and not first.same(run.owner):
                yield f"{run.run_id} has two holders of the token {run.token}"


def no_lease_longer_than_one_that_begins(machine: Machine, commit: Commit) -> Iterator[str]:
    """Nobody holds a run for longer than somebody who claims it now."""
    longest = timedelta(seconds=machine.runs.lease_seconds)
    for run in commit.change.runs:
        before = commit.runs_before[run.run_id]
        renewed = before is None or before.lease_until != run.lease_until
        if run.lease_until is not None and renewed and commit.decided is not None:
            if run.lease_until > commit.decided + longest:
                yield f"{run.run_id} is held until {run.lease_until}"


def no_run_is_taken_before_its_lease_ends(_: Machine, commit: Commit) -> Iterator[str]:
    """Who holds a run and was heard in time keeps it."""
    for run in commit.change.runs:
        before = commit.runs_before[run.run_id]
        if before is None or before.lease_until is None or commit.decided is None:
            continue
        taken = before.state is RunState.RUNNING and run.state is RunState.QUEUED
        if taken and run.why in _LAPSED and before.lease_until > commit.decided:
            yield f"{run.run_id} is queued, and was held until {before.lease_until}"


def open_runs_have_open_tasks(_: Machine, commit: Commit) -> Iterator[str]:
    """Nobody works on what has ended."""
    for task_id in _list_touched(commit):
        task = commit.mirror.tasks[task_id]
        open_ = [r.run_id for r in commit.mirror.list_runs(task_id) if not r.state.terminal]
        if task.status.terminal and open_:
            yield f"{task_id} is {task.status}, and {open_} go on"


def checkpoints_are_counted_without_a_gap(_: Machine, commit: Commit) -> Iterator[str]:
    """The checkpoints of a run have the numbers from one on."""
    for run in commit.change.runs:
        for checkpoint in commit.change.checkpoints:
            if checkpoint.run_id == run.run_id and checkpoint.number != run.progress.checkpoints:
                yield f"{run.run_id} counts {run.progress.checkpoints}: {checkpoint.number}"


def _list_touched(commit: Commit) -> list[str]:
    touched = {run.task_id for run in commit.change.runs}
    return sorted(touched | {task.task_id for task in commit.change.tasks})


RUN_RULES: Final = {
    "tasks": (one_open_run_per_task, open_runs_have_open_tasks),
    "runs": (
        one_open_run_per_task,
        ended_runs_stay_ended,
        fencing_token_never_decreases,
        one_holder_per_run,
        no_lease_longer_than_one_that_begins,
        no_run_is_taken_before_its_lease_ends,
        open_runs_have_open_tasks,
        checkpoints_are_counted_without_a_gap,
    ),
}

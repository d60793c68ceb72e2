"""The invariants of waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskmem_hookspecs import MessageType, RunState, Wait, WaitStatus
from tests.simulation.machine import Machine
from tests.simulation.mirror import Commit
from tests.simulation.outside import READY

QUEUE: Final = "queue:"
TASK: Final = "task:"


def active_wait_ids_equal_open_waits(_: Machine, commit: Commit) -> Iterator[str]:
    """A task's metadata names just the waits that are watching, at every instant."""
    touched = {t.task_id for t in commit.change.tasks}
    touched |= {w.task_id for w in commit.change.waits if w.task_id is not None}
    for task_id in sorted(touched):
        said = commit.mirror.tasks[task_id].linkage.active_wait_ids
        if sorted(said) != sorted(commit.mirror.open_waits[task_id]):
            yield f"{task_id} names {said}, not {list(commit.mirror.open_waits[task_id])}"


def last_wait_state_is_true(_: Machine, commit: Commit) -> Iterator[str]:
    """A task's metadata has the state of the wait that changed last."""
    moved = [w for w in commit.change.waits if _has_moved(w, commit.waits_before[w.wait_id])]
    for task_id in sorted({w.task_id for w in moved if w.task_id is not None}):
        said = commit.mirror.tasks[task_id].linkage.last_wait_state
        states = {w.status for w in moved if w.task_id == task_id}
        if said not in states:
            yield f"{task_id} says {said}, and its waits are {sorted(states)}"


def ended_waits_stay_ended(_: Machine, commit: Commit) -> Iterator[str]:
    """A round that has ended keeps its end; only a new round watches again."""
    for wait in commit.change.waits:
        before = commit.waits_before[wait.wait_id]
        if before is not None and before.status is not WaitStatus.WATCHING:
            if wait.round == before.round and wait.status is not before.status:
                yield f"{wait.wait_id} was {before.status} and is {wait.status}"


def wait_rounds_grow_by_one(_: Machine, commit: Commit) -> Iterator[str]:
    """No round is left out, and none comes back."""
    for wait in commit.change.waits:
        before = commit.waits_before[wait.wait_id]
        if wait.round - (before.round if before else 0) not in ((0, 1) if before else (1,)):
            yield f"{wait.wait_id} is in round {wait.round} after {before and before.round}"


def each_ended_wait_owes_one_wake(_: Machine, commit: Commit) -> Iterator[str]:
    """A wait that is met, lost or over owes one wake; one that was given up, one at most."""
    for wait in list_ended(commit):
        owed = [
            wake.wake_id
            for wake in commit.change.wakes
            if wake.wait_id == wait.wait_id and commit.wakes_before[wake.wake_id] is None
        ]
        if len(owed) > 1 or (not owed and wait.status is not WaitStatus.CANCELLED):
            yield f"{wait.wait_id} is {wait.status} and owes {owed}"


def each_ended_wait_leaves_one_message(_: Machine, commit: Commit) -> Iterator[str]:
    """The thread of its task says once that a wait has ended."""
    for task_id in sorted({w.task_id for w in list_ended(commit) if w.task_id is not None}):
        ended = [w.wait_id for w in list_ended(commit) if w.task_id == task_id]
        said = [
            m.content
            for m in commit.change.messages
            if m.task_id == task_id and m.msg_type is MessageType.WAIT
        ]
        if len(said) != len(ended):
            yield f"{ended} of {task_id} ended, and the thread says {said}"


def no_wait_resolves_on_what_nobody_showed(machine: Machine, commit: Commit) -> Iterator[str]:
    """A wait that is met has seen its word, from the place where it began."""
    for wait in list_ended(commit):
        if wait.status is WaitStatus.RESOLVED and not wait.target.startswith((QUEUE, TASK)):
            target = machine.targets[wait.target.removeprefix("pty:")]
            start = (wait.start or "0").split("\x1e")[-1]
            if READY not in target.lines[int(start) :]:
                yield f"{wait.wait_id} is met by {target.lines[int(start) :]}"


def no_wait_resolves_on_an_empty_queue(machine: Machine, commit: Commit) -> Iterator[str]:
    """A wait for a role is met by a run that was queued since it began, or before."""
    for wait in list_ended(commit):
        if wait.status is WaitStatus.RESOLVED and wait.target.startswith(QUEUE):
            role, (armed, _) = (
                wait.target.removeprefix(QUEUE),
                machine.armed[wait.wait_id, wait.round],
            )
            runs = commit.mirror.runs.values()
            queued = any(r.state is RunState.QUEUED and r.role in (role, None) for r in runs)
            seen = max(machine.queued.get(role, -1.0), machine.queued.get(None, -1.0))
            if not queued and seen < armed:
                yield f"{wait.wait_id} is met, and nothing was queued for {role}"


def no_wait_times_out_early(machine: Machine, commit: Commit) -> Iterator[str]:
    """A wait lasts as long as was asked for, unless the clock was set meanwhile."""
    for wait in list_ended(commit):
        armed, jumps = machine.armed[wait.wait_id, wait.round]
        if wait.status is WaitStatus.TIMEOUT and jumps == machine.clock.jumps:
            passed = commit.monotonic - armed
            if passed < wait.timeout_seconds - 1.0:
                yield f"{wait.wait_id} ends after {passed:.1f} of {wait.timeout_seconds:g} s"


def no_wait_outlives_its_task(_: Machine, commit: Commit) -> Iterator[str]:
    """Nobody waits for a task that has ended."""
    for task in commit.change.tasks:
        if task.status.terminal and commit.mirror.open_waits[task.task_id]:
            yield f"{task.task_id} is {task.status} and waits"


def list_ended(commit: Commit) -> list[Wait]:
    """Return the waits that this commit ended."""
    return [
        wait
        for wait in commit.change.waits
        if wait.status is not WaitStatus.WATCHING
        and (before := commit.waits_before[wait.wait_id]) is not None
        and before.status is WaitStatus.WATCHING
    ]


def _has_moved(wait: Wait, before: Wait | None) -> bool:
    """Whether a wait was opened, armed again or ended, and not only given another deadline."""
    return before is None or (wait.status, wait.round) != (before.status, before.round)


WAIT_RULES: Final = {
    "tasks": (active_wait_ids_equal_open_waits, no_wait_outlives_its_task),
    "waits": (
        active_wait_ids_equal_open_waits,
        last_wait_state_is_true,
        ended_waits_stay_ended,
        wait_rounds_grow_by_one,
        each_ended_wait_owes_one_wake,
        each_ended_wait_leaves_one_message,
        no_wait_resolves_on_what_nobody_showed,
        no_wait_resolves_on_an_empty_queue,
        no_wait_times_out_early,
    ),
}

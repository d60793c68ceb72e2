"""Use cases on waits: open one, arm it again, cancel it, end it, hold its clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final, TypeVar

from openclaw_taskmem.domain import looks, outbox, queues, rights, targets, waits
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.conditions import parse_condition
from openclaw_taskmem.domain.rights import Act, TaskHolder
from openclaw_taskmem.domain.waits import Refinement, WaitFacts
from openclaw_taskmem.engine.holding import (
    fill_in_home,
    find_holder,
    guard_more_waits,
    guard_task,
)
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.engine.watching import TargetPreview
from taskmem_hookspecs import (
    Change,
    Condition,
    InvalidArguments,
    Target,
    TaskFacts,
    Value,
    Wait,
    WaitNotFound,
    WaitOutcome,
    WaitQuery,
    WaitStatus,
    WakeQuery,
    WakeState,
    is_trial,
)

T = TypeVar("T")
WATCHED: Final = WaitQuery(status=WaitStatus.WATCHING, limit=1_000_000)
"""What finds the open waits that a start takes up."""
DRIFT: Final = 1.0
"""Seconds by which a deadline may differ from what is left of a wait."""
GRACE: Final = 120.0
"""Seconds after its deadline in which a wait's own home may still end it."""
ABANDONED: Final = "The daemon that watched it does not run any more, or not here."


class ArmedWait(Value):
    """A wait that is watched from now on."""

    wait: Wait
    sighting: TargetPreview
    was: Wait | None = None
    """How it stood before it was armed again; None: it is new."""
    reached: bool = True
    """Whether its end can be told to the agent that asked for it."""


class EndedWait(Value):
    """A wait that has ended, and what is said of it."""

    wait: Wait
    text: str
    """What its wake says."""


def open_wait(
    shell: Shell,
    *,
    target: str,
    condition: Condition,
    timeout_seconds: float,
    poll_seconds: float,
    task_id: str | None,
    caller: Caller,
) -> ArmedWait:
    """Start a wait on something that is there and can be judged.

    Raises:
        TaskNotFound: No task has that id.
        TaskEnded: The task has ended.
        InvalidArguments: It is no target, or a queue of another role than the caller's.
        NotAllowed: The task is another's, or the target not for the caller.
        LimitReached: The caller has as many open waits as one may.
        TaskmemError: What `Watching.sight` refuses.
    """
    guard_more_waits(shell, caller)
    if task_id:
        _require_open_task(shell, task_id, caller)
    parsed = _confine_target(shell, targets.parse_target(target), caller)
    queues.guard_wait(parsed, caller)
    sighting = shell.watching.preview_target(parsed, condition)

    def once() -> ArmedWait:
        facts = _require_open_task(shell, task_id, caller) if task_id else None
        now = shell.clock.now()
        wait = Wait(
            wait_id=shell.new_id("wait", now),
            task_id=task_id,
            session_key=caller.session_key,
            host=caller.host,
            target=target.strip(),
            wake_when=condition.sentence,
            timeout_seconds=timeout_seconds,
            poll_seconds=poll_seconds,
            created_at=now,
            armed_at=now,
            changed_at=now,
            deadline_at=now + timedelta(seconds=timeout_seconds),
            start=sighting.start,
            within=parsed.within,
        )
        shell.commit(waits.start_wait(wait, facts, caller, now))
        reached = _is_reached(shell, WaitFacts(wait=wait, task=facts))
        return ArmedWait(wait=wait, sighting=sighting, reached=reached)

    return shell.retry_on_conflict(task_id or "", once)


def rearm_wait(shell: Shell, wait_id: str, wish: Refinement, caller: Caller) -> ArmedWait:
    """Watch a wait once more, whatever became of it.

    Raises:
        WaitNotFound: No wait has that id.
        NotAllowed: It is another's, or the caller may not look at its target.
        TaskEnded: Its task has ended.
        LimitReached: It has ended, and the caller has as many open ones as one may.
        TaskmemError: What `Watching.sight` refuses.
    """
    before = shell.store.read_wait(wait_id)
    _guard_wait(shell, before, caller)
    if before.status is not WaitStatus.WATCHING:
        guard_more_waits(shell, caller)
    if before.task_id:
        waits.require_open(shell.store.read_task(before.task_id))
    confined = _confine_target(shell, targets.parse_target(before.target), caller)
    target = looks.confine_to_kept_folders(confined, before.within, caller, shell.looks)
    condition = parse_condition(wish.wake_when or before.wake_when)
    sighting = shell.watching.preview_target(target, condition)
    behind = (
        shell.watching.find_target_end(target) if waits.needs_end_position(before, wish) else None
    )

    def rearm_once(facts: WaitFacts) -> ArmedWait:
        _guard_wait(shell, facts.wait, caller)
        now = shell.clock.now()
        ours = shell.store.serves(facts.wait.home)
        kept = waits.find_restart_position(facts.wait, wish, behind) if ours else behind
        start = kept or sighting.start
        asked = facts.wait.model_copy(update={"within": target.within})
        facts = facts.model_copy(update={"wait": asked})
        home = shell.store.home
        change = waits.rearm_wait(facts, wish, caller, start=start, home=home, now=now)
        shell.commit(change)
        (wait,) = change.waits
        return ArmedWait(
            wait=wait,
            sighting=sighting,
            was=facts.wait,
            reached=_is_reached(shell, facts.model_copy(update={"wait": wait})),
        )

    return _decide_on_wait(shell, wait_id, rearm_once)


def cancel_wait(shell: Shell, wait_id: str, reason: str | None, caller: Caller) -> Wait:
    """Cancel a wait and return how it stood before.

    Raises:
        WaitNotFound: No wait has that id.
        NotAllowed: It is another's.
    """

    def cancel_once(facts: WaitFacts) -> Wait:
        _guard_wait(shell, facts.wait, caller)
        shell.commit(waits.cancel_wait(facts, reason, caller, shell.clock.now()))
        return facts.wait

    return _decide_on_wait(shell, wait_id, cancel_once)


def forget_trial(shell: Shell, wait_id: str) -> None:
    """Remove a wait that the doctor has tried something with, and its wakes.

    Raises:
        WaitNotFound: No wait has that id.
        InvalidArguments: It is none of the doctor's, or still watched.
    """

    def forget_once(facts: WaitFacts) -> None:
        wait = facts.wait
        if not is_trial(wait.session_key) or wait.status is WaitStatus.WATCHING:
            raise InvalidArguments(
                f"{wait_id} is none of the doctor's that has ended, and only those are "
                "removed; cancel it with taskmem call wait_cancel."
            )
        shell.commit(Change(forget_waits=(wait_id,)))

    _decide_on_wait(shell, wait_id, forget_once)


def end_wait(shell: Shell, watched: Wait, status: WaitStatus, observation: str) -> bool:
    """End the round of a wait that was watched.

    Returns False, and changes nothing, when that round had ended before.

    Raises:
        WaitNotFound: No wait has that id.
    """

    def end_once(facts: WaitFacts) -> bool:
        if facts.wait.round != watched.round:
            return False
        now = shell.clock.now()
        outcome = WaitOutcome(
            status=status,
            observation=observation,
            elapsed_seconds=max(0.0, (now - facts.wait.armed_at).total_seconds()),
        )
        change = waits.close_wait(facts, outcome, wake_id=shell.new_id("wake", now), now=now)
        shell.commit(change)
        return not change.empty

    return _decide_on_wait(shell, watched.wait_id, end_once)


def fetch_end(shell: Shell, wait_id: str) -> EndedWait | None:
    """Return how a wait has ended; None: it is watched still.

    Its wake is acknowledged, unless it is on its way to a session, as was promised.

    Raises:
        WaitNotFound: No wait has that id.
    """

    def fetch_once(facts: WaitFacts) -> EndedWait | None:
        wait = facts.wait
        if wait.status is WaitStatus.WATCHING:
            return None
        if facts.session_key is None or not _is_reached(shell, facts):
            own = [wake for wake in facts.open_wakes if wake.wait_id == wait_id]
            shell.commit(outbox.acknowledge_wakes(own, shell.clock.now()))
        return EndedWait(wait=wait, text=waits.format_wake_text(wait, waits.build_outcome(wait)))

    return _decide_on_wait(shell, wait_id, fetch_once)


def _is_reached(shell: Shell, facts: WaitFacts) -> bool:
    """Whether the end of a wait can be told to the agent that asked for it."""
    return shell.reaches(facts.host, facts.session_key)


def list_watched_waits(shell: Shell) -> list[Wait]:
    """Return the open waits that are for this daemon to watch, oldest first."""
    return [*reversed(shell.store.find_waits(WATCHED))]


def set_deadlines(shell: Shell, left: Mapping[str, float]) -> None:
    """Let the deadlines of waits say, by the wall, how many seconds they have left.

    For a wall that jumped, while no time passed; a second time changes nothing.
    """

    def set_one(facts: WaitFacts) -> None:
        if facts.wait.status is WaitStatus.WATCHING:
            due = shell.clock.now() + timedelta(seconds=left[facts.wait.wait_id])
            late = (due - facts.wait.deadline_at).total_seconds()
            if abs(late) > DRIFT:
                shell.commit(Change(waits=(waits.postpone_wait(facts.wait, late),)))

    for wait_id in left:
        with suppress(WaitNotFound):
            _decide_on_wait(shell, wait_id, set_one)


def end_abandoned(shell: Shell) -> None:
    """End the waits of other homes that are long overdue: nobody watches them.

    A home that was removed, or a machine that is switched off, would otherwise keep
    a task from ever counting as stuck.
    """
    now = shell.clock.now()
    for wait in shell.store.whole.find_waits(WATCHED):
        overdue = (now - wait.deadline_at).total_seconds()
        if overdue > GRACE and not shell.store.serves(wait.home):
            end_wait(shell, wait, WaitStatus.TIMEOUT, ABANDONED)


def _require_open_task(shell: Shell, task_id: str, caller: Caller) -> TaskFacts:
    """Refuse what may not be waited for, before anything is watched for it."""
    facts = shell.store.read_task(task_id)
    guard_task(shell, Act.WAIT, facts, caller)
    waits.require_open(facts)
    return facts


def _guard_wait(shell: Shell, wait: Wait, caller: Caller) -> None:
    """Refuse to change a wait that is another's.

    Raises:
        NotAllowed: It is; the sentence says whose.
    """
    facts = shell.find_task(wait.task_id) if wait.task_id else None
    held = find_holder(shell, facts) if facts else TaskHolder()
    task = facts.task if facts else None
    rights.guard_wait(fill_in_home(shell, caller), wait, task, held)


def _confine_target(shell: Shell, target: Target, caller: Caller) -> Target:
    """Return a target with the folders that it must lie in for a caller."""
    running = shell.still_running.get((caller.session_key or "").lower(), ())
    return looks.confine_target(target, caller, shell.looks, {each.name for each in running})


def _decide_on_wait(shell: Shell, wait_id: str, decided: Callable[[WaitFacts], T]) -> T:
    """Read a wait with all that hangs on it, and decide, in its task's turn."""
    first = shell.store.read_wait(wait_id)
    owed = WakeQuery(states=(WakeState.DUE, WakeState.SENT), wait_id=wait_id)

    def once() -> T:
        wait = shell.store.read_wait(wait_id)
        facts = WaitFacts(
            wait=wait,
            task=shell.find_task(wait.task_id) if wait.task_id else None,
            wakes=() if wait.task_id else (*reversed(shell.store.find_wakes(owed)),),
        )
        return decided(facts)

    return shell.retry_on_conflict(first.task_id or wait_id, once)

"""Use cases on runs: ask where one stands, take it up again, claim it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain import (
    attempts,
    budget,
    carrying,
    lifecycle,
    outbox,
    runs,
)
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.checkpoints import History
from openclaw_taskmem.domain.runs import Moved
from openclaw_taskmem.engine import packets, tasks
from openclaw_taskmem.engine import runs as heard
from openclaw_taskmem.engine.holding import GO_ON, told_again
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import (
    Change,
    Event,
    Owner,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskNotFound,
    TaskStatus,
    Value,
    Wake,
)
from taskmem_hookspecs.errors import (
    Conflict,
    InvalidArguments,
    RunHeld,
    RunNotFound,
    RunNotReady,
    TaskEnded,
)

CANDIDATES: Final = 16
"""Queued runs that a claim may choose from, so that a crowd does not want the same."""
RENEWALS: Final = 10
"""How often within a lease a call that changes nothing renews it."""
_RESUMABLE: Final = (TaskStatus.ACTIVE, TaskStatus.FAILED, TaskStatus.PAUSED)


class Standing(Value):
    """A task with its newest run, and what is known of that."""

    task: Task
    run: Run | None
    history: History | None
    budget: budget.Budget | None
    now: datetime


def status(shell: Shell, task_id: str | None, caller: Caller) -> Standing:
    """Return where a task and its run stand. None: the session's own.

    Raises:
        TaskNotFound: No task has that id, or the session has none.
    """
    facts = shell.store.read_task(task_id or _own(shell, caller))
    run = facts.run
    if run is None:
        newest = shell.store.list_runs(None, facts.task.task_id, 1)
        run = next(iter(newest), None)
    return Standing(
        task=facts.task,
        run=run,
        history=heard.history(shell, run),
        budget=budget.budget(facts, shell.runs),
        now=shell.clock.now(),
    )


def resume(shell: Shell, task_id: str | None, caller: Caller) -> tuple[Task, str]:
    """Take up a task again, and return it with the packet to go on with.

    A session's agent holds it from now on; where a person asks, the session of the
    task is told to go on.

    Raises:
        TaskNotFound: No task has that id, or the session has none.
        RunHeld: Another session works on it.
    """
    wanted = task_id or _own(shell, caller)

    def once() -> TaskFacts:
        facts = shell.store.read_task(wanted)
        now = shell.clock.now()
        _its_own(shell, facts, caller)
        task, message = lifecycle.move(facts.task, TaskStatus.ACTIVE, now)
        task = lifecycle.touch(task, now)
        if message is not None:
            count = task.message_count + 1
            task = task.model_copy(update={"message_count": count})
        moved = _taken_up(shell, facts, task, caller, now)
        wake = None
        if moved is not None and caller.owner is None:
            moved, wake = _told(shell, facts, moved, now)
        gone = carrying.dropped(facts)
        shell.commit(
            Change(
                tasks=(task,) if task != facts.task else (),
                messages=(message,) if message else (),
                runs=(moved.run,) if moved else (),
                wakes=(*gone, *((wake,) if wake else ())),
                events=(
                    *lifecycle.status_changed(facts.task.status, task, now),
                    *(moved.events if moved else ()),
                    *outbox.settled_events(gone, now),
                ),
            )
        )
        return shell.store.read_task(wanted)

    facts = shell.decide(wanted, once)
    return facts.task, packets.told(shell, facts, f"resume_{wanted}", GO_ON)


def claim(
    shell: Shell, task_id: str | None, role: str, attach: Sequence[str], caller: Caller
) -> tuple[Task, Run]:
    """Claim a run: of a task, or the next that is queued for a role.

    Raises:
        RunNotFound: Nothing is queued for the role.
        RunHeld: Another holds it.
        InvalidArguments: What is to be attached is no backlog task.
    """
    owner = Owner(
        role=role,
        session_key=caller.session_key,
        process=caller.process,
        home=shell.only,
    )
    if caller.owner is not None and caller.owner.boot is not None:
        # A gateway's agent is who its gateway says.
        owner = caller.owner
    attached = _attachable(shell, attach)
    if task_id is not None:
        return _claim_one(shell, task_id, owner, attached)
    passed: set[str] = set()
    while True:
        queued = [
            run
            for run in shell.store.queued_runs(role, CANDIDATES + len(passed))
            if run.run_id not in passed
        ]
        if not queued:
            break
        chosen = random.choice(queued)  # noqa: S311 - no secret, only apart from others
        try:
            return _claim_one(shell, chosen.task_id, owner, attached, queued=True)
        except (RunHeld, RunNotReady, TaskEnded, Conflict):
            passed.add(chosen.run_id)
    raise RunNotFound(
        f"Nothing is queued for {role}; ask again later, or claim a task by its id."
    )


def renew(shell: Shell, task_id: str, caller: Caller, token: int | None) -> None:
    """Begin the lease anew of a run whose holder has called, unless it just was."""

    def at_work() -> tuple[Run, ...]:
        now = shell.clock.now()
        fresh = timedelta(seconds=shell.runs.lease_seconds / RENEWALS)
        return tuple(
            runs.called(run, caller, token, now, shell.runs)
            for run in shell.store.list_runs((RunState.RUNNING,), task_id, 1)
            if runs.holds(run, caller, token) and now - run.seen_at >= fresh
        )

    if at_work():
        shell.decide(task_id, lambda: shell.commit(Change(runs=at_work())))


def _own(shell: Shell, caller: Caller) -> str:
    """Return the task of the caller's session: open, else failed, else set aside."""
    session = caller.session_key
    if session is not None:
        for run in shell.store.session_runs(session, shell.only):
            return run.task_id
        for status in _RESUMABLE:
            for task in shell.store.list_tasks(status, 1, shell.only, session):
                return task.task_id
    raise TaskNotFound("This session has no task to take up; name one, see task_list.")


def _of_holder(shell: Shell, task: Task, owner: Owner) -> Task:
    """Return a task whose wakes go to whoever holds it, where that is a session."""
    if owner.session_key in (None, task.session_key):
        return task
    moved = {"session_key": owner.session_key, "home": shell.home}
    return task.model_copy(update=moved)


def _its_own(shell: Shell, facts: TaskFacts, caller: Caller) -> None:
    """Refuse to take up what belongs to another session. Source: requirement E1."""
    if caller.person:
        return
    task, run, session = facts.task, facts.run, caller.session_key
    here = shell.minds(run.home if run else task.home)
    known = {task.session_key, run.told_session if run else None} - {None}
    if not here or (task.session_key is not None and session not in known):
        raise RunHeld(
            f"{facts.task.task_id} belongs to another session, and only that one takes "
            "it up again; say /resume there."
        )


def _told(
    shell: Shell, facts: TaskFacts, moved: Moved, now: datetime
) -> tuple[Moved, Wake | None]:
    """Return a run whose session is told to go on; None: it has none, and stays so."""
    told = runs.next_round(moved.run, now)
    wake = told_again(shell, facts, told, now)
    return (moved.model_copy(update={"run": told}) if wake else moved), wake


def _taken_up(
    shell: Shell, facts: TaskFacts, task: Task, caller: Caller, now: datetime
) -> Moved | None:
    run = facts.run
    if run is None:
        return _begun(shell, task, caller, now)
    forgiven = run.model_copy(
        update={"tries": 0, "provider_failures": 0, "idle_rounds": 0}
    )
    if run.state is RunState.RUNNING:
        runs.guard(run, caller, None, "it was not taken up again")
        return Moved(run=forgiven, events=())
    if caller.owner is not None and run.session_key == caller.owner.session_key:
        return attempts.taken_up(forgiven, caller.owner, now, shell.runs)
    if run.state is RunState.QUEUED:
        return Moved(run=forgiven, events=())
    return runs.move(forgiven, RunState.QUEUED, now)


def _begun(shell: Shell, task: Task, caller: Caller, now: datetime) -> Moved | None:
    """Return a new run of a task whose last one has ended; None: nobody can hold it."""
    if caller.owner is not None:
        return tasks.begin(shell, caller, now, task)
    session = task.session_key or ""
    if not session.startswith("agent:"):
        return None
    return runs.begin(
        task,
        run_id=shell.new_id("run", now),
        now=now,
        session_key=session,
        home=task.home,
        token=tasks.last_token(shell, task.task_id),
    )


def _attachable(shell: Shell, attach: Sequence[str]) -> tuple[str, ...]:
    for task_id in attach:
        facts = shell.store.read_task(task_id)
        if facts.run is not None or facts.task.status.terminal:
            raise InvalidArguments(
                f"{task_id} cannot be attached: only a task that is open and has no "
                "run can. Nothing was claimed."
            )
    return tuple(attach)


def _claim_one(
    shell: Shell,
    task_id: str,
    owner: Owner,
    attached: tuple[str, ...],
    *,
    queued: bool = False,
) -> tuple[Task, Run]:
    """Claim the run of a task; `queued`: only if nobody did meanwhile."""

    def once() -> tuple[Task, Run]:
        facts = shell.store.read_task(task_id)
        lifecycle.require_open(facts.task, "nobody can claim it")
        if facts.task.status is TaskStatus.PAUSED:
            raise RunNotReady(
                f"{task_id} is paused, so nobody can claim it; call task_resume, or "
                'task_update with status "active", first.'
            )
        now = shell.clock.now()
        before: tuple[Event, ...] = ()
        run = facts.run
        if queued and (run is None or run.state is not RunState.QUEUED):
            # Not even by its own process, of which another call may have it.
            raise RunHeld(f"{task_id} was claimed meanwhile; claim another.")
        told = outbox.tells_to_go_on(facts.wakes, now, shell.outbox)
        if queued and run is not None and (run.told_session or told):
            raise RunHeld(f"{task_id} goes on in a session of its own; claim another.")
        if run is None:
            made = runs.begin(
                facts.task,
                run_id=shell.new_id("run", now),
                now=now,
                session_key=owner.session_key,
                home=shell.home,
                token=tasks.last_token(shell, task_id),
            )
            run, before = made.run, made.events
        moved = runs.claim(run, owner, now, shell.runs)
        held = moved.run.model_copy(update={"attached": (*run.attached, *attached)})
        # Whoever was to be told to go on with it no longer is.
        gone = carrying.dropped(facts)
        log = (*before, *moved.events, *outbox.settled_events(gone, now))
        task = _of_holder(shell, facts.task, owner)
        changed = (task,) if task != facts.task else ()
        shell.commit(Change(tasks=changed, runs=(held,), wakes=gone, events=log))
        return task, held

    return shell.decide(task_id, once)

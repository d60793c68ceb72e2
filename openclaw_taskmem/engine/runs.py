"""Use cases on runs: ask where one stands, take it up again, claim it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple

from openclaw_taskmem.domain import (
    asking,
    continuations,
    fencing,
    lifecycle,
    outbox,
    packet,
    reminders,
    runs,
    task_runs,
    working,
)
from openclaw_taskmem.domain.callers import AGENT, Caller, is_gateway_session
from openclaw_taskmem.domain.left_words import Left, find_left
from openclaw_taskmem.domain.rights import Act
from openclaw_taskmem.domain.run_events import (
    Claimed,
    Requeued,
    TakenUpAgain,
    TasksAttached,
    ToldToGoOn,
    UserHeard,
    UserSpoke,
)
from openclaw_taskmem.domain.run_machine import Moved, apply, begin_run
from openclaw_taskmem.domain.run_policy import Why
from openclaw_taskmem.domain.texts import plain, quoted
from openclaw_taskmem.engine import packets, recovery
from openclaw_taskmem.engine.handovers import attachable, note_heard
from openclaw_taskmem.engine.history import last_run
from openclaw_taskmem.engine.holding import (
    AWAY,
    GO_ON,
    begin,
    guard,
    guard_reopen,
    told_again,
)
from openclaw_taskmem.engine.queues import goes_on
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.engine.standing import own_task
from taskmem_hookspecs import (
    Change,
    EventQuery,
    Message,
    Owner,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    UserQuestion,
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
NOT_TAKEN: Final = "it was not taken up again"
NEWEST: Final = 200
"""Entries of a task's log that are read at first for what its user is asked."""


def resume(
    shell: Shell,
    task_id: str | None,
    caller: Caller,
    answer: str | None = None,
    *,
    reopen: bool = False,
) -> tuple[Task, Run | None, str]:
    """Take up a task again, and return it, its run and the packet to go on with.

    A session's agent holds it from now on; where a person asks, or the session that
    hears of it in the background, its own session is told to go on. `answer` is what
    the user says to that; None: nothing. It is put before the agent that asked for it,
    whose run waits until that agent acts. Source: ruling "consent".

    Raises:
        TaskNotFound: No task has that id, or the session has none.
        InvalidArguments: Its agent has asked the user, and no answer is given.
        TaskEnded: It is completed, and not to be reopened.
        RunHeld: Another session works on it.
        RunNotReady: Its review is to end, and the user has had no word in it.
    """
    wanted = task_id or own_task(shell, caller)
    before = shell.store.read_task(wanted)
    guard(shell, Act.TAKE_UP, before, caller, wish=NOT_TAKEN)
    answer = task_runs.attribute(answer, before.run, caller)
    recovery.requeue_abandoned(shell, task_id=wanted)

    def once() -> tuple[TaskFacts, bool]:
        facts = shell.store.read_task(wanted)
        asked = facts.run is not None and working.takes_answer(facts.run)
        now = shell.clock.now()
        guard(shell, Act.TAKE_UP, facts, caller, wish=NOT_TAKEN)
        guard_reopen(shell, facts.task, caller)
        task_runs.guard_review(facts.run, caller, answer)
        if asking.awaits_answer(facts.run, caller, answer):
            shell.commit(tell_answer(shell, facts, answer, now))
            return shell.store.read_task(wanted), asked
        task, message = lifecycle.take_up(facts.task, now, reopen=reopen)
        said = (message,) if message else ()
        if answer is not None:
            said = (*said, lifecycle.answered(task, answer, now))
        count = task.message_count + len(said)
        task = task.model_copy(update={"message_count": count})
        moved = _taken_up(shell, facts, task, caller, now)
        if moved is not None and (answer is not None or caller.person):
            moved = apply(moved, UserSpoke(), now=now)
        wake = None
        if moved is not None and (caller.owner is None or _hears(moved.run, caller)):
            taken_up = facts.model_copy(update={"task": task})
            moved, wake = _told(shell, taken_up, moved, now, answer)
        gone = continuations.drop_open(facts)
        shell.commit(
            Change(
                tasks=(task,) if task != facts.task else (),
                messages=said,
                runs=(moved.run,) if moved else (),
                wakes=(*gone, *((wake,) if wake else ())),
                events=(
                    *lifecycle.status_changed(facts.task.status, task, now),
                    *(moved.events if moved else ()),
                    *outbox.settled_events(gone, now),
                ),
            )
        )
        return shell.store.read_task(wanted), asked

    facts, asked = shell.decide(wanted, once)
    if answer is not None:
        note_heard(shell, wanted, answer, caller)
    wake_id = f"resume_{wanted}"
    if _hears(facts.run, caller):
        return facts.task, facts.run, packet.away(facts.task, wake_id, AWAY)
    text = packets.told(shell, facts, wake_id, GO_ON, answer=answer, asked=asked)
    return facts.task, facts.run, text


class ClaimResult(NamedTuple):
    """A run as its new owner holds it."""

    task: Task
    run: Run
    left: Left
    gone: str
    """What became of who held it before; empty: it was not left behind."""


def claim(
    shell: Shell, task_id: str | None, role: str, attach: Sequence[str], caller: Caller
) -> ClaimResult:
    """Claim a run: of a task, or the next that is queued for a role.

    What is held by a process that has ended is queued first.

    Raises:
        RunNotFound: Nothing is queued for the role.
        RunHeld: Another holds it.
        InvalidArguments: What is to be attached is no backlog task, or the caller's
            gateway says that it has another role.
    """
    owner = caller.in_gateway or Owner(
        role=role,
        session_key=caller.session_key,
        process=caller.process,
        home=shell.store.scope,
    )
    if role not in (AGENT, owner.role):
        raise InvalidArguments(
            f"Your gateway says that you are {owner.role}, so you cannot claim as "
            f"{role}; leave out role, or leave it to an agent of that role. Nothing "
            "was claimed."
        )
    attached = attachable(shell, attach, caller)
    as_role = owner.role if task_id is None else None
    recovery.requeue_abandoned(shell, task_id=task_id, role=as_role)
    if task_id is not None:
        return _claim_one(shell, task_id, owner, attached, caller)
    for chosen in _queue(shell, owner.role):
        with suppress(RunHeld, RunNotReady, TaskEnded, Conflict):
            return _claim_one(
                shell, chosen.task_id, owner, attached, caller, queued=True
            )
    raise RunNotFound(
        f"Nothing is queued for {owner.role}; wait for it with smart_wait, target "
        f"queue:{owner.role}, or claim a task by its id."
    )


def _queue(shell: Shell, role: str) -> Iterator[Run]:
    """Return the runs that are queued for a role, about the oldest first.

    Each is asked for when those before it could not be claimed; the queue is read in
    parts, each as long as all before it. Of a part, what an ended process held comes
    first, unless that has happened to it too often.
    """
    passed: set[str] = set()
    limit = CANDIDATES
    while True:
        queued = shell.store.whole.find_runs(runs.ask_queue(role, limit))
        fresh = [run for run in queued if run.run_id not in passed]
        while fresh:
            left = [
                run
                for run in fresh
                if run.why == Why.OWNER_GONE and run.tries <= shell.runs.tries
            ]
            chosen = random.choice(left or fresh)  # noqa: S311 - no secret
            fresh.remove(chosen)
            passed.add(chosen.run_id)
            yield chosen
        if len(queued) < limit:
            return
        limit *= 2


def _of_holder(
    shell: Shell, task: Task, run: Run, owner: Owner, caller: Caller
) -> Task:
    """Return a task whose wakes go to who holds its run; a session's task stays its."""
    if run.session_key is None and task.session_key is not None:
        return task
    home = task.home if owner.session_key is None else shell.store.home
    whose = {"session_key": run.session_key, "host": caller.host or task.host}
    return task.model_copy(update={**whose, "home": home})


def _hears(run: Run | None, caller: Caller) -> bool:
    """Whether a caller's session hears of a run that goes on in the background."""
    return run is not None and run.told_session in {caller.session_key} - {None}


def find_question(shell: Shell, run: Run | None) -> UserQuestion | None:
    """Return what a run's user is asked, and has not answered; None: nothing."""
    if run is None or not run.state.waiting:
        return None
    task = shell.store.read_task(run.task_id).task
    if task.implicit:
        return None
    limit = NEWEST
    newest = shell.store.find_events(EventQuery(task_id=run.task_id, limit=limit))
    while len(newest) == limit and not asking.reach_change(run, newest):
        limit *= 2
        newest = shell.store.find_events(EventQuery(task_id=run.task_id, limit=limit))
    return asking.ask(task, run, newest)


def tell_answer(
    shell: Shell, facts: TaskFacts, answer: str | None, now: datetime
) -> Change:
    """Return what puts an answer before the agent that asked.

    Raises:
        InvalidArguments: There is no answer.
    """
    task, run = facts.task, facts.run
    if answer is None:
        asked = quoted(plain((run and run.question) or ""), reminders.QUESTION_BYTES)
        raise InvalidArguments(
            f"{task.task_id} has asked the user: {asked} Give what they answer to that "
            "as answer. Nothing was changed."
        )
    question = find_question(shell, run)
    wake_id = shell.new_id("wake", now)
    return asking.tell_answer(facts, question, answer, wake_id=wake_id, now=now)


def _told(
    shell: Shell,
    facts: TaskFacts,
    moved: Moved,
    now: datetime,
    answer: str | None,
) -> tuple[Moved, Wake | None]:
    """Return a run whose session is told to go on; None: it has none, and stays so."""
    told = apply(moved, ToldToGoOn(), now=now)
    wake = told_again(shell, facts, told.run, now, answer)
    return (told if wake else moved), wake


def _taken_up(
    shell: Shell, facts: TaskFacts, task: Task, caller: Caller, now: datetime
) -> Moved | None:
    run = facts.run
    if run is None:
        return _begun(shell, task, caller, now)
    forgiven = apply(run, TakenUpAgain(), now=now)
    waits = run.state.waiting
    at_work = run.state is RunState.RUNNING
    gone = waits and recovery.holder_ended(shell, run)
    if at_work or not (_hears(run, caller) or gone):
        fencing.guard_write(run, caller, None, NOT_TAKEN)
    if at_work:
        return forgiven
    owner = caller.owner
    if owner is not None:
        same = run.session_key == owner.session_key
        if fencing.its(run, owner) if waits else same:
            return task_runs.taken_up(forgiven.run, caller, now, shell.runs)
    if waits:
        return apply(forgiven, Requeued(), now=now)
    return forgiven


def _begun(shell: Shell, task: Task, caller: Caller, now: datetime) -> Moved | None:
    """Return a new run of a task whose last one has ended; None: nobody can hold it."""
    moved = begin(shell, caller, now, task)
    if moved is not None or caller.owner is not None:
        return moved
    session = task.session_key
    if not is_gateway_session(session) or not shell.reaches(task.host, session):
        return None
    return begin_run(
        task,
        run_id=shell.new_id("run", now),
        now=now,
        session_key=session,
        home=task.home,
        last=last_run(shell, task.task_id),
    )


def _claim_one(
    shell: Shell,
    task_id: str,
    owner: Owner,
    attached: tuple[str, ...],
    caller: Caller,
    *,
    queued: bool = False,
) -> ClaimResult:
    """Claim the run of a task; `queued`: only if nobody did meanwhile."""

    def once() -> ClaimResult:
        facts = shell.store.read_task(task_id)
        waits = facts.run is not None and facts.run.state.waiting
        if waits or facts.task.status is not TaskStatus.ACTIVE:
            guard(shell, Act.TAKE_UP, facts, caller)
        lifecycle.require_open(facts.task, "nobody can claim it")
        if facts.run is not None and facts.run.state is RunState.REVIEW:
            raise RunNotReady(
                f"{task_id} is with the user for review, so nobody can claim it; once "
                "they have told you, call task_resume with their words as answer."
            )
        if facts.task.status is TaskStatus.PAUSED:
            raise RunNotReady(
                f"{task_id} is paused, so nobody can claim it; call task_resume first."
            )
        now = shell.clock.now()
        run, made = facts.run, None
        if queued and (run is None or run.state is not RunState.QUEUED):
            # Not even by its own process, of which another call may have it.
            raise RunHeld(f"{task_id} was claimed meanwhile; claim another.")
        if queued and goes_on(shell, facts, now):
            raise RunHeld(f"{task_id} goes on in a session of its own; claim another.")
        if run is None:
            made = begin_run(
                facts.task,
                run_id=shell.new_id("run", now),
                now=now,
                session_key=owner.session_key,
                last=last_run(shell, task_id),
            )
            run = made.run
        moved = apply(made or run, Claimed(owner=owner), now=now, policy=shell.runs)
        guard(shell, Act.CLAIM, facts, caller)
        words = shell.store.read_records(Message, task_id, said_after=0)
        moved = runs.hold(moved, caller, now)
        heard = UserHeard(heard_until=words[-1].message_id if words else 0)
        held = apply(moved, TasksAttached(task_ids=attached), heard, now=now).run
        left = find_left(held, words, run.heard_until)
        # Whoever was to be told to go on with it no longer is.
        gone = continuations.drop_open(facts)
        log = (*moved.events, *outbox.settled_events(gone, now))
        task = _of_holder(shell, facts.task, held, owner, caller)
        changed = (task,) if task != facts.task else ()
        shell.commit(Change(tasks=changed, runs=(held,), wakes=gone, events=log))
        return ClaimResult(task, held, left, recovery.describe_left(shell, run))

    return shell.decide(task_id, once)

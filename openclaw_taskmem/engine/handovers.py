"""Use cases that move a run to other hands, or end it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain import (
    fencing,
    handover,
    left_words,
    lifecycle,
    registrars,
    task_runs,
)
from openclaw_taskmem.domain.callers import Caller, is_gateway_session
from openclaw_taskmem.domain.rights import Act
from openclaw_taskmem.domain.run_events import ToldToGoOn, UserSpoke
from openclaw_taskmem.domain.run_machine import apply_events
from openclaw_taskmem.engine import packets
from openclaw_taskmem.engine.history import find_last_run
from openclaw_taskmem.engine.holding import (
    GO_ON,
    guard_task,
    list_background_runs,
    make_resume_wake,
    may_take_along,
    require_own_run,
)
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.engine.turns import find_turn_session
from taskmem_hookspecs import Change, Message, Owner, Run, Task, TaskFacts, TaskNotFound
from taskmem_hookspecs.errors import InvalidArguments, RunNotReady

log = logging.getLogger(__name__)

_BACKGROUND: Final = "background"
"""The subject of whoever moves a run there: how many may be is for all tasks."""


def move_to_background(
    shell: Shell, task_id: str, caller: Caller, note: str = ""
) -> tuple[Task, Run]:
    """Move a task's run to a session of its own, with a note for its agent.

    Raises:
        RunNotFound: The task has no run.
        RunNotReady: No gateway's agent calls.
        LimitReached: As many as there may be are in the background.
        RunHeld: Another works on it.
    """
    if not caller.person and caller.gateway_owner is None:
        raise RunNotReady(
            f"{task_id} cannot go to the background: only inside OpenClaw are there "
            "sessions for that; go on with it here."
        )

    def once() -> tuple[Task, Run]:
        facts, run = require_own_run(shell, task_id, caller, "it stays where it is")
        now = shell.clock.now()
        wake_id = shell.new_id("wake", now)
        moved = handover.format_background_note(caller, note)
        entry = lifecycle.build_lifecycle_message(facts.task, moved, now)
        sent = handover.describe_background(run.session_key or "", (entry,))
        change = handover.build_background_move(
            facts,
            run,
            list_background_runs(shell),
            wake_id=wake_id,
            text=packets.render_resume_text(shell, facts, wake_id, GO_ON, background=sent),
            moved=moved,
            now=now,
            policy=shell.runs,
        )
        shell.commit(change)
        return change.tasks[0], change.runs[0]

    return shell.retry_on_conflict(task_id, once, _BACKGROUND)


def cancel_task(shell: Shell, task_id: str, reason: str, caller: Caller) -> Task:
    """Call a task off; its checkpoints stay.

    Raises:
        TaskEnded: It has ended already.
        NotAllowed: It is another session's.
        RunNotReady: The user reviews it, and has had no word in that.
    """

    def once() -> Task:
        facts = shell.store.read_task(task_id)
        guard_task(shell, Act.CANCEL, facts, caller)
        now = shell.clock.now()
        turn = find_turn_session(shell, facts.run)
        change = handover.build_cancellation(facts, caller, reason, turn, now)
        task_runs.guard_review(facts.run, caller)
        shell.commit(change)
        return change.tasks[0]

    return shell.retry_on_conflict(task_id, once)


def abort_task(shell: Shell, task_id: str, reason: str, token: int | None, caller: Caller) -> Task:
    """Give a task up.

    Raises:
        RunNotFound: The task has no run; end it with task_update.
        Fenced: The run was claimed by another since.
        RunHeld: Another holds it.
        RunNotReady: The user reviews it, and has had no word in that.
    """

    def once() -> Task:
        facts, run = require_own_run(shell, task_id, caller, "it was not given up", token)
        task_runs.guard_review(run, caller)
        change = handover.build_task_abort(facts, run, reason, shell.clock.now())
        shell.commit(change)
        return change.tasks[0]

    return shell.retry_on_conflict(task_id, once)


def hand_off_task(
    shell: Shell,
    task_id: str,
    to: str,
    *,
    note: str,
    token: int | None,
    caller: Caller,
) -> tuple[Task, Run, Sequence[str]]:
    """Hand a task's run to the user, or to another role; return what went along.

    Raises:
        RunNotFound: The task has no run.
        Fenced: The run was claimed by another since.
        RunHeld: Another holds it.
        RunNotReady: The user reviews it, and has had no word in that.
    """

    def once() -> tuple[Task, Run, Sequence[str]]:
        facts, run = require_own_run(shell, task_id, caller, "it was not handed on", token)
        now = shell.clock.now()
        if to != "user":
            task_runs.guard_review(run, caller)
            change = handover.build_role_handoff(facts, run, to, note, now)
            shell.commit(change)
            return change.tasks[0], change.runs[0], ()
        attached = {
            shell.new_id("run", now): (each, find_last_run(shell, each.task.task_id))
            for each in _read_existing_tasks(shell, run.attached)
            if each.task.task_id != task_id and may_take_along(shell, facts, each, caller)
        }
        change = handover.build_user_handoff(facts, run, attached, note, now)
        shell.commit(_add_review_reminder(shell, change, now))
        along = [each.task_id for each in change.runs[1:]]
        was = {each.task.task_id: each.run for each, _ in attached.values()}
        for each in along:
            before = was[each]
            log.warning(
                "[Attached Task Update] taskId=%s from=%s to=review",
                each,
                "backlog" if before is None else before.state,
            )
        return change.tasks[0], change.runs[0], along

    return shell.retry_on_conflict(task_id, once)


def require_attachable(shell: Shell, attach: Sequence[str], by: Caller) -> tuple[str, ...]:
    """Return the tasks that a claim attaches, which are the caller's to hand off.

    Raises:
        InvalidArguments: One has ended, or a run.
        NotAllowed: One is another's.
    """
    for task_id in attach:
        facts = shell.store.read_task(task_id)
        guard_task(shell, Act.WRITE, facts, by)
        if facts.run is not None or facts.task.status.terminal:
            raise InvalidArguments(
                f"{task_id} cannot be attached: only a task that is open and has no "
                "run can. Nothing was claimed."
            )
    return tuple(attach)


def find_unheard(
    shell: Shell, run: Run | None, caller: Caller, token: int | None
) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return what the user has said to a caller who holds a run, and was not told.

    First what an earlier answer has shown, as the caller has heard it now, and then
    the rest. What a sub-agent is told between the turns of its session would be lost
    to that. An agent elsewhere is told also where it goes on with what is queued,
    unclaimed, or waits for the user.
    """
    if run is None or not caller.in_turn:
        return (), ()
    elsewhere = caller.gateway_owner is None and not caller.person
    goes_on = elsewhere and fencing.can_write(run, caller, token)
    if not (goes_on or fencing.has_claim(run, caller, token)):
        return (), ()
    said, shown = _read_unheard(shell, run), shell.shown.get(run.run_id, 0)
    heard = [message for message in said if message.message_id <= shown]
    return heard, said[len(heard) :]


def note_shown(shell: Shell, run: Run | None, unheard: Sequence[Message]) -> None:
    """Note what an answer shows to a run's holder; empty: it has heard all there is."""
    if run is not None and unheard:
        shell.shown[run.run_id] = unheard[-1].message_id
    elif run is not None:
        shell.shown.pop(run.run_id, None)


def _read_unheard(shell: Shell, run: Run) -> Sequence[Message]:
    """Return what the user has said that a run's holder was not told."""
    said = shell.store.read_records(Message, run.task_id, said_after=run.heard_until)
    return left_words.find_unheard_messages(run, said)


def note_heard(shell: Shell, task_id: str, words: str | None, caller: Caller) -> None:
    """Note that the holder of a task's run knows what the user has just said.

    The holder has passed it on, or its gateway tells it. If the user has also said what
    the holder was not told, all of it comes with the holder's next update.
    """

    def once() -> None:
        facts = shell.store.read_task(task_id)
        run = facts.run
        told = run is not None and is_gateway_session(run.session_key)
        if run is None or not (told or fencing.has_claim(run, caller, None)):
            return
        unheard = _read_unheard(shell, run)
        if [message.content for message in unheard] == [words]:
            shell.commit(left_words.record_heard(Change(), facts, unheard, shell.clock.now()))

    shell.retry_on_conflict(task_id, once)


def add_sent_back_wake(
    shell: Shell, facts: TaskFacts, change: Change, words: str | None, now: datetime
) -> Change:
    """Return a change by which the user sends a task back, and its session goes on.

    `words` are theirs; None: they gave none. A run of no gateway's session waits for
    whoever claims it.
    """
    task, run = next(iter(change.tasks), facts.task), change.runs[0]
    after = facts.model_copy(update={"task": task, "run": run})
    told = apply_events(run, UserSpoke(), ToldToGoOn(), now=now).run
    wake = make_resume_wake(shell, after, told, now, words)
    if wake is None:
        return change
    wakes = (*change.wakes, wake)
    return change.model_copy(update={"runs": (told,), "wakes": wakes})


def _add_review_reminder(shell: Shell, change: Change, now: datetime) -> Change:
    """Return a hand-off to the user that also reminds whoever registered the task.

    Where no wake reaches them, the user's own notice has to do.
    """
    task, run = change.tasks[0], change.runs[0]
    session = task.registrar_session
    if session is None or not shell.reaches(task.registrar_host, session):
        return change
    wake_id, threshold = shell.new_id("wake", now), shell.stuck.threshold_seconds
    wake = registrars.build_review_wake(task, run, wake_id, now, threshold)
    return change.model_copy(update={"wakes": (*change.wakes, wake)})


def _read_existing_tasks(shell: Shell, named: Sequence[str]) -> Iterator[TaskFacts]:
    """Read the tasks among the named ones that there are."""
    for task_id in dict.fromkeys(named):
        with suppress(TaskNotFound):
            yield shell.store.read_task(task_id)


def reset_run(shell: Shell, task_id: str, caller: Caller) -> tuple[Run, Owner | None]:
    """Take a run from whoever holds it; return it with who that was.

    Raises:
        RunNotReady: It does not run.
        NotAllowed: It is another session's.
    """

    def once() -> tuple[Run, Owner | None]:
        facts = shell.store.read_task(task_id)
        guard_task(shell, Act.RESET, facts, caller)
        now = shell.clock.now()
        run = facts.run
        wake_id = shell.new_id("wake", now)
        change = handover.build_run_reset(
            facts,
            wake_id=wake_id,
            text=packets.render_resume_text(shell, facts, wake_id, GO_ON),
            turn=find_turn_session(shell, run),
            now=now,
        )
        shell.commit(change)
        holder = run.owner if run else None
        log.warning(
            "[Manual Reset] task=%s running to queued; previously held by %s",
            task_id,
            holder.role if holder else "nobody",
        )
        return change.runs[0], holder

    return shell.retry_on_conflict(task_id, once)

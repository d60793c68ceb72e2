"""Use cases that hand a run over, reset it or end it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import Final

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import handoff, questions, task_runs
from openclaw_taskmem.domain.changes.rights import Act
from openclaw_taskmem.domain.errors import RunNotReady
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.machine import ToldToGoOn, UserSpoke, apply_events
from openclaw_taskmem.domain.tasks import lifecycle, thread
from openclaw_taskmem.domain.tasks.thread import StepMentions
from openclaw_taskmem.domain.wakes import outbox
from openclaw_taskmem.engine import evidence, run_history
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.run_guards import (
    RESUME_REASON,
    guard_task,
    list_background_runs,
    make_resume_wake,
    may_take_along,
    require_own_run,
)
from openclaw_taskmem.engine.run_history import find_last_run
from openclaw_taskmem.engine.turns import find_turn_session, list_newest_wakes
from taskmem_hookspecs import (
    Change,
    Message,
    Owner,
    PlanRevision,
    Run,
    Task,
    TaskFacts,
)
from taskmem_hookspecs.errors import InvalidArguments

log = logging.getLogger(__name__)

_BACKGROUND: Final = "background"
"""The lock for moves to the background: their limit counts the runs of all tasks."""


def move_to_background(
    context: Context, task_id: str, caller: Caller, note: str = ""
) -> tuple[Task, Run]:
    """Move a task's run to a session of its own, with a note for its agent.

    Raises:
        RunNotFound: The task has no run.
        RunNotReady: The caller is no agent of a gateway.
        LimitReached: The limit of background runs is reached.
        RunHeld: Another owns the run.
    """
    if not caller.person and caller.gateway_owner is None:
        raise RunNotReady(
            f"{task_id} cannot go to the background: only inside OpenClaw are there "
            "sessions for that; go on with it here."
        )

    def move(facts: TaskFacts, now: datetime) -> Decision[tuple[Task, Run]]:
        run = require_own_run(context, facts, caller, "it stays where it is")
        wake_id = context.new_id("wake", now)
        moved = handoff.format_background_note(caller, note)
        entry = lifecycle.build_system_message(facts.task, moved, now)
        sent = handoff.describe_background(run.session_key or "", (entry,), context.sessions)
        change = handoff.build_background_move(
            facts,
            run,
            list_background_runs(context),
            wake_id=wake_id,
            text=run_history.render_resume_text(
                context, facts, wake_id, RESUME_REASON, background=sent
            ),
            moved=moved,
            now=now,
            policy=context.policies.runs,
            sessions=context.sessions,
        )
        return change, (change.tasks[0], change.runs[0])

    return context.update_task(task_id, move, _BACKGROUND)


def cancel_task(
    context: Context,
    task_id: str,
    reason: str,
    caller: Caller,
    guard: Callable[[TaskFacts], None] | None = None,
) -> Task:
    """Cancel a task and its open waits; its checkpoints stay.

    `guard` may refuse the facts that it is decided on; None: nothing more is refused.

    Raises:
        TaskEnded: It has ended already.
        NotAllowed: It belongs to another session.
        RunNotReady: It is in review, and the user has not spoken.
    """

    def cancel(facts: TaskFacts, now: datetime) -> Decision[Task]:
        if guard is not None:
            guard(facts)
        guard_task(context, Act.CANCEL, facts, caller)
        turn = find_turn_session(context, facts.run)
        change = handoff.build_cancellation(facts, caller, reason, turn, now)
        task_runs.guard_review(facts.run, caller)
        return change, change.tasks[0]

    return context.update_task(task_id, cancel)


def abort_task(
    context: Context, task_id: str, reason: str, token: int | None, caller: Caller
) -> Task:
    """End a task as failed because its own agent gives it up.

    Raises:
        RunNotFound: The task has no run; end it with task_update.
        Fenced: Another has claimed the run since.
        RunHeld: Another owns the run.
        RunNotReady: It is in review, and the user has not spoken.
    """

    def abort(facts: TaskFacts, now: datetime) -> Decision[Task]:
        run = require_own_run(context, facts, caller, "it was not given up", token)
        task_runs.guard_review(run, caller)
        change = handoff.build_task_abort(facts, run, reason, now)
        return change, change.tasks[0]

    return context.update_task(task_id, abort)


def hand_off_task(
    context: Context, task_id: str, to: str, *, note: str, token: int | None, caller: Caller
) -> tuple[Task, Run, Sequence[str]]:
    """Hand a task's run to the user or another role.

    Return the task, the run, and the ids of the attached tasks that went along to the user.

    Raises:
        RunNotFound: The task has no run.
        Fenced: Another has claimed the run since.
        RunHeld: Another owns the run.
        RunNotReady: It is in review, is to go to a role, and the user has not spoken.
    """
    was: dict[str, Run | None] = {}

    def hand_off(facts: TaskFacts, now: datetime) -> Decision[tuple[Task, Run, Sequence[str]]]:
        run = require_own_run(context, facts, caller, "it was not handed on", token)
        task_runs.guard_question(run, caller, read_words_since_question(context, run))
        if to != "user":
            task_runs.guard_review(run, caller)
            change = handoff.build_role_handoff(facts, run, to, note, now)
            return change, (change.tasks[0], change.runs[0], ())
        attached = {
            context.new_id("run", now): (each, find_last_run(context, each.task.task_id))
            for each in map(context.find_task, dict.fromkeys(run.attached))
            if each is not None
            and each.task.task_id != task_id
            and may_take_along(context, facts, each, caller)
        }
        change = handoff.build_user_handoff(facts, run, attached, note, now)
        was.update((each.task.task_id, each.run) for each, _ in attached.values())
        along = [each.task_id for each in change.runs[1:]]
        return _add_review_reminder(context, change, now), (change.tasks[0], change.runs[0], along)

    task, run, along = context.update_task(task_id, hand_off)
    if to == "user":
        for each in (task_id, *along):
            context.run_later(0.0, partial(evidence.check_for_review, context, each, caller))
    for each in along:
        before = was[each]
        log.warning(
            "[Attached Task Update] taskId=%s from=%s to=review",
            each,
            "backlog" if before is None else before.state,
        )
    return task, run, along


def require_attachable(context: Context, attach: Sequence[str], by: Caller) -> tuple[str, ...]:
    """Return the tasks to attach to a claim; refuse any that the caller may not hand off.

    Raises:
        InvalidArguments: One has ended or has a run.
        NotAllowed: One belongs to another.
    """
    for task_id in attach:
        facts = context.store.read_task(task_id)
        guard_task(context, Act.WRITE, facts, by)
        if facts.run is not None or facts.task.status.terminal:
            raise InvalidArguments(
                f"{task_id} cannot be attached: only a task that is open and has no "
                "run can. Nothing was claimed."
            )
    return tuple(attach)


def split_unheard_messages(
    context: Context, run: Run | None, caller: Caller, token: int | None
) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return the user's messages that the owner of a run has not heard, in two parts.

    First those that an earlier answer has shown, or a wake carries, and that count as heard now;
    then the rest, without those that a wake carries. Both are empty for a sub-agent between its
    session's turns: the session would miss them. An agent outside gateways also gets them for a
    run that is queued, unclaimed or waiting for the user.
    """
    if run is None or not caller.in_turn:
        return (), ()
    elsewhere = caller.gateway_owner is None and not caller.person
    goes_on = elsewhere and current_run.can_write(run, caller, token)
    if not (goes_on or current_run.has_claim(run, caller, token)):
        return (), ()
    messages, shown = _read_unheard(context, run), context.live.shown_messages.get(run.run_id, 0)
    newest = list_newest_wakes(context, run) if messages else ()
    carried = {
        message.message_id
        for message in messages
        if any(questions.carries_words(wake, message) for wake in newest)
    }
    heard = [*takewhile(lambda m: m.message_id <= shown or m.message_id in carried, messages)]
    return heard, [m for m in messages[len(heard) :] if m.message_id not in carried]


def read_words_since_question(context: Context, run: Run | None) -> str | None:
    """Return the user's last words since a run's open question; None: it has none, or none came."""
    if run is None or not current_run.has_open_question(run):
        return None
    messages = context.store.read_records(Message, run.task_id, thread.MOST_READ_MESSAGES)
    return thread.find_words_since(messages, run.dialogue.question, run.changed_at)


def explain_old_steps(
    context: Context, task: Task, messages: Sequence[Message]
) -> Sequence[Message]:
    """Add to messages of a task what the step numbers in them meant before its plan was revised."""
    if not messages or not (revisions := context.store.read_records(PlanRevision, task.task_id)):
        return messages
    whole = context.store.read_records(Message, task.task_id)
    mentions = StepMentions(whole, revisions, task.plan)
    return [
        each.model_copy(update={"content": mentions.add_old_steps(each.content, each)})
        for each in messages
    ]


def note_shown(context: Context, run: Run | None, unheard: Sequence[Message]) -> None:
    """Note the messages that an answer shows to a run's owner; empty: none are left."""
    if run is not None and unheard:
        context.live.shown_messages[run.run_id] = unheard[-1].message_id
    elif run is not None:
        context.live.shown_messages.pop(run.run_id, None)


def _read_unheard(context: Context, run: Run) -> Sequence[Message]:
    """Return the user's messages that a run's owner has not heard."""
    messages = context.store.read_records(Message, run.task_id, said_after=run.dialogue.heard_until)
    return handoff.find_unheard_messages(run, messages)


def note_heard(context: Context, task_id: str, words: str | None, caller: Caller) -> None:
    """Note that the owner of a task's run knows the user's latest message.

    It passed the message on itself, or its gateway delivers it. If other messages are unheard, too,
    all come with the owner's next update.
    """

    def note(facts: TaskFacts, now: datetime) -> Decision[None]:
        run = facts.run
        is_own = run is not None and context.sessions.is_own(run.session_key)
        if run is None or not (is_own or current_run.has_claim(run, caller, None)):
            return Change(), None
        unheard = _read_unheard(context, run)
        if [message.content for message in unheard] != [words]:
            return Change(), None
        return handoff.record_heard(Change(), facts, unheard, now), None

    context.update_task(task_id, note)


def add_sent_back_wake(
    context: Context, facts: TaskFacts, change: Change, words: str | None, now: datetime
) -> Change:
    """Add the wake of the run's session to a change by which the user sends a task back.

    `words` are the user's; None: they gave none. A run without a gateway session waits to be
    claimed.
    """
    task, run = next(iter(change.tasks), facts.task), change.runs[0]
    after = facts.model_copy(update={"task": task, "run": run})
    moved = apply_events(run, UserSpoke(), ToldToGoOn(), now=now).run
    wake = make_resume_wake(context, after, moved, now, words)
    if wake is None:
        return change
    wakes = (*change.wakes, wake)
    return change.model_copy(update={"runs": (moved,), "wakes": wakes})


def _add_review_reminder(context: Context, change: Change, now: datetime) -> Change:
    """Add a wake for the task's registrar to a hand-off to the user.

    If no transport reaches the registrar, the user's notice has to do.
    """
    task, run = change.tasks[0], change.runs[0]
    session = task.registrar_session
    if session is None or not context.reaches(task.registrar_host, session):
        return change
    wake_id, threshold = context.new_id("wake", now), context.policies.stuck.threshold_seconds
    wake = outbox.build_review_wake(task, run, wake_id, now, threshold)
    return change.model_copy(update={"wakes": (*change.wakes, wake)})


def reset_run(
    context: Context,
    task_id: str,
    caller: Caller,
    guard: Callable[[TaskFacts], None] | None = None,
) -> tuple[Run, Owner | None]:
    """Requeue a running run; return it and its last owner.

    `guard` may refuse the facts that it is decided on; None: nothing more is refused.

    Raises:
        RunNotReady: It is not running.
        NotAllowed: It belongs to another session.
    """

    def reset(facts: TaskFacts, now: datetime) -> Decision[tuple[Run, Owner | None]]:
        if guard is not None:
            guard(facts)
        guard_task(context, Act.RESET, facts, caller)
        run = facts.run
        wake_id = context.new_id("wake", now)
        change = handoff.build_run_reset(
            facts,
            wake_id=wake_id,
            text=run_history.render_resume_text(context, facts, wake_id, RESUME_REASON),
            turn=find_turn_session(context, run),
            sessions=context.sessions,
            now=now,
        )
        return change, (change.runs[0], run.owner if run else None)

    run, holder = context.update_task(task_id, reset)
    log.warning(
        "[Manual Reset] task=%s running to queued; previously held by %s",
        task_id,
        holder.role if holder else "nobody",
    )
    return run, holder

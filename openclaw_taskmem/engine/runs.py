"""Use cases on runs: queue, claim and resume them, answer their questions, report their steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple

from openclaw_taskmem.domain.callers import AGENT, Caller, CallerKind
from openclaw_taskmem.domain.changes import (
    continuation,
    plan_revision,
    questions,
    rights,
    task_runs,
)
from openclaw_taskmem.domain.changes.handoff import HandoffNotes, find_handoff_notes
from openclaw_taskmem.domain.changes.rights import Act
from openclaw_taskmem.domain.changes.task_update import UpdateRequest
from openclaw_taskmem.domain.errors import RunHeld, RunNotReady, TaskEnded
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import (
    QuestionClosed,
    RunClaimed,
    RunRequeued,
    RunTransition,
    StepFailed,
    StepGivenMore,
    TakenUpAgain,
    TasksAttached,
    ToldToGoOn,
    UserHeard,
    UserSpoke,
    apply_events,
    begin_run,
)
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import quote_line, to_plain_line
from openclaw_taskmem.domain.wakes import outbox, packet
from openclaw_taskmem.engine import run_history, run_recovery, tasks
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.lookup import find_own_task
from openclaw_taskmem.engine.run_guards import (
    AWAY_TEXT,
    RESUME_REASON,
    begin_caller_run,
    begin_session_run,
    guard_reopen,
    guard_task,
    make_resume_wake,
    require_own_run,
)
from openclaw_taskmem.engine.run_handoff import (
    explain_old_steps,
    note_heard,
    read_words_since_question,
    require_attachable,
)
from openclaw_taskmem.engine.run_history import find_last_run
from taskmem_hookspecs import (
    Change,
    EventQuery,
    InvalidArguments,
    Message,
    MessageType,
    Owner,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskFacts,
    TaskNotFound,
    TaskStatus,
    UserQuestion,
    Value,
)
from taskmem_hookspecs.errors import Conflict, RunNotFound

READ_RUNS: Final = 1000
"""Runs read at first; more if there are as many."""
_QUEUED_RUNS: Final = 50
"""Queued runs read at first; doubled while none of them is claimable."""


def list_awaited(context: Context) -> Mapping[str, Run]:
    """Return by task the runs of all homes that wait for somebody else to act.

    The longest waiting comes first.
    """
    states = (RunState.QUEUED, RunState.BLOCKED, RunState.REVIEW)
    limit = READ_RUNS
    while True:
        query = RunQuery(states=states, limit=limit, implicit=False)
        found = context.store.whole.find_runs(query)
        if len(found) < limit:
            break
        # The store returns the newest first; the longest waiting are wanted.
        limit *= 4
    waiting = [run for run in found if current_run.find_awaited(run, context.sessions)]
    return {run.task_id: run for run in sorted(waiting, key=lambda r: r.changed_at)}


def find_claimable(context: Context, role: str) -> Task | None:
    """Return the first task queued for a role that can be claimed; None: there is none.

    Runs queued for no role count, too.
    """
    now = context.clock.now()
    for run in _list_queue(context, role):
        with suppress(TaskNotFound):
            facts = context.store.read_task(run.task_id)
            if (
                facts.run is not None
                and facts.run.run_id == run.run_id
                and facts.run.state is RunState.QUEUED
                and facts.task.status is TaskStatus.ACTIVE
                and not facts.task.blocked_by
                and not _has_own_session(context, facts, now)
            ):
                return facts.task
    return None


def _has_own_session(context: Context, facts: TaskFacts, now: datetime) -> bool:
    """Tell whether a queued run has a session of its own that will go on with it."""
    run = facts.run
    if run is None:
        return False
    if facts.task.implicit:
        return True
    if current_run.is_left_behind(run, now, context.policies.runs):
        return continuation.has_wake_on_its_way(facts, now)
    is_continued = outbox.has_live_continuation(facts.wakes, now, context.policies.outbox)
    return run.told_session is not None or is_continued


def _list_queue(context: Context, role: str) -> Iterator[Run]:
    """Yield the queued runs that a role may claim, oldest first."""
    start, limit = 0, _QUEUED_RUNS
    while True:
        queued = context.store.whole.find_runs(current_run.build_queue_query(role, limit))
        yield from queued[start:]
        if len(queued) < limit:
            return
        start, limit = limit, limit * 2


# --- questions to the user -----------------------------------------------------------------


READ_EVENTS: Final = 200
"""Log entries of a task that are read first when looking for its question to the user."""


def find_question(context: Context, run: Run | None) -> UserQuestion | None:
    """Return the question that a run's user has not answered; None: there is none."""
    if run is None or not run.state.is_waiting:
        return None
    task = context.store.read_task(run.task_id).task
    if task.implicit:
        return None
    limit = READ_EVENTS
    newest = context.store.find_events(EventQuery(task_id=run.task_id, limit=limit))
    while len(newest) == limit and not questions.has_run_change(run, newest):
        limit *= 2
        newest = context.store.find_events(EventQuery(task_id=run.task_id, limit=limit))
    return questions.build_user_question(task, run, newest)


def build_answer_delivery(
    context: Context,
    facts: TaskFacts,
    answer: str | None,
    now: datetime,
    by: CallerKind = CallerKind.USER,
) -> Change:
    """Return the change that delivers an answer to the agent that asked; `by`: who gave it.

    Raises:
        InvalidArguments: There is no answer.
    """
    task, run = facts.task, facts.run
    if answer is None:
        asked = quote_line(
            to_plain_line((run and run.dialogue.question) or ""), continuation.QUESTION_BYTES
        )
        raise InvalidArguments(
            f"{task.task_id} has asked the user: {asked} Give what they answer to that "
            "as answer. Nothing was changed."
        )
    question = find_question(context, run)
    wake_id = context.new_id("wake", now)
    return questions.build_answer_change(
        facts, question, answer, wake_id=wake_id, sessions=context.sessions, now=now, by=by
    )


# --- resuming, claiming, answering ---------------------------------------------------------


_CLAIM_CANDIDATES: Final = 16
"""Queued runs among which a claim chooses at random, so that many callers seldom collide."""
_NOT_TAKEN: Final = "it was not taken up again"


class TakenUp(NamedTuple):
    """A task that was taken up again."""

    facts: TaskFacts
    answer: str | None
    """The user's answer for its agent, with who relayed it; None: there was none."""
    asked: bool
    """True if its agent had asked the user."""


def resume_task(
    context: Context,
    task_id: str | None,
    caller: Caller,
    answer: str | None = None,
    *,
    reopen: bool = False,
) -> tuple[Task, Run | None, str]:
    """Resume a task as `take_up_task` does; return it, its run and the packet for its agent."""
    facts, answer, asked = take_up_task(context, task_id, caller, answer, reopen=reopen)
    wake_id = f"resume_{facts.task.task_id}"
    if _is_parent_session(facts.run, caller):
        return (facts.task, facts.run, packet.build_away_reminder(facts.task, wake_id, AWAY_TEXT))
    text = run_history.render_resume_text(
        context, facts, wake_id, RESUME_REASON, answer=answer, asked=asked
    )
    return facts.task, facts.run, text


def take_up_task(
    context: Context,
    task_id: str | None,
    caller: Caller,
    answer: str | None = None,
    *,
    reopen: bool = False,
    guard: Callable[[TaskFacts], None] | None = None,
) -> TakenUp:
    """Resume a task, without a packet for its agent.

    A calling agent claims the run. If a person calls, or the parent session of a background run,
    the run's own session is woken instead. An `answer` (None: none) is delivered to the agent that
    asked; its run waits until that agent acts. `guard` may refuse the facts that it is decided on;
    None: nothing more is refused.
    Source: docs/origins.md, "Questions to the user".

    Raises:
        TaskNotFound: No task has that id, or the session has none.
        InvalidArguments: Its agent has asked the user, and no answer is given.
        TaskEnded: The task is completed, and `reopen` is false.
        NotAllowed: The caller has no right to it, or the user has cancelled it.
        RunHeld: Another session owns the run.
        RunNotReady: This would end the review without a word of the user.
    """
    wanted = task_id or find_own_task(context, caller)
    before = context.store.read_task(wanted)
    guard_task(context, Act.TAKE_UP, before, caller, consequence=_NOT_TAKEN)
    answer = task_runs.attribute_answer(answer, before.run, caller)
    run_recovery.requeue_abandoned(context, task_id=wanted)

    def resume(facts: TaskFacts, now: datetime) -> Decision[bool]:
        if guard is not None:
            guard(facts)
        has_question = facts.run is not None and current_run.can_take_answer(facts.run)
        guard_task(context, Act.TAKE_UP, facts, caller, consequence=_NOT_TAKEN)
        guard_reopen(context, facts.task, caller)
        task_runs.guard_review(facts.run, caller, answer)
        if questions.awaits_answer(facts.run, caller, answer, context.sessions):
            delivery = build_answer_delivery(context, facts, answer, now, caller.known_as)
            return delivery, has_question
        words = answer or read_words_since_question(context, facts.run)
        task_runs.guard_question(facts.run, caller, words, takes_up=True)
        task, message = lifecycle.reactivate_task(facts.task, now, reopen=reopen)
        messages = (message,) if message else ()
        if answer is not None:
            entry = lifecycle.build_answer_message(task, answer, now, caller.known_as)
            messages = (*messages, entry)
        count = task.message_count + len(messages)
        task = task.model_copy(update={"message_count": count})
        moved = _take_up_run(context, facts, task, caller, now)
        is_open = moved is not None and not moved.run.state.terminal
        if moved is not None and is_open and (answer is not None or caller.is_user):
            moved = apply_events(moved, UserSpoke(), now=now)
        wake = None
        away = caller.owner is None or (moved and _is_parent_session(moved.run, caller))
        if moved is not None and is_open and away:
            taken_up = facts.model_copy(update={"task": task})
            resumed = apply_events(moved, ToldToGoOn(), now=now)
            wake = make_resume_wake(context, taken_up, resumed.run, now, answer)
            moved = resumed if wake else moved  # a run without a gateway session stays as it is
        gone = continuation.supersede_open_wakes(facts)
        change = Change(
            tasks=(task,) if task != facts.task else (),
            messages=messages,
            runs=(moved.run,) if moved else (),
            wakes=(*gone, *((wake,) if wake else ())),
            events=(
                *lifecycle.build_status_events(facts.task.status, task, now),
                *(moved.events if moved else ()),
                *outbox.build_settled_events(gone, now),
            ),
        )
        return change, has_question

    has_question = context.update_task(wanted, resume)
    facts = context.store.read_task(wanted)
    if answer is not None:
        note_heard(context, wanted, answer, caller)
    return TakenUp(facts, answer, has_question)


class ClaimResult(NamedTuple):
    """A claimed run, its task, and the notes for its new owner."""

    task: Task
    run: Run
    left: HandoffNotes
    gone: str
    """The fate of the run's last owner; empty: the run was not abandoned."""


def claim_run(
    context: Context, task_id: str | None, role: str, attach: Sequence[str], caller: Caller
) -> ClaimResult:
    """Claim a task's run, or the next run that is queued for a role.

    Runs whose owner's process has ended are requeued first.

    Raises:
        RunNotFound: Nothing is queued for the role.
        RunHeld: Another owns the run.
        RunNotReady: The task is paused or in review.
        TaskEnded: The task has ended.
        InvalidArguments: A task to attach has ended or has a run, or the caller's gateway reports
            another role.
    """
    owner = caller.gateway_owner or Owner(
        role=role, session_key=caller.session_key, process=caller.process, home=context.store.scope
    )
    if role not in (AGENT, owner.role):
        raise InvalidArguments(
            f"Your gateway says that you are {owner.role}, so you cannot claim as "
            f"{role}; leave out role, or leave it to an agent of that role. Nothing "
            "was claimed."
        )
    attached = require_attachable(context, attach, caller)
    as_role = owner.role if task_id is None else None
    run_recovery.requeue_abandoned(context, task_id=task_id, role=as_role)
    if task_id is not None:
        return _claim_task_run(context, task_id, owner, attached, caller)
    for chosen in _iterate_queue(context, owner.role):
        with suppress(RunHeld, RunNotReady, TaskEnded, Conflict):
            return _claim_task_run(context, chosen.task_id, owner, attached, caller, queued=True)
    raise RunNotFound(
        f"Nothing is queued for {owner.role}; wait for it with smart_wait, target "
        f"queue:{owner.role}, or claim a task by its id."
    )


def _iterate_queue(context: Context, role: str) -> Iterator[Run]:
    """Yield the runs queued for a role, roughly oldest first.

    The queue is read in batches of doubling size. Within a batch, runs whose owner's process has
    ended come first, unless they have been resumed too often.
    """
    passed: set[str] = set()
    limit = _CLAIM_CANDIDATES
    while True:
        queued = context.store.whole.find_runs(current_run.build_queue_query(role, limit))
        fresh = [run for run in queued if run.run_id not in passed]
        while fresh:
            unclaimed = [
                run
                for run in fresh
                if run.why == RunReason.OWNER_GONE
                and run.limits.tries <= context.policies.runs.tries
            ]
            chosen = random.choice(unclaimed or fresh)  # noqa: S311 - no secret
            fresh.remove(chosen)
            passed.add(chosen.run_id)
            yield chosen
        if len(queued) < limit:
            return
        limit *= 2


def _assign_to_holder(context: Context, task: Task, run: Run, owner: Owner, caller: Caller) -> Task:
    """Direct a task's wakes to the owner of its run.

    If the run has no session, a session's task stays with that session.
    """
    if run.session_key is None and task.session_key is not None:
        return task
    home = task.home if owner.session_key is None else context.store.home
    whose = {"session_key": run.session_key, "host": caller.host or task.host}
    return task.model_copy(update={**whose, "home": home})


def _is_parent_session(run: Run | None, caller: Caller) -> bool:
    """Tell whether the caller's session is the parent of a background run."""
    return run is not None and run.told_session in {caller.session_key} - {None}


def _take_up_run(
    context: Context, facts: TaskFacts, task: Task, caller: Caller, now: datetime
) -> RunTransition | None:
    """Return the run as a resume leaves it: at work, owned by the caller, or queued.

    None: the last run has ended, and nobody can own another.

    Raises:
        TaskmemError: What `current_run.guard_write` refuses.
    """
    run = facts.run
    if run is None:
        return _begin_next_run(context, task, caller, now)
    forgiven = apply_events(run, TakenUpAgain(), now=now)
    waits = run.state.is_waiting
    at_work = run.state is RunState.RUNNING
    gone = waits and run_recovery.has_holder_ended(context, run)
    if at_work or not (_is_parent_session(run, caller) or gone):
        current_run.guard_write(run, caller, None, _NOT_TAKEN)
    if at_work:
        return forgiven
    if current_run.keeps_only_question(run) and not context.sessions.is_own(run.session_key):
        return apply_events(forgiven, QuestionClosed(), now=now)
    owner = caller.owner
    if owner is not None:
        same = run.session_key == owner.session_key
        if current_run.is_owned_by(run, owner) if waits else same:
            return task_runs.take_up_for_caller(forgiven.run, caller, now, context.policies.runs)
    if waits:
        return apply_events(forgiven, RunRequeued(), now=now)
    return forgiven


def _begin_next_run(
    context: Context, task: Task, caller: Caller, now: datetime
) -> RunTransition | None:
    """Begin a new run of a task whose last run has ended; None: nobody can own it."""
    moved = begin_caller_run(context, caller, now, task)
    if moved is not None or caller.owner is not None:
        return moved
    session = task.session_key
    if not context.sessions.is_own(session) or not context.reaches(task.host, session):
        return None
    return begin_session_run(context, task, now)


def _claim_task_run(
    context: Context,
    task_id: str,
    owner: Owner,
    attached: tuple[str, ...],
    caller: Caller,
    *,
    queued: bool = False,
) -> ClaimResult:
    """Claim the run of a task; `queued`: only if it is still queued."""

    def claim(facts: TaskFacts, now: datetime) -> Decision[ClaimResult]:
        waits = facts.run is not None and facts.run.state.is_waiting
        if waits or facts.task.status is not TaskStatus.ACTIVE:
            guard_task(context, Act.TAKE_UP, facts, caller)
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
        task_runs.guard_question(facts.run, caller, read_words_since_question(context, facts.run))
        run, made = facts.run, None
        if queued and (run is None or run.state is not RunState.QUEUED):
            # Even the same process is refused: another of its calls may have claimed it.
            raise RunHeld(f"{task_id} was claimed meanwhile; claim another.")
        if queued and facts.task.blocked_by:
            raise RunNotReady(f"{task_id} waits for other tasks; claim another.")
        if queued and _has_own_session(context, facts, now):
            raise RunHeld(f"{task_id} goes on in a session of its own; claim another.")
        if run is None:
            made = begin_run(
                facts.task,
                run_id=context.new_id("run", now),
                now=now,
                session_key=owner.session_key,
                last=find_last_run(context, task_id),
            )
            run = made.run
        moved = apply_events(
            made or run, RunClaimed(owner=owner), now=now, policy=context.policies.runs
        )
        guard_task(context, Act.CLAIM, facts, caller)
        words = context.store.read_records(Message, task_id, said_after=0)
        moved = task_runs.begin_turn_or_rest(moved, caller, now)
        event = UserHeard(heard_until=words[-1].message_id if words else 0)
        held = apply_events(moved, TasksAttached(task_ids=attached), event, now=now).run
        shown = explain_old_steps(context, facts.task, words)
        notes = find_handoff_notes(held, shown, run.dialogue.heard_until)
        # Wakes that told an earlier owner to go on are void now.
        gone = continuation.supersede_open_wakes(facts)
        log = (*moved.events, *outbox.build_settled_events(gone, now))
        task = _assign_to_holder(context, facts.task, held, owner, caller)
        changed = (task,) if task != facts.task else ()
        last_holder = run_recovery.describe_last_holder(context, facts.task, run)
        change = Change(tasks=changed, runs=(held,), wakes=gone, events=log)
        return change, ClaimResult(task, held, notes, last_holder)

    return context.update_task(task_id, claim)


# --- steps ---------------------------------------------------------------------------------


NOTHING_WRITTEN: Final = "nothing was written"
"""End of a refusal of a step that left everything as it was."""


class StepResult(Value):
    """The task after a step was reported."""

    task: Task
    left_out: tuple[str, ...] = ()
    """Steps beyond the limit of a segmented task, left out of the plan."""
    unheard: tuple[Message, ...] = ()
    """The user's messages that the agent has not heard, oldest first."""


class StepOutcome(Value):
    """An agent's report on the step that it works on."""

    step: int | None = None
    """Counted from 1; None: the current step."""
    outcome: str = "done"
    """`done`, `failed` or `more_tools`."""
    note: str | None = None
    remaining: tuple[str, ...] = ()
    """Steps to replace a failed step and those after it."""
    token: int | None = None


def record_step_outcome(
    context: Context, task_id: str, request: StepOutcome, caller: Caller
) -> StepResult:
    """Record a step as done or failed, or grant it more calls.

    Raises:
        InvalidArguments: There is no such step, or it was granted more calls already.
        RunNotFound: The task has no run, so its steps have no budget.
        LimitReached: The thread is full.
    """
    facts = context.store.read_task(task_id)
    require_own_run(context, facts, caller, NOTHING_WRITTEN, request.token)
    current = compute_progress(facts.task).current if request.step is None else request.step - 1
    if current is None or not 0 <= current < len(facts.task.plan):
        raise InvalidArguments(
            f"The plan of {task_id} has no such step; it has steps 1 to "
            f"{len(facts.task.plan)}. Nothing was written."
        )
    if request.outcome == "done":
        update = UpdateRequest(
            message=request.note, completed_steps=(current + 1,), token=request.token, caller=caller
        )
        updated = tasks.write_update(context, task_id, update)
        return StepResult(task=updated.task, unheard=updated.unheard)
    if request.outcome == "failed":
        rights.guard_words(facts.task, caller)
        task, left_out = _record_failed_step(context, facts, current, request, caller)
        return StepResult(task=task, left_out=tuple(left_out))
    return StepResult(task=_grant_more_calls(context, task_id, request, caller))


def _grant_more_calls(context: Context, task_id: str, request: StepOutcome, caller: Caller) -> Task:
    """Grant the current step of a segmented task its further calls, once."""

    def grant(facts: TaskFacts, now: datetime) -> Decision[Task]:
        run = require_own_run(context, facts, caller, NOTHING_WRITTEN, request.token)
        if not run.budget.segmented or caller.gateway_owner is None:
            raise InvalidArguments(
                "This step may call as many tools as it takes: nobody counts them. "
                "Nothing was written."
            )
        current = compute_progress(facts.task).current
        if current is None or request.step not in (None, current + 1):
            raise InvalidArguments(
                "Only the step that is worked on has more calls, and that is "
                f"{'none' if current is None else current + 1}. Nothing was written."
            )
        same = run.budget.step == current
        if run.budget.step_bonus and same:
            raise InvalidArguments(
                f"Step {current + 1} has had its {context.policies.runs.step_bonus} more calls; "
                "end it as done or failed. Nothing was written."
            )
        given = apply_events(run, StepGivenMore(step=current), now=now).run
        seen = task_runs.note_call(given, caller, request.token, now, context.policies.runs)
        return Change(runs=(seen,)), facts.task

    return context.update_task(task_id, grant)


def _record_failed_step(
    context: Context, facts: TaskFacts, current: int, request: StepOutcome, caller: Caller
) -> tuple[Task, Sequence[str]]:
    """Mark a step as failed, or replace it and those after it by the remaining steps if given."""
    task_id = facts.task.task_id
    note = request.note or "No reason was given."
    sentence = f"Step {current + 1} could not be done. {note}"

    def mark(again: TaskFacts, now: datetime) -> Decision[tuple[Task, Sequence[str]]]:
        run = require_own_run(context, again, caller, NOTHING_WRITTEN, request.token)
        seen = task_runs.note_call(run, caller, request.token, now, context.policies.runs)
        marked = apply_events(seen, StepFailed(index=current), now=now).run
        task, entry = lifecycle.add_lifecycle_message(again.task, sentence, now, MessageType.TEXT)
        return Change(tasks=(task,), messages=(entry,), runs=(marked,)), (task, ())

    def replan(again: TaskFacts, now: datetime) -> Decision[tuple[Task, Sequence[str]]]:
        require_own_run(context, again, caller, NOTHING_WRITTEN, request.token)
        change, revised = plan_revision.revise_plan(
            again,
            (*again.task.plan[:current], *request.remaining),
            sentence,
            now,
            caller=caller,
            token=request.token,
            policy=context.policies.runs,
        )
        return change, (revised.task, revised.left_out)

    return context.update_task(task_id, replan if request.remaining else mark)

"""Begin a task's runs, and apply calls, turns and changes of the task to its open run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain.callers import Caller, CallerKind, SessionKeys
from openclaw_taskmem.domain.changes import continuation
from openclaw_taskmem.domain.errors import RunNotReady
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import (
    AgentDescribed,
    LeaseReleased,
    OwnerSeen,
    QuestionAsked,
    QuestionClosed,
    RunBlocked,
    RunCancelled,
    RunClaimed,
    RunCompleted,
    RunContinued,
    RunEvent,
    RunFailed,
    RunRequeued,
    RunTransition,
    StepsDone,
    TasksAttached,
    TurnBegan,
    UserAnswered,
    apply_events,
    begin_run,
)
from openclaw_taskmem.domain.text.texts import quote_line, to_plain_line
from openclaw_taskmem.domain.wakes import notices, outbox
from openclaw_taskmem.domain.wakes.notices import Milestone, NoticeKind
from taskmem_hookspecs import (
    Change,
    Event,
    InvalidArguments,
    Owner,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
    Wake,
)

_RUN_STATES: Final[Mapping[TaskStatus, tuple[RunState, RunEvent]]] = {
    TaskStatus.PAUSED: (RunState.BLOCKED, RunBlocked(why=RunReason.PAUSED)),
    TaskStatus.COMPLETED: (RunState.COMPLETED, RunCompleted()),
    TaskStatus.FAILED: (RunState.FAILED, RunFailed()),
    TaskStatus.CANCELLED: (RunState.CANCELLED, RunCancelled()),
}


def follow_status(run: Run, status: TaskStatus, now: datetime) -> RunTransition:
    """Move a task's open run to the state that matches the task's new status.

    A run in review is not blocked when its task is paused: it already waits for the user.
    """
    state, event = _RUN_STATES.get(status, (run.state, None))
    waits = state is RunState.BLOCKED and run.state is RunState.REVIEW
    if event is None or state is run.state or waits:
        return RunTransition(run=run)
    return apply_events(run, event, now=now)


def take_up_run(run: Run, owner: Owner, now: datetime, policy: RunPolicy) -> RunTransition:
    """Set a resting run running for an owner.

    An owner that already holds the run keeps its role and token; anyone else claims it.
    """
    by_itself = owner.boot is None and owner.same(run.owner)
    same = run.owner == owner or by_itself
    event = RunContinued() if same else RunClaimed(owner=owner)
    return apply_events(run, event, now=now, policy=policy)


def begin_turn_or_rest(moved: RunTransition, caller: Caller, now: datetime) -> RunTransition:
    """Start the turn of a claimed run, or release its lease if no turn works on it.

    A sub-agent's claim takes no lease. A gateway's turn begins only once.
    """
    run = moved.run
    if not caller.in_turn:
        return apply_events(moved, LeaseReleased(), now=now)
    if caller.gateway_owner is None or run.limits.turn_began_at is not None:
        return moved
    return apply_events(moved, TurnBegan(turn_began_at=run.seen_at), now=now)


def note_call(run: Run, caller: Caller, token: int | None, now: datetime, policy: RunPolicy) -> Run:
    """Renew the run's lease if the caller of a task's tool owns the run.

    A sub-agent's call leaves a resting run without a lease.
    """
    if not current_run.has_claim(run, caller, token):
        return run
    seen = apply_events(run, OwnerSeen(), now=now, policy=policy)
    return (seen if run.lease_until is not None else begin_turn_or_rest(seen, caller, now)).run


# --- calls on a task ----------------------------------------------------------


_ATTACHED_KEY: Final = "attached_task_ids"
"""Metadata key that names the tasks that go to review with a task."""
_AGENT_WORDS_BYTES: Final = 280
"""Longest excerpt, in the line for the user, of an agent's message that ends a task."""
_RESTING_STATES: Final = (RunState.QUEUED, RunState.BLOCKED, RunState.REVIEW)
"""States of a resting run, which its agent may take up."""
_MILESTONES: Final = {
    TaskStatus.COMPLETED: Milestone.COMPLETED,
    TaskStatus.FAILED: Milestone.FAILED,
}
"""Milestone of each status whose entry is one."""


def begin_for_caller(
    task: Task,
    caller: Caller,
    *,
    run_id: str,
    now: datetime,
    policy: RunPolicy,
    segmented: bool = False,
    last: Run | None = None,
) -> RunTransition | None:
    """Begin and claim a run for the caller who registers a task; None: it can hold none.

    Only a gateway's agent claims by registering; others call `task_claim`. A sub-agent takes no
    lease.
    """
    owner = caller.gateway_owner
    if owner is None:
        return None
    moved = begin_run(
        task,
        run_id=run_id,
        now=now,
        role=owner.role,
        session_key=owner.session_key,
        segmented=segmented,
        last=last,
    )
    attach = TasksAttached(task_ids=list_attached(task.metadata))
    folder = AgentDescribed(folder=caller.folder)
    moved = apply_events(moved, attach, folder, RunClaimed(owner=owner), now=now, policy=policy)
    held = begin_turn_or_rest(moved, caller, now)
    if last is not None:
        return held
    milestone = notices.build_milestone(Milestone.ACCEPTED, task, held.run, now)
    return RunTransition(run=held.run, events=(*held.events, milestone))


def queue_for_role(
    task: Task,
    role: str | None,
    *,
    run_id: str,
    now: datetime,
    segmented: bool,
    last: Run | None = None,
) -> RunTransition:
    """Queue a run of a task for a role; None: any role may claim it.

    `last` is the task's previous run; None: there was none.
    """
    moved = begin_run(task, run_id=run_id, now=now, role=role, segmented=segmented, last=last)
    return apply_events(moved, TasksAttached(task_ids=list_attached(task.metadata)), now=now)


def list_attached(metadata: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return the tasks that a task's metadata attaches to it."""
    named = metadata.get(_ATTACHED_KEY)
    if not isinstance(named, list):
        return ()
    return tuple(each for each in named if isinstance(each, str))


class RunCall(Value):
    """A call on a task, as far as it concerns the task's open run."""

    caller: Caller
    token: int | None = None
    """Token of the caller's claim; None: none given."""
    marked: frozenset[int] = frozenset()
    """Steps that the call marks as done, from 0."""
    sets_status: bool = True
    """True if the call sets the task's status."""
    changes_marks: bool = True
    """True if the call changes step marks."""
    ask: str | None = None
    """Question to the user; None: none."""
    options: tuple[str, ...] = ()
    """Answers that the user may choose."""
    message: str | None = None
    """The call's message; None: none."""
    heard: str | None = None
    """The user's last words since the task's open question; None: there are none."""


def apply_call(
    facts: TaskFacts,
    task: Task,
    call: RunCall,
    now: datetime,
    *,
    policy: RunPolicy,
    sessions: SessionKeys,
) -> Change:
    """Apply a call that changes a task to its open run; `task` is the task after the call."""
    run, caller = facts.run, call.caller
    if run is None:
        return Change()
    statuses = (facts.task.status, task.status)
    moved = _move_by_call(run, statuses, call, now, policy=policy, sessions=sessions)
    if call.ask is not None:
        moved = _hold_to_ask(moved, caller, now, policy)
        moved = ask_user(task, moved, call.ask, call.options, now)
    after = note_call(moved.run, caller, call.token, now, policy)
    if call.marked:
        after = apply_events(after, StepsDone(), now=now).run
    gone: tuple[Wake, ...] = ()
    user_events: tuple[Event, ...] = ()
    if after.state is not run.state:
        settle = outbox.settle_registrar_wakes(facts.wakes)
        gone = (
            settle if after.state is RunState.RUNNING else continuation.supersede_open_wakes(facts)
        )
    if after.state.terminal and task.status in _MILESTONES:
        words = call.message
        if words and caller.known_as is not CallerKind.USER:
            words = f"{caller.known_as.word} says: {quote_line(words, _AGENT_WORDS_BYTES)}"
        user_events = (notices.build_milestone(_MILESTONES[task.status], task, after, now, words),)
    elif call.marked and (after.told_session is not None or not after.state.terminal):
        user_events = (notices.build_steps_done(task, after, call.marked, now),)
    return Change(
        runs=(after,) if after != run else (),
        wakes=gone,
        events=(*moved.events, *user_events, *outbox.build_settled_events(gone, now)),
    )


def _move_by_call(
    run: Run,
    change: tuple[TaskStatus, TaskStatus],
    call: RunCall,
    now: datetime,
    *,
    policy: RunPolicy,
    sessions: SessionKeys,
) -> RunTransition:
    """Move a run by a call; `change`: the task's status before and after it."""
    caller, is_active = call.caller, change[1] is TaskStatus.ACTIVE
    if is_active and current_run.keeps_only_question(run) and not sessions.is_own(run.session_key):
        return _settle_unheld_question(run, call, now)
    goes_on = call.sets_status and is_active
    if goes_on and (_is_sent_back(run, caller, sessions) or _is_lifted_by_shell(run, caller)):
        return apply_events(run, RunRequeued(), now=now)
    acts = (
        call.changes_marks
        and _is_later_turn(run, caller)
        and not _keeps_question(run, caller, call.heard)
    )
    if call.sets_status or not current_run.is_waiting_for_word(run) or acts:
        return _move_run(run, change, caller, now, policy)
    return RunTransition(run=run)


def _settle_unheld_question(run: Run, call: RunCall, now: datetime) -> RunTransition:
    """Apply a call to a run that only keeps a question; a user's answer is kept for its agent."""
    if call.caller.is_user and call.sets_status:
        return apply_events(run, UserAnswered(), now=now)
    is_over = call.sets_status or run.why == RunReason.ANSWERED
    if call.caller.is_user or call.ask is not None or not is_over:
        return RunTransition(run=run)
    return apply_events(run, QuestionClosed(), now=now)


def _keeps_question(run: Run, caller: Caller, words: str | None) -> bool:
    """True if a run's question stays open until its agent says that it is answered.

    A gateway's turns show whether the user has spoken; elsewhere only `words` do.
    """
    return current_run.has_open_question(run) and caller.gateway_owner is None and words is None


def guard_question(
    run: Run | None, caller: Caller, words: str | None, *, takes_up: bool = False
) -> None:
    """Refuse to go on with a task whose question to the user is open, without a word about it.

    `words` are the user's since the question, or of the agent about it; None: neither has spoken.
    `takes_up`: the call can give an answer. A caller who may not write is refused for that instead.

    Raises:
        InvalidArguments: There are no words; the sentence has the question.
    """
    if run is None or caller.is_user or not _keeps_question(run, caller, words):
        return
    way = "Give what they answer to that as answer. Nothing was changed."
    if not takes_up:
        if not current_run.can_write(run, caller, None):
            return
        way = (
            'Call task_update with status "active", and in message their answer, or why it is not '
            "needed any more. Nothing was written."
        )
    asked = quote_line(to_plain_line(run.dialogue.question or ""), continuation.QUESTION_BYTES)
    raise InvalidArguments(f"{run.task_id} has asked the user: {asked} {way}")


def guard_review(run: Run | None, caller: Caller, answer: str | None = None) -> None:
    """Refuse to end a review before the user has said anything about it.

    A gateway's agent must wait for a later turn. For any other agent no turns are known: it must
    give the user's words as `answer`. Source: docs/origins.md, "Questions to the user".

    Raises:
        RunNotReady: The user has said nothing yet; the sentence says what to do.
    """
    if run is None or run.state is not RunState.REVIEW or caller.is_user:
        return
    if caller.gateway_owner is None and answer is None:
        raise RunNotReady(
            f"{run.task_id} waits for the user's review: they accept it or send it "
            "back at a terminal, with taskmem approve or send-back; or, once they have "
            "told you, call task_resume with their words as answer, and then act on "
            "these. Nothing was written."
        )
    if caller.gateway_owner is not None and not _is_later_turn(run, caller):
        raise RunNotReady(
            f"The user was asked to review {run.task_id} in this turn, and has not "
            "answered yet: end your turn now, and go on when they have. Nothing was "
            "written."
        )


def attribute_answer(answer: str | None, run: Run | None, caller: Caller) -> str | None:
    """Prefix an answer with the agent that relayed it, if the user did not speak themselves.

    In a turn that began before the run came to wait, the user cannot have answered.
    """
    if answer is None:
        return None
    early = run is not None and run.state.is_waiting and not _is_later_turn(run, caller)
    relay = caller.name_relay(early=early)
    return answer if relay is None else f"As relayed by {relay}: {answer}"


def _is_sent_back(run: Run, caller: Caller, sessions: SessionKeys) -> bool:
    """True if the user calls on a waiting run that has no gateway's session to be told.

    A gateway's run goes on by its agent's act.
    """
    is_own = sessions.is_own(run.session_key)
    return caller.is_user and run.state.is_waiting and not is_own


def _is_lifted_by_shell(run: Run, caller: Caller) -> bool:
    """True if an agent goes on with a blocked run by a command in the shell of its session."""
    own = caller.person and not caller.is_user and caller.session_key == run.session_key
    return own and run.state is RunState.BLOCKED


def _is_later_turn(run: Run, caller: Caller) -> bool:
    """True if the caller's turn began after the run came to wait, or is not known.

    In the turn that asked, the user cannot have answered yet.
    """
    return caller.turn_since is None or caller.turn_since >= run.changed_at


def _hold_to_ask(
    moved: RunTransition, caller: Caller, now: datetime, policy: RunPolicy
) -> RunTransition:
    """Give a queued run to the agent that asks, which goes on with the answer: nobody else could.

    A gateway's run has a session, which does so.
    """
    if moved.run.state is not RunState.QUEUED or caller.gateway_owner is not None:
        return moved
    taken = take_up_for_caller(moved.run, caller, now, policy)
    return RunTransition(run=taken.run, events=(*moved.events, *taken.events))


def ask_user(
    task: Task, moved: RunTransition, ask: str, options: tuple[str, ...], now: datetime
) -> RunTransition:
    """Block a run with a question, and notify the user."""
    blocked = apply_events(moved, QuestionAsked(question=ask), now=now)
    run = blocked.run
    how = ""
    if run.told_session is not None:
        how = f" Say {notices.format_resume_command(task, run)} and your answer."
    choice = f" ({' / '.join(options)})" if options else ""
    line = f"{notices.format_task_name(task)}: {ask}{choice}{how}"
    notice = notices.build_notice(NoticeKind.QUESTION, task, run, line, now)
    notice = notice.model_copy(update={"data": {**notice.data, "options": [*options]}})
    return RunTransition(run=run, events=(*blocked.events, notice))


def _move_run(
    run: Run,
    change: tuple[TaskStatus, TaskStatus],
    caller: Caller,
    now: datetime,
    policy: RunPolicy,
) -> RunTransition:
    """Move a run after its task's status changed from one value to another, or stayed."""
    before, after = change
    if after is not before and after is not TaskStatus.ACTIVE:
        return follow_status(run, after, now)
    reviewed = run.state is RunState.REVIEW and after is before
    if after is TaskStatus.ACTIVE and _is_working_on(run, caller) and not reviewed:
        return take_up_for_caller(run, caller, now, policy)
    if after is not before and run.state in (RunState.BLOCKED, RunState.REVIEW):
        return apply_events(run, RunRequeued(), now=now)
    return RunTransition(run=run)


def _is_working_on(run: Run, caller: Caller) -> bool:
    """True if the call shows that its caller works on a resting run.

    For hosts other than a gateway, only a call of the run's owner does. A sub-agent's call does not
    if the run waits for the user: only the session sees the answer.
    """
    owner = caller.owner
    if owner is None or run.state not in _RESTING_STATES:
        return False
    if caller.gateway_owner is None:
        return owner.same(run.owner)
    if run.state.is_waiting and not caller.in_turn:
        return False
    return run.session_key == owner.session_key and run.role in (None, owner.role)


def take_up_for_caller(run: Run, caller: Caller, now: datetime, policy: RunPolicy) -> RunTransition:
    """Set a resting run running for its caller; unchanged if the caller can own none."""
    owner = caller.owner
    if owner is None:
        return RunTransition(run=run)
    return begin_turn_or_rest(take_up_run(run, owner, now, policy), caller, now)

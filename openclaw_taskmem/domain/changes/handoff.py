"""Hand runs over: to the background, to another role, to the user, or back to the queue.

Source: docs/origins.md, "Hand-offs and review".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain.callers import Caller, CallerKind, SessionKeys
from openclaw_taskmem.domain.changes import continuation
from openclaw_taskmem.domain.changes.stuck import RESUME_HOLD
from openclaw_taskmem.domain.errors import LimitReached, RunNotReady
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import (
    HandedToRole,
    RunCancelled,
    RunFailed,
    RunRequeued,
    RunTransition,
    SentToBackground,
    SentToReview,
    ToldToGoOn,
    UserHeard,
    apply_events,
    begin_run,
    describe_standing,
)
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.text.texts import quote_line, to_plain_line
from openclaw_taskmem.domain.wakes import notices, outbox
from openclaw_taskmem.domain.wakes.notices import Milestone, NoticeKind
from taskmem_hookspecs import (
    Change,
    Event,
    Message,
    MessageType,
    Role,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
    Wake,
)

NOTE_BYTES: Final = 600
"""Longest excerpt of the note with which a task is sent to the background."""
_MOVE_NOTES: Final = {
    CallerKind.AGENT: "Moved to the background.",
    CallerKind.USER: "Moved to the background by the user.",
    CallerKind.CALL: "Moved to the background by taskmem call.",
}
"""The thread's entries for that, by who did it."""
_SENDERS: Final = {
    CallerKind.AGENT: "Its agent",
    CallerKind.USER: "The user",
    CallerKind.CALL: "A taskmem call",
}
_REASON_BYTES: Final = 280
"""Longest excerpt, in the line for the user, of the reason for which an agent gave up."""
_REVIEWABLE_STATES: Final = (RunState.QUEUED, RunState.RUNNING)
"""States from which an attached task goes to review, unless another owner holds it. A task without
a run goes too."""


def build_background_move(
    facts: TaskFacts,
    run: Run,
    others: Sequence[Run],
    *,
    wake_id: str,
    text: str,
    moved: str,
    now: datetime,
    policy: RunPolicy,
    sessions: SessionKeys,
) -> Change:
    """Build the change that moves a run to a session of its own and wakes it there.

    `text` is the wake's text, `moved` the thread's entry. `others` are the open runs in the
    background. Those left behind by a gateway that is gone do not count against the limit of all
    sessions, only of their own.

    Raises:
        LimitReached: The session, or the daemon, has as many runs in the background as allowed.
        RunNotReady: It is in the background already, or belongs to no gateway's session.
    """
    home = run.session_key
    away = None if home is None else sessions.name_background(home, run.run_id)
    if run.told_session is not None or away is None:
        raise RunNotReady(
            f"{run.run_id} cannot go to the background: "
            + (
                "it is there already."
                if run.told_session is not None
                else "it lives in no session of a gateway; go on with it here."
            )
        )
    same = [other for other in others if other.told_session == home]
    if same:
        raise LimitReached(
            f"This session has {same[0].task_id} in the background, and one is all it "
            "may have; wait until that one ends, or stop it with task_cancel."
        )
    at_work = [other for other in others if not current_run.is_left_behind(other, now, policy)]
    if len(at_work) >= policy.background:
        raise LimitReached(
            f"Too many background tasks: {len(at_work)} run already, and "
            f"{policy.background} may; wait for one to end, or go on with it here."
        )
    queued = apply_events(run, SentToBackground(session_key=away), ToldToGoOn(), now=now)
    there = queued.run
    task, message = lifecycle.add_lifecycle_message(facts.task, moved, now)
    task = task.model_copy(update={"session_key": away, "held_until": now + RESUME_HOLD})
    gone = continuation.supersede_open_wakes(facts)
    return Change(
        tasks=(task,),
        messages=(message,),
        runs=(there,),
        wakes=(*gone, continuation.make_wake(there, wake_id, text, now)),
        events=(*queued.events, *outbox.build_settled_events(gone, now)),
    )


def format_background_note(caller: Caller, note: str) -> str:
    """Write the thread's entry for a task that is sent to the background."""
    return f"{_MOVE_NOTES[caller.known_as]} {note}".rstrip()


def describe_background(
    told_session: str, messages: Sequence[Message], sessions: SessionKeys
) -> str:
    """Tell an agent that it is in the background, who sent it, and with what note.

    `told_session` is the session that it was sent from; `messages` are the newest of its task,
    oldest first.
    """
    moves = [
        (kind, message.content.removeprefix(begin).strip())
        for message in messages
        if message.msg_type is MessageType.LIFECYCLE
        for kind, begin in _MOVE_NOTES.items()
        if message.content.startswith(begin)
    ]
    kind, note = moves[-1] if moves else (CallerKind.AGENT, "")
    words = f" with the words {quote_line(to_plain_line(note), NOTE_BYTES)}" if note else ""
    rest = sessions.find_rest(told_session)
    chat = "main chat" if rest == "main" else f"chat {rest.replace(':', ' ')}"
    return (
        "You are in the background, in a session of your own, and nobody reads along "
        f"here. {_SENDERS[kind]} sent you from the user's {chat} (session "
        f"{told_session}){words}. The user reads there what you report with "
        "task_update, and what you ask with its ask."
    )


def build_cancellation(
    facts: TaskFacts, caller: Caller, reason: str, turn: str | None, now: datetime
) -> Change:
    """Build the change that cancels a task and stops its turn. Checkpoints are kept.

    `turn`: the session whose turn works on the task; None: none does.

    Raises:
        TaskEnded: The task has ended already.
    """
    lifecycle.require_open(facts.task, "there is nothing to cancel")
    run = facts.run
    task, message = _end_task(facts.task, TaskStatus.CANCELLED, reason, now)
    if run is None:
        return Change(
            tasks=(task,),
            messages=(message,),
            events=lifecycle.build_status_events(facts.task.status, task, now, by=caller),
        )
    moved = apply_events(run, RunCancelled(), now=now)
    inside = caller.owner is not None and caller.owner.same(run.owner)
    stop = () if turn is None or inside else (notices.build_turn_stop(run, turn, now),)
    line = f"{notices.format_task_name(task)}: cancelled. {reason}".strip()
    notice = notices.build_notice(NoticeKind.CANCELLED, task, moved.run, line, now)
    more: tuple[Event, ...] = (*stop, notice)
    if caller.person and caller.session_key == notice.data["session_key"]:
        more = stop  # the user reads the answer to the command in that chat
    return _build_change(facts, (task, message), moved, now, more, by=caller)


def build_task_abort(facts: TaskFacts, run: Run, reason: str, now: datetime) -> Change:
    """Build the change that fails a task because its own agent gave it up."""
    task, message = _end_task(facts.task, TaskStatus.FAILED, reason, now)
    moved = apply_events(run, RunFailed(why=RunReason.ABORTED), now=now)
    sentence = f"Its agent gave up and said {quote_line(reason, _REASON_BYTES)}"
    milestone = notices.build_milestone(Milestone.FAILED, task, moved.run, now, sentence)
    return _build_change(facts, (task, message), moved, now, (milestone,))


def build_user_handoff(
    facts: TaskFacts,
    run: Run,
    attached: Mapping[str, tuple[TaskFacts, Run | None]],
    note: str,
    now: datetime,
) -> Change:
    """Build the change that hands a run and its attached tasks to the user for review.

    `attached` maps a new run id to an attached task and its previous run (None: none). The id is
    used if the task has no open run. An attached task goes along if it has no run, or a run of the
    same owner in one of `_REVIEWABLE_STATES`.
    """
    asked = [
        _hand_attached_task(other, run, new, last, now) for new, (other, last) in attached.items()
    ]
    rest = [change for change in asked if not change.empty]
    task, message = _pause_task(facts.task, describe_review(note), now)
    moved = apply_events(run, SentToReview(), now=now)
    more = f", with {len(rest)} more" if rest else ""
    line = f"{notices.format_task_name(task)}: for you to review{more}. {note}".strip()
    notice = notices.build_notice(NoticeKind.REVIEW, task, moved.run, line, now)
    first = _build_change(facts, (task, message), moved, now, (notice,))
    return Change(
        tasks=(*first.tasks, *(t for each in rest for t in each.tasks)),
        messages=(*first.messages, *(m for each in rest for m in each.messages)),
        runs=(*first.runs, *(r for each in rest for r in each.runs)),
        wakes=(*first.wakes, *(w for each in rest for w in each.wakes)),
        events=(*first.events, *(e for each in rest for e in each.events)),
    )


def build_role_handoff(facts: TaskFacts, run: Run, role: str, note: str, now: datetime) -> Change:
    """Build the change that queues a run for another role, and makes its task active."""
    ready, _ = lifecycle.change_status(facts.task, TaskStatus.ACTIVE, now)
    task, message = lifecycle.add_lifecycle_message(
        ready, f"{_describe_role_handoff(role)} {note}", now
    )
    queued = apply_events(run, HandedToRole(role=role), now=now)
    return _build_change(facts, (task, message), queued, now)


def build_run_reset(
    facts: TaskFacts,
    *,
    wake_id: str,
    text: str,
    turn: str | None,
    sessions: SessionKeys,
    now: datetime,
) -> Change:
    """Build the change that takes a run from its owner and requeues it.

    `text` wakes its session, if it is a gateway's. `turn`: the session whose turn works on the run
    and is stopped; None: none does.

    Raises:
        RunNotReady: The run is not running.
    """
    run = facts.run
    if run is None or run.state is not RunState.RUNNING:
        nobody = f"nobody works on {facts.task.task_id}, which is {facts.task.status}"
        why = nobody if run is None else describe_standing(run)
        raise RunNotReady(f"Cannot reset: only what runs can be reset, and {why}.")
    moved = apply_events(run, RunRequeued(why=RunReason.RESET), now=now)
    queued = moved.run
    stop = () if turn is None else (notices.build_turn_stop(run, turn, now),)
    wakes: tuple[Wake, ...] = ()
    if sessions.is_own(queued.session_key):
        queued = apply_events(queued, ToldToGoOn(), now=now).run
        wakes = (continuation.make_wake(queued, wake_id, text, now, last_owner=run.owner),)
    reset = "It was taken from its agent by a reset, and is queued again."
    task, message = lifecycle.add_lifecycle_message(facts.task, reset, now, MessageType.TEXT)
    gone = continuation.supersede_open_wakes(facts)
    return Change(
        tasks=(task,),
        messages=(message,),
        runs=(queued,),
        wakes=(*gone, *wakes),
        events=(*moved.events, *stop, *outbox.build_settled_events(gone, now)),
    )


def _hand_attached_task(
    facts: TaskFacts, by: Run, run_id: str, last: Run | None, now: datetime
) -> Change:
    run = facts.run
    if facts.task.status.terminal:
        return Change()
    if run is None:
        made = begin_run(facts.task, run_id=run_id, now=now, last=last)
        moved = apply_events(made, SentToReview(), now=now)
    elif run.state in _REVIEWABLE_STATES and _has_same_owner(run, by):
        moved = apply_events(run, SentToReview(), now=now)
    else:
        return Change()
    task, message = _pause_task(facts.task, describe_joint_review(by.task_id), now)
    return _build_change(facts, (task, message), moved, now)


def _has_same_owner(run: Run, by: Run) -> bool:
    """True if a run belongs to nobody, or to the owner or session of `by`."""
    if run.owner is not None:
        return run.owner.same(by.owner)
    return run.session_key in (None, by.session_key)


def _pause_task(task: Task, content: str, now: datetime) -> tuple[Task, Message]:
    paused, _ = lifecycle.change_status(task, TaskStatus.PAUSED, now)
    return lifecycle.add_lifecycle_message(paused, content, now)


def _end_task(task: Task, status: TaskStatus, reason: str, now: datetime) -> tuple[Task, Message]:
    ended, _ = lifecycle.change_status(task, status, now)
    content = f"Status: {task.status} → {status}. {reason}".strip()
    return lifecycle.add_lifecycle_message(ended, content, now, MessageType.TEXT)


def _build_change(
    facts: TaskFacts,
    entry: tuple[Task, Message],
    moved: RunTransition,
    now: datetime,
    more: tuple[Event, ...] = (),
    *,
    by: Caller | None = None,
) -> Change:
    task, message = entry
    gone = continuation.supersede_open_wakes(facts, answers=moved.run.state is RunState.CANCELLED)
    return Change(
        tasks=(task.model_copy(update={"held_until": None}),),
        messages=(message,),
        runs=(moved.run,),
        wakes=gone,
        events=(
            *lifecycle.build_status_events(facts.task.status, task, now, by=by),
            *moved.events,
            *more,
            *outbox.build_settled_events(gone, now),
        ),
    )


# --- notes --------------------------------------------------------------------


_HAND_OFF: Final = "Handed to "
_REVIEW: Final = f"{_HAND_OFF}the user for review."
_ALONG_PREFIX: Final = "Goes to review together with "


class HandoffNotes(Value):
    """The hand-off note and the user's messages for the agent that claims a run."""

    note: str | None = None
    """Note of the hand-off to the run's role; None: none."""
    user_said: tuple[str, ...] = ()
    """The user's messages for that agent, oldest first; `find_handoff_notes` says which."""
    reviewed: bool = False
    """True if the last hand-off was to the user for review, from which the run came back."""


def _describe_role_handoff(role: str) -> str:
    """Write the thread's entry for a hand-off to a role, without its note."""
    return f"{_HAND_OFF}{role}."


def describe_review(note: str) -> str:
    """Write the thread's entry for a hand-off to the user."""
    return f"{_REVIEW} {note}"


def find_review_note(messages: Sequence[Message]) -> str:
    """Return the note of the newest hand-off to the user; empty: it has none.

    `messages` are the newest of the task, oldest first.
    """
    place = _find_entry(messages, lambda it: it.content.startswith(_REVIEW))
    return messages[place].content.removeprefix(_REVIEW).strip() if place >= 0 else ""


def describe_joint_review(task_id: str) -> str:
    """Write the thread's entry for a task that goes to review with another."""
    return f"{_ALONG_PREFIX}{task_id}."


def find_handoff_notes(run: Run, messages: Sequence[Message], heard_until: int = 0) -> HandoffNotes:
    """Find the note and the user's messages for the agent that claims a run.

    `messages` are the newest of the task, oldest first. Messages up to `heard_until` were delivered
    to an earlier owner: of these, only those after the last hand-off or completion count. Of later
    ones, those after the last completion count.
    """
    handed = _find_entry(messages, lambda it: it.content.startswith((_HAND_OFF, _ALONG_PREFIX)))
    end, completed = max(handed, _find_completion(messages)), _find_completion(messages)
    user_words = tuple(
        message.content
        for place, message in enumerate(messages)
        if message.role is Role.USER
        and place > (end if message.message_id <= heard_until else completed)
    )
    entry = messages[end] if end >= 0 else None
    if entry is None or lifecycle.is_completion_message(entry):
        return HandoffNotes(user_said=user_words)
    if entry.content.startswith((_REVIEW, _ALONG_PREFIX)):
        return HandoffNotes(user_said=user_words, reviewed=True)
    return HandoffNotes(note=_find_note(run, entry), user_said=user_words)


def find_unheard_messages(run: Run, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the user's messages that the run's owner has not been told, oldest first.

    `messages` are the newest of the task, oldest first. A completion settles those before it.
    """
    return tuple(
        message
        for message in messages[_find_completion(messages) + 1 :]
        if message.role is Role.USER and message.message_id > run.dialogue.heard_until
    )


def find_completion_id(messages: Sequence[Message]) -> int:
    """Return the id of the newest completion entry; 0: there is none.

    The completion settles the user's messages before it.
    """
    place = _find_completion(messages)
    return messages[place].message_id if place >= 0 else 0


def record_heard(
    change: Change, facts: TaskFacts, unheard: Sequence[Message], now: datetime
) -> Change:
    """Add to a change that the run's owner has been told of `unheard`, which is not empty."""
    written = change.runs or ((facts.run,) if facts.run else ())
    event = UserHeard(heard_until=unheard[-1].message_id)
    runs = tuple(apply_events(run, event, now=now).run for run in written)
    return change.model_copy(update={"runs": runs})


def _find_completion(messages: Sequence[Message]) -> int:
    """Return the index of the last completion; -1: there is none."""
    return _find_entry(messages, lifecycle.is_completion_message)


def _find_entry(messages: Sequence[Message], tells: Callable[[Message], bool]) -> int:
    """Return the index of the last lifecycle entry that matches; -1: there is none."""
    for place in reversed(range(len(messages))):
        message = messages[place]
        if message.msg_type is MessageType.LIFECYCLE and tells(message):
            return place
    return -1


def _find_note(run: Run, message: Message) -> str | None:
    # `created_at` may be later than the hand-off, `started_at` may not.
    began = min(run.created_at, run.started_at or run.created_at)
    handed = f"{_describe_role_handoff(run.role or '')} "
    own = message.created_at >= began and message.content.startswith(handed)
    return message.content.removeprefix(handed) if own else None

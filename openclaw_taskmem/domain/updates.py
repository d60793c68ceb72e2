"""What an update does to a task: a message, marks, a status, an acknowledgement.

Source: seed 000 §1-3, seed 001 tool 2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

from openclaw_taskmem.domain import (
    events,
    fencing,
    lifecycle,
    outbox,
    step_phrases,
    task_runs,
)
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.run_machine import Moved
from openclaw_taskmem.domain.run_policy import POLICY, RunPolicy
from openclaw_taskmem.domain.step_phrases import StepMarks
from openclaw_taskmem.domain.texts import step_numbers
from taskmem_hookspecs import (
    Change,
    Event,
    InvalidArguments,
    LedgerEntry,
    Message,
    MessageType,
    Role,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
)
from taskmem_hookspecs.errors import TaskEnded

Begin = Callable[[Task], Moved | None]
"""Makes a run of a task; None where the caller can hold none."""


class Acceptance(Value):
    """A person completes a task whose completion was refused."""

    because: str | None = None
    """In the person's words; None: none were given."""
    process: str | None = None
    """The process that asked, as `Owner.process`; None: not known."""


class Wish(Value):
    """What an update asks for; steps counted from 1, as the agent counts."""

    message: str | None = None
    status: TaskStatus | None = None
    completed_steps: tuple[int, ...] = ()
    reopened_steps: tuple[int, ...] = ()
    ask: str | None = None
    """What the user is asked, and the task waits for; None: nothing."""
    ask_options: tuple[str, ...] = ()
    """Answers to that which the user may press; free words do, too."""
    artifacts: tuple[str, ...] = ()
    """What was made, besides what the task itself names."""
    acceptance: Acceptance | None = None
    """Who completes it, whatever is not proved; None: nobody does."""
    token: int | None = None
    """The fencing token of the caller's claim; None: it gives none."""
    caller: Caller = Caller()
    """Who asks; a task without a session takes over the caller's."""

    @property
    def changes(self) -> bool:
        """Whether anything beyond an acknowledgement is asked for."""
        return bool(
            self.message is not None
            or self.status is not None
            or self.completed_steps
            or self.reopened_steps
            or self.ask is not None
        )

    @property
    def writes(self) -> bool:
        """Whether anything is asked for that only who works on the task may do."""
        guarded = (self.status, self.completed_steps, self.reopened_steps, self.token)
        return any(each not in (None, ()) for each in (*guarded, self.ask))


class Updated(Value):
    """What an update did."""

    task: Task
    marked: frozenset[int]
    """Steps that are done now and were not before; counted from 0."""
    unmarked: frozenset[int]
    """Steps that were done before and are not now; counted from 0."""
    passed_over: frozenset[int] = frozenset()
    """Steps that the message says are done, and whose marks are another's to set, who
    holds the task's run; counted from 0."""
    hint: str | None = None
    """How to mark what the message may have meant; None: nothing is to be said."""
    was: TaskStatus
    run: Run | None = None
    """Its run, as it is now; None: it has none."""
    may_go_on: bool = True
    """Whether it is the caller's to go on with: nobody else holds it or is to."""
    unheard: tuple[str, ...] = ()
    """What the user has said meanwhile to who holds it; they are told so now."""
    sent_back: bool = False
    """Whether the user was asked, or had it for review, and its run is queued again."""
    review: str = ""
    """What the user is told who writes to a task that they review; empty: nothing."""
    ledger: tuple[LedgerEntry, ...] | None = None
    """What the task made, where the update completes it; None: it does not."""
    made: str = ""
    """The same in a sentence or two."""


def update(
    facts: TaskFacts,
    wish: Wish,
    now: datetime,
    *,
    policy: RunPolicy = POLICY,
    begin: Begin = lambda _: None,
) -> tuple[Change, Updated]:
    """Decide what an update writes.

    A task that has ended keeps a message and changes in nothing else, unless
    the update reopens it. So does one whose run another holds: a message is all that
    anybody may add. `begin` makes a run of a task that has none.

    Raises:
        InvalidArguments: A step that the plan does not have.
        TaskEnded: It has ended, and steps are to be marked, or it is to end otherwise;
            or the user is to be asked.
        Fenced: The caller's claim on the task's run is not the last.
        RunHeld: The task's run is another's.
        RunNotReady: Its review is to end, and the user has had no word in it.
    """
    before = facts.task
    if wish.writes:
        fencing.guard_write(facts.run, wish.caller, wish.token, "nothing was written")
    if wish.status is not None or wish.ask is not None:
        task_runs.guard_review(facts.run, wish.caller)
    done, reopened = _explicit_marks(before, wish)
    resting = before.status.terminal and wish.status in (None, before.status)
    if not resting:
        fencing.guard_token(
            before.task_id, facts.run, wish.token, "nothing was written"
        )
    if resting and (done or reopened):
        lifecycle.require_open(before, "its steps keep their marks")
    said = StepMarks()
    if wish.message is not None and not resting:
        said = step_phrases.parse_step_marks(wish.message, before.plan)
    told = _marked_by(said, before, wish) - reopened
    counts = fencing.writes(facts.run, wish.caller, wish.token)
    if counts:
        done |= told
        reopened |= said.reopened - done
    task, moved = lifecycle.move(before, wish.status or before.status, now)
    _guard_ask(task, wish)
    marks = (before.done | done) - reopened
    messages = _messages(task, wish, moved, marked=marks != before.done, now=now)
    task = task.model_copy(
        update={
            "done": marks,
            "message_count": before.message_count + len(messages),
            **(_worked_by(before, wish.caller) if counts and not resting else {}),
        }
    )
    if wish.changes and not resting:
        task = lifecycle.touch(task, now)
    updated = Updated(
        task=task,
        marked=marks - before.done,
        unmarked=before.done - marks,
        passed_over=told - marks,
        hint=_hint(before, task, wish, said) if counts and not resting else None,
        was=before.status,
    )
    wakes = outbox.answered(
        facts.wakes,
        acts=wish.caller.acts_as(before.session_key, before.home),
        moved=wish.changes,
        now=now,
    )
    worked = _worked(facts, updated, wish, now, policy=policy, begin=begin)
    waited = facts.run is not None and facts.run.state.waiting
    queued = any(run.state is RunState.QUEUED for run in worked.runs)
    sent_back = wish.caller.is_user and waited and queued
    run = next(iter(worked.runs), facts.run)
    may_go_on = fencing.writes(run, wish.caller, wish.token)
    updated = updated.model_copy(
        update={
            "sent_back": sent_back,
            "review": _tell_reviewer(run, wish, sent_back=sent_back),
            "run": run,
            "may_go_on": may_go_on,
        }
    )
    settled = {wake.wake_id for wake in wakes}
    return (
        Change(
            tasks=(task,) if task != before or messages else (),
            messages=messages,
            runs=worked.runs,
            wakes=(*wakes, *(w for w in worked.wakes if w.wake_id not in settled)),
            events=(
                *_log(updated, wish, messages, now),
                *worked.events,
                *outbox.settled_events(wakes, now),
            ),
        ),
        updated,
    )


def _guard_ask(task: Task, wish: Wish) -> None:
    """Refuse a question of a task that has ended: it waits for no answer."""
    if wish.ask is not None and task.status.terminal:
        raise TaskEnded(
            f"{task.task_id} is {task.status}, and only an active task waits for an "
            'answer: give ask with status "active" if its work goes on, or ask the '
            "user yourself. Nothing was written."
        )


def _tell_reviewer(run: Run | None, wish: Wish, *, sent_back: bool) -> str:
    """Tell a user what became of the review that they wrote to; empty: nothing did."""
    if sent_back and wish.message is not None:
        return "Whoever goes on with it is told your words."
    if wish.caller.is_user and run is not None and run.state is RunState.REVIEW:
        return (
            'It still waits for your review: status "completed" accepts it, and '
            '"active" with your words as message sends it back.'
        )
    return ""


def _worked(
    facts: TaskFacts,
    updated: Updated,
    wish: Wish,
    now: datetime,
    *,
    policy: RunPolicy,
    begin: Begin,
) -> Change:
    """Return what an update means for the task's run, or the run that it begins."""
    if not wish.changes:
        return Change()
    if facts.run is None:
        return _begun(updated.task, begin)
    return task_runs.followed(
        facts,
        updated.task,
        wish.caller,
        token=wish.token,
        marked=updated.marked,
        status=wish.status is not None,
        acts=bool(updated.marked | updated.unmarked),
        ask=wish.ask if updated.task.status is TaskStatus.ACTIVE else None,
        options=wish.ask_options,
        said=wish.message,
        now=now,
        policy=policy,
    )


def _begun(task: Task, begin: Begin) -> Change:
    moved = begin(task) if task.status is TaskStatus.ACTIVE else None
    if moved is None:
        return Change()
    return Change(runs=(moved.run,), events=moved.events)


def _worked_by(task: Task, caller: Caller) -> dict[str, str | None]:
    """Return whose wakes of a task are from now on: the first's whose session is known.

    While none is, they are the agent's that has reported on it last.
    """
    if task.session_key is not None or (caller.session_key or caller.host) is None:
        return {}
    return {"session_key": caller.session_key, "host": caller.host}


def _explicit_marks(task: Task, wish: Wish) -> tuple[frozenset[int], frozenset[int]]:
    both = set(wish.completed_steps) & set(wish.reopened_steps)
    if both:
        raise InvalidArguments(
            f"Step {min(both)} cannot be both completed and reopened; name it once."
        )
    for number in (*wish.completed_steps, *wish.reopened_steps):
        if not 1 <= number <= len(task.plan):
            raise InvalidArguments(
                f"There is no step {number}: the plan of {task.task_id} has steps "
                f"1 to {len(task.plan)}. Nothing was written."
            )
    return _indices(wish.completed_steps), _indices(wish.reopened_steps)


def _marked_by(said: StepMarks, task: Task, wish: Wish) -> frozenset[int]:
    """Return the steps that a message marks: all, by "All done" as the task ends."""
    if said.all_done and wish.status is TaskStatus.COMPLETED:
        return frozenset(range(len(task.plan))) - said.denied
    return said.done


def _hint(before: Task, after: Task, wish: Wish, said: StepMarks) -> str | None:
    """Say how to mark, where a message sounds as if it should have."""
    still_open = [step for step in range(len(after.plan)) if step not in after.done]
    if after.status is TaskStatus.COMPLETED and still_open:
        return (
            f"Steps left unmarked: {step_numbers(still_open)}. If done, call "
            'task_update with status: "active" and completed_steps: '
            f'{_numbers(still_open)}, and then with status: "completed".'
        )
    changed = after.done != before.done or wish.completed_steps or wish.reopened_steps
    if after.status is not TaskStatus.ACTIVE or changed:
        return None
    denied = sorted(said.denied & after.done)
    if denied:
        return (
            f"Still marked done: {step_numbers(denied)}. If not done, call task_update "
            f"with reopened_steps: {_numbers(denied)}."
        )
    meant = [step for step in still_open if step in said.named - said.denied]
    if not (said.sounds_like_progress and still_open) or (said.named and not meant):
        return None
    meant = meant or still_open[:1]
    steps = "step {} is" if len(meant) == 1 else "steps {} are"
    return (
        f"No step was marked. If {steps.format(step_numbers(meant))} done, call "
        f"task_update with completed_steps: {_numbers(meant)}."
    )


def _numbers(steps: Collection[int]) -> str:
    return str([step + 1 for step in steps])


def _indices(numbers: Collection[int]) -> frozenset[int]:
    return frozenset(number - 1 for number in numbers)


def _messages(
    task: Task, wish: Wish, moved: Message | None, *, marked: bool, now: datetime
) -> tuple[Message, ...]:
    own: tuple[Message, ...] = ()
    if wish.message is not None:
        kind = MessageType.PROGRESS if marked else MessageType.TEXT
        own = (
            Message(
                task_id=task.task_id,
                role=Role.USER if wish.caller.is_user else Role.AGENT,
                msg_type=kind,
                content=wish.message,
                created_at=now,
            ),
        )
    asked: tuple[Message, ...] = ()
    if wish.ask is not None:
        content = f"Asked the user: {wish.ask}"
        asked = (
            Message(
                task_id=task.task_id,
                role=Role.AGENT,
                msg_type=MessageType.TEXT,
                content=content,
                created_at=now,
            ),
        )
    return (*own, *asked, *((moved,) if moved else ()))


def _log(
    updated: Updated, wish: Wish, messages: tuple[Message, ...], now: datetime
) -> tuple[Event, ...]:
    if not wish.changes:
        return ()
    task = updated.task
    updates = Event(
        at=now,
        kind=events.TASK_UPDATED,
        task_id=task.task_id,
        data={
            "messages": len(messages),
            "marked": [*sorted(updated.marked)],
            "unmarked": [*sorted(updated.unmarked)],
        },
    )
    return (updates, *lifecycle.status_changed(updated.was, task, now, by=wish.caller))

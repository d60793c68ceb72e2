"""Apply events to a run. Nothing else changes a run.

| state           | owner          | lease     |
| --------------- | -------------- | --------- |
| queued          | none           | none [1]  |
| running         | one            | until [2] |
| blocked, review | the last owner | none      |

A run that has ended never changes its state; it takes only events that every state allows, such as
`OwnerSeen`. Reopening its task begins a new run. Each change of state and each claim adds an entry
to the event log. `current_run` decides who may claim a run and write for it.

[1] For a few seconds after a gateway's start it has one, for the gateway's own recovery.
[2] None between turns: the owner is not expected to report.

Source: docs/origins.md, "Runs and their states".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar, Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.effects import checkpoints as run_checkpoints
from openclaw_taskmem.domain.errors import RunNotReady
from openclaw_taskmem.domain.policies import RUN_POLICY, RunPolicy
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.text.redaction import scrub
from openclaw_taskmem.domain.text.texts import clip_start
from taskmem_hookspecs import Event, News, Owner, Run, RunState, Task, Value
from taskmem_hookspecs.model import StepBudget, UserDialogue

# --- fields -------------------------------------------------------------------


Fields = Mapping[str, object]
"""Values by the names of fields of a run and of its parts."""

_PARTS: Final = {field: part for part, of in Run.PARTS.items() for field in of.model_fields}
"""The part that has a field, by the name of the field."""


def _read_count(run: Run, name: str) -> int:
    """Return the number in a field of a run, or of one of its parts."""
    count: int = getattr(getattr(run, _PARTS[name]) if name in _PARTS else run, name)
    return count


def set_fields(run: Run, fields: Fields) -> Run:
    """Return a run with other values in some fields, which are not validated."""
    own: dict[str, object] = {}
    of_parts: dict[str, dict[str, object]] = {}
    for name, value in fields.items():
        changed = of_parts.setdefault(_PARTS[name], {}) if name in _PARTS else own
        changed[name] = value
    for part, changed in of_parts.items():
        own[part] = getattr(run, part).model_copy(update=changed)
    return run.model_copy(update=own)


# --- events -------------------------------------------------------------------


# ruff: noqa: ARG002, D102 - `change` is described once, and each uses what it needs


LAST_WORDS_BYTES: Final = 1000
"""Longest excerpt of an agent's last words in a turn."""

_OPEN_STATES: Final = frozenset(current_run.OPEN_STATES)
_ANY_STATE: Final = frozenset(RunState)
_COUNTERS: Final = {"tries": 0, "provider_failures": 0}
"""Failure counters, reset when a turn ends in order, steps are done or somebody resumes the run."""


class RunEvent(Value):
    """An event of a run. Its fields are copied to the run, unless it overrides `change`."""

    states: ClassVar[frozenset[RunState]]
    """States in which the event is allowed; in others it is refused."""
    to: ClassVar[RunState | None]
    """State that the run enters; None: its state does not change."""
    sets: ClassVar[Fields]
    """Fields that it sets to fixed values."""
    adds: ClassVar[str | None]
    """Counter that it increments; None: none."""

    def __init_subclass__(
        cls,
        *,
        states: frozenset[RunState] = _OPEN_STATES,
        to: RunState | None = None,
        sets: Fields | None = None,
        adds: str | None = None,
    ) -> None:
        """Set the class's allowed states, target state and changes."""
        cls.states, cls.to, cls.sets, cls.adds = states, to, sets or {}, adds

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        """Compute the fields that the event changes, apart from those of entering a state."""
        more = {} if self.adds is None else {self.adds: _read_count(run, self.adds) + 1}
        return {**self.sets, **more, **dict(self)}


# --- from state to state ------------------------------------------------------


class RunClaimed(RunEvent, to=RunState.RUNNING):
    """An owner claims it, and gets a token that nobody had before."""

    owner: Owner

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        current_run.guard_claim(run, self.owner)
        session = self.owner.session_key
        here = run.session_key is not None and run.session_key == session
        return {
            "owner": self.owner,
            "session_key": session or run.told_session or run.session_key,
            # A claim from another session takes the run out of the background.
            "told_session": run.told_session if here else None,
            "home": self.owner.home or run.home,
            "token": run.token + 1,
            "started_at": run.started_at or now,
            "seen_at": now,
            "lease_until": policy.lease_until(now),
        }


class RunContinued(
    RunEvent, states=frozenset({RunState.BLOCKED, RunState.REVIEW}), to=RunState.RUNNING
):
    """Its last owner goes on with it, with the same token."""

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        if run.owner is None:
            raise RunNotReady(f"{run.run_id} is held by nobody; claim it with task_claim.")
        return {"seen_at": now, "lease_until": policy.lease_until(now)}


class RunRequeued(RunEvent, states=_OPEN_STATES - {RunState.QUEUED}, to=RunState.QUEUED):
    """Nobody owns it any more, and an owner is to claim it."""

    why: RunReason | None = None


class HandedToRole(
    RunEvent,
    to=RunState.QUEUED,
    sets={"session_key": None, "told_session": None, "why": RunReason.HANDED_OFF},
):
    """The run is queued for another role."""

    role: str

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        return {**super().change(run, now, policy), "changed_at": now}


class SentToBackground(
    RunEvent,
    states=_OPEN_STATES - {RunState.QUEUED},
    to=RunState.QUEUED,
    sets={"why": RunReason.BACKGROUND},
):
    """The run is queued for a session of its own, and its former session hears of it."""

    session_key: str

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        return {**super().change(run, now, policy), "told_session": run.session_key}


class RunBlocked(
    RunEvent, states=frozenset({RunState.QUEUED, RunState.RUNNING}), to=RunState.BLOCKED
):
    """The run waits for the user."""

    why: RunReason | None = None


class QuestionAsked(
    RunEvent,
    states=_OPEN_STATES - {RunState.REVIEW},
    to=RunState.BLOCKED,
    sets={"why": RunReason.QUESTION},
):
    """Its agent asks the user something, and it waits for the answer."""

    question: str

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        # After an answer, the same words are a new question.
        again = current_run.has_open_question(run) and run.dialogue.question == self.question
        since = run.changed_at if again else now
        return {**super().change(run, now, policy), "changed_at": since}


class SentToReview(RunEvent, states=_OPEN_STATES - {RunState.REVIEW}, to=RunState.REVIEW):
    """The user is to review what it made."""

    why: RunReason | None = RunReason.HANDED_OFF


class RunCompleted(RunEvent, to=RunState.COMPLETED):
    """Its task is completed."""


class RunFailed(RunEvent, to=RunState.FAILED):
    """Its task has failed."""

    why: RunReason | None = None


class RunCancelled(RunEvent, to=RunState.CANCELLED):
    """Its task was called off."""


# --- leases and turns ---------------------------------------------------------


class OwnerSeen(RunEvent, states=_ANY_STATE):
    """Its owner was seen at work: the lease starts again."""

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        return {"seen_at": now, "lease_until": policy.lease_until(now)}


class LeaseSet(RunEvent):
    """Its lease is to expire at an instant."""

    lease_until: datetime


class LeaseReleased(RunEvent, states=_ANY_STATE, sets={"lease_until": None}):
    """Its lease ends; its owner need not report until a turn begins."""


class TurnBegan(RunEvent):
    """A turn works on it, since an instant."""

    turn_began_at: datetime


class RunTurnEnded(RunEvent):
    """Its turn has ended: the time that it took counts."""

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        return end_turn(run, now)


class TurnSucceeded(RunEvent, sets=_COUNTERS):
    """A turn ended in order: earlier failures no longer count."""


class RoundCounted(RunEvent):
    """The result of a turn counts towards the limits of its run."""

    idle_rounds: int
    """Consecutive turns without progress, including this one."""
    said: str | None
    """Digest of the agent's last words; None: it said nothing."""


class StepsDone(
    RunEvent, states=_ANY_STATE, sets={**_COUNTERS, "news": News.CALL, "idle_rounds": 0}
):
    """Steps were marked as done: its work goes forward."""


class ProviderFailed(RunEvent, adds="provider_failures"):
    """A turn failed for the provider's sake."""


class LastWordsSaid(RunEvent):
    """A turn has ended with words to the user; their end is kept."""

    words: str

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        return {"last_response": clip_start(scrub(self.words), LAST_WORDS_BYTES)}


class ToldToGoOn(RunEvent, sets={"news": News.NONE, "lease_until": None}):
    """Its session is told to go on; progress is measured from here."""

    ages: bool = False
    """Keep `seen_at` as it is: being told to go on is no sign of the owner."""

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        seen = run.seen_at if self.ages else max(run.seen_at, now)
        return {**self.sets, "rounds": run.limits.rounds + 1, "seen_at": seen}


class RoundReplaced(RunEvent, adds="rounds_before"):
    """A word to go on replaces one that never reached its agent."""


class ResumeTried(RunEvent, adds="tries"):
    """The run is resumed after an interruption."""


class TakenUpAgain(RunEvent, sets={**_COUNTERS, "idle_rounds": 0}):
    """Somebody resumes it: failures and idle rounds no longer count."""


class ClockSetBack(RunEvent, states=_ANY_STATE):
    """The clock was set back: instants of it that lie in the future become now."""

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        until, latest = run.lease_until, policy.lease_until(now)
        return {
            "lease_until": None if until is None else min(until, latest),
            "seen_at": min(run.seen_at, now),
            "changed_at": min(run.changed_at, now),
        }


# --- what the user says -------------------------------------------------------


class UserSpoke(RunEvent, sets={"worked_seconds": 0.0, "idle_rounds": 0}):
    """The user has spoken in its session: its limits start again."""

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        return {**self.sets, "rounds_before": run.limits.rounds}


class UserAnswered(
    RunEvent,
    states=frozenset({RunState.BLOCKED}),
    sets={"why": RunReason.ANSWERED, "question": None},
):
    """The user has answered its question; it waits until its agent acts on that."""


class QuestionClosed(
    RunEvent,
    states=frozenset({RunState.BLOCKED}),
    to=RunState.CANCELLED,
    sets={"why": RunReason.ANSWERED},
):
    """The question is over for which alone it was begun: again nobody holds its task."""


class UserHeard(RunEvent, states=_ANY_STATE):
    """Its owner was told what the user said, up to a message."""

    heard_until: int


# --- calls and steps ----------------------------------------------------------


class CallBegan(RunEvent):
    """A tool call begins, for a step (counted from 0; None: for no step)."""

    step: int | None

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        same = run.budget.step == self.step
        calls = run.budget.step_calls + 1 if same else 1
        count = {"step": self.step, "step_calls": calls}
        return {**count, "step_bonus": run.budget.step_bonus and same}


class CallEnded(RunEvent):
    """A tool call has ended; the call, or its result, may be new."""

    given: str
    """Digest of the call's arguments; `result` begins with it."""
    result: str

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        news = run.progress.news
        if not any(each.startswith(self.given) for each in run.progress.recent):
            news = News.CALL
        elif self.result not in run.progress.recent and news is News.NONE:
            news = News.RESULT
        others = [each for each in run.progress.recent if each != self.result]
        recent = (*others, self.result)[-run_checkpoints.RECENT_CALLS :]
        return {"calls": run.progress.calls + 1, "news": news, "recent": recent}


class CheckpointWritten(RunEvent, adds="checkpoints"):
    """A checkpoint of it is written."""


class StepGivenMore(RunEvent, sets={"step_bonus": True}):
    """A step is given more calls, once."""

    step: int

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        calls = run.budget.step_calls if run.budget.step == self.step else 0
        return {**self.sets, "step": self.step, "step_calls": calls}


class StepFailed(RunEvent):
    """A step was given up."""

    index: int

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        others = (each for each in run.budget.failed_steps if each != self.index)
        return {"failed_steps": (*others, self.index)}


class PlanReplaced(RunEvent, sets={"failed_steps": ()}):
    """The plan of its task was replaced."""

    step: int | None
    """Step whose calls the budget counts now, from 0; None: none."""
    same: bool
    """True if it is the step that the budget counted before."""

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        anew = {"step_calls": 0, "step_bonus": False} if not self.same else {}
        return {**self.sets, "step": self.step, **anew}


# --- who works on it, and with what -------------------------------------------


class AgentDescribed(RunEvent):
    """Its host says where its agent works and what shapes its prompt, if it knows."""

    folder: str | None = None
    fingerprint: str | None = None

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        return {name: value for name, value in self if value is not None}


class TasksAttached(RunEvent):
    """Other tasks go to review together with it."""

    task_ids: tuple[str, ...]

    def change(self, run: Run, now: datetime, policy: RunPolicy) -> Fields:
        return {"attached": (*run.attached, *self.task_ids)}


class TaskRegistered(RunEvent):
    """The agent itself registers the task that covered its turn."""

    segmented: bool
    attached: tuple[str, ...]


class TurnCovered(RunEvent, sets={"step": 0, "news": News.CALL}):
    """The run covers a turn from its first call on, as the only step of its task."""

    step_calls: int
    checkpoints: int
    calls: int


def end_turn(run: Run, now: datetime) -> Fields:
    """Compute the fields of a run whose turn ends: add the turn's time to `worked_seconds`."""
    began = run.limits.turn_began_at
    spent = 0.0 if began is None else max((now - began).total_seconds(), 0.0)
    return {"turn_began_at": None, "worked_seconds": run.limits.worked_seconds + spent}


# --- transitions --------------------------------------------------------------


_LATER_STEP: Final = timedelta(milliseconds=1)
_STATE_SENTENCES: Final[Mapping[RunState, str]] = {
    RunState.QUEUED: "is queued already; claim it with task_claim to work on it",
    RunState.RUNNING: "runs already; task_status tells how far it is",
    RunState.BLOCKED: "waits for the user already; task_resume takes it up again",
    RunState.REVIEW: "is with the user for review already; once they "
    "have answered, task_resume with their words as answer takes it up again, and "
    "task_update with status completed ends it then",
}


class RunTransition(Value):
    """A run after its events, and the log entries to write."""

    run: Run
    events: tuple[Event, ...] = ()


def begin_run(
    task: Task,
    *,
    run_id: str,
    now: datetime,
    role: str | None = None,
    session_key: str | None = None,
    home: str | None = None,
    segmented: bool = False,
    last: Run | None = None,
) -> RunTransition:
    """Create a queued run of a task.

    `role` may claim it; None: anybody may. `last` is the task's previous run, None if there was
    none: the new run continues its token and `heard_until`, and is created after it even if the
    clock went back.
    """
    run = Run(
        run_id=run_id,
        task_id=task.task_id,
        state=RunState.QUEUED,
        role=role,
        session_key=session_key,
        home=home,
        budget=StepBudget(segmented=segmented),
        token=last.token if last else 0,
        dialogue=UserDialogue(heard_until=last.dialogue.heard_until if last else 0),
        created_at=max(now, last.created_at + _LATER_STEP) if last else now,
        changed_at=now,
        seen_at=now,
    )
    return RunTransition(run=run, events=(_build_change_event(run, None, now),))


def begin_record(task: Task, now: datetime) -> Run:
    """Create the run that keeps the calls of a task's agent (`current_run.name_record`).

    It begins with the task: what changed before the first known call is not taken for the agent's.
    """
    return Run(
        run_id=current_run.name_record(task.task_id),
        task_id=task.task_id,
        state=RunState.COMPLETED,
        created_at=task.created_at,
        changed_at=now,
        seen_at=now,
    )


def add_to_record(record: Run, folder: str | None, now: datetime, *, ended: bool) -> Run:
    """Return the record of a task's calls with one more, of which start and end are written.

    `folder` is the agent's working directory; None: as before. `ended`: it is known how it ended.
    """
    counts = {
        "checkpoints": record.progress.checkpoints + 2,
        "calls": record.progress.calls + ended,
    }
    more = {"folder": folder or record.agent.folder, "seen_at": now}
    return set_fields(record, {**counts, **more})


def apply_events(
    run: Run | RunTransition, *happened: RunEvent, now: datetime, policy: RunPolicy = RUN_POLICY
) -> RunTransition:
    """Apply events to a run in order; return the run and the log entries.

    Raises:
        RunNotReady: An event is not allowed in the run's state.
        RunHeld: The owner may not claim the run: it is another's, or for another role.
    """
    moved = run if isinstance(run, RunTransition) else RunTransition(run=run)
    for event in happened:
        before = moved.run
        if before.state not in event.states:
            raise RunNotReady(f"{describe_standing(before)}.")
        fields = event.change(before, now, policy)
        enters = event.to not in (None, before.state)
        if event.to is not None and enters:
            fields = {**_enter_state(before, event.to, now), **fields}
        after = set_fields(before, fields)
        log = moved.events
        if enters:
            log = (*log, _build_change_event(after, before.state, now))
        elif isinstance(event, RunClaimed):
            log = (*log, _build_event(events.RUN_CLAIMED, after, now))
        moved = RunTransition(run=after, events=log)
    return moved


def describe_standing(run: Run) -> str:
    """Say which state a run is in and what can be done next, as the reason for a refusal."""
    ended = f"has ended as {run.state}; reopen its task with task_update and status"
    return f"{run.run_id} {_STATE_SENTENCES.get(run.state, f'{ended} active')}"


def _enter_state(run: Run, state: RunState, now: datetime) -> Fields:
    """Compute the fields that change when a run enters another state."""
    fields: dict[str, object] = {"state": state, "changed_at": now, "why": None}
    if state is not RunState.RUNNING:
        # Waiting is not counted as work, even if the turn goes on.
        fields |= {"lease_until": None, **end_turn(run, now)}
    if state is not RunState.BLOCKED:
        fields["question"] = None
    if state is RunState.QUEUED:
        fields["owner"] = None
    return fields


def _build_change_event(run: Run, before: RunState | None, now: datetime) -> Event:
    data = {"from": before, "to": run.state, "why": run.why}
    return _build_event(events.RUN_CHANGED, run, now, **data)


def _build_event(kind: str, run: Run, now: datetime, **data: str | None) -> Event:
    holder = None if run.owner is None else run.owner.model_dump(exclude_none=True)
    return Event(
        at=now,
        kind=kind,
        task_id=run.task_id,
        run_id=run.run_id,
        data={**data, "token": run.token, "owner": holder},
    )

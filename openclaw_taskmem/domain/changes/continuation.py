"""Decide what to do with a run when a turn of its session ends, as the gateway reports it.

If the task is still open and waits for nothing, the agent is woken: at once after progress, else
after a growing rest, with a reminder. A run fails after too many reminders without progress, or too
many turns that failed because of the provider. Only a question that the agent put to the user
blocks the run for an answer.

Source: docs/origins.md, "Carrying on without the user".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, cast

from pydantic import JsonValue

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import OWED_STATES
from openclaw_taskmem.domain.changes.stuck import RESUME_HOLD
from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import (
    LeaseReleased,
    ProviderFailed,
    RoundCounted,
    RoundReplaced,
    RunBlocked,
    RunClaimed,
    RunFailed,
    RunTransition,
    RunTurnEnded,
    ToldToGoOn,
    TurnSucceeded,
    UserSpoke,
    apply_events,
)
from openclaw_taskmem.domain.tasks import lifecycle, thread
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import (
    clip,
    format_count,
    format_duration,
    quote_line,
    quote_step,
    to_plain_line,
)
from openclaw_taskmem.domain.wakes import notices, outbox
from openclaw_taskmem.domain.wakes.notices import Milestone, NoticeKind
from openclaw_taskmem.domain.wakes.turn_budget import is_answer_wake
from taskmem_hookspecs import (
    Change,
    Event,
    Message,
    MessageType,
    News,
    Owner,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
    Wake,
    WakeCause,
    WakeState,
)


class Origin(StrEnum):
    """The cause of a turn."""

    USER = "user"
    """The user said something."""
    TASKMEM = "taskmem"
    """One of our wakes."""
    RECOVERY = "recovery"
    """The gateway resumed a turn that a restart had cut."""
    HEARTBEAT = "heartbeat"
    """A timer; such a turn counts as work only if it calls a tool."""
    OTHER = "other"
    """Something else, such as a sub-agent's report."""


class ProviderFailureKind(StrEnum):
    """The kinds of a provider's failures."""

    PASSING = "passing"
    """A retry may succeed."""
    REFUSED = "refused"
    """A retry would fail again."""
    CREDENTIALS = "credentials"
    """The user must act: the key is wrong, or a bill is unpaid."""


class Turn(Value):
    """A turn that has ended."""

    origin: Origin = Origin.OTHER
    error: str | None = None
    """Error with which the gateway gave up; None: it did not fail."""
    reason: str | None = None
    """The kind of that failure, as the gateway knows it; None: not known."""
    aborted: bool = False
    """True if somebody stopped it."""
    stopped: bool = False
    """True if the daemon stopped it, because its task was cancelled or its run reset."""
    said: str = ""
    """The end of the agent's last message; empty: it said nothing."""
    words: str = ""
    """The agent's last message in full, if one of our wakes began the turn."""
    calls: int = 0
    """Tool calls in it."""
    children: int = 0
    """Sub-agents of its session that still run; the gateway reports when they end."""
    commands: tuple[str, ...] = ()
    """Commands that run in the background of its gateway for the session."""
    scheduled: tuple[str, ...] = ()
    """Work that its gateway has scheduled for the session within the hour, or begun. It survives a
    restart."""
    awaited_age: float = 0.0
    """Running time of the oldest command or sub-agent, in seconds."""

    @property
    def awaited_work(self) -> tuple[str, ...]:
        """Everything in its gateway that the session may wait for, in words."""
        below = (format_count(self.children, "sub-agent"),) if self.children else ()
        return (*below, *self.commands, *self.scheduled)

    @property
    def is_empty(self) -> bool:
        """True if a timer began it and it called no tool."""
        return self.origin is Origin.HEARTBEAT and not self.calls

    @property
    def has_spoken(self) -> bool:
        """True if its agent said something to the user."""
        return bool(self.said) and not self.is_empty

    @property
    def may_have_acted(self) -> bool:
        """True if its agent may have acted on what the session was told."""
        return self.error is None and not self.is_empty


_QUESTION_MARKS: Final = ("?", "？", "؟", "՞", "፧", "⁇", "⁉", "❓", "❔")
_PASSING_FAILURE: Final = re.compile(
    r"(?i)\b429\b|rate.?limit|too many requests|overloaded|try again|timed? ?out"
    r"|temporar(?:y|ily)"
)
_CREDENTIALS: Final = re.compile(
    r"(?i)\b(?:HTTP|status|code|error)?[ :=]*(?:401|402|403)\b(?! ?(?:ms|s|seconds))"
    r"|unauthori[sz]ed|forbidden|payment required|(?:invalid|incorrect|no) api key"
    r"|insufficient.quota|credit balance|billing"
)
_REFUSAL: Final = re.compile(
    r"(?i)\b(?:HTTP|status|code|error)[ :=]*(?:400|404)\b|\A\W*(?:400|404)\b"
    r"|bad request|invalid_request|rejected the request|model_not_found"
)


def has_closing_question(last_words: str) -> bool:
    """True if a turn's last words end in a question mark.

    This only decides how long the agent rests.
    """
    words = "".join(c for c in last_words if c.isprintable() or c.isspace())
    while words and not (words[-1].isalnum() or words[-1] in _QUESTION_MARKS):
        if words[-1] == "!" and words[:-1].rstrip("!").endswith(_QUESTION_MARKS):
            return True
        if words[-1] in ".!…。！;:,":
            return False
        words = words[:-1]
    return words.endswith(_QUESTION_MARKS)


def classify_failure(error: str, reason: str | None = None) -> ProviderFailureKind:
    """Classify a provider's failure by the gateway's `reason`, else by its error text."""
    with suppress(ValueError):
        return ProviderFailureKind(reason or "")
    if _PASSING_FAILURE.search(error):
        return ProviderFailureKind.PASSING
    if _CREDENTIALS.search(error):
        return ProviderFailureKind.CREDENTIALS
    return ProviderFailureKind.REFUSED if _REFUSAL.search(error) else ProviderFailureKind.PASSING


# --- wakes of runs ------------------------------------------------------------


def make_wake(
    run: Run,
    wake_id: str,
    text: str,
    now: datetime,
    rest: timedelta = timedelta(),
    *,
    last_owner: Owner | None = None,
) -> Wake:
    """Build the wake that tells a run's agent to go on, due after `rest`.

    `last_owner`: who had the run before it was queued again. Its gateway has the session, which
    may have the same key in another gateway.
    """
    owner = run.owner or last_owner
    same = owner is not None and owner.session_key == run.session_key
    return Wake(
        wake_id=wake_id,
        key=f"run:{run.run_id}:{run.limits.rounds}",
        cause=WakeCause.RUN,
        task_id=run.task_id,
        run_id=run.run_id,
        session_key=run.session_key,
        host=owner.host if owner is not None and same else None,
        home=run.home,
        text=text,
        created_at=now,
        due_at=now + rest,
    )


def has_wake_on_its_way(facts: TaskFacts, now: datetime) -> bool:
    """True if a wake for the run is sent or in flight, or an answer of the user is due.

    Such a wake begins a turn, and the end of that turn decides what is next.
    """
    return any(
        wake.state is WakeState.SENT or is_answer_wake(wake) or outbox.is_in_flight(wake, now)
        for wake in list_open_run_wakes(facts)
    )


def supersede_open_wakes(facts: TaskFacts, *, answers: bool = False) -> tuple[Wake, ...]:
    """Supersede the open wakes of the task's run and of its registrar.

    Wakes that carry a user's answer stay open, unless `answers`.
    """
    dropped = tuple(
        wake.model_copy(update={"state": WakeState.SUPERSEDED, "due_at": None})
        for wake in list_open_run_wakes(facts)
        if answers or not is_answer_wake(wake)
    )
    return (*dropped, *outbox.settle_registrar_wakes(facts.wakes))


def list_open_run_wakes(facts: TaskFacts) -> Sequence[Wake]:
    """Return the due and sent wakes of the task's run."""
    return [w for w in facts.wakes if w.cause is WakeCause.RUN and w.state in OWED_STATES]


# --- reminders ----------------------------------------------------------------


NAME_BYTES: Final = 160
"""Longest excerpt of a task's or a step's name."""
_RUNNING_BYTES: Final = 400
"""Longest list of what runs in the background."""
QUESTION_BYTES: Final = 1000
"""Longest excerpt of a question to the user."""
_OTHER_WAYS: Final = (
    "If only the user can help, call task_update with ask, your question to them. If "
    'it waits for something, call smart_wait. If it is to rest, set status "paused"; '
    "if it is over, report how it ended."
)
"""Advice to an agent that does not go on."""


def _remind_to_go_on(task: Task) -> str:
    """Write the message that tells an agent to go on at once."""
    sentences = f"Your task {_format_name(task)} is not done: {_describe_next(task)} Go on now."
    return _format_line(task, sentences)


def remind_of_end(task: Task, before: str) -> str:
    """Write the message that something has ended and the agent should go on.

    It says that a question to the user is still open, in case the last words were one.
    """
    return _format_line(
        task,
        f"{before} Your task {_format_name(task)} is not done: {_describe_next(task)} Go on from "
        "where you were; what you have asked the user is not answered by this.",
    )


def refuse_end(facts: TaskFacts, messages: Sequence[Message]) -> str | None:
    """Say to an agent that ends its turn why its task is not over; None: it may end.

    It may if the task waits for something, is another's, or has a message on its way to its agent.
    `messages`: the task's newest, oldest first.
    """
    task, run = facts.task, facts.run
    told = any(w.state in OWED_STATES and not outbox.is_for_registrar(w) for w in facts.wakes)
    if told or task.rests or task.status is not TaskStatus.ACTIVE:
        return None
    if run is not None and run.state is not RunState.RUNNING:
        return None
    refused = next(filter(thread.is_refusal, thread.find_decisions(messages)), None)
    if refused is None:
        return _remind_to_go_on(task)
    missing = clip(to_plain_line(refused.content), QUESTION_BYTES)
    sentences = f"Your task {_format_name(task)} is open. {missing} Mend that, then complete it."
    return _format_line(task, sentences)


def _remind_of_no_progress(task: Task) -> str:
    """Write the reminder after a turn without progress, or one that ended in a question mark."""
    return _format_line(
        task,
        f"Your task {_format_name(task)} is open, and your last turn ended without progress "
        "or with a question. If you asked only for leave to carry on with your own "
        "plan, carry on.",
    )


def _remind_of_awaited(task: Task, awaited: Sequence[str]) -> str:
    """Write the reminder for an agent that has waited long for its gateway's work."""
    running = clip(to_plain_line("; ".join(awaited)), _RUNNING_BYTES)
    return _format_line(
        task,
        f"Your task {_format_name(task)} is open, and for an hour nothing has come of what "
        f"runs or is scheduled: {running}. See how far it is, and go on with what does "
        "not need it.",
    )


def describe_waiting_task(task: Task, run: Run) -> str:
    """Write what an agent reads before the user's next words: what its task waits for."""
    asks = "ask you to go on with it" if run.dialogue.question is None else "answer it"
    return (
        f"[system] task_question ({task.task_id}): your task {_format_name(task)} waits "
        f"{describe_waiting_reason(run)} What follows may or may not {asks}. If it "
        'does, call task_update with status "active" before you act on it, or with '
        "what else it means for the task; if it does not, leave the task as it is."
    )


def describe_waiting_reason(run: Run) -> str:
    """Say to an agent why its task waits for the user."""
    if run.dialogue.question is not None:
        asked = quote_line(to_plain_line(run.dialogue.question), QUESTION_BYTES)
        return f"because you had asked the user: {asked}"
    return f"because {_RUN_REASONS.get(run.why or '', 'the user has the next word')}."


def describe_away_question(run: Run) -> str | None:
    """Say to an agent what a task in the background asks the user; None: nothing."""
    if run.dialogue.question is None or not current_run.has_open_question(run):
        return None
    asked = quote_line(to_plain_line(run.dialogue.question), QUESTION_BYTES)
    return (
        f"This task waits in the background, for it has asked the user: {asked} Once "
        "they answer that, call task_resume with answer. Do not work on it here; tell "
        "the user."
    )


_RUN_REASONS: Final[Mapping[str, str]] = {
    RunReason.ANSWERED: "you had not acted on the user's answer yet",
    RunReason.STOPPED: "somebody stopped your turn",
    RunReason.STALE: "it was interrupted long ago",
    RunReason.PROMPT_CHANGED: "it was interrupted, and your instructions have changed",
    RunReason.CREDENTIALS: "the model's provider wants another key, or to be paid",
}
"""Why a task waits for the user although its agent asked nothing."""


def _describe_next(task: Task) -> str:
    """Say which step of a task is next."""
    place = compute_progress(task)
    if place.current is None and task.doubts:
        return (
            "all its steps are marked done, and its completion was refused: task_update with a "
            "query says for what. Mend that, then complete it."
        )
    if place.current is None:
        return "all its steps are marked done. Check the result, then complete it."
    step = quote_step(to_plain_line(task.plan[place.current]), NAME_BYTES)
    return f"step {place.current + 1} of {len(task.plan)}, {step}, is next."


def _format_name(task: Task) -> str:
    return quote_step(to_plain_line(task.name), NAME_BYTES)


def _format_line(task: Task, sentences: str) -> str:
    return f"[system] task_continue ({task.task_id}): {sentences} {_OTHER_WAYS}"


def find_open_task(tasks: Iterable[Task], session_key: str, since: datetime | None) -> Task | None:
    """Return the active task to remind a session's agent of; None: there is none.

    It is the one touched last. `since` is when the agent may have forgotten it: if the task was
    touched later, no reminder is needed. None: the agent asked for a reminder.
    """
    open_ = [
        task
        for task in tasks
        if task.session_key == session_key and task.status is TaskStatus.ACTIVE
    ]
    latest = max(open_, key=lambda task: (task.updated_at, task.task_id), default=None)
    if latest is not None and since is not None and latest.updated_at > since:
        return None
    return latest


# --- what follows a turn ------------------------------------------------------


LONGEST_AWAIT: Final = timedelta(hours=1)
"""How long an agent may wait for its gateway's work before it is reminded."""
_CAUSE_BYTES: Final = 200
"""Longest excerpt of a provider's error."""
_REFUSED_BYTES: Final = 120
"""Longest excerpt of it if the user must act, so that there is room for what to do."""
_COUNTED_ORIGINS: Final = (Origin.TASKMEM, Origin.RECOVERY, Origin.OTHER, Origin.USER)
"""Origins of turns that count as idle if they bring no progress."""


class RestRun(Value):
    """Release the lease, and wake nobody."""

    run: Run
    keep: bool = False
    """Keep the run's open wakes and the hold on stuck alerts; False: supersede and replace them."""
    held: timedelta | None = None
    """How long no stuck alert is sent; None: no hold. Ignored if `keep`."""


class Block(Value):
    """Block the run until the user acts."""

    run: Run
    why: RunReason
    sentence: str
    """Sentence for its thread."""
    line: str
    """Line for the user, after the task's name."""


class Fail(Value):
    """Fail the run and its task."""

    run: Run
    why: RunReason
    sentence: str


class GoOn(Value):
    """Wake the agent to go on after `seconds`."""

    run: Run
    text: str
    seconds: float = 0.0
    events: tuple[Event, ...] = ()
    sentence: str = ""
    """Sentence for its thread; empty: none."""


Course = RestRun | Block | Fail | GoOn


def apply_turn_end(
    facts: TaskFacts, turn: Turn, *, wake_id: str, now: datetime, policy: RunPolicy
) -> Change:
    """Build the change that the end of a turn makes to its task's run; empty: it is not running."""
    run = facts.run
    if run is None or run.state is not RunState.RUNNING:
        return Change()
    course = decide_course(facts, run, turn, now, policy)
    match course:
        case RestRun():
            rested = apply_events(course.run, LeaseReleased(), now=now)
            held = None if course.held is None else now + course.held
            return _build_run_change(facts, rested, now, keep=course.keep, held=held)
        case Block():
            return _block_run(facts, course, now)
        case Fail():
            return fail_run(facts, course, now)
        case GoOn():
            moved = apply_events(course.run, ToldToGoOn(), now=now).run
            rest = timedelta(seconds=course.seconds)
            wake = make_wake(moved, wake_id, course.text, now, rest)
            transition = RunTransition(run=moved, events=course.events)
            change = _build_run_change(facts, transition, now, wake=wake)
            if not course.sentence:
                return change
            return lifecycle.enter_decision(change, facts.task, course.sentence, now)


def promote_run(
    facts: TaskFacts, owner: Owner, *, wake_id: str, now: datetime, policy: RunPolicy
) -> Change | None:
    """Build the change that starts a session's next run after another of its runs has ended.

    The turn before does not count for it. Empty: it was told to go on already, or automatic
    continuation is off. None: it is not open, waits for something, or its task is implicit. Source:
    docs/origins.md, "Runs and their states".
    """
    run = facts.run
    if run is None or run.state not in current_run.WORKABLE_STATES:
        return None
    if facts.task.rests or facts.task.implicit:
        return None
    if not policy.carry_on or list_open_run_wakes(facts):
        return Change()
    claim = (RunClaimed(owner=owner),) if run.state is RunState.QUEUED else ()
    moved = apply_events(run, *claim, ToldToGoOn(), now=now, policy=policy)
    wake = make_wake(moved.run, wake_id, _remind_to_go_on(facts.task), now)
    return _build_run_change(facts, moved, now, wake=wake)


def decide_course(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy
) -> Course:
    """Decide what to do with a run when a turn that worked on it ends."""
    if facts.task.status is not TaskStatus.ACTIVE:
        return RestRun(run=run)
    if turn.aborted:
        how = notices.format_resume_command(facts.task, run)
        return Block(
            run=run,
            why=RunReason.STOPPED,
            sentence="Its agent's turn was stopped, so it waits for the user.",
            line=f"stopped. {how} lets it go on.",
        )
    if turn.is_empty:
        return RestRun(run=run, keep=True)
    if turn.error is not None:
        return _judge_failure(facts, run, turn, now, policy)
    progressed = _has_progress(run, turn)
    ended = apply_events(run, RunTurnEnded(), TurnSucceeded(), now=now).run
    counted = _count_turn(ended, turn, now, progressed=progressed)
    return _judge_round(facts, counted, turn, now, policy, progressed=progressed)


def _judge_round(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy, *, progressed: bool
) -> Course:
    if facts.task.rests:
        return RestRun(run=run)
    over = _find_limit(run, policy)
    if over is not None and not (turn.awaited_work and over[0] is RunReason.STALLED):
        return Fail(run=run, why=over[0], sentence=over[1])
    if turn.awaited_work:
        return _await_gateway_work(facts, run, turn, now, policy)
    if not policy.carry_on or run.session_key is None or has_wake_on_its_way(facts, now):
        return RestRun(run=run, keep=True)
    asks = has_closing_question(turn.said)
    if progressed and not asks:
        return GoOn(run=run, text=_remind_to_go_on(facts.task))
    pause = policy.idle_pauses[max(run.limits.idle_rounds - 1, 0)]
    if asks and run.limits.idle_rounds <= 1:
        pause = policy.question_seconds
    return GoOn(run=run, text=_remind_of_no_progress(facts.task), seconds=pause)


def _await_gateway_work(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy
) -> Course:
    """Decide how long a run rests while its gateway works on something for it."""
    if not policy.carry_on or run.session_key is None:
        return RestRun(run=run, held=LONGEST_AWAIT)
    # Commands end with the gateway, scheduled work outlives it.
    awaits = events.build_event(
        events.RUN_AWAITS,
        run,
        now,
        commands=[*turn.commands],
        scheduled=[*turn.scheduled],
        sub_agents=turn.children,
    )
    text = _remind_of_awaited(facts.task, turn.awaited_work)
    hour, age = LONGEST_AWAIT.total_seconds(), turn.awaited_age
    # Remind after 1 hour, then each time the age has doubled: after 2, 4, 8 hours.
    seconds = max(hour - age if age < hour else age, policy.idle_pauses[0])
    return GoOn(run=run, text=text, seconds=seconds, events=(awaits,))


def _find_limit(run: Run, policy: RunPolicy) -> tuple[RunReason, str] | None:
    """Return which limit a run has reached, with a sentence; None: none."""
    if run.limits.idle_rounds > len(policy.idle_pauses):
        count = format_count(run.limits.idle_rounds - 1, "reminder")
        return RunReason.STALLED, f"{count} in a row brought nothing new."
    if run.limits.rounds - run.limits.rounds_before >= policy.max_rounds:
        times = format_count(policy.max_rounds, "time")
        return RunReason.ROUNDS, f"its agent was told to go on {times}."
    if run.limits.worked_seconds >= policy.max_hours * 3600:
        worked = format_duration(run.limits.worked_seconds)
        return RunReason.HOURS, f"its agent has worked on it for {worked}."
    return None


def _judge_failure(
    facts: TaskFacts, run: Run, turn: Turn, now: datetime, policy: RunPolicy
) -> Course:
    trouble = classify_failure(turn.error or "", turn.reason)
    if facts.task.rests:
        return RestRun(run=run)
    sent = turn.origin is Origin.USER and not turn.calls
    if sent and trouble is ProviderFailureKind.REFUSED:
        # The provider refused the user's own message, and the user sees that.
        return RestRun(run=run, keep=True)
    task = facts.task
    error = clip(to_plain_line(turn.error or ""), _CAUSE_BYTES)
    run = apply_events(run, ProviderFailed(), now=now).run
    failures = run.limits.provider_failures
    if trouble is ProviderFailureKind.CREDENTIALS:
        how, error = notices.format_resume_command(task, run), clip(error, _REFUSED_BYTES)
        line = f"the model's provider refuses ({error}). Mend that, then say {how}."
        sentence = f"The model's provider refuses ({error}), so it waits for the user."
        return Block(run=run, why=RunReason.CREDENTIALS, sentence=sentence, line=line)
    if trouble is ProviderFailureKind.REFUSED or failures > policy.provider_retries:
        times = format_count(failures, "time")
        words = f"the model's provider failed {times}: {error}."
        return Fail(run=run, why=RunReason.PROVIDER, sentence=words)
    if not policy.carry_on or run.session_key is None:
        return RestRun(run=run)
    seconds = policy.provider_rest_seconds * 4 ** (failures - 1)
    again = format_duration(seconds)
    retry = events.build_event(
        events.PROVIDER_FAILED, run, now, error=error, failures=failures, again_in=again
    )
    text = remind_of_end(task, f"Your last turn failed ({error}).")
    sentence = f"Its agent's turn failed ({error}), and it is told to go on in {again}."
    return GoOn(run=run, text=text, seconds=seconds, events=(retry,), sentence=sentence)


def fail_run(facts: TaskFacts, course: Fail, now: datetime) -> Change:
    """Build the change that fails a run and its task and notifies the user."""
    task, _ = lifecycle.change_status(facts.task, TaskStatus.FAILED, now)
    moved = apply_events(course.run, RunFailed(why=course.why), now=now)
    content = f"Failed ({course.why}): {course.sentence}"
    task, message = lifecycle.add_lifecycle_message(task, content, now, MessageType.TEXT)
    # The user says /resume in the chat that gets the run's notices.
    session = course.run.told_session or task.session_key
    task = task.model_copy(update={"session_key": session})
    sentences = f"{course.sentence} {notices.format_resume_command(task, course.run)} tries again."
    milestone = notices.build_milestone(Milestone.FAILED, task, moved.run, now, sentences)
    log = lifecycle.build_status_events(
        facts.task.status, task, now, run_id=moved.run.run_id, why=course.why
    )
    rounds = course.run.limits.idle_rounds
    stall = events.build_event(events.RUN_STALLED, moved.run, now, rounds=rounds)
    stalled = (stall,) if course.why is RunReason.STALLED else ()
    ended = RunTransition(run=moved.run, events=(*stalled, *moved.events, *log, milestone))
    return _build_run_change(facts, ended, now, task=task, message=message)


def _block_run(facts: TaskFacts, course: Block, now: datetime) -> Change:
    moved = apply_events(course.run, RunBlocked(why=course.why), now=now)
    line = f"{notices.format_task_name(facts.task)}: {course.line}"
    notice = notices.build_notice(NoticeKind(course.why), facts.task, moved.run, line, now)
    blocked = RunTransition(run=moved.run, events=(*moved.events, notice))
    change = _build_run_change(facts, blocked, now)
    return lifecycle.enter_decision(change, facts.task, course.sentence, now)


def _has_progress(run: Run, turn: Turn) -> bool:
    """True if a turn made a new call, or an old call's result and the last words are both new."""
    if run.progress.news is News.RESULT:
        return _digest_words(turn.said) != run.progress.said
    return run.progress.news is News.CALL


def _count_turn(run: Run, turn: Turn, now: datetime, *, progressed: bool) -> Run:
    """Count a turn for the run's limits."""
    if turn.origin is Origin.USER:
        run = apply_events(run, UserSpoke(), now=now).run
    idle = run.limits.idle_rounds
    if progressed:
        idle = 0
    elif turn.origin in _COUNTED_ORIGINS and not turn.awaited_work:
        idle += 1
    counted = RoundCounted(idle_rounds=idle, said=_digest_words(turn.said))
    return apply_events(run, counted, now=now).run


def _digest_words(words: str) -> str | None:
    """Digest words, ignoring spaces and case; None: there are no words."""
    return checkpoints.digest_text(" ".join(words.casefold().split())) if words else None


def _build_run_change(
    facts: TaskFacts,
    moved: RunTransition,
    now: datetime,
    *,
    task: Task | None = None,
    message: Message | None = None,
    wake: Wake | None = None,
    keep: bool = False,
    held: datetime | None = None,
) -> Change:
    """Build a change of a run and its task.

    Args:
        facts: The task before the change.
        moved: The run after it, with its log entries.
        now: The instant of the change.
        task: The task after it; None: unchanged.
        message: Entry to add to the thread; None: none.
        wake: Wake to send; None: none.
        keep: Keep the run's open wakes instead of superseding them, and the task's hold.
        held: Until when no stuck alert is sent; None: no hold. A wake's due time sets it.
    """
    if wake is not None and wake.due_at:
        held = wake.due_at + RESUME_HOLD
    gone = () if keep else supersede_open_wakes(facts)
    after = task or facts.task
    if not keep and after.held_until != held:
        after = after.model_copy(update={"held_until": held})
    return Change(
        tasks=(after,) if after != facts.task else (),
        messages=(message,) if message else (),
        runs=(moved.run,) if moved.run != facts.run else (),
        wakes=(*gone, *((wake,) if wake else ())),
        events=(*moved.events, *outbox.build_settled_events(gone, now)),
    )


# --- work that a gateway reports ----------------------------------------------


def notify_awaited_end(
    facts: TaskFacts, newest: Sequence[Event], name: str, how: str, *, wake_id: str, now: datetime
) -> Change:
    """Wake a run because a command or automation that it waited for has ended.

    `newest` are the newest events of its task. Empty: the run rests for another reason, was woken
    already, or a turn works on it.
    """
    run, awaited = facts.run, read_awaited(facts, newest)
    # A command is logged as `name (about)`.
    commands = [each.partition(" (")[0] for each in _list_names(awaited, "commands")]
    known = name in (*commands, *_list_names(awaited, "scheduled"))
    if run is None or not known or has_wake_on_its_way(facts, now):
        return Change()
    ended = clip(to_plain_line(f"{name}: {how}"), _CAUSE_BYTES)
    text = remind_of_end(facts.task, f"What ran has ended ({ended}).")
    return _resume_now(facts, run, wake_id, text, now)


def notify_gateway_restart(
    facts: TaskFacts, newest: Sequence[Event], *, wake_id: str, now: datetime
) -> Change:
    """Wake a run because the commands that it waited for ended with the gateway.

    `newest` are the newest events of its task. Empty: it waits for no command.
    """
    run, gone = facts.run, _list_names(read_awaited(facts, newest), "commands")
    if run is None or not gone:
        return Change()
    what = clip(to_plain_line("; ".join(gone)), _CAUSE_BYTES)
    before = f"The gateway restarted, which ended what ran in the background ({what})."
    text = remind_of_end(facts.task, before)
    return _resume_now(facts, run, wake_id, text, now)


def read_awaited(facts: TaskFacts, newest: Sequence[Event]) -> Mapping[str, JsonValue]:
    """Read from the log what a resting run waits for in its gateway; empty: nothing.

    Keys: `commands` and `scheduled` (names), `sub_agents` (a count).
    """
    run = facts.run
    if run is None or run.state is not RunState.RUNNING or current_run.is_at_work(run):
        return {}
    since = {wake.created_at for wake in list_open_run_wakes(facts) if wake.sent_at is None}
    found = [e for e in newest if e.kind == events.RUN_AWAITS and e.at in since]
    return found[-1].data if found else {}


def _list_names(awaited: Mapping[str, JsonValue], kind: str) -> Sequence[str]:
    return cast("Sequence[str]", awaited.get(kind, ()))


def _resume_now(facts: TaskFacts, run: Run, wake_id: str, text: str, now: datetime) -> Change:
    """Build the change that ends a run's rest and wakes it now."""
    moved = apply_events(run, ToldToGoOn(), RoundReplaced(), now=now)
    wake = make_wake(moved.run, wake_id, text, now)
    return _build_run_change(facts, moved, now, wake=wake)

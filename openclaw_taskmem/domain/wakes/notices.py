"""Build what the user reads of a task: milestones of a run, other notices, and the line of a wake.

The daemon sends each entry as a line to the session's user; no model reads it. Entries within
`COALESCING_TIME` make one message. A wake's line stands in the chat of the session whose turn it
starts: it says what was seen and what is next. Source: docs/origins.md, "Milestones".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import SessionKeys
from openclaw_taskmem.domain.conditions.targets import describe_target, describe_wait
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.text.texts import (
    clip,
    format_clock,
    format_count,
    format_short_duration,
    quote_step,
    to_one_line,
    to_plain_line,
)
from openclaw_taskmem.domain.wakes import outbox
from taskmem_hookspecs import (
    Change,
    Event,
    Run,
    Task,
    TaskFacts,
    Value,
    Wait,
    WaitStatus,
    Wake,
    WakeCause,
)
from taskmem_hookspecs.doctor import is_trial

LINE_BYTES: Final = 400
"""Longest line, except a question or an agent's last words."""
NAME_BYTES: Final = 160
"""Longest excerpt of a task's name in a line, so that there is room for what to do."""
_CALLED_BYTES: Final = 40
"""Longest excerpt of a task's name in a command; its beginning is enough."""
_WORDS_BYTES: Final = 64_000
"""Longest question to the user, or last words of an agent."""
COALESCING_TIME: Final = timedelta(seconds=5)
"""How long an entry waits for others to join its message."""


class Milestone(StrEnum):
    """The milestones of a run; a value is its name in the log and the words of its line."""

    ACCEPTED = "accepted"
    """The task was registered by an agent that works on it."""
    STARTED = "started"
    """Its first tool was called."""
    WRITE_VERIFIED = "tool_write_verified"
    """Files that it made, changed or removed were verified; the line names them."""
    COMPLETED = "completed"
    """The task is completed. A notice of its own tells what could not be verified."""
    FAILED = "failed"
    """The task failed; the line says why."""


class NoticeKind(StrEnum):
    """The kinds of the other notices; an entry of the log has it as `about`."""

    QUESTION = "question"
    """The agent asks the user."""
    STALE = "stale"
    """The user is asked whether to resume a run that was interrupted long ago."""
    PROMPT_CHANGED = "prompt_changed"
    """The user is asked whether to resume a run whose agent's instructions have changed."""
    CREDENTIALS = "credentials"
    """The provider refused the API key or demands payment."""
    STOPPED = "stopped"
    """The user stopped the turn, and is asked whether the task goes on."""
    REVIEW = "review"
    """The user is asked to review the work."""
    BLOCKED = "blocked"
    """A run still waits for the user."""
    RESUMED = "resumed"
    """A run resumes after an interruption."""
    HELD = "held"
    """A run goes on later: its session has had as many turns as we begin."""
    CANCELLED = "cancelled"
    """A task was cancelled."""
    REFUSED = "refused"
    """A completion was refused."""
    UNVERIFIED = "unverified"
    """A completion has something that could not be verified."""
    UNCLAIMED = "unclaimed"
    """A task waits to be claimed. Without a session, the main session is notified."""
    STEP = "step"
    """Steps of the plan are done."""
    PROGRESS = "progress"
    """Steps of the plan are done by a run in the background."""
    WAITING = "waiting"
    """A wait begins."""
    WORDS = "words"
    """The agent's own last words, which the session's chat shows already."""


class Notify(StrEnum):
    """Notices that a user gets: the values of `TASKMEM_NOTIFY`."""

    MILESTONES = "milestones"
    """All notices."""
    IMPORTANT = "important"
    """Questions, the agent's last words, failures, completions, and what could not be verified."""
    OFF = "off"
    """Only questions and the agent's last words."""


_QUESTION_KINDS: Final = frozenset(
    {
        NoticeKind.QUESTION,
        NoticeKind.STALE,
        NoticeKind.PROMPT_CHANGED,
        NoticeKind.CREDENTIALS,
        NoticeKind.STOPPED,
        NoticeKind.REVIEW,
        NoticeKind.BLOCKED,
    }
)
"""Subjects of notices that ask the user something."""
_QUESTIONS: Final = _QUESTION_KINDS | {NoticeKind.WORDS}
"""Subjects sent with every setting: questions to the user, and the agent's answer."""
_IMPORTANT_KINDS: Final = frozenset({Milestone.COMPLETED, Milestone.FAILED, NoticeKind.UNVERIFIED})


_CARD_KINDS: Final = frozenset({NoticeKind.STEP, NoticeKind.WAITING})
"""Subjects that a card shows; sent as lines only to the web chat, which has no cards."""
SMALL_EVERY: Final = timedelta(minutes=1)
"""Shortest interval between two such lines in a session."""


def is_small(event: Event) -> bool:
    """True if an entry is sent only where there is no card."""
    return _find_subject(event) in _CARD_KINDS


def is_question(event: Event) -> bool:
    """True if an entry asks the user something."""
    return _find_subject(event) in _QUESTION_KINDS


def is_question_over(event: Event, run: Run, newest: Sequence[Event]) -> bool:
    """True if the question of an entry needs no answer any more.

    Its run no longer waits, or the question was answered or replaced by another. `newest` are the
    newest entries of its task.
    """
    later = (e for e in newest if e.event_id > event.event_id and e.run_id == run.run_id)
    closes = (e.kind == events.QUESTION_ANSWERED or is_question(e) for e in later)
    return not run.state.is_waiting or any(closes)


def is_wanted(event: Event, notify: Notify) -> bool:
    """True if a user with the setting `notify` gets an entry."""
    about = _find_subject(event)
    if notify is Notify.MILESTONES or about in _QUESTIONS:
        return True
    return notify is Notify.IMPORTANT and about in _IMPORTANT_KINDS


def find_next_message(waiting: Sequence[Event]) -> tuple[int, datetime | None]:
    """Return how many of a session's first entries make the next message, and when to send it.

    A question, an agent's last words or a failure is a message of its own, after the entries before
    it. None instead of an instant: send it now.
    The same entries always make the same messages.
    """
    last = waiting[0].at + COALESCING_TIME
    for number, event in enumerate(waiting):
        if _find_subject(event) in _QUESTIONS | {Milestone.FAILED}:
            return max(number, 1), None
        if event.at >= last:
            return number, None
    return len(waiting), last


def format_message(entries: Sequence[Event]) -> str:
    """Write a message, one line an entry; acceptance and start of a task share a line.

    Each line of a task appears once.
    """
    begun = {e.task_id for e in entries if _find_subject(e) == Milestone.ACCEPTED}
    both = begun & {e.task_id for e in entries if _find_subject(e) == Milestone.STARTED}
    lines: dict[tuple[str | None, str], None] = {}
    for event in entries:
        line, about = str(event.data.get("line", "")), _find_subject(event)
        if event.task_id in both and about == Milestone.STARTED:
            continue
        if event.task_id in both and about == Milestone.ACCEPTED:
            named, _, steps = line.rpartition(_ACCEPTED_WORDS)
            line = f"{named}{_STARTED_WORDS}{steps}"
        lines[event.task_id, line] = None
    return "\n".join(line for _, line in lines)


def is_beginning(event: Event) -> bool:
    """True if an entry says only that a task is accepted or started."""
    return _find_subject(event) in (Milestone.ACCEPTED, Milestone.STARTED)


def is_wait_beginning(event: Event) -> bool:
    """True if an entry says only that a wait begins."""
    return _find_subject(event) == NoticeKind.WAITING


def find_failure(event: Event, task: Task, run: Run | None) -> str:
    """Return why a task failed, if an entry says so; empty: it does not."""
    if _find_subject(event) != Milestone.FAILED:
        return ""
    begins = f"{format_task_name(task)}: {Milestone.FAILED}. "
    sentences = str(event.data.get("line")).partition(begins)[2]
    how = f" {format_resume_command(task, run)} tries again." if run else ""
    return sentences.removesuffix(how)


def list_logged_events(change: Change) -> tuple[Event, ...]:
    """Return the events of a change to log.

    Left out are those of the doctor's trial waits and sessions, and those of implicit tasks but for
    the questions of their agents.
    """
    trials = {each.wait_id for each in change.waits if is_trial(each.session_key)}
    wakes = (wake for wake in change.wakes if is_trial(wake.session_key))
    trials |= {wake.wait_id for wake in wakes if wake.wait_id is not None}
    return tuple(
        event
        for event in change.events
        if event.wait_id not in trials
        and not ("session_key" in event.data and is_trial(str(event.data["session_key"])))
        and (event.data.get("implicit") is not True or _find_subject(event) == NoticeKind.QUESTION)
    )


def _find_subject(event: Event) -> str:
    """Return the name of an entry's milestone, or the kind of its notice."""
    return str(event.data.get("name") or event.data.get("about") or "")


_ACCEPTED_WORDS: Final = ": accepted, "
_STARTED_WORDS: Final = ": accepted and started, "


def build_milestone(
    which: Milestone, task: Task, run: Run, now: datetime, sentence: str | None = None
) -> Event:
    """Build a milestone's log entry.

    `sentence` is added to its line, but not if the task was accepted: then the number of steps is.
    """
    line = f"{format_task_name(task)}: {which}"
    if which is Milestone.ACCEPTED:
        sentence = format_count(len(task.plan), "step")
        line = f"{format_task_name(task)}{_ACCEPTED_WORDS}{sentence}."
    elif sentence:
        line = f"{line}. {capitalize_first(to_plain_line(sentence))}"
    else:
        line = f"{line}."
    return _build_event(events.MILESTONE, task, run, line, now, name=which)


def capitalize_first(sentence: str) -> str:
    """Capitalize the first letter."""
    return f"{sentence[:1].upper()}{sentence[1:]}"


def build_last_words(run: Run | None, session_key: str, words: str, now: datetime) -> Event:
    """Build the entry for an agent's last words in a turn that one of our wakes began.

    It goes to the user of the run's session, whose chat shows the words already; for a run in the
    background, to the user of the session that sent it there.
    """
    asking_session = run.told_session if run is not None else None
    return events.build_event(
        events.NOTICE,
        run,
        now,
        about=NoticeKind.WORDS,
        session_key=asking_session or session_key,
        line=clip(words, _WORDS_BYTES),
        home=run.home if run else None,
        in_chat=asking_session is None,
    )


def is_same_question(asked: str | None, words: str) -> bool:
    """True if words repeat the question that the user was asked."""
    return asked is not None and to_one_line(asked) == to_one_line(words)


def build_steps_done(task: Task, run: Run, marked: frozenset[int], now: datetime) -> Event:
    """Build the notice of steps that are done; in the background, say how to stop the task."""
    last = quote_step(to_plain_line(task.plan[max(marked)]), 120)
    whole = format_count(len(task.plan), "step")
    line = f"{format_task_name(task)}: {len(task.done)} of {whole} done: {last}."
    if run.told_session is None:
        return build_notice(NoticeKind.STEP, task, run, line, now)
    stops = f"{line} /cancel {format_command_name(task)} stops it."
    return build_notice(NoticeKind.PROGRESS, task, run, stops, now)


def build_wait_notices(
    wait: Wait, facts: TaskFacts | None, sessions: SessionKeys, now: datetime
) -> tuple[Event, ...]:
    """Build the notice of a wait that begins; empty: its task is implicit, or no user sees it."""
    task, run = (facts.task, facts.run) if facts else (None, None)
    away = run.told_session if run else None
    own = (run.session_key if run else None) or (task.session_key if task else None)
    session = away or wait.session_key or own or ""
    if (task is not None and task.implicit) or not sessions.is_own(session):
        return ()
    longest = format_short_duration(wait.timeout_seconds)
    about = "Waiting" if task is None else f"{format_task_name(task)}: waiting"
    line = f"{about}, up to {longest}, for {describe_wait(wait)}."
    notice = events.build_event(
        events.NOTICE,
        wait,
        now,
        about=NoticeKind.WAITING,
        session_key=session,
        line=clip(line, LINE_BYTES),
        home=run.home if run else task.home if task else wait.home,
    )
    return (notice,)


def build_write_verified(task: Task, run: Run, sentence: str, now: datetime) -> Event:
    """Build the milestone that says what was made and verified."""
    which = Milestone.WRITE_VERIFIED
    line = f"{format_task_name(task)}: {sentence}"
    return _build_event(events.MILESTONE, task, run, line, now, name=which)


def add_nothing_written(event: Event, task: Task, nothing: str) -> Event:
    """Add `nothing`, which says that nothing was made, to a completion's entry.

    Any other entry is returned unchanged.
    """
    beginning = f"{format_task_name(task)}: {Milestone.COMPLETED}"
    line = str(event.data.get("line"))
    if event.data.get("name") != Milestone.COMPLETED or not line.startswith(beginning):
        return event
    changed = f"{beginning}; {nothing}{line.removeprefix(beginning)}"
    return event.model_copy(update={"data": {**event.data, "line": changed}})


def build_turn_stop(run: Run, session_key: str, now: datetime) -> Event:
    """Build the entry that stops the turn of a session that works on a run.

    It applies only to a turn that began before `now`; the host is told how long ago that was.
    """
    whose: dict[str, JsonValue] = {"session_key": session_key, "home": run.home}
    return events.build_event(events.TURN_STOPPED, run, now, **whose)


def build_notice(kind: NoticeKind, task: Task, run: Run, line: str, now: datetime) -> Event:
    """Build a notice's log entry."""
    return _build_event(events.NOTICE, task, run, line, now, about=kind)


def build_held_notice(task: Task, run: Run, until: datetime, now: datetime) -> Event:
    """Build the notice that a run goes on later, as its session has had its turns."""
    line = (
        f"{format_task_name(task)}: goes on at {format_clock(until, now, seconds=True)}; its "
        "session has had as many turns as are begun in a minute, or an hour. Nothing is lost."
    )
    return build_notice(NoticeKind.HELD, task, run, line, now)


def format_task_name(task: Task) -> str:
    """Shorten a task's name for a line."""
    return clip(to_plain_line(task.name), NAME_BYTES)


def format_command_name(task: Task) -> str:
    """Shorten a task's name for a command, to its first words."""
    words = to_plain_line(task.name)
    called = clip(words, _CALLED_BYTES)
    if called == words:
        return words
    whole = called.removesuffix("…")
    return whole.rpartition(" ")[0] or whole


def format_resume_command(task: Task, run: Run) -> str:
    """Write the command by which the user of the notice's chat resumes a run."""
    return "/resume" if run.told_session is None else f"/resume {format_command_name(task)}"


def _build_event(kind: str, task: Task, run: Run, line: str, now: datetime, **data: str) -> Event:
    session = run.told_session or run.session_key or task.session_key
    # A question is not shortened: it ends with the options and how to answer.
    size = _WORDS_BYTES if data.get("about") in _QUESTION_KINDS else LINE_BYTES
    clipped = clip(to_plain_line(line), size)
    known: dict[str, JsonValue] = {"implicit": True} if task.implicit else {}
    return Event(
        at=now,
        kind=kind,
        task_id=task.task_id,
        run_id=run.run_id,
        data={**data, **known, "session_key": session, "line": clipped, "home": run.home},
    )


# --- the lines of wakes --------------------------------------------------------


_SEEN_BYTES: Final = 160
"""Longest excerpt of a wait's last observation."""


class WakeFacts(Value):
    """The facts for the line of one wake."""

    wake: Wake
    task: Task | None = None
    """The wake's task; None: none."""
    run: Run | None = None
    """The task's open run; None: none."""
    wait: Wait | None = None
    """The wait that has ended; None: the wake is not of a wait."""


def describe_wakes(found: Sequence[WakeFacts]) -> str:
    """Write the line for wakes that share a message; those without room are counted.

    Empty: there is nothing to show.
    """
    lines = [*filter(None, dict.fromkeys(map(describe_wake, found)))]
    if not lines:
        return ""
    for kept in range(len(lines), 1, -1):
        rest = len(lines) - kept
        line = " ".join((*lines[:kept], *([f"And {rest} more."] if rest else ())))
        if clip(line, LINE_BYTES) == line:
            return line
    more = f" And {len(lines) - 1} more." if len(lines) > 1 else ""
    return f"{clip(lines[0], LINE_BYTES - 20)}{more}"


def describe_wake(facts: WakeFacts) -> str:
    """Say in a sentence what was seen and what is next.

    Of an implicit task only the end of a wait is shown.
    """
    task, wait = facts.task, facts.wait
    if outbox.is_for_registrar(facts.wake) or outbox.is_ready(facts.wake):
        return outbox.format_registrar_line(facts.wake)
    if task is not None and task.implicit:
        if facts.wake.cause is not WakeCause.WAIT:
            return ""
        task = None
    if facts.wake.cause is WakeCause.WAIT and wait is not None:
        about = describe_target(wait.target) if task is None else format_task_name(task)
        event = _describe_end(wait)
    elif task is None:
        return "The agent goes on."
    elif facts.wake.cause is WakeCause.STUCK:
        silent = (facts.wake.created_at - task.updated_at).total_seconds()
        about, event = (
            format_task_name(task),
            f"no progress for {format_short_duration(silent)}",
        )
    elif facts.run is not None and facts.run.why == RunReason.ANSWERED:
        return f"{format_task_name(task)}: its agent has your answer."
    else:
        about, event = format_task_name(task), _describe_turn(facts.run)
    parts = [part for part in (event, _describe_next(task)) if part]
    return f"{about}: {'; '.join(parts) or 'the agent goes on'}."


def _describe_end(wait: Wait) -> str:
    ended = wait.ended_at or wait.changed_at
    took = format_short_duration((ended - wait.armed_at).total_seconds())
    seen = clip(to_plain_line(wait.last_observation or ""), _SEEN_BYTES).rstrip(".")
    if wait.status is WaitStatus.RESOLVED:
        return f"{seen} after {took}" if seen else f"waited {took}, and it came"
    more = f" ({seen})" if seen else ""
    if wait.status is WaitStatus.ERROR:
        return f"it can no longer be watched{more}"
    return f"waited {took} in vain{more}"


def _describe_turn(run: Run | None) -> str:
    """Say why a run goes on; empty: its turn ended before its task."""
    if run is None:
        return ""
    if run.why == RunReason.BACKGROUND:
        return "begun in the background"
    if run.why == RunReason.RESET:
        return "started again"
    if run.limits.provider_failures:
        return "the last turn failed at the model's provider"
    if run.limits.idle_rounds:
        return "the last turn brought nothing new"
    return ""


def _describe_next(task: Task | None) -> str:
    """Say what is next for a task; empty: unknown, as its agent has marked no step."""
    if task is None or task.status.terminal or not task.done:
        return ""
    current = compute_progress(task).current
    if current is None:
        return "all steps are marked done, and the agent checks the result"
    return f"goes on with step {current + 1} of {len(task.plan)}"

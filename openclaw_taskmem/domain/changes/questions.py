"""Ask a run's user, and apply their answer.

A question is open while its run waits for the user and the user has not answered it. The answer is
sent to the agent; the run goes on when its agent acts on the task. Source: docs/origins.md,
"Questions to the user".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import OWED_STATES, Caller, CallerKind, SessionKeys
from openclaw_taskmem.domain.changes import continuation
from openclaw_taskmem.domain.effects.checkpoints import digest_text
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import RoundCounted, UserAnswered, UserSpoke, apply_events
from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.text.texts import clip, quote_line, quote_step, to_plain_line
from openclaw_taskmem.domain.wakes import notices, packet, turn_budget
from openclaw_taskmem.domain.wakes.notices import NoticeKind
from taskmem_hookspecs import (
    Change,
    Event,
    Message,
    Run,
    RunState,
    Task,
    TaskFacts,
    UserQuestion,
    Wake,
    WakeCause,
    WakeState,
)

RESUME: Final = "Resume"
LEAVE_OPTION: Final = "Leave it"
ACCEPT_BUTTON: Final = "Accept"
SEND_BACK_BUTTON: Final = "Send back"
_ANSWER_BYTES: Final = 4_000
_ANSWER_WORDS: Final = "The user answered:"
_REPETITION: Final = "You were told so before, and nothing followed: the task still waits."
_INTERRUPTION_REASONS: Final = (
    RunReason.STALE,
    RunReason.PROMPT_CHANGED,
    RunReason.CREDENTIALS,
    RunReason.STOPPED,
)
"""Reasons of blocked runs whose user is asked whether to resume."""
_SUBJECTS: Final[Mapping[str, str]] = {
    RunReason.QUESTION: "Question",
    RunReason.HANDED_OFF: "Review",
    **dict.fromkeys(_INTERRUPTION_REASONS, "Resume?"),
}
_TOLD_SUBJECTS: Final = frozenset({NoticeKind.REVIEW, *_INTERRUPTION_REASONS})
"""Subjects of notices that put the question to the user."""


def has_run_change(run: Run, newest: Sequence[Event]) -> bool:
    """True if the newest log entries reach back to a run's last change."""
    return any(_is_change(run, event) for event in newest)


def build_user_question(
    task: Task, run: Run | None, newest: Sequence[Event]
) -> UserQuestion | None:
    """Build the question that a run's user must answer; None: there is none, or it is answered.

    `newest` are the newest log entries of its task, oldest first, back to the run's last change;
    older ones are ignored.
    """
    header = _SUBJECTS.get(run.why or "") if run is not None else None
    if run is None or header is None or not run.state.is_waiting:
        return None
    changes = [n for n, event in enumerate(newest) if _is_change(run, event)]
    since = newest[changes[-1] if changes else 0 :]
    since = [event for event in since if event.run_id == run.run_id]
    lines = (str(e.data.get("line")) for e in since if e.data.get("about") in _TOLD_SUBJECTS)
    text = next(lines, f"{notices.format_task_name(task)} waits for you.")
    options: tuple[str, ...] = (RESUME, LEAVE_OPTION)
    if run.state is RunState.REVIEW:
        options = (ACCEPT_BUTTON, SEND_BACK_BUTTON)
    elif run.why == RunReason.QUESTION:
        text = f"{notices.format_task_name(task)}: {run.dialogue.question}"
        options = _find_options(since)
    asked = digest_text(run.dialogue.question) if run.dialogue.question is not None else "0"
    key = f"{run.run_id}-{int(run.changed_at.timestamp() * 1000)}-{asked}"
    answers = (e for e in since if e.kind == events.QUESTION_ANSWERED)
    if any(event.data.get("question") == key for event in answers):
        return None
    return UserQuestion(
        key=key,
        header=header,
        text=to_plain_line(text),
        options=options,
        newest_event=newest[-1].event_id if newest else 0,
    )


def _is_change(run: Run, event: Event) -> bool:
    return event.run_id == run.run_id and event.kind == events.RUN_CHANGED


def _find_options(since: Sequence[Event]) -> tuple[str, ...]:
    """Return the options of the agent's last question; empty: it gave none."""
    for event in reversed(since):
        given = event.data.get("options")
        if event.data.get("about") == NoticeKind.QUESTION and isinstance(given, list):
            return tuple(map(str, given))
    return ()


def parse_resume_answer(run: Run, answer: str) -> bool | None:
    """Return whether an answer resumes an interrupted run; None: its agent must judge it."""
    if run.state is RunState.BLOCKED and run.why in _INTERRUPTION_REASONS:
        return {RESUME: True, LEAVE_OPTION: False}.get(answer)
    return None


def close_question(
    facts: TaskFacts,
    question: UserQuestion,
    answer: str,
    now: datetime,
    by: CallerKind = CallerKind.USER,
) -> Event:
    """Build the log entry that records an answer and closes its question; `by`: who gave it."""
    about, words = facts.run or facts.task, clip(to_plain_line(answer), _ANSWER_BYTES)
    kind = events.QUESTION_ANSWERED
    data = {"by": by} if by is CallerKind.CALL else {}
    return events.build_event(kind, about, now, question=question.key, answer=words, **data)


def leave_run(facts: TaskFacts, entry: Event, now: datetime) -> Change:
    """Build the change that leaves an interrupted run alone; `entry` records the user's answer."""
    sentence = "The user was asked whether it goes on, and leaves it as it is."
    return lifecycle.enter_decision(Change(events=(entry,)), facts.task, sentence, now)


def describe_late_answer(key: str, answer: str, newest: Sequence[Event]) -> str:
    """Tell an agent of an answer to a question that was over; empty: it was taken.

    `newest` are the newest log entries of its task.
    """
    words = clip(to_plain_line(answer), _ANSWER_BYTES)
    taken = {"question": key, "answer": words}
    if any(event.data.items() >= taken.items() for event in newest):
        return ""
    return (
        f"Not heard: the user answered {quote_line(words, _ANSWER_BYTES)} to an earlier question."
    )


def build_answer_change(
    facts: TaskFacts,
    question: UserQuestion | None,
    answer: str,
    *,
    wake_id: str,
    sessions: SessionKeys,
    now: datetime,
    by: CallerKind = CallerKind.USER,
) -> Change:
    """Build the change that sends the user's answer to the agent; the run still waits.

    `question` is the question answered; None: it was answered before, and the user adds more. `by`:
    who gave the answer.
    """
    run, task = facts.run, facts.task
    assert run is not None  # noqa: S101 - only runs ask
    answered = (UserAnswered(),) if run.state is RunState.BLOCKED else ()
    after = apply_events(run, UserSpoke(), *answered, now=now).run
    message = lifecycle.build_answer_message(task, answer, now, by)
    counted = task.model_copy(update={"message_count": task.message_count + 1})
    wake = continuation.make_wake(run, wake_id, _format_answer(task, run, answer), now)
    wake = wake.model_copy(update={"key": f"{turn_budget.ANSWER}{wake_id}"})
    in_gateway = sessions.is_own(run.session_key)
    return Change(
        tasks=(counted,),
        messages=(message,),
        runs=(after,),
        wakes=(wake,) if in_gateway else (),
        events=(close_question(facts, question, answer, now, by),) if question else (),
    )


def carries_words(wake: Wake, message: Message) -> bool:
    """True if a wake has told a run's agent what the user said, or is to.

    One change wrote the wake and the message.
    """
    if wake.cause is not WakeCause.RUN or wake.created_at != message.created_at:
        return False
    if wake.state not in (*OWED_STATES, WakeState.ACKNOWLEDGED):
        return False
    if not turn_budget.is_answer_wake(wake):
        return packet.has_words(wake.text, message.content)
    quote = quote_line(to_plain_line(message.content), _ANSWER_BYTES)
    return f"{_ANSWER_WORDS} {quote}" in wake.text


def is_answer_delivered(newest: Sequence[Wake], since: datetime) -> bool:
    """True if a turn that began at `since` has been given an answer.

    `newest` are the newest wakes of its task.
    """
    taken = (wake.acknowledged_at for wake in newest if turn_budget.is_answer_wake(wake))
    return any(at is not None and at >= since for at in taken)


def build_answer_reminder(
    facts: TaskFacts, newest: Sequence[Wake], *, wake_id: str, now: datetime, policy: RunPolicy
) -> Change:
    """Build the change that reminds an agent once of an answer that it did not act on.

    `newest` are the newest wakes of its task, newest first. Empty: the agent acted, is about to be
    told, or was reminded before.
    """
    run = facts.run
    if run is None or run.why != RunReason.ANSWERED or run.limits.idle_rounds:
        return Change()
    answer_wake = next((wake for wake in newest if turn_budget.is_answer_wake(wake)), None)
    if answer_wake is None or not policy.carry_on or continuation.list_open_run_wakes(facts):
        return Change()
    rest = timedelta(seconds=policy.idle_pauses[0])
    wake = continuation.make_wake(run, wake_id, f"{answer_wake.text} {_REPETITION}", now, rest)
    wake = wake.model_copy(update={"key": f"{turn_budget.ANSWER}{wake_id}"})
    again = apply_events(run, RoundCounted(idle_rounds=1, said=run.progress.said), now=now)
    return Change(runs=(again.run,), wakes=(wake,))


def _format_answer(task: Task, run: Run, answer: str) -> str:
    """Write what the agent reads: the question and its answer, on one line."""
    name = quote_step(to_plain_line(task.name), notices.NAME_BYTES)
    quote = quote_line(to_plain_line(answer), _ANSWER_BYTES)
    if run.state is RunState.REVIEW:
        asked = f"you had handed your task {name} to the user for review."
        next_ = (
            'If that accepts it, call task_update with status "completed"; if not, '
            'with status "active", and go on with what is wanted.'
        )
    else:
        asked = f"your task {name} waited {continuation.describe_waiting_reason(run)}"
        next_ = (
            'Call task_update with status "active" before you act on it, or with what '
            "else it means for the task."
        )
    return f"[system] task_answer ({task.task_id}): {asked} {_ANSWER_WORDS} {quote} {next_}"


def awaits_answer(
    run: Run | None, caller: Caller, answer: str | None, sessions: SessionKeys
) -> bool:
    """True if a gateway's run waits for an answer and the caller is not its agent.

    So does a run that only keeps a question, if the user answers. With `answer` given, a run that
    was answered already counts too.
    """
    takes = current_run.has_open_question if answer is None else current_run.can_take_answer
    if run is None or not takes(run):
        return False
    session = run.session_key or ""
    own = caller.owner is not None and caller.owner.session_key == session
    if not sessions.is_own(session):
        return caller.is_user and current_run.keeps_only_question(run)
    return not own

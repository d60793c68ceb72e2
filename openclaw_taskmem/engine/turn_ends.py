"""Decide what becomes of the runs of a session when its turn ends."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.changes import continuation, implicit_tasks, questions, run_calls
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import LastWordsSaid, LeaseReleased, apply_events
from openclaw_taskmem.domain.turns import Origin, Turn
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.engine import evidence, run_recovery, wakes
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.turns import ReportContext, decide_on_run, list_newest_wakes
from taskmem_hookspecs import Change, Event, EventQuery, Run, TaskFacts
from taskmem_hookspecs.errors import RunNotFound


def settle_turn_end(context: Context, report: ReportContext, turn: Turn) -> None:
    """Decide about the run on which a turn worked, and release the session's other runs.

    If that run has ended or was taken away, or the turn was stopped, the session's next run gets
    its turn. While a sub-agent works, that waits for the turn that hears of the sub-agent's end.
    Source: docs/origins.md, "Runs and their states".
    """
    if turn.said:
        evidence.check_first_answer(context, report.session, turn.said)
    open_ = context.find_session_runs(report.session, report.owner.host)
    if open_ and turn.may_have_acted:
        wakes.settle_resume_wakes(context, report.session, open_)
    own = [run for run in open_ if current_run.can_work_on(run, report.owner)]
    # Runs owned by an earlier start of the gateway are left to recovery.
    held = [r for r in own if current_run.is_at_work(r) and r.owner == report.owner]
    asked = [run for run in own if run_calls.was_blocked_since(run, report.turn_since)]
    spoke = next(iter((*held, *asked)), None)
    if spoke is not None and turn.has_spoken:
        _keep_last_words(context, spoke, turn.said)
    for run in own if turn.may_have_acted and not turn.aborted else ():
        remind_of_answer(context, run)
    judged = None if turn.stopped else next(iter(held), None)
    for run in held:
        if run is not judged:
            _release_run(context, run)
    # Last: this commit carries the cursor, which marks the turn's end as handled.
    repeats_question = any(
        notices.is_same_question(run.dialogue.question, turn.words) for run in own
    )
    words = () if repeats_question else _build_words_notice(context, report, judged, turn)
    if judged is not None:
        _settle_run(context, report, judged, turn, words)
        return
    free = [run for run in own if run in held or not run.lease_until]
    if turn.aborted or turn.is_empty or turn.children:
        free = []
    if not any(_give_turn(context, report, run, words) for run in free) and words:
        context.commit(report.add_cursor(context, Change(events=words)))


def remind_of_answer(context: Context, found: Run) -> None:
    """Remind an agent of a user's answer on which it has not acted."""

    def remind(facts: TaskFacts, run: Run, now: datetime) -> Decision[None]:
        newest, wake_id = list_newest_wakes(context, run), context.new_id("wake", now)
        change = questions.build_answer_reminder(
            facts, newest, wake_id=wake_id, now=now, policy=context.policies.runs
        )
        return change, None

    if found.why == RunReason.ANSWERED:
        decide_on_run(context, found, remind, gone=None)


def resume_awaiting_run(context: Context, report: ReportContext, name: str, how: str) -> None:
    """Wake a session's run after the work in its gateway that it awaited has ended."""
    run = current_run.find_current_run(
        context.find_session_runs(report.session, report.owner.host), report.owner
    )
    if run is None:
        return

    def notify(facts: TaskFacts, _: Run, now: datetime) -> Decision[None]:
        wake_id = context.new_id("wake", now)
        query = EventQuery(task_id=run.task_id, limit=run_recovery.BATCH)
        newest = context.store.find_events(query)
        change = continuation.notify_awaited_end(facts, newest, name, how, wake_id=wake_id, now=now)
        return change if change.empty else report.add_cursor(context, change), None

    decide_on_run(context, run, notify, gone=None)


def _keep_last_words(context: Context, found: Run, said: str) -> None:
    """Store the end of the agent's last message of a turn with the run."""

    def keep(_: TaskFacts, run: Run, now: datetime) -> Decision[None]:
        after = apply_events(run, LastWordsSaid(words=said), now=now).run
        return Change(runs=(after,) if after != run else ()), None

    decide_on_run(context, found, keep, gone=None)


def _release_run(context: Context, found: Run) -> None:
    """Release a run that the turn owned but did not work on last, or any if it was stopped.

    End it if its task is implicit.
    """

    def release(facts: TaskFacts, run: Run, now: datetime) -> Decision[None]:
        if facts.task.implicit:
            return implicit_tasks.end_task(facts, run, now), None
        return Change(runs=(apply_events(run, LeaseReleased(), now=now).run,)), None

    decide_on_run(context, found, release, gone=None)


def _build_words_notice(
    context: Context, report: ReportContext, run: Run | None, turn: Turn
) -> tuple[Event, ...]:
    """Return the notice with the agent's last words in a turn; empty: none is needed.

    The gateway does not deliver the words of a turn that we started.
    """
    if not (turn.words and turn.has_spoken and turn.may_have_acted) or turn.stopped:
        return ()
    run_id = context.sessions.find_background_run(report.session)
    if run is None and run_id is not None:
        with suppress(RunNotFound):
            run = context.store.read_run(run_id)
    now = context.clock.now()
    return (notices.build_last_words(run, report.session, turn.words, now),)


def _settle_run(
    context: Context, report: ReportContext, found: Run, turn: Turn, words: tuple[Event, ...]
) -> None:
    """Decide what becomes of the run on which a turn worked.

    The last words are shown if the turn was the user's, or if they are the run's last and no other
    notice reports its end.
    """

    def settle(facts: TaskFacts, run: Run, now: datetime) -> Decision[None]:
        change = _build_turn_end_change(context, facts, run, turn, now)
        after = change.runs[-1] if change.runs else run
        asked = any(event.kind == events.NOTICE for event in change.events)
        answers = turn.origin is Origin.USER
        if answers or (after.state not in current_run.WORKABLE_STATES and not asked):
            change = _prepend_words(change, words)
        return report.add_cursor(context, change), None

    decide_on_run(context, found, settle, gone=None)


def _build_turn_end_change(
    context: Context, facts: TaskFacts, run: Run, turn: Turn, now: datetime
) -> Change:
    """Return the change that the end of a turn makes to the run it worked on."""
    if facts.task.implicit:
        return implicit_tasks.end_turn(facts, run, turn, now)
    wake_id = context.new_id("wake", now)
    return continuation.apply_turn_end(
        facts, turn, wake_id=wake_id, now=now, policy=context.policies.runs
    )


def _prepend_words(change: Change, words: tuple[Event, ...]) -> Change:
    """Put the notice with the agent's words before the other events of a change."""
    return change.model_copy(update={"events": (*words, *change.events)})


def _give_turn(
    context: Context, report: ReportContext, found: Run, words: tuple[Event, ...]
) -> bool:
    """Give a run its turn; False: it waits for something, so the next run may have the turn.

    `words` is the notice with the last words of the run before it.
    """

    def give(facts: TaskFacts, _: Run, now: datetime) -> Decision[bool]:
        wake_id = context.new_id("wake", now)
        change = continuation.promote_run(
            facts, report.owner, wake_id=wake_id, now=now, policy=context.policies.runs
        )
        if change is None or (change.empty and not words):
            return Change(), change is not None
        return report.add_cursor(context, _prepend_words(change, words)), True

    return decide_on_run(context, found, give, gone=False)

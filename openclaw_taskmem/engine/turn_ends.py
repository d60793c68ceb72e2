"""What becomes of the runs of a session when its turn has ended."""

from __future__ import annotations

from contextlib import suppress

from openclaw_taskmem.domain import (
    asking,
    awaited,
    carrying,
    events,
    implicit,
    notices,
    runs,
    working,
)
from openclaw_taskmem.domain.run_events import LastWordsSaid, LeaseReleased
from openclaw_taskmem.domain.run_machine import apply_events
from openclaw_taskmem.domain.run_policy import RunReason
from openclaw_taskmem.domain.turns import Origin, Turn
from openclaw_taskmem.engine import evidence, recovery, wakes
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.engine.turns import (
    ReportContext,
    decide_on_run,
    list_newest_wakes,
)
from taskmem_hookspecs import Change, Event, EventQuery, Run, TaskFacts
from taskmem_hookspecs.errors import RunNotFound


def settle_turn_end(shell: Shell, heard: ReportContext, turn: Turn) -> None:
    """Decide what becomes of the run on which a turn worked, and let the others rest.

    Where it has ended, or was taken from its turn, the next of the session has its
    turn, and answers for nothing of this one; while a sub-agent works, the turn that
    hears of its end is that turn. Source: requirement D6.
    """
    if turn.said:
        evidence.check_first_answer(shell, heard.session, turn.said)
    open_ = shell.find_session_runs(heard.session, heard.owner.host)
    if open_ and turn.may_have_acted:
        wakes.settle_resume_wakes(shell, heard.session, open_)
    own = [run for run in open_ if working.can_work_on(run, heard.owner)]
    # What an earlier start of its gateway held is recovery's.
    held = [r for r in own if working.is_at_work(r) and r.owner == heard.owner]
    asked = [run for run in own if runs.was_blocked_since(run, heard.turn_since)]
    spoke = next(iter((*held, *asked)), None)
    if spoke is not None and turn.has_spoken:
        _keep_last_words(shell, spoke, turn.said)
    for run in own if turn.may_have_acted and not turn.aborted else ():
        resend_answer(shell, run)
    judged = None if turn.stopped else next(iter(held), None)
    for run in held:
        if run is not judged:
            _release_run(shell, run)
    # It comes last: with what it commits, the turn's end is done.
    told = any(notices.is_same_question(run.question, turn.words) for run in own)
    words = () if told else _build_words_notice(shell, heard, judged, turn)
    if judged is not None:
        _settle_run(shell, heard, judged, turn, words)
        return
    free = [run for run in own if run in held or not run.lease_until]
    if turn.aborted or turn.is_empty or turn.children:
        free = []
    if not any(_give_turn(shell, heard, run, words) for run in free) and words:
        shell.commit(heard.add_cursor(shell, Change(events=words)))


def resend_answer(shell: Shell, found: Run) -> None:
    """Tell an agent once more of an answer on which it has not acted."""

    def once(facts: TaskFacts, run: Run) -> None:
        now, newest = shell.clock.now(), list_newest_wakes(shell, run)
        wake_id = shell.new_id("wake", now)
        change = asking.build_answer_reminder(
            facts, newest, wake_id=wake_id, now=now, policy=shell.runs
        )
        if not change.empty:
            shell.commit(change)

    if found.why == RunReason.ANSWERED:
        decide_on_run(shell, found, once)


def resume_awaiting_run(shell: Shell, heard: ReportContext, name: str, how: str) -> None:
    """Tell a session's run to go on, as what it waited for in its gateway ended."""
    run = working.find_current_run(
        shell.find_session_runs(heard.session, heard.owner.host), heard.owner
    )
    if run is None:
        return

    def once(facts: TaskFacts, _: Run) -> None:
        now = shell.clock.now()
        wake_id = shell.new_id("wake", now)
        query = EventQuery(task_id=run.task_id, limit=recovery.BATCH)
        newest = shell.store.find_events(query)
        change = awaited.notify_awaited_end(facts, newest, name, how, wake_id=wake_id, now=now)
        if not change.empty:
            shell.commit(heard.add_cursor(shell, change))

    decide_on_run(shell, run, once)


def _keep_last_words(shell: Shell, found: Run, said: str) -> None:
    """Keep with a run the end of what its agent said last in a turn."""

    def once(_: TaskFacts, run: Run) -> None:
        spoken = LastWordsSaid(words=said)
        after = apply_events(run, spoken, now=shell.clock.now()).run
        shell.commit(Change(runs=(after,) if after != run else ()))

    decide_on_run(shell, found, once)


def _release_run(shell: Shell, found: Run) -> None:
    """Let a run rest that a turn has held, and did not work on last.

    One that was for that turn alone ends.
    """

    def once(facts: TaskFacts, run: Run) -> None:
        now = shell.clock.now()
        change = Change(runs=(apply_events(run, LeaseReleased(), now=now).run,))
        if facts.task.implicit:
            change = implicit.end_task(facts, run, now)
        shell.commit(change)

    decide_on_run(shell, found, once)


def _build_words_notice(
    shell: Shell, heard: ReportContext, run: Run | None, turn: Turn
) -> tuple[Event, ...]:
    """Return what tells the user the last words of a round of ours; empty: none are.

    The gateway delivers nothing of such a round.
    """
    if not (turn.words and turn.has_spoken and turn.may_have_acted) or turn.stopped:
        return ()
    _, own, run_id = heard.session.partition(":taskmem:")
    if run is None and own:
        with suppress(RunNotFound):
            run = shell.store.read_run(run_id)
    now = shell.clock.now()
    return (notices.build_last_words(run, heard.session, turn.words, now),)


def _settle_run(
    shell: Shell, heard: ReportContext, found: Run, turn: Turn, words: tuple[Event, ...]
) -> None:
    """Decide what becomes of the run on which a turn worked.

    Its words are told where its user has spoken into it, and where they were the last
    and nothing else tells of its end.
    """

    def once(facts: TaskFacts, run: Run) -> None:
        change = _build_turn_end_change(shell, facts, run, turn)
        after = change.runs[-1] if change.runs else run
        asked = any(event.kind == events.NOTICE for event in change.events)
        answers = turn.origin is Origin.USER
        if answers or (after.state not in working.OPEN and not asked):
            change = _prepend_words(change, words)
        shell.commit(heard.add_cursor(shell, change))

    decide_on_run(shell, found, once)


def _build_turn_end_change(shell: Shell, facts: TaskFacts, run: Run, turn: Turn) -> Change:
    """Return what the end of a turn means for the run that it worked on."""
    now = shell.clock.now()
    if facts.task.implicit:
        return implicit.end_turn(facts, run, turn, now)
    wake_id = shell.new_id("wake", now)
    return carrying.apply_turn_end(facts, turn, wake_id=wake_id, now=now, policy=shell.runs)


def _prepend_words(change: Change, words: tuple[Event, ...]) -> Change:
    """Return a change that tells the user an agent's words before all else."""
    return change.model_copy(update={"events": (*words, *change.events)})


def _give_turn(shell: Shell, heard: ReportContext, found: Run, words: tuple[Event, ...]) -> bool:
    """Give a run its turn; False: it waits for something, so the next may have it.

    `words` are the last ones of the run before it.
    """

    def once(facts: TaskFacts, _: Run) -> bool:
        now = shell.clock.now()
        wake_id = shell.new_id("wake", now)
        change = carrying.promote_run(
            facts, heard.owner, wake_id=wake_id, now=now, policy=shell.runs
        )
        if change is not None and not (change.empty and not words):
            shell.commit(heard.add_cursor(shell, _prepend_words(change, words)))
        return change is not None

    return bool(decide_on_run(shell, found, once))

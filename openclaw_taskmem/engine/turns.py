"""Record turns and calls that a gateway reports, and decide what becomes of their runs.

Each report is also a heartbeat of the run that the session works on. The agent need not help.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import MOST_BOOTS, Caller
from openclaw_taskmem.domain.changes import (
    continuation,
    implicit_tasks,
    questions,
    recovery,
    task_runs,
)
from openclaw_taskmem.domain.changes.continuation import Origin, Turn
from openclaw_taskmem.domain.changes.implicit_tasks import UncoveredCallEntry
from openclaw_taskmem.domain.changes.recovery import LapseAction, OwnerStatus
from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry
from openclaw_taskmem.domain.effects.side_effects import judge_call
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import Budget, RunReason
from openclaw_taskmem.domain.runs.machine import (
    AgentDescribed,
    CallBegan,
    CallEnded,
    CheckpointWritten,
    LastWordsSaid,
    LeaseReleased,
    OwnerSeen,
    ResumeTried,
    RunClaimed,
    RunEvent,
    RunTransition,
    TurnBegan,
    UserHeard,
    apply_events,
)
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.domain.wakes.notices import Milestone
from openclaw_taskmem.engine import evidence, ledger, run_recovery, wakes
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.ledger import FileActivity
from openclaw_taskmem.engine.run_recovery import has_lost_run
from taskmem_hookspecs import (
    Bookmark,
    Change,
    Event,
    EventQuery,
    Owner,
    Run,
    RunState,
    TaskFacts,
    TaskStatus,
    Value,
    Wake,
    WakeQuery,
    WorkFolder,
)
from taskmem_hookspecs.errors import RunNotFound

T = TypeVar("T")
log = logging.getLogger(__name__)

REPORTED_BOOKMARK: Final = "gateway_reported"
_MOST_STOPPED: Final = 100
"""Turns to be stopped that a cursor names."""
_Rows = Sequence[WorkFolder]
"""The folders that a call adds to its task."""
_NO_ROWS: Final[_Rows] = ()
_NEWEST_WAKES: Final = 20
"""Newest wakes of a task that are searched for those that carry the user's words."""
_MOST_SESSIONS: Final = 1_000
"""Sessions whose first calls are kept in memory; the end of a turn may never be reported."""


class EventCursor(Value):
    """The position up to which the reports of one start of a gateway are done.

    It is written by the commit that handles an event. An event that commits nothing may be handled
    again.
    """

    boot: str
    number: int = 0
    """Number of the last event that is done; numbers only grow."""
    stopped: tuple[int, ...] = ()
    """Numbers of the latest turn-start events whose turns must be stopped."""

    def add_stopped_turn(self) -> EventCursor:
        """Return the cursor, with the turn that its last event began marked to be stopped."""
        stopped = (*self.stopped, self.number)[-_MOST_STOPPED:]
        return self.model_copy(update={"stopped": stopped})


def read_cursor(context: Context, boot: str) -> EventCursor:
    """Return the event cursor of a start of a gateway."""
    cursors = (each for each in _read_cursors(context) if each.boot == boot)
    return next(cursors, EventCursor(boot=boot))


def _make_cursor_bookmark(context: Context, done: EventCursor) -> Bookmark:
    """Return the bookmark that stores a cursor, with those of the latest other starts."""
    others = [each for each in _read_cursors(context) if each.boot != done.boot]
    lines = [each.model_dump_json() for each in (*others, done)[-MOST_BOOTS:]]
    return context.store.make_bookmark(REPORTED_BOOKMARK, "\n".join(lines))


def _read_cursors(context: Context) -> list[EventCursor]:
    lines = (context.store.read_bookmark(REPORTED_BOOKMARK) or "").splitlines()
    return [EventCursor.model_validate_json(line) for line in lines]


class ReportContext(Value):
    """The session, agent and gateway that a report is about."""

    owner: Owner
    gateway_started_at: datetime | None = None
    in_turn: bool = True
    """True if a turn of the session runs; if not, the report is of a sub-agent."""
    turn_since: datetime | None = None
    """When that turn began; None: none runs, or the time is unknown."""
    reported: EventCursor | None = None
    """The event cursor after this report; None: the report has no number."""
    folder: str | None = None
    """The agent's working directory; None: not reported."""
    fingerprint: str | None = None
    """Fingerprint of what shapes the agent's prompt; None: not reported."""

    @property
    def session(self) -> str:
        """The session key; the owner of a gateway's run always has one."""
        return self.owner.session_key or ""

    @property
    def session_address(self) -> tuple[str | None, str]:
        """The gateway's host, if known, and the session key."""
        return self.owner.host, self.session

    def add_cursor(self, context: Context, change: Change, *, goes_on: bool = True) -> Change:
        """Add the event cursor to a change, so that a repeated report does nothing."""
        if self.reported is None:
            return change
        done = self.reported if goes_on else self.reported.add_stopped_turn()
        return change.model_copy(update={"bookmarks": (_make_cursor_bookmark(context, done),)})


def record_turn_start(context: Context, report: ReportContext, origin: Origin) -> bool:
    """Record that a turn has begun; False: the turn must be stopped.

    The session's run is claimed if nobody owns it, or again if its gateway has restarted. A turn is
    stopped if the gateway resumed it by itself where the rules ask the user or fail the run, and if
    it is of a background session whose run another has taken. If the run was resumed here before
    the gateway reported the turn, it counts as interrupted once, not twice.
    """

    def begin(facts: TaskFacts, run: Run, now: datetime) -> Decision[bool]:
        if origin is Origin.HEARTBEAT:
            return Change(), True
        since, covered = report.gateway_started_at, facts.task.implicit
        is_late = recovery.was_resumed(run, report.owner, since)
        resumes = origin is Origin.RECOVERY and not is_late
        waits = origin is Origin.RECOVERY and current_run.is_waiting_for_word(run)
        if waits and not covered:
            return Change(), not has_lost_run(context, report.session, since)
        if resumes and not covered:
            sight = OwnerStatus(boot=report.owner.boot, fingerprint=report.fingerprint)
            verdict = recovery.judge_gateway_resume(facts, sight, now, context.policies.runs)
            if verdict.action is not LapseAction.RESUME:
                change = recovery.apply_lapse(
                    facts, verdict, wake_id="", text="", now=now, policy=context.policies.runs
                )
                return report.add_cursor(context, change, goes_on=False), False
        moved = _take_run(context, run, report, begins=True)
        if moved is None:
            return Change(), True
        if resumes:
            moved = apply_events(moved, ResumeTried(), now=now)
            notice = recovery.build_resumed_notice(facts.task, moved.run, now)
            moved = RunTransition(run=moved.run, events=(*moved.events, notice))
        return report.add_cursor(context, recovery.adopt_run(facts, moved, now)), True

    goes_on = _decide_on_current_run(context, report, begin, gone=True)
    if goes_on is None and origin is not Origin.USER:
        since = report.gateway_started_at if origin is Origin.RECOVERY else None
        return not has_lost_run(context, report.session, since)
    return goes_on is not False


def record_call_start(
    context: Context, report: ReportContext, entry: CallStartEntry, deed: FileActivity | None = None
) -> bool:
    """Write a checkpoint for a call that has begun; False: its session works on no task."""
    run = _find_current_run(context, report)
    if run is None:
        return False
    call = _find_recorded_activity(context, run, deed)
    used = ledger.look_up_places(context, run, call)
    ledger.note_named_files(context, run, call, used)

    def write(facts: TaskFacts, run: Run, now: datetime) -> Decision[_Rows]:
        moved = _take_run_for_call(context, run, report)
        if moved is None:
            return Change(), ()
        moved = apply_events(moved, CallBegan(step=_find_current_step(facts)), now=now)
        rows = ledger.build_folder_rows(
            context, run.task_id, used.listed, used.looks, command=call.command
        )
        change = _add_checkpoint(Change(folders=rows), facts, moved, entry, now)
        return report.add_cursor(context, change), rows

    keep = partial(ledger.hold_listings, context, used.looks)
    return _decide_on_current_run(context, report, write, gone=_NO_ROWS, follow=keep) is not None


def record_call_end(
    context: Context,
    report: ReportContext,
    entry: CallEndEntry,
    deed: FileActivity | None = None,
    *,
    given: str,
    result: str,
) -> bool:
    """Write a checkpoint for a call that has ended, with the files it changed.

    `given` and `result` are digests of its arguments and its result. False: its session works on
    no task.
    """
    run = _find_current_run(context, report)
    if run is None:
        return False
    call = _find_recorded_activity(context, run, deed)
    used = ledger.look_up_places(context, run, call)

    def write(facts: TaskFacts, run: Run, now: datetime) -> Decision[_Rows]:
        moved = _take_run_for_call(context, run, report)
        if moved is None:
            return Change(), ()
        ended = CallEnded(
            given=checkpoints.digest_arguments(given),
            result=checkpoints.digest_call(given, result),
        )
        moved = apply_events(moved, ended, now=now)
        more = ledger.build_call_change(context, facts, moved.run, call, used, now=now)
        change = _add_checkpoint(more, facts, moved, entry, now)
        return report.add_cursor(context, change), more.folders

    def keep(rows: _Rows | None) -> None:
        ledger.hold_listings(context, used.looks, rows)
        context.live.named_files.pop(call.call_id or "", None)

    return _decide_on_current_run(context, report, write, gone=_NO_ROWS, follow=keep) is not None


def _find_recorded_activity(context: Context, run: Run, deed: FileActivity | None) -> FileActivity:
    """Return what a call does to files; nothing, if its task is implicit and has no ledger."""
    if deed is None or deed == FileActivity(call_id=deed.call_id, seconds=deed.seconds):
        return FileActivity()
    facts = context.find_task(run.task_id)
    return FileActivity() if facts is None or facts.task.implicit else deed


def claim_or_renew_run(context: Context, report: ReportContext) -> None:
    """Claim the run of a session that is at work, or renew its lease."""

    def renew(_facts: TaskFacts, run: Run, _now: datetime) -> Decision[None]:
        moved = _take_run(context, run, report)
        if moved is None:
            return Change(), None
        return report.add_cursor(context, Change(runs=(moved.run,), events=moved.events)), None

    _decide_on_current_run(context, report, renew, gone=None)


def find_turn_session(context: Context, run: Run | None) -> str | None:
    """Return the session whose turn works on a run; None: no turn does.

    If the session has several runs, only its current run counts.
    """
    if run is None or run.owner is None or run.owner.session_key is None:
        return None
    session = run.owner.session_key
    open_ = context.find_session_runs(session, run.owner.host, run.home)
    first = current_run.find_current_run(open_, run.owner)
    its = first is not None and first.run_id == run.run_id and current_run.is_at_work(first)
    return session if its else None


def find_step_budget(context: Context, owner: Owner) -> Budget | None:
    """Return the calls left for the current step of a session's task; None: unlimited."""
    open_ = context.find_session_runs(owner.session_key or "", owner.host)
    run = current_run.find_current_run(open_, owner)
    if run is None or not run.budget.segmented or run.state not in current_run.WORKABLE_STATES:
        return None
    return current_run.compute_budget(context.store.read_task(run.task_id), context.policies.runs)


def _decide_on_current_run(
    context: Context,
    report: ReportContext,
    decide: Callable[[TaskFacts, Run, datetime], Decision[T]],
    *,
    gone: T | None,
    follow: Callable[[T | None], None] = lambda _: None,
) -> T | None:
    """Decide about the run that a session works on; None: there is none.

    A blocked run of an implicit task counts as none: it was left by a crash. `follow` is as that of
    `Context.update`.
    """
    current = _find_current_run(context, report)
    if current is None:
        return None

    def decide_if_alive(facts: TaskFacts, run: Run, now: datetime) -> Decision[T | None]:
        if facts.task.implicit and run.state is RunState.BLOCKED:
            return Change(), None
        return decide(facts, run, now)

    return _decide_on_run(context, current, decide_if_alive, gone=gone, follow=follow)


def _find_current_run(context: Context, report: ReportContext) -> Run | None:
    open_ = context.find_session_runs(report.session, report.owner.host)
    return current_run.find_current_run(open_, report.owner)


def _decide_on_run(
    context: Context,
    found: Run,
    decide: Callable[[TaskFacts, Run, datetime], Decision[T]],
    *,
    gone: T,
    follow: Callable[[T], None] = lambda _: None,
) -> T:
    """Decide about a run; return `gone` if it has ended or left its session meanwhile."""

    def decide_if_there(facts: TaskFacts, now: datetime) -> Decision[T]:
        run, its = facts.run, (found.run_id, found.session_key)
        if run is None or (run.run_id, run.session_key) != its:
            return Change(), gone
        return decide(facts, run, now)

    return context.update_task(found.task_id, decide_if_there, follow=follow)


def _hear_shown(context: Context, found: Run) -> None:
    """Note that a run's owner has heard the user's words that our answers have shown to it."""
    shown = context.live.shown_messages.get(found.run_id, 0)

    def hear(facts: TaskFacts, now: datetime) -> Decision[None]:
        run = facts.run
        if run is None or run.run_id != found.run_id or run.dialogue.heard_until >= shown:
            return Change(), None
        return Change(runs=(apply_events(run, UserHeard(heard_until=shown), now=now).run,)), None

    if shown:
        context.update_task(found.task_id, hear)


def list_newest_wakes(context: Context, run: Run) -> Sequence[Wake]:
    """Return the newest wakes of a run's task, newest first."""
    return context.store.find_wakes(WakeQuery(task_id=run.task_id, limit=_NEWEST_WAKES))


def _take_run_for_call(context: Context, run: Run, report: ReportContext) -> RunTransition | None:
    """Return the run as changed by a call; None: nothing is recorded.

    A run that waits for its user goes on waiting, but the call is recorded. A call in a turn that
    received the answer shows that the agent works again.
    """
    if current_run.is_waiting_for_word(run):
        if run.why != RunReason.ANSWERED or report.turn_since is None:
            return RunTransition(run=run)
        if not questions.is_answer_delivered(list_newest_wakes(context, run), report.turn_since):
            return RunTransition(run=run)
        now = context.clock.now()
        moved = task_runs.take_up_run(run, report.owner, now, context.policies.runs)
        return apply_events(moved, TurnBegan(turn_began_at=now), now=now)
    return _take_run(context, run, report)


def _take_run(
    context: Context, run: Run, report: ReportContext, *, begins: bool = False
) -> RunTransition | None:
    """Claim a run for its session or renew its lease; None: the run does not change.

    A run that was reset is claimed only by a turn that `begins`, not by the turn that lost it.
    """
    now = context.clock.now()
    if not current_run.can_work_on(run, report.owner):
        return None
    if run.state is RunState.QUEUED and run.why == RunReason.RESET and not begins:
        return None
    if run.state is RunState.RUNNING and run.owner == report.owner:
        seen: RunEvent = OwnerSeen()
    elif run.state in current_run.WORKABLE_STATES:
        seen = RunClaimed(owner=report.owner)
    else:
        return None
    agent = AgentDescribed(folder=report.folder, fingerprint=report.fingerprint)
    held = apply_events(run, seen, agent, now=now, policy=context.policies.runs)
    if begins:
        return apply_events(held, TurnBegan(turn_began_at=now), now=now)
    if report.in_turn or current_run.is_at_work(run):
        return held
    # Between turns there is no lease, however long a sub-agent's call takes.
    return apply_events(held, LeaseReleased(), now=now)


def _find_current_step(facts: TaskFacts) -> int | None:
    """Return the current step, counted from 0; None: there is none, or the task is not active."""
    if facts.task.status is not TaskStatus.ACTIVE:
        return None
    return compute_progress(facts.task).current


def _add_checkpoint(
    more: Change,
    facts: TaskFacts,
    moved: RunTransition,
    entry: CallStartEntry | CallEndEntry,
    now: datetime,
) -> Change:
    """Add the checkpoint of a call to a change with the ledger and folders of that call."""
    moved = apply_events(moved, CheckpointWritten(), now=now)
    run, number = moved.run, moved.run.progress.checkpoints
    effect = judge_call(entry.tool, entry.about, entry.method, changed=bool(more.ledger))
    placed = entry.model_copy(update={"step": _find_current_step(facts), "effect": effect})
    first = run.progress.checkpoints == 1
    milestones = (
        (notices.build_milestone(Milestone.STARTED, facts.task, run, now),) if first else ()
    )
    return Change(
        runs=(run,),
        checkpoints=(checkpoints.build_checkpoint(run.run_id, number, placed, now),),
        ledger=more.ledger,
        folders=more.folders,
        events=(*moved.events, *milestones),
    )


# --- the ends of turns ---------------------------------------------------------------------


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
    blocked = [run for run in own if current_run.was_blocked_since(run, report.turn_since)]
    spoke = next(iter((*held, *blocked)), None)
    if spoke is not None and turn.has_spoken:
        _keep_last_words(context, spoke, turn.said)
    for run in own if turn.may_have_acted and not turn.aborted else ():
        _hear_shown(context, run)
        remind_of_answer(context, run)
    judged = None if turn.stopped else next(iter(held), None)
    for run in held:
        if run is not judged:
            _release_run(context, run)
    _take_up_resumed_runs(context, report, [run for run in own if run is not judged], turn)
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
        _decide_on_run(context, found, remind, gone=None)


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

    _decide_on_run(context, run, notify, gone=None)


def _keep_last_words(context: Context, found: Run, words: str) -> None:
    """Store the end of the agent's last message of a turn with the run."""

    def keep(_: TaskFacts, run: Run, now: datetime) -> Decision[None]:
        after = apply_events(run, LastWordsSaid(words=words), now=now).run
        return Change(runs=(after,) if after != run else ()), None

    _decide_on_run(context, found, keep, gone=None)


def _release_run(context: Context, found: Run) -> None:
    """Release a run that the turn owned but did not work on last, or any if it was stopped.

    End it if its task is implicit.
    """

    def release(facts: TaskFacts, run: Run, now: datetime) -> Decision[None]:
        if facts.task.implicit:
            return implicit_tasks.end_task(facts, run, now), None
        return Change(runs=(apply_events(run, LeaseReleased(), now=now).run,)), None

    _decide_on_run(context, found, release, gone=None)


def _take_up_resumed_runs(
    context: Context, report: ReportContext, found: Sequence[Run], turn: Turn
) -> None:
    """Claim the runs that a session was told to resume, if its turn has ended in order."""
    if not turn.may_have_acted or turn.aborted or turn.stopped:
        return

    def take_up(facts: TaskFacts, _: Run, now: datetime) -> Decision[None]:
        policy = context.policies.runs
        return recovery.take_up_resumed_run(facts, report.owner, now, policy), None

    for run in found:
        if run.limits.tries:
            _decide_on_run(context, run, take_up, gone=None)


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
        if facts.task.implicit:
            change = implicit_tasks.end_turn(facts, run, turn, now)
        else:
            wake_id, policy = context.new_id("wake", now), context.policies.runs
            change = continuation.apply_turn_end(
                facts, turn, wake_id=wake_id, now=now, policy=policy
            )
        after = change.runs[-1] if change.runs else run
        has_notice = any(event.kind == events.NOTICE for event in change.events)
        answers = turn.origin is Origin.USER
        if answers or (after.state not in current_run.WORKABLE_STATES and not has_notice):
            change = change.model_copy(update={"events": (*words, *change.events)})
        return report.add_cursor(context, change), None

    _decide_on_run(context, found, settle, gone=None)


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
        change = change.model_copy(update={"events": (*words, *change.events)})
        return report.add_cursor(context, change), True

    return _decide_on_run(context, found, give, gone=False)


# --- implicit tasks ------------------------------------------------------------------------


def end_left_tasks(context: Context, report: ReportContext, origin: Origin) -> None:
    """Forget the calls of a session's earlier turns, and end the implicit tasks of those turns.

    Only a user's turn ends them: other turns may belong to the same work. A task that waits to be
    resumed stays, as does one that this turn has already taken up.
    """
    forget_calls(context, report)
    if origin is not Origin.USER:
        return
    for run in context.find_session_runs(report.session, report.owner.host):
        if run.state in current_run.WORKABLE_STATES and not _is_held(run, report.owner):
            context.update_task(run.task_id, partial(_end_left_task, run))


def _end_left_task(found: Run, facts: TaskFacts, now: datetime) -> Decision[None]:
    """End an implicit task whose run has not changed since it was found."""
    if not facts.task.implicit or facts.run != found:
        return Change(), None
    return implicit_tasks.end_task(facts, found, now), None


def note_call(
    context: Context, report: ReportContext, entry: CallStartEntry, request: str | None
) -> None:
    """Note a call that belongs to no task; the third call of a user's turn opens one.

    `request` is what the user said in the turn; None: no user began it. Nothing is noted then, in a
    background session, or if the setting `implicit_tasks` is off.
    """
    own = context.sessions.find_background_run(report.session) is not None
    if request is None or not context.policies.runs.implicit_tasks or own:
        return
    now = context.clock.now()
    seen = (
        *context.live.uncovered_calls.get(report.session_address, ()),
        UncoveredCallEntry(at=now, entry=entry),
    )
    if not implicit_tasks.needs_task(seen):
        if len(context.live.uncovered_calls) >= _MOST_SESSIONS:
            context.live.uncovered_calls.pop(next(iter(context.live.uncovered_calls)))
        context.live.uncovered_calls[report.session_address] = seen
        return
    change = implicit_tasks.open_task(
        seen,
        request,
        report.owner,
        task_id=context.new_id("task", now),
        run_id=context.new_id("run", now),
        folder=report.folder,
        fingerprint=report.fingerprint,
        now=now,
        policy=context.policies.runs,
    )
    context.commit(report.add_cursor(context, change))
    forget_calls(context, report)


def note_call_end(context: Context, report: ReportContext, entry: CallEndEntry) -> None:
    """Note the end of a call that belongs to no task."""
    seen = context.live.uncovered_calls.get(report.session_address, ())
    if implicit_tasks.has_seen_start(seen, entry):
        now = context.clock.now()
        context.live.uncovered_calls[report.session_address] = (
            *seen,
            UncoveredCallEntry(at=now, entry=entry),
        )


def forget_calls(context: Context, report: ReportContext) -> None:
    """Forget a turn's calls, since it is over, has a task now, or another turn begins."""
    context.live.uncovered_calls.pop(report.session_address, None)


def find_covering_task(context: Context, caller: Caller) -> tuple[TaskFacts, Run] | None:
    """Return the implicit task that was opened in the caller's turn, and its run; else None."""
    owner = caller.gateway_owner
    if owner is None or owner.session_key is None:
        return None
    for found in context.find_session_runs(owner.session_key, owner.host):
        facts = context.store.read_task(found.task_id)
        run = facts.run  # read anew: a heartbeat may have changed it
        if run is None or not _is_held(run, owner):
            continue
        if implicit_tasks.is_task_of_turn(facts.task, run):
            return facts, run
    return None


def _is_held(run: Run, owner: Owner) -> bool:
    """Tell whether a turn of an owner works on a run now."""
    return current_run.is_at_work(run) and run.owner == owner

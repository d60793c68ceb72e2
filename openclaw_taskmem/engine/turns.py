"""Record what a gateway reports: turns that begin, and the calls in them.

Each report is also a heartbeat of the run that the session works on. The agent need not help.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from openclaw_taskmem.domain.changes import questions, recovery, run_calls
from openclaw_taskmem.domain.changes.recovery import LapseAction, OwnerStatus
from openclaw_taskmem.domain.effects import checkpoints
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry
from openclaw_taskmem.domain.effects.side_effects import judge_call
from openclaw_taskmem.domain.runs import budget, current_run
from openclaw_taskmem.domain.runs.budget import Budget
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import (
    AgentDescribed,
    CallBegan,
    CallEnded,
    CheckpointWritten,
    LeaseReleased,
    OwnerSeen,
    ResumeTried,
    RunClaimed,
    RunEvent,
    RunTransition,
    TurnBegan,
    apply_events,
)
from openclaw_taskmem.domain.tasks.plan import compute_progress
from openclaw_taskmem.domain.turns import Origin
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.domain.wakes.notices import Milestone
from openclaw_taskmem.engine import ledger
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.event_cursors import EventCursor, make_cursor_bookmark
from openclaw_taskmem.engine.ledger import FileActivity
from openclaw_taskmem.engine.run_recovery import has_lost_run
from taskmem_hookspecs import (
    Change,
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

T = TypeVar("T")
NewFolders = tuple[WorkFolder, ...]
"""Folders that a task begins to use."""
_NO_FOLDERS: Final[NewFolders] = ()

log = logging.getLogger(__name__)

_NEWEST: Final = 20
"""Newest wakes of a task that are searched for the one that delivered an answer."""


class ReportContext(Value):
    """The session, agent and gateway that a report is about."""

    owner: Owner
    gateway_started_at: datetime | None = None
    in_turn: bool = True
    """Whether a turn of the session runs; if not, the report is of a sub-agent."""
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
        return change.model_copy(update={"bookmarks": (make_cursor_bookmark(context, done),)})


class CallDigests(Value):
    """Digests of the arguments and the result of a tool call."""

    given: str
    result: str


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

    def write(facts: TaskFacts, run: Run, now: datetime) -> Decision[NewFolders]:
        moved = _take_run_for_call(context, run, report)
        if moved is None:
            return Change(), ()
        moved = apply_events(moved, CallBegan(step=_find_current_step(facts)), now=now)
        call = FileActivity() if facts.task.implicit else deed or FileActivity()
        used = ledger.find_used_folders(context, run, call)
        ledger.note_named_files(context, run, call, used)
        new = ledger.build_folder_rows(context, run.task_id, used.listed, command=call.command)
        change = _add_checkpoint(Change(folders=new), facts, moved, entry, now)
        return report.add_cursor(context, change), new

    new = _decide_on_current_run(context, report, write, gone=_NO_FOLDERS)
    ledger.schedule_listing(context, new or ())
    return new is not None


def record_call_end(
    context: Context,
    report: ReportContext,
    entry: CallEndEntry,
    call: CallDigests,
    deed: FileActivity | None = None,
) -> bool:
    """Write a checkpoint for a call that has ended, with the files it changed and its digests.

    False: its session works on no task.
    """

    def write(facts: TaskFacts, run: Run, now: datetime) -> Decision[NewFolders]:
        moved = _take_run_for_call(context, run, report)
        if moved is None:
            return Change(), ()
        ended = CallEnded(
            given=checkpoints.digest_arguments(call.given),
            result=checkpoints.digest_call(call.given, call.result),
        )
        moved = apply_events(moved, ended, now=now)
        did = FileActivity() if facts.task.implicit else deed or FileActivity()
        more = ledger.build_call_change(context, facts, moved.run, did, now)
        change = _add_checkpoint(more, facts, moved, entry, now)
        return report.add_cursor(context, change), more.folders

    new = _decide_on_current_run(context, report, write, gone=_NO_FOLDERS)
    ledger.schedule_listing(context, new or ())
    return new is not None


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
    return budget.compute_budget(context.store.read_task(run.task_id), context.policies.runs)


def _decide_on_current_run(
    context: Context,
    report: ReportContext,
    decide: Callable[[TaskFacts, Run, datetime], Decision[T]],
    *,
    gone: T | None,
) -> T | None:
    """Decide about the run that a session works on; None: there is none.

    A blocked run of an implicit task counts as none: it was left by a crash.
    """
    open_ = context.find_session_runs(report.session, report.owner.host)
    found = current_run.find_current_run(open_, report.owner)
    if found is None:
        return None

    def decide_if_alive(facts: TaskFacts, run: Run, now: datetime) -> Decision[T | None]:
        if facts.task.implicit and run.state is RunState.BLOCKED:
            return Change(), None
        return decide(facts, run, now)

    return decide_on_run(context, found, decide_if_alive, gone=gone)


def decide_on_run(
    context: Context,
    found: Run,
    decide: Callable[[TaskFacts, Run, datetime], Decision[T]],
    *,
    gone: T,
) -> T:
    """Decide about a run; return `gone` if it has ended or left its session meanwhile."""

    def decide_if_there(facts: TaskFacts, now: datetime) -> Decision[T]:
        run, its = facts.run, (found.run_id, found.session_key)
        if run is None or (run.run_id, run.session_key) != its:
            return Change(), gone
        return decide(facts, run, now)

    return context.update_task(found.task_id, decide_if_there)


def list_newest_wakes(context: Context, run: Run) -> Sequence[Wake]:
    """Return the newest wakes of a run's task, newest first."""
    return context.store.find_wakes(WakeQuery(task_id=run.task_id, limit=_NEWEST))


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
        moved = run_calls.take_up_run(run, report.owner, now, context.policies.runs)
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

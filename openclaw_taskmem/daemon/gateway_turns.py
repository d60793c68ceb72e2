"""Apply the turn and tool events of a gateway to the run of their session."""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.daemon import gateway_events
from openclaw_taskmem.domain.effects.checkpoints import CallEndEntry, CallStartEntry
from openclaw_taskmem.domain.tasks.ledger import FileTouch
from openclaw_taskmem.domain.turns import Turn
from openclaw_taskmem.engine import implicit_tasks, turn_ends, turns
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.ledger import FileActivity
from openclaw_taskmem.engine.turns import CallDigests, ReportContext
from openclaw_taskmem.tools import catalog
from taskmem_hookspecs import ConversationMessage

_PREFIX: Final = "taskmem__"
"""Prefix that a host adds to the names of our tools."""
LONGEST_CALL_MS: Final = 1e9
"""Maximum duration of a call that is believed, in milliseconds (about eleven days)."""
_OURS: Final = frozenset(tool.name for tool in catalog.TOOLS)


def handle_turn_start(
    context: Context, report: ReportContext, event: gateway_events.TurnStarted
) -> bool:
    """Record that a turn has begun; return False if it must be stopped."""
    implicit_tasks.end_left_tasks(context, report, event.origin)
    return turns.record_turn_start(context, report, event.origin)


def handle_call_start(
    context: Context, report: ReportContext, event: gateway_events.ToolStarted
) -> None:
    """Record that a tool call has begun; for our own tools, only that the session is active.

    The task's thread records what our own tools do. A call without a run counts towards an implicit
    task.
    """
    if _is_own_tool(event.tool):
        turns.claim_or_renew_run(context, report)
    else:
        entry = CallStartEntry(
            call_id=event.call_id, tool=event.tool, about=event.about, method=event.method
        )
        if not turns.record_call_start(context, report, entry, _build_file_activity(event)):
            implicit_tasks.note_call(context, report, entry, event.request)


def handle_call_end(
    context: Context, report: ReportContext, event: gateway_events.ToolCalled
) -> None:
    """Record how a tool call ended; for our own tools, only that the session is active."""
    if not event.call_id or _is_own_tool(event.tool):
        turns.claim_or_renew_run(context, report)
        return
    entry = CallEndEntry(
        call_id=event.call_id,
        tool=event.tool,
        about=event.about,
        method=event.method,
        outcome=event.outcome,
        ok=not event.failed and event.exit_code in (None, 0),
        exit_code=event.exit_code,
        milliseconds=round(event.ms),
        said=tuple(ConversationMessage(role=line.role, text=line.text) for line in event.said),
    )
    call = CallDigests(given=event.given, result=event.result)
    if not turns.record_call_end(context, report, entry, call, _build_file_activity(event)):
        implicit_tasks.note_call_end(context, report, entry)


def handle_turn_end(
    context: Context, report: ReportContext, event: gateway_events.TurnEndReport
) -> None:
    """Decide what follows a turn; one cut by the gateway's shutdown is left to its next start."""
    implicit_tasks.forget_calls(context, report)
    if event.cut:
        return
    turn = Turn(
        origin=event.origin,
        error=event.failed,
        reason=event.reason,
        aborted=event.aborted and not event.stopped,
        stopped=event.stopped,
        said=event.said,
        words=event.words,
        calls=event.calls,
        children=event.children,
        commands=event.awaited,
        scheduled=event.scheduled,
        awaited_age=min((each.age for each in event.at_work), default=0.0) / 1000,
    )
    turn_ends.settle_turn_end(context, report, turn)


def handle_awaited_end(
    context: Context, report: ReportContext, event: gateway_events.AwaitedEnded
) -> None:
    """Resume the run of a session whose background command or sub-agent has ended."""
    turn_ends.resume_awaiting_run(context, report, event.name, event.how)


def _build_file_activity(
    event: gateway_events.ToolStarted | gateway_events.ToolCalled,
) -> FileActivity:
    """Return what the call may have changed in files."""
    deed = FileActivity(
        call_id=event.call_id or None,
        folders=event.folders,
        command=event.command,
        text=event.about if event.command else "",
    )
    if isinstance(event, gateway_events.ToolStarted):
        return deed
    touched = tuple(FileTouch(path=t.path, change=t.change) for t in event.touched)
    return deed.model_copy(
        update={"touched": touched, "seconds": min(event.ms, LONGEST_CALL_MS) / 1000}
    )


def _is_own_tool(tool: str) -> bool:
    return tool.removeprefix(_PREFIX) in _OURS

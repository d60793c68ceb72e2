"""What each event of a gateway's report means for the run of its session."""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.daemon import reports
from openclaw_taskmem.domain.checkpoints import Began, Ended
from openclaw_taskmem.domain.ledger import Touch
from openclaw_taskmem.domain.turns import Turn
from openclaw_taskmem.engine import implicit, turn_ends, turns
from openclaw_taskmem.engine.ledger import Deed
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.engine.turns import Call, Heard
from openclaw_taskmem.tools import catalog
from taskmem_hookspecs import ConversationMessage

_PREFIX: Final = "taskmem__"
"""What a host puts before our tools' names."""
LONGEST: Final = 1e9
"""Milliseconds that a call is believed to have taken, some eleven days."""
_OURS: Final = frozenset(tool.name for tool in catalog.TOOLS)


def turn_began(shell: Shell, heard: Heard, event: reports.TurnStarted) -> bool:
    """Note that a turn has begun; False: it must not go on."""
    implicit.begin_turn(shell, heard, event.origin)
    return turns.turn_began(shell, heard, event.origin)


def call_began(shell: Shell, heard: Heard, event: reports.ToolStarted) -> None:
    """Write down that a call began; of our own tools the thread tells."""
    if _ours(event.tool):
        turns.heartbeat(shell, heard)
    else:
        entry = Began(
            call_id=event.call_id,
            tool=event.tool,
            about=event.about,
            method=event.method,
        )
        if not turns.call_began(shell, heard, entry, _deed(event)):
            implicit.note_call(shell, heard, entry, event.request)


def call_ended(shell: Shell, heard: Heard, event: reports.ToolCalled) -> None:
    """Write down how a call ended; of our own tools the thread tells."""
    if not event.call_id or _ours(event.tool):
        turns.heartbeat(shell, heard)
        return
    entry = Ended(
        call_id=event.call_id,
        tool=event.tool,
        about=event.about,
        method=event.method,
        outcome=event.outcome,
        ok=not event.failed and event.exit_code in (None, 0),
        exit_code=event.exit_code,
        milliseconds=round(event.ms),
        said=tuple(
            ConversationMessage(role=line.role, text=line.text) for line in event.said
        ),
    )
    call = Call(given=event.given, result=event.result)
    if not turns.call_ended(shell, heard, entry, call, _deed(event)):
        implicit.note_call_end(shell, heard, entry)


def turn_over(shell: Shell, heard: Heard, event: reports.TurnEnded) -> None:
    """Decide what comes after a turn; what was cut is for the next start to take up."""
    implicit.forget_calls(shell, heard)
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
    turn_ends.turn_over(shell, heard, turn)


def awaited_ended(shell: Shell, heard: Heard, event: reports.AwaitedEnded) -> None:
    """Tell of the end of what a session may have waited for in its gateway."""
    turn_ends.awaited_ended(shell, heard, event.name, event.how)


def _deed(event: reports.ToolStarted | reports.ToolCalled) -> Deed:
    """Return what a call may have done to files."""
    deed = Deed(
        call_id=event.call_id or None,
        folders=event.folders,
        command=event.command,
        text=event.about if event.command else "",
    )
    if isinstance(event, reports.ToolStarted):
        return deed
    touched = tuple(Touch(path=t.path, change=t.change) for t in event.touched)
    return deed.model_copy(
        update={"touched": touched, "seconds": min(event.ms, LONGEST) / 1000}
    )


def _ours(tool: str) -> bool:
    return tool.removeprefix(_PREFIX) in _OURS

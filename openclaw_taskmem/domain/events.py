"""The entries of the event log and their kinds."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pydantic import JsonValue

from taskmem_hookspecs import Event, Run, Task, Wait, Wake

TASK_REGISTERED: Final = "task_registered"
TURN_COVERED: Final = "turn_covered"
TASK_UPDATED: Final = "task_updated"
STATUS_CHANGED: Final = "status_changed"
PLAN_REVISED: Final = "plan_revised"
WAIT_OPENED: Final = "wait_opened"
WAIT_UPDATED: Final = "wait_updated"
WAIT_ENDED: Final = "wait_ended"
TASK_RELEASED: Final = "task_released"
TASK_STUCK: Final = "stuck"
WAKE_SENT: Final = "wake_sent"
WAKE_FAILED: Final = "wake_failed"
WAKE_LOST: Final = "wake_lost"
WAKE_REFUSED: Final = "wake_refused"
WAKE_ACKNOWLEDGED: Final = "wake_acknowledged"
WAKE_SUPERSEDED: Final = "wake_superseded"
WAKE_UNANSWERED: Final = "wake_unanswered"
RUN_CHANGED: Final = "run_changed"
RUN_CLAIMED: Final = "run_claimed"
RUN_AWAITS: Final = "run_awaits"
RUN_STALLED: Final = "run_stalled"
PROVIDER_FAILED: Final = "provider_failed"
RUN_SWEPT: Final = "run_swept"
EVIDENCE_CHECKED: Final = "evidence_checked"
COMPLETION_REFUSED: Final = "completion_refused"
COMPLETION_ACCEPTED: Final = "completion_accepted"
MILESTONE: Final = "milestone"
NOTICE: Final = "notice"
TURN_STOPPED: Final = "turn_stopped"
QUESTION_ANSWERED: Final = "question_answered"
QUESTION_LOST: Final = "question_lost"
FAILURE_SEEN: Final = "failure_seen"

LINE_KINDS: Final = frozenset({MILESTONE, NOTICE, TURN_STOPPED})
"""Kinds sent to the agent host: lines for users, and turns to stop."""
VIEW_KINDS: Final = frozenset(
    {
        TASK_REGISTERED,
        TASK_UPDATED,
        STATUS_CHANGED,
        PLAN_REVISED,
        TASK_RELEASED,
        WAIT_OPENED,
        WAIT_UPDATED,
        WAIT_ENDED,
        RUN_CHANGED,
        QUESTION_ANSWERED,
        QUESTION_LOST,
    }
)
"""Kinds after which a session's cards or questions may change."""
HOOK_KINDS: Final = frozenset({TASK_REGISTERED, WAIT_ENDED, TASK_STUCK, RUN_CHANGED})
"""Kinds that hooks of plug-ins are called for."""


def build_event(
    kind: str, about: Task | Run | Wait | Wake | None, now: datetime, /, **data: JsonValue
) -> Event:
    """Build a log entry about a task, run, wait or wake; None: about none of them."""
    return Event(
        at=now,
        kind=kind,
        task_id=about.task_id if about else None,
        run_id=about.run_id if isinstance(about, Run) else None,
        wait_id=about.wait_id if isinstance(about, Wait | Wake) else None,
        data=data,
    )

"""Replacing a plan, with a reason, keeping the marks that can be kept.

Source: seed 000 §2.
"""

from __future__ import annotations

from datetime import datetime

from openclaw_taskmem.domain import events, lifecycle, outbox, plan
from openclaw_taskmem.domain.callers import Caller
from taskmem_hookspecs import (
    Author,
    Change,
    Event,
    Message,
    MessageType,
    PlanRevision,
    Role,
    Task,
    TaskFacts,
)


def revise(
    facts: TaskFacts,
    new_plan: tuple[str, ...],
    reason: str,
    now: datetime,
    *,
    caller: Caller,
    author: Author = Author.AGENT,
) -> tuple[Change, Task, plan.Remap]:
    """Decide what a revision writes: the row, the plan, a message, the marks.

    Raises:
        TaskEnded: The task has ended.
    """
    before = facts.task
    lifecycle.require_open(before, "its plan stays as it is")
    remap = plan.remap(before.plan, before.done, new_plan)
    task = lifecycle.touch(before, now).model_copy(
        update={
            "plan": new_plan,
            "done": remap.done,
            "message_count": before.message_count + 1,
        }
    )
    wakes = outbox.answered(
        facts.wakes,
        acts=caller.acts_as(before.session_key, before.home),
        moved=True,
        now=now,
    )
    change = Change(
        tasks=(task,),
        revisions=(
            PlanRevision(
                task_id=task.task_id,
                old_plan=before.plan,
                new_plan=new_plan,
                reason=reason,
                author=author,
                created_at=now,
            ),
        ),
        messages=(
            Message(
                task_id=task.task_id,
                role=Role.SYSTEM,
                msg_type=MessageType.PLAN,
                content=f"Plan revised: {reason}",
                created_at=now,
            ),
        ),
        wakes=wakes,
        events=(
            Event(
                at=now,
                kind=events.PLAN_REVISED,
                task_id=task.task_id,
                data={
                    "reason": reason,
                    "author": author,
                    "steps": len(new_plan),
                    "kept": len(remap.done),
                    "dropped": len(remap.dropped),
                },
            ),
            *outbox.settled_events(wakes, now),
        ),
    )
    return change, task, remap

"""The life of a wait, and what it does to its task's linkage.

Source: seed 000 §4.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from openclaw_taskmem.domain import events, lifecycle, outbox
from openclaw_taskmem.domain.texts import clip, plain
from taskmem_hookspecs import (
    Change,
    Event,
    Linkage,
    Message,
    MessageType,
    Role,
    Task,
    TaskFacts,
    Wait,
    WaitOutcome,
    WaitStatus,
    Wake,
    WakeCause,
)


def linkage(waits: Iterable[Wait]) -> Linkage:
    """Derive what a task's metadata says of its waits from the wait rows."""
    known = sorted(waits, key=lambda wait: (wait.created_at, wait.wait_id))
    if not known:
        return Linkage()
    last = max(known, key=lambda wait: (wait.changed_at, wait.wait_id))
    return Linkage(
        active_wait_ids=tuple(
            wait.wait_id for wait in known if wait.status is WaitStatus.WATCHING
        ),
        last_wait_event_at=last.changed_at,
        last_wait_state=last.status,
    )


def open_(wait: Wait, facts: TaskFacts | None, now: datetime) -> Change:
    """Return the change that starts a wait; `facts` of its task, or None.

    Raises:
        TaskEnded: The task has ended.
    """
    if facts is not None:
        lifecycle.require_open(facts.task, "nothing can be waited for")
    return Change(
        tasks=_tasks(wait, facts, now),
        waits=(wait,),
        wakes=outbox.answered(
            facts.wakes if facts else (), acts=True, moved=True, now=now
        ),
        events=(
            Event(
                at=now,
                kind=events.WAIT_OPENED,
                task_id=wait.task_id,
                wait_id=wait.wait_id,
                data={"target": wait.target, "wake_when": wait.wake_when},
            ),
        ),
    )


def end(
    wait: Wait,
    facts: TaskFacts | None,
    outcome: WaitOutcome,
    *,
    wake_id: str,
    now: datetime,
) -> Change:
    """Return the change that ends a wait: the row, the thread, the wake.

    A wait that the agent cancelled owes no wake. An ended wait does not end
    twice: the change is empty.
    """
    if wait.status is not WaitStatus.WATCHING:
        return Change()
    ended = wait.model_copy(
        update={
            "status": outcome.status,
            "ended_at": now,
            "changed_at": now,
            "last_observation": outcome.observation,
        }
    )
    text = wake_text(ended, outcome)
    session = wait.session_key or (facts.task.session_key if facts else None)
    wake = Wake(
        wake_id=wake_id,
        key=f"wait:{wait.wait_id}:{wait.round}",
        cause=WakeCause.WAIT,
        task_id=wait.task_id,
        wait_id=wait.wait_id,
        session_key=session,
        text=text,
        created_at=now,
        due_at=now,
    )
    told = (
        (
            Message(
                task_id=facts.task.task_id,
                role=Role.SYSTEM,
                msg_type=MessageType.WAIT,
                content=text.removeprefix("[system] "),
                created_at=now,
            ),
        )
        if facts
        else ()
    )
    return Change(
        tasks=_tasks(ended, facts, now, messages=len(told)),
        waits=(ended,),
        messages=told,
        wakes=() if outcome.status is WaitStatus.CANCELLED else (wake,),
        events=(
            Event(
                at=now,
                kind=events.WAIT_ENDED,
                task_id=wait.task_id,
                wait_id=wait.wait_id,
                data=outcome.model_dump(mode="json"),
            ),
        ),
    )


def wake_text(wait: Wait, outcome: WaitOutcome) -> str:
    """Return what the agent reads when a wait ends. Source: seed 001 tool 4."""
    seen = clip(plain(outcome.observation), 3000)
    head = f"[system] smart_wait {outcome.status} ({wait.wait_id}): "
    if outcome.status is WaitStatus.TIMEOUT:
        return (
            f"{head}Condition not met after {wait.timeout_seconds:.10g}s. "
            f"Last observation: {seen}"
        )
    stop = "" if seen.endswith((".", "!", "?", "…")) else "."
    return f"{head}{seen}{stop} Elapsed: {int(outcome.elapsed_seconds)}s."


def _tasks(
    wait: Wait, facts: TaskFacts | None, now: datetime, messages: int = 0
) -> tuple[Task, ...]:
    if facts is None:
        return ()
    others = (known for known in facts.waits if known.wait_id != wait.wait_id)
    task = lifecycle.touch(facts.task, now)
    return (
        task.model_copy(
            update={
                "linkage": linkage((*others, wait)),
                "message_count": task.message_count + messages,
            }
        ),
    )

"""Use cases on waits: open one, end one."""

from __future__ import annotations

from datetime import timedelta

from openclaw_taskmem.domain import waits
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import Wait, WaitOutcome


def open_wait(
    shell: Shell,
    *,
    target: str,
    wake_when: str,
    timeout_seconds: float,
    poll_seconds: float,
    task_id: str | None,
    session_key: str | None,
) -> Wait:
    """Start a wait and return it.

    Raises:
        TaskNotFound: No task has that id.
        TaskEnded: The task has ended.
    """

    def once() -> Wait:
        facts = shell.store.read_task(task_id) if task_id else None
        now = shell.clock.now()
        wait = Wait(
            wait_id=shell.new_id("wait", now),
            task_id=task_id,
            session_key=session_key,
            target=target,
            wake_when=wake_when,
            timeout_seconds=timeout_seconds,
            poll_seconds=poll_seconds,
            created_at=now,
            armed_at=now,
            changed_at=now,
            deadline_at=now + timedelta(seconds=timeout_seconds),
        )
        shell.commit(waits.open_(wait, facts, now))
        return wait

    return shell.decide(task_id or "", once)


def end_wait(shell: Shell, wait_id: str, outcome: WaitOutcome) -> bool:
    """End a wait; False: it had ended before, and nothing was changed.

    Raises:
        WaitNotFound: No wait has that id.
    """
    first = shell.store.read_wait(wait_id)

    def once() -> bool:
        wait = shell.store.read_wait(wait_id)
        facts = shell.store.read_task(wait.task_id) if wait.task_id else None
        now = shell.clock.now()
        change = waits.end(
            wait, facts, outcome, wake_id=shell.new_id("wake", now), now=now
        )
        shell.commit(change)
        return not change.empty

    return shell.decide(first.task_id or wait_id, once)

"""Rebuild the state of a task at an instant in the past, as far as its log knows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.tasks.plan import remap_marks
from openclaw_taskmem.domain.views.timeline import read_steps
from taskmem_hookspecs import Event, PlanRevision, RunState, Step, Task, TaskStatus, Value
from taskmem_hookspecs.value import Instant


class TaskState(Value):
    """The state of a task at an instant in the past."""

    at: Instant
    status: TaskStatus
    steps: tuple[Step, ...]
    run: RunState | None
    """State of its run; None: it had none."""
    waits: tuple[str, ...]
    """Targets of the waits that were open."""


def find_whole_part(
    task: Task, log: Sequence[Event], thinned: int, *, is_cut: bool
) -> Sequence[Event]:
    """Return the newest part of a task's log in which nothing is missing.

    Its past can be told from there on only. If it is not the whole log, it begins after the last
    plan revision too, before which the marks are not known.

    Args:
        task: The task.
        log: The newest entries of its log that are left, oldest first.
        thinned: Id of the newest entry of any task that was dropped; 0: none was.
        is_cut: True if there are older entries, which were not read.
    """
    ended = task.status.terminal or any(event.kind == events.STATUS_CHANGED for event in log)
    gone = [n for n, event in enumerate(log) if event.event_id <= thinned] if ended else []
    if not gone and not is_cut:
        return log
    revised = [n for n, event in enumerate(log) if event.kind == events.PLAN_REVISED]
    return log[max((*gone[-1:], *revised[-1:]), default=-1) + 1 :]


def rebuild_state(
    task: Task,
    log: Sequence[Event],
    revisions: Sequence[PlanRevision],
    at: datetime,
    *,
    is_whole: bool = True,
) -> TaskState:
    """Return the state of a task at an instant, from its log and its plan revisions.

    `is_whole`: False if `log` is only the newest part, as `find_whole_part` returns it; waits that
    were opened before are left out.
    """
    plan = revisions[0].old_plan if revisions and is_whole else task.plan
    done = frozenset[int]() if is_whole else _find_first_marks(task, log)
    status, run = TaskStatus.ACTIVE, None
    if not is_whole:
        was = _find_first(log, events.STATUS_CHANGED)
        status = TaskStatus(was) if was else task.status
        was = _find_first(log, events.RUN_CHANGED)
        run = RunState(was) if was else None
    waits: dict[str, str] = {}
    left = [*revisions]
    for event in log:
        if event.at > at:
            break
        data = event.data
        if event.kind == events.TASK_UPDATED:
            done = (done | read_steps(data, "marked")) - read_steps(data, "unmarked")
        elif event.kind == events.PLAN_REVISED and left:
            new = left.pop(0).new_plan
            plan, done = new, remap_marks(plan, done, new).done
        elif event.kind == events.STATUS_CHANGED:
            status = TaskStatus(str(data.get("to")))
        elif event.kind == events.RUN_CHANGED:
            run = RunState(str(data.get("to")))
        elif event.kind == events.WAIT_OPENED and event.wait_id is not None:
            waits[event.wait_id] = str(data.get("target"))
        elif event.kind == events.WAIT_ENDED:
            waits.pop(event.wait_id or "", None)
    steps = (Step(index=n, text=text, done=n in done) for n, text in enumerate(plan))
    return TaskState(at=at, status=status, steps=tuple(steps), run=run, waits=tuple(waits.values()))


def _find_first_marks(task: Task, log: Sequence[Event]) -> frozenset[int]:
    """Return which steps were done before the first entry of a log without a plan revision."""
    done = task.done
    for event in reversed(log):
        if event.kind == events.TASK_UPDATED:
            done = (done - read_steps(event.data, "marked")) | read_steps(event.data, "unmarked")
    return done


def _find_first(log: Iterable[Event], kind: str) -> str | None:
    """Return the state that the first entry of a kind changed; None: there is none."""
    first = next((event for event in log if event.kind == kind), None)
    was = first and first.data.get("from")
    return str(was) if was else None

"""Decide which tasks block others, and what becomes of a task when one that blocks it ends.

`Task.blocked_by` names open tasks only, and never leads back to the task itself. The commit that
ends a task takes it out of all that it blocks, however it ended: nothing waits for what will never
come. An agent is woken once nothing blocks its task any more, and at once if a task that should
have come first failed or was called off.

To say what blocks a task, all rows on the way are written with it, as they are: of two changes that
would close a circle together, one finds its rows changed and decides again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.tasks import lifecycle, plan
from openclaw_taskmem.domain.text.texts import (
    clip,
    format_count,
    quote_line,
    quote_step,
    to_plain_line,
)
from openclaw_taskmem.domain.wakes.outbox import READY_PREFIX
from taskmem_hookspecs import (
    Change,
    InvalidArguments,
    Message,
    MessageType,
    Role,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
    Wake,
    WakeCause,
)

MOST_BLOCKERS: Final = 50
"""Tasks that may block one task."""
MOST_ON_THE_WAY: Final = 500
"""Tasks that block a task, directly or by others."""
_NAME_BYTES: Final = 160
_WHY_BYTES: Final = 400


class Blockers(Value):
    """The tasks that are to end before a task goes on, as a caller names them."""

    open: tuple[str, ...] = ()
    """Ids of those that are open."""
    over: tuple[Task, ...] = ()
    """Those that have ended already, and block nothing."""
    on_the_way: tuple[Task, ...] = ()
    """All open tasks that block the task, directly or by others."""


def find_blockers(task_id: str | None, named: Sequence[str], known: Mapping[str, Task]) -> Blockers:
    """Decide what blocks a task; `task_id` None: it is new.

    `known` has the named tasks, and all that block them, directly or by others.

    Raises:
        InvalidArguments: One leads back to the task, is no task of its own, or they are too many.
    """
    for each in named:
        if known[each].implicit:
            raise InvalidArguments(
                f"{each} stands for a turn, which no task waits for; name a task that was "
                "registered. Nothing was written."
            )
        path = None if task_id is None else _find_path(each, task_id, known)
        if path is not None:
            shown = " -> ".join((str(task_id), *path))
            raise InvalidArguments(
                f"blocked_by would close a circle, in which each waits for the next: {shown}. "
                "Leave one of them out. Nothing was written."
            )
    if len(known) > MOST_ON_THE_WAY:
        raise InvalidArguments(
            f"More than {MOST_ON_THE_WAY} tasks would block it, directly or by others; name "
            "fewer. Nothing was written."
        )
    ids = dict.fromkeys(named)
    return Blockers(
        open=tuple(each for each in ids if not known[each].status.terminal),
        over=tuple(known[each] for each in ids if known[each].status.terminal),
        on_the_way=tuple(task for task in known.values() if not task.status.terminal),
    )


def _find_path(start: str, goal: str, known: Mapping[str, Task]) -> Sequence[str] | None:
    """Return the ids from one task to one that blocks it, both included; None: none leads there."""
    paths: list[tuple[str, ...]] = [(start,)]
    seen = {start}
    while paths:
        path = paths.pop(0)
        if path[-1] == goal:
            return path
        following = known[path[-1]].blocked_by if path[-1] in known else ()
        paths += [(*path, each) for each in following if each not in seen]
        seen.update(following)
    return None


def add_blockers(change: Change, task_id: str, blockers: Blockers) -> Change:
    """Add to a change of a task what blocks it, and the rows that decide on it."""
    written = {task.task_id for task in change.tasks}
    tasks = (
        task.model_copy(update={"blocked_by": blockers.open}) if task.task_id == task_id else task
        for task in change.tasks
    )
    guards = (task for task in blockers.on_the_way if task.task_id not in written)
    return change.model_copy(update={"tasks": (*tasks, *guards)})


def describe_blockers(blockers: Blockers, *, reached: bool) -> str:
    """Tell who named what blocks a task what comes of that; empty: they named none.

    `reached`: a wake reaches the agent of the task.
    """
    over = "; ".join(f"{name_task(task)} {_describe_end(task)} already" for task in blockers.over)
    told = "you are woken when nothing blocks it any more"
    if not reached:
        told = 'task_list with status "ready" lists it once nothing blocks it any more'
    rests = f"It waits for {format_count(len(blockers.open), 'task')}: leave it; {told}."
    return " ".join(filter(None, (rests if blockers.open else "", f"{over}." if over else "")))


def name_task(task: Task) -> str:
    """Name a task with its id."""
    return f'"{clip(to_plain_line(task.name), _NAME_BYTES)}" ({task.task_id})'


def _describe_end(task: Task) -> str:
    return "was cancelled" if task.status is TaskStatus.CANCELLED else f"has {task.status}"


# --- the end of a task that blocks others -----------------------------------------------------


def release_task(facts: TaskFacts, ended: Task, why: str, wake_id: str, now: datetime) -> Change:
    """Build the change that takes a task that has ended out of one that it blocks.

    `why`: its agent's last words. The agent is woken if nothing blocks the task any more, or if the
    other did not complete; not while the task is paused, is in a queue, or waits for its user.
    """
    task, run = facts.task, facts.run
    left = tuple(each for each in task.blocked_by if each != ended.task_id)
    entry = _describe_release(task, ended, why, left)
    released = lifecycle.touch_task(task, now).model_copy(
        update={"blocked_by": left, "message_count": task.message_count + 1}
    )
    queued = run is not None and run.state is RunState.QUEUED and run.session_key is None
    log = events.build_event(
        events.TASK_RELEASED, task, now, by=ended.task_id, status=ended.status, left=len(left)
    )
    change = Change(
        tasks=(released,),
        messages=(lifecycle.build_system_message(task, entry, now, MessageType.TEXT),),
        # Whoever waits for the queue reads it again.
        runs=(run,) if queued and run is not None and not left else (),
        events=(log,),
    )
    rests = queued or task.status is not TaskStatus.ACTIVE or _waits_for_user(run)
    if rests or (left and ended.status is TaskStatus.COMPLETED):
        return change
    wake = Wake(
        wake_id=wake_id,
        key=f"{READY_PREFIX}{task.task_id}:{released.message_count}",
        cause=WakeCause.WAIT,
        task_id=task.task_id,
        session_key=task.session_key,
        host=task.host,
        home=task.home,
        text=f"[system] {entry} {_advise(task, ended, left)}",
        created_at=now,
        due_at=now,
    )
    return change.model_copy(update={"wakes": (wake,)})


def _waits_for_user(run: Run | None) -> bool:
    return run is not None and run.state.is_waiting


def find_last_words(messages: Iterable[Message], task_id: str) -> str:
    """Return what the agent of a task said as it ended; empty: nothing."""
    words = [m.content for m in messages if m.task_id == task_id and m.role is not Role.SYSTEM]
    return words[-1] if words else ""


def _describe_release(task: Task, ended: Task, why: str, left: Sequence[str]) -> str:
    failed = ended.status is not TaskStatus.COMPLETED
    reason = f": {quote_line(to_plain_line(why), _WHY_BYTES)}" if why and failed else ""
    others = f"{format_count(len(left), 'task')} still" if left else "nothing"
    verb = "block" if len(left) > 1 else "blocks"
    more = "" if left else " any more"
    name = clip(to_plain_line(task.name), _NAME_BYTES)
    return f'{name_task(ended)} {_describe_end(ended)}{reason}; {others} {verb} "{name}"{more}.'


def _advise(task: Task, ended: Task, left: Sequence[str]) -> str:
    """Say what the agent does now."""
    if ended.status is TaskStatus.COMPLETED:
        current = plan.compute_progress(task).current
        step = "" if current is None else f" with step {current + 1}, "
        step += "" if current is None else quote_step(to_plain_line(task.plan[current]), 200)
        return f'Go on{step}; report with task_update, task_id "{task.task_id}".'
    way = "leave it as it is" if left else "go on without it"
    return (
        f"It should have come first: {way}, wait for another task (task_plan_update with "
        f'blocked_by), ask the user, or cancel; task_id "{task.task_id}".'
    )

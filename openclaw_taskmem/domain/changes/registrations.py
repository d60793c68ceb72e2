"""Decide what becomes of a task that is registered while one of that name is open.

An agent registers its task once more when it has lost its context, or the answer to its call. Then
the open one is its task. Another agent may work under the same name: it gets a task of its own, and
is told of the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from openclaw_taskmem.domain.callers import Caller, is_same_host
from openclaw_taskmem.domain.changes.dependencies import Blockers
from openclaw_taskmem.domain.changes.task_update import describe_next_step
from openclaw_taskmem.domain.tasks.plan import identify_step
from openclaw_taskmem.domain.text.texts import (
    format_duration,
    quote_step,
    to_one_line,
    to_plain_line,
)
from taskmem_hookspecs import Task, TaskStatus, Value

RETRY_WINDOW: Final = timedelta(minutes=1)
"""How long an equal call of a process that has ended counts as made once more: its answer may have
been lost with the process."""
_NAME_BYTES: Final = 160
"""Longest excerpt of a task's name in a sentence."""


class FirstCall(NamedTuple):
    """The call that registered a task or opened a wait."""

    caller: Caller
    at: datetime
    asked: object = None
    """The parts of a wait's request; None: it is a task's call."""


class Registration(Value):
    """The outcome of a registration."""

    task: Task
    """The task to go on with."""
    taken_up: bool = False
    """True if it was open already, and nothing was written."""
    blockers: Blockers = Blockers()
    """The tasks that must end before it goes on."""
    namesakes: tuple[Task, ...] = ()
    """Open tasks of the same name, which may be the caller's own: those with just that spelling
    first, then the newest."""


def match_agent(
    task: Task,
    first: FirstCall | None,
    caller: Caller,
    now: datetime,
    *,
    shares_folder: bool,
    has_ended: bool,
) -> bool | None:
    """Tell whether a caller is the agent that registered a task; None: possibly. A person never is.

    `first` is the call that did it; None if this daemon has not seen it. `shares_folder`: the task
    works in the caller's folder. `has_ended`: the process of that call has surely ended.
    """
    if not _is_of_host(caller, task.registrar_host or task.host):
        return False
    known = {task.registrar_session, task.session_key} - {None}
    if caller.session_key is not None or known:
        return caller.session_key in known
    if first is not None and is_same_agent(first, caller, now, has_ended=has_ended):
        untouched = task.updated_at == task.created_at
        return True if untouched or not has_ended else None
    return None if shares_folder else False


def is_same_agent(first: FirstCall, caller: Caller, now: datetime, *, has_ended: bool) -> bool:
    """Tell whether a caller is the agent that made an earlier call.

    It has the same session; or the same process, if none is known. Or its process `has_ended` a
    moment ago, and one in the same folder calls once more.
    """
    before = first.caller
    if not _is_of_host(caller, before.host):
        return False
    if caller.session_key is not None or before.session_key is not None:
        return caller.session_key == before.session_key
    if before.process is not None and before.process == caller.process:
        return True
    is_near = caller.folder is not None and caller.folder == before.folder
    return has_ended and is_near and now - first.at <= RETRY_WINDOW


def _is_of_host(caller: Caller, host: str | None) -> bool:
    """Tell whether a caller is an agent of a host; a gateway may have no name."""
    if caller.host is None and caller.gateway_owner is None:
        return False
    return caller.host == host or is_same_host(caller.host, host)


def fold_name(name: str) -> str:
    """Return a name or step as it is compared: case and blanks do not matter."""
    return to_one_line(name).casefold()


def is_same_work(task: Task, plan: Iterable[str]) -> bool:
    """Tell whether an open task has the plan with which one of its name is registered.

    Steps are compared as for a revision, where a full stop at the end is none of their words.
    """
    return [*map(identify_step, task.plan)] == [*map(identify_step, plan)]


def describe_taken_up(task: Task, now: datetime) -> str:
    """Tell an agent that the task which it registers is open already."""
    state = "paused" if task.status is TaskStatus.PAUSED else "open"
    return (
        f"You registered this task {_format_age(task, now)} ago, and it is {state}, with "
        f"{len(task.done)} of {len(task.plan)} steps done, so no second one was made. Go on with "
        f"it; a query of task_update tells where it stands. {describe_next_step(task)} For other "
        "work, give another name."
    )


def describe_namesakes(tasks: Iterable[Task], now: datetime) -> str:
    """Tell an agent of the likeliest open task that has the name of its new one; empty: of none."""
    task = next(iter(tasks), None)
    if task is None:
        return ""
    name = quote_step(to_plain_line(task.name), _NAME_BYTES)
    return (
        f"{name} is open already, since {_format_age(task, now)}: {task.task_id}, with "
        f"{len(task.done)} of {len(task.plan)} steps done. If that is your work, go on there, and "
        'cancel this one with task_update, status "cancelled".'
    )


def _format_age(task: Task, now: datetime) -> str:
    return format_duration((now - task.created_at).total_seconds())

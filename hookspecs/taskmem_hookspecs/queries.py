"""What a `TaskStore` is asked for: a field that is None leaves nothing out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from taskmem_hookspecs.model import TaskStatus, WaitStatus, WakeState
from taskmem_hookspecs.runs import RunState
from taskmem_hookspecs.value import Instant, Value

FOREVER: Final = datetime.max.replace(tzinfo=UTC)
"""The instant by which everything has come due that comes due at all."""


class Query(Value):
    """What tasks, waits, wakes and runs are all asked for by."""

    home: str | None = None
    """Only what belongs to this home, or to none."""
    limit: int | None = None
    """The first of them, at most so many."""


class TaskQuery(Query):
    """Asks for tasks, most recently updated first."""

    status: TaskStatus | None = None
    session_key: str | None = None
    implicit: bool | None = None
    """Only implicit tasks, or only the others."""
    after: str | None = None
    """Only those whose id is greater, in order of id."""
    due_by: Instant | None = None
    """Only active ones whose `stuck_due_at` has come by then, first due first."""


class WaitQuery(Query):
    """Asks for waits, newest first."""

    status: WaitStatus | None = None
    task_id: str | None = None


class WakeQuery(Query):
    """Asks for wakes, newest first."""

    states: tuple[WakeState, ...] | None = None
    task_id: str | None = None
    wait_id: str | None = None
    wake_ids: tuple[str, ...] | None = None
    """Only these, in no order; unknown ids are passed over."""
    due_by: Instant | None = None
    """Only those whose `due_at` has come by then, first due first."""
    sent_since: Instant | None = None
    """Only those sent since then to `session_key`, first sent first."""
    session_key: str | None = None
    """Only those for this session; with `sent_since`, None: for no session."""


class RunQuery(Query):
    """Asks for runs, newest first.

    That is by `created_at`, then by `run_id`. The core makes no run of a task earlier
    than the one before it, also where the clock went back.
    """

    states: tuple[RunState, ...] | None = None
    task_id: str | None = None
    task_ids: tuple[str, ...] | None = None
    """Only those of these tasks, in no order; an unknown id has none."""
    role: str | None = None
    """Only those that this role may claim: its own, and those for anybody."""
    implicit: bool | None = None
    """Only runs of implicit tasks, or only those of the others."""
    oldest_first: bool = False
    session_key: str | None = None
    """Only those of this session that have not ended: the run comes first whose task
    was updated last; those of implicit tasks come after all others."""
    lapsed_by: Instant | None = None
    """Only those whose `lease_until` has come by then, first due first."""


class EventQuery(Value):
    """Asks for events, oldest first."""

    task_id: str | None = None
    wait_id: str | None = None
    after: int | None = None
    """Only those with a greater id."""
    limit: int | None = None
    """At most so many: the first where `after` is given, otherwise the newest."""

"""Define the queries of a `TaskStore`; a field that is None does not filter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from taskmem_hookspecs.model import TaskStatus, WaitStatus, WakeState
from taskmem_hookspecs.runs import RunState
from taskmem_hookspecs.value import Instant, Value

FOREVER: Final = datetime.max.replace(tzinfo=UTC)
"""The latest instant; a query with it finds everything that has a due time."""


class Query(Value):
    """Fields that all queries for tasks, waits, wakes and runs have."""

    home: str | None = None
    """Only rows of this home, or of none."""
    limit: int | None = None
    """Maximum number of rows, in the query's order."""


class TaskQuery(Query):
    """Find tasks, most recently updated first."""

    status: TaskStatus | None = None
    session_key: str | None = None
    implicit: bool | None = None
    """True: only implicit tasks. False: only the others."""
    after: str | None = None
    """Only tasks with a greater id, in order of id."""
    due_by: Instant | None = None
    """Only active tasks with `stuck_due_at` at or before this instant, earliest first."""
    named: str | None = None
    """Only tasks whose id or name contains this text; case does not matter in ASCII."""
    holding: str | None = None
    """Only tasks whose name or thread contains this text; case does not matter in ASCII."""


class WaitQuery(Query):
    """Find waits, newest first."""

    status: WaitStatus | None = None
    task_id: str | None = None


class WakeQuery(Query):
    """Find wakes, newest first."""

    states: tuple[WakeState, ...] | None = None
    task_id: str | None = None
    wait_id: str | None = None
    wake_ids: tuple[str, ...] | None = None
    """Only these, in any order; unknown ids are ignored."""
    due_by: Instant | None = None
    """Only wakes with `due_at` at or before this instant, earliest first."""
    sent_since: Instant | None = None
    """Only wakes sent to `session_key` at or after this instant, earliest first."""
    session_key: str | None = None
    """Only wakes for this session; with `sent_since`, None means those without a session."""


class RunQuery(Query):
    """Find runs, newest first: by `created_at`, then by `run_id`.

    The core never creates a run with an earlier `created_at` than the task's previous run, even if
    the clock was set back.
    """

    states: tuple[RunState, ...] | None = None
    task_id: str | None = None
    task_ids: tuple[str, ...] | None = None
    """Only runs of these tasks, in any order; unknown ids are ignored."""
    role: str | None = None
    """Only runs that this role may claim: its own, and those without a role."""
    implicit: bool | None = None
    """True: only runs of implicit tasks. False: only the others."""
    oldest_first: bool = False
    session_key: str | None = None
    """Only open runs of this session, those of the most recently updated tasks first; runs of
    implicit tasks come after all others."""
    lapsed_by: Instant | None = None
    """Only runs with `lease_until` at or before this instant, earliest first."""


class EventQuery(Value):
    """Find events, oldest first."""

    task_id: str | None = None
    wait_id: str | None = None
    after: int | None = None
    """Only events with a greater id."""
    limit: int | None = None
    """Maximum number of events: the first ones after `after`, or the newest without `after`."""


class TextQuery(Query):
    """Find texts of tasks by their words.

    Texts are messages, and of a task its name, plan, request, replaced plans, and the paths that it
    made. Implicit tasks and alerts of stuck tasks are left out, except with `task_id`.
    """

    patterns: tuple[str, ...]
    """Patterns to look for, as `words` describes them. Case does not matter; parts of a text are
    looked for in the newest texts only."""
    task_id: str | None = None
    """Only messages of this task; `home` and `limit` do not matter."""


class TextPlace(NamedTuple):
    """A text of a task."""

    task_id: str
    message_id: int | None
    """None: it is no message."""


class TextMatches(NamedTuple):
    """The texts that have one pattern."""

    total: int
    """How many there are, about: those that are left out may be counted."""
    places: Sequence[TextPlace]
    """Messages newest first, then other texts; at most `limit` of each."""

"""How much a store holds, by state; what only turns were covered with is left out."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import sqlalchemy as sa

from taskmem_hookspecs import Counts, RunState, TaskStatus, WaitStatus, WakeState
from taskmem_sqlmodel.rows import IMPLICIT
from taskmem_sqlmodel.statements import EVENTS, RUNS, TASKS, WAITS, WAKES


def _counted(column: sa.Column[Any]) -> sa.Executable:
    return sa.select(column, sa.func.count()).group_by(column)


_IMPLICIT: Final = sa.text(f"tasks.{IMPLICIT}")
_IMPLICIT_TASKS: Final = (
    sa.select(TASKS.c.status, sa.func.count()).where(_IMPLICIT).group_by(TASKS.c.status)
)
_IMPLICIT_RUNS: Final = (
    sa.select(RUNS.c.state, sa.func.count())
    .join(TASKS, TASKS.c.task_id == RUNS.c.task_id)
    .where(_IMPLICIT)
    .group_by(RUNS.c.state)
)
_EVENTS: Final = sa.select(sa.func.count()).select_from(EVENTS)


def read_counts(connection: sa.Connection) -> Counts:
    """Return how much there is.

    Implicit tasks are few, and found by an index of their own: all are counted, and
    those taken off.
    """

    def count(statement: sa.Executable) -> Counter[str]:
        return Counter({row[0]: row[1] for row in connection.execute(statement)})

    tasks = count(_counted(TASKS.c.status)) - count(_IMPLICIT_TASKS)
    waits = count(_counted(WAITS.c.status))
    wakes = count(_counted(WAKES.c.state))
    runs = count(_counted(RUNS.c.state)) - count(_IMPLICIT_RUNS)
    return Counts(
        tasks={status: tasks[status] for status in TaskStatus},
        waits={status: waits[status] for status in WaitStatus},
        wakes={state: wakes[state] for state in WakeState},
        runs={state: runs[state] for state in RunState},
        events=connection.execute(_EVENTS).scalar_one(),
    )

"""The writing statements; each is built once."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from taskmem_hookspecs import RunState, WaitStatus
from taskmem_sqlmodel.columns import CodePointText
from taskmem_sqlmodel.read_statements import (
    ARTIFACTS,
    CHECKPOINTS,
    FOLDERS,
    LEDGER,
    MESSAGES,
    REVISIONS,
    RUNS,
    TASKS,
    WAITS,
    WAKES,
    is_of_home,
)
from taskmem_sqlmodel.tables import IMPLICIT_TASK, Base

INSERT: Final = {table: table.insert().inline() for table in Base.metadata.tables.values()}


def _build_versioned_update(table: sa.Table, row_id: sa.Column[Any]) -> sa.Update:
    """Return an update of the row that has the expected version; the version grows by one."""
    values = {
        column: sa.bindparam(f"new_{column.name}", type_=column.type)
        for column in table.c
        if column is not row_id and column.name != "version"
    }
    return (
        table.update()
        .where(
            row_id == sa.bindparam(f"new_{row_id.name}"),
            table.c.version == sa.bindparam("expected"),
        )
        .values({**values, table.c.version: table.c.version + 1})
    )


UPDATE: Final = {
    table: _build_versioned_update(table, row_id)
    for table, row_id in (
        (TASKS, TASKS.c.task_id),
        (WAITS, WAITS.c.wait_id),
        (WAKES, WAKES.c.wake_id),
        (RUNS, RUNS.c.run_id),
        (ARTIFACTS, ARTIFACTS.c.artifact_id),
    )
}

_HOME: Final = sa.bindparam("home", type_=CodePointText)
# If no home is bound, no row counts as another home's: a comparison with NULL is never true.
_KEPT_RUNS: Final = sa.select(RUNS.c.run_id).where(
    sa.or_(RUNS.c.state.in_((RunState.BLOCKED, RunState.REVIEW)), RUNS.c.home != _HOME)
)
DELETE_CHECKPOINTS: Final = CHECKPOINTS.delete().where(
    CHECKPOINTS.c.at < sa.bindparam("before"), CHECKPOINTS.c.run_id.not_in(_KEPT_RUNS)
)
"""Deletes checkpoints from before `before`, except those of runs that are blocked, under review or
of another home."""
_PAST_TASKS: Final = (
    sa.select(TASKS.c.task_id)
    .where(
        sa.text(f"tasks.{IMPLICIT_TASK}"),
        TASKS.c.updated_at < sa.bindparam("before"),
        is_of_home(TASKS),
        ~sa.exists().where(
            RUNS.c.task_id == TASKS.c.task_id, RUNS.c.seen_at >= sa.bindparam("before")
        ),
        ~sa.exists().where(
            WAITS.c.task_id == TASKS.c.task_id, WAITS.c.status == WaitStatus.WATCHING
        ),
    )
    .scalar_subquery()
)
_PAST_RUNS: Final = sa.select(RUNS.c.run_id).where(RUNS.c.task_id.in_(_PAST_TASKS))
FORGET_IMPLICIT: Final = (
    CHECKPOINTS.delete().where(CHECKPOINTS.c.run_id.in_(_PAST_RUNS)),
    *(
        table.delete().where(table.c.task_id.in_(_PAST_TASKS))
        for table in (
            *(MESSAGES, REVISIONS, ARTIFACTS, LEDGER, FOLDERS),
            *(WAKES, WAITS, RUNS, TASKS),
        )
    ),
)
"""Deletes, in order, the implicit tasks not touched since `before`, and all their rows."""
FORGET_WAIT: Final = tuple(
    table.delete().where(table.c.wait_id == sa.bindparam("gone", type_=CodePointText))
    for table in (WAKES, WAITS)
)
"""Deletes, in order, a wait that has no task, and its wakes."""


def build_upsert(dialect: str, table: sa.Table) -> sa.Insert:
    """Return an insert that replaces the row with the same primary key."""
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert
    wanted = insert(table)
    keys = list(table.primary_key.columns)
    values = {c.name: wanted.excluded[c.name] for c in table.c if c not in keys}
    return wanted.on_conflict_do_update(index_elements=keys, set_=values)

"""Every statement that reads, prepared once when this is imported.

An answer has its columns named as the fields of the value it is for. What a
partial index is about is written out as text: SQLite does not see that a bound
parameter says the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from taskmem_hookspecs import WakeCause
from taskmem_sqlmodel.columns import Text
from taskmem_sqlmodel.rows import IMPLICIT, OPEN_WAKE, Base
from taskmem_sqlmodel.run_rows import OPEN_RUN

_TABLES = Base.metadata.tables
TASKS: Final = _TABLES["tasks"]
MESSAGES: Final = _TABLES["task_messages"]
REVISIONS: Final = _TABLES["task_plan_revisions"]
WAITS: Final = _TABLES["waits"]
WAKES: Final = _TABLES["wakes"]
RUNS: Final = _TABLES["runs"]
CHECKPOINTS: Final = _TABLES["checkpoints"]
ARTIFACTS: Final = _TABLES["artifacts"]
LEDGER: Final = _TABLES["ledger"]
FOLDERS: Final = _TABLES["folders"]
EVENTS: Final = _TABLES["events"]
BOOKMARKS: Final = _TABLES["bookmarks"]

_LIMIT: Final = sa.bindparam("limit", type_=sa.Integer)
_TASK_ID: Final = sa.bindparam("task_id", type_=Text)


def _renamed(table: sa.Table, **names: str) -> sa.Select[Any]:
    """Select all columns, some of them under the names of their fields."""
    return sa.select(*(c.label(names.get(c.name, c.name)) for c in table.c))


def _of_task(table: sa.Table, order: sa.Column[Any]) -> sa.Select[Any]:
    """Select what a table holds of a task, in an order."""
    return sa.select(table).where(table.c.task_id == _TASK_ID).order_by(order)


EVERY: Final = {table: _renamed(table) for table in _TABLES.values()} | {
    MESSAGES: _renamed(MESSAGES, id="message_id"),
    REVISIONS: _renamed(
        REVISIONS, id="revision_id", old_plan_json="old_plan", new_plan_json="new_plan"
    ),
    EVENTS: _renamed(EVENTS, id="event_id"),
}
"""All rows of each table."""

# --- reading tasks ----------------------------------------------------------

TASK: Final = sa.select(
    TASKS,
    sa.exists().where(WAITS.c.task_id == TASKS.c.task_id).label("has_waits"),
    sa.exists()
    .where(WAKES.c.task_id == TASKS.c.task_id, sa.text(OPEN_WAKE))
    .label("has_wakes"),
    sa.exists()
    .where(RUNS.c.task_id == TASKS.c.task_id, sa.text(OPEN_RUN))
    .label("has_run"),
    sa.exists().where(ARTIFACTS.c.task_id == TASKS.c.task_id).label("has_artifacts"),
).where(TASKS.c.task_id == _TASK_ID)
"""One task, and whether there is more to read about it."""

ACTIVE_TASKS: Final = (
    sa.select(TASKS)
    .where(sa.text("status = 'active'"), TASKS.c.task_id > sa.bindparam("after"))
    .order_by(TASKS.c.task_id)
    .limit(_LIMIT)
)


@cache
def tasks(
    *,
    by_status: bool,
    by_session: bool = False,
    by_home: bool = False,
    implicit: bool | None = False,
) -> sa.Select[Any]:
    """Select tasks, most recently updated first; `implicit`: None: also such."""
    every = sa.select(TASKS).order_by(TASKS.c.updated_at.desc(), TASKS.c.task_id.desc())
    if implicit is not None:
        every = every.where(sa.text(IMPLICIT if implicit else f"NOT {IMPLICIT}"))
    some = _narrowed(every, TASKS.c.status, by_status)
    some = _narrowed(some, TASKS.c.session_key, by_session)
    return _at_home(some, TASKS, by_home).limit(_LIMIT)


@cache
def thread(*, limited: bool, said: bool = False) -> sa.Select[Any]:
    """Select the messages of a task, newest first; `said`: see the store."""
    every = EVERY[MESSAGES].where(MESSAGES.c.task_id == _TASK_ID)
    own = every.where(MESSAGES.c.id < sa.bindparam("before"))
    if said:
        kinds = sa.text("(role = 'user' OR msg_type = 'lifecycle')")
        own = own.where(MESSAGES.c.id > sa.bindparam("after"), kinds)
    return (own.limit(_LIMIT) if limited else own).order_by(MESSAGES.c.id.desc())


REVISIONS_OF_TASK: Final = (
    EVERY[REVISIONS].where(REVISIONS.c.task_id == _TASK_ID).order_by(REVISIONS.c.id)
)

# --- reading waits and wakes ------------------------------------------------

WAIT: Final = sa.select(WAITS).where(WAITS.c.wait_id == sa.bindparam("wait_id"))

OPEN_WAITS_OF_TASK: Final = sa.select(WAITS).where(
    WAITS.c.task_id == _TASK_ID, sa.text("status = 'watching'")
)

ENDED_WAITS: Final = 20
"""Waits that ended which the facts of a task hold; the linkage needs the last."""

ENDED_WAITS_OF_TASK: Final = (
    sa.select(WAITS)
    .where(WAITS.c.task_id == _TASK_ID, sa.text("status <> 'watching'"))
    .order_by(WAITS.c.changed_at.desc(), WAITS.c.wait_id.desc())
    .limit(ENDED_WAITS)
)

OPEN_WAKES_OF_TASK: Final = (
    sa.select(WAKES)
    .where(WAKES.c.task_id == _TASK_ID, sa.text(OPEN_WAKE))
    .order_by(WAKES.c.created_at, WAKES.c.wake_id)
)

OPEN_WAKES_OF_WAIT: Final = (
    sa.select(WAKES)
    .where(
        WAKES.c.wait_id == sa.bindparam("wait_id"),
        sa.text(OPEN_WAKE),
    )
    .order_by(WAKES.c.created_at, WAKES.c.wake_id)
)


@cache
def watching(*, by_home: bool) -> sa.Select[Any]:
    """Select the waits that are watching, newest first, whatever else there is."""
    every = (
        sa.select(WAITS)
        .where(sa.text("status = 'watching'"))
        .order_by(WAITS.c.created_at.desc(), WAITS.c.wait_id.desc())
        .limit(_LIMIT)
    )
    return _at_home(every, WAITS, by_home)


@cache
def waits(*, by_status: bool, by_task: bool, by_home: bool = False) -> sa.Select[Any]:
    """Select waits, newest first."""
    every = sa.select(WAITS).order_by(WAITS.c.created_at.desc(), WAITS.c.wait_id.desc())
    some = _narrowed(every, WAITS.c.status, by_status)
    some = _narrowed(some, WAITS.c.task_id, by_task)
    return _at_home(some, WAITS, by_home).limit(_LIMIT)


@cache
def wakes(
    *, by_states: bool, by_task: bool, by_home: bool = False, is_open: bool = False
) -> sa.Select[Any]:
    """Select wakes, newest first; `states` is a list; `is_open`: only of open ones."""
    every = sa.select(WAKES).order_by(WAKES.c.created_at.desc(), WAKES.c.wake_id.desc())
    some = _narrowed(every, WAKES.c.task_id, by_task)
    some = _in_states(some, WAKES, by_states, OPEN_WAKE if is_open else None)
    return _at_home(some, WAKES, by_home).limit(_LIMIT)


WAKES_BY_ID: Final = sa.select(WAKES).where(
    WAKES.c.wake_id.in_(sa.bindparam("wake_ids", expanding=True))
)

_SENT_AT: Final = sa.func.min(WAKES.c.sent_at)


@cache
def sent_since(*, by_home: bool) -> sa.Select[Any]:
    """Select when messages went out to a session, oldest first."""
    every = (
        sa.select(_SENT_AT.label("sent_at"))
        .where(
            sa.text("sent_at IS NOT NULL"),
            WAKES.c.sent_at >= sa.bindparam("since"),
            WAKES.c.cause != WakeCause.RUN.value,
            WAKES.c.session_key.is_not_distinct_from(sa.bindparam("session_key")),
        )
        .group_by(sa.func.coalesce(WAKES.c.delivery_id, WAKES.c.wake_id))
        .order_by(_SENT_AT)
    )
    return _at_home(every, WAKES, by_home)


# --- reading runs -----------------------------------------------------------

RUN: Final = sa.select(RUNS).where(RUNS.c.run_id == sa.bindparam("run_id"))

OPEN_RUN_OF_TASK: Final = sa.select(RUNS).where(
    RUNS.c.task_id == _TASK_ID, sa.text(OPEN_RUN)
)

RUNS_OF_TASKS: Final = sa.select(RUNS).where(
    RUNS.c.task_id.in_(sa.bindparam("task_ids", expanding=True))
)
ARTIFACTS_OF_TASK: Final = _of_task(ARTIFACTS, ARTIFACTS.c.artifact_id)
LEDGER_OF_TASK: Final = _of_task(LEDGER, LEDGER.c.path)
FOLDERS_OF_TASK: Final = _of_task(FOLDERS, FOLDERS.c.path)


@cache
def runs(
    *,
    by_states: bool,
    by_task: bool,
    by_home: bool = False,
    is_open: bool = False,
    implicit: bool | None = None,
) -> sa.Select[Any]:
    """Select runs, newest first; `states` is a list; `is_open`: only of open ones."""
    every = sa.select(RUNS).order_by(RUNS.c.created_at.desc(), RUNS.c.run_id.desc())
    if implicit is not None:
        of_such = sa.exists().where(
            TASKS.c.task_id == RUNS.c.task_id, sa.text(f"tasks.{IMPLICIT}")
        )
        every = every.where(of_such if implicit else ~of_such)
    some = _narrowed(every, RUNS.c.task_id, by_task)
    some = _in_states(some, RUNS, by_states, OPEN_RUN if is_open else None)
    return _at_home(some, RUNS, by_home).limit(_LIMIT)


@cache
def session_runs(*, by_home: bool) -> sa.Select[Any]:
    """Select the open runs of a session: of the latest task first, of implicit last."""
    every = (
        sa.select(RUNS)
        .join(TASKS, TASKS.c.task_id == RUNS.c.task_id)
        .where(
            RUNS.c.session_key == sa.bindparam("session_key"),
            sa.text(f"runs.{OPEN_RUN}"),
        )
        .order_by(TASKS.c.implicit, TASKS.c.updated_at.desc(), TASKS.c.task_id.desc())
    )
    return _at_home(every, RUNS, by_home)


@cache
def queued_runs(*, by_role: bool) -> sa.Select[Any]:
    """Select the queued runs, oldest first; those for anybody are everybody's."""
    every = (
        sa.select(RUNS)
        .where(sa.text("state = 'queued'"))
        .order_by(RUNS.c.created_at, RUNS.c.run_id)
        .limit(_LIMIT)
    )
    role = sa.bindparam("role", type_=Text)
    mine = sa.or_(RUNS.c.role.is_(None), RUNS.c.role == role)
    return every.where(mine) if by_role else every


LARGEST: Final = 2**31 - 1
"""No checkpoint has this number."""
CHECKPOINTS_OF_RUN: Final = (
    sa.select(CHECKPOINTS)
    .where(CHECKPOINTS.c.run_id == sa.bindparam("run_id"))
    .where(CHECKPOINTS.c.number < sa.bindparam("before", type_=sa.Integer))
    .order_by(CHECKPOINTS.c.number.desc())
    .limit(_LIMIT)
)
_HOLDING: Final = sa.bindparam("holding", type_=Text)
CHECKPOINTS_HOLDING: Final = CHECKPOINTS_OF_RUN.where(
    # Every database has it, and unlike LIKE it minds the case everywhere.
    sa.func.replace(CHECKPOINTS.c.body, _HOLDING, "") != CHECKPOINTS.c.body
)

# --- reading what comes due -------------------------------------------------


@dataclass(frozen=True, eq=False)
class Dues:
    """What comes due in a table."""

    where: str
    """What holds for the rows that come due at all."""
    at: sa.Column[Any]
    key: sa.Column[Any]


STUCK: Final = Dues(
    "status = 'active' AND stuck_due_at IS NOT NULL",
    TASKS.c.stuck_due_at,
    TASKS.c.task_id,
)
OWED: Final = Dues("due_at IS NOT NULL", WAKES.c.due_at, WAKES.c.wake_id)
LEASED: Final = Dues("lease_until IS NOT NULL", RUNS.c.lease_until, RUNS.c.run_id)


@cache
def due(dues: Dues, *, by_home: bool) -> sa.Executable:
    """Select what is due, first due first."""
    come = sa.select(dues.at.table).where(dues.at <= sa.bindparam("now"))
    return _first(come, dues, by_home)


@cache
def next_due(dues: Dues, *, by_home: bool) -> sa.Executable:
    """Select what is due next, whenever that is."""
    return _first(sa.select(dues.at.table), dues, by_home)


def _first(
    every: sa.Select[Any],
    dues: Dues,
    wanted: bool,  # noqa: FBT001 - as for `_at_home`
) -> sa.Executable:
    """Keep the first of all; if wanted, of those of the parameter `home` and of none.

    Each of the two has its stretch of an index; with "or", all that is due in other
    homes would be read. PostgreSQL reads the stretch of none in order only where it is
    told to sort by the home, too.
    """
    every = every.where(sa.text(dues.where))
    if not wanted:
        return every.order_by(dues.at, dues.key).limit(_LIMIT)
    home = dues.at.table.c.home
    stretches = (home.is_(None), home == sa.bindparam("home", type_=Text))
    firsts = [
        every.where(at).order_by(home, dues.at, dues.key).limit(_LIMIT).subquery()
        for at in stretches
    ]
    both = sa.union_all(*map(sa.select, firsts))
    return both.order_by(dues.at.name, dues.key.name).limit(_LIMIT)


EVENTS_AFTER: Final = (
    EVERY[EVENTS]
    .where(EVENTS.c.id > sa.bindparam("after"))
    .order_by(EVENTS.c.id)
    .limit(_LIMIT)
)


@cache
def last_events(*, by_task: bool) -> sa.Select[Any]:
    """Select events, newest first."""
    every = EVERY[EVENTS].order_by(EVENTS.c.id.desc())
    return _narrowed(every, EVENTS.c.task_id, by_task).limit(_LIMIT)


EVENTS_OF_WAIT: Final = (
    EVERY[EVENTS]
    .where(EVENTS.c.wait_id == sa.bindparam("wait_id"))
    .order_by(EVENTS.c.id.desc())
    .limit(_LIMIT)
)

BOOKMARK: Final = sa.select(BOOKMARKS.c.value).where(
    BOOKMARKS.c.name == sa.bindparam("name")
)


def _narrowed(
    statement: sa.Select[Any],
    column: sa.Column[Any],
    wanted: bool,  # noqa: FBT001 - always by position, next to its column
) -> sa.Select[Any]:
    """Keep the rows whose column is the parameter of the same name, if wanted."""
    return statement.where(column == sa.bindparam(column.name)) if wanted else statement


def _in_states(
    statement: sa.Select[Any],
    table: sa.Table,
    wanted: bool,  # noqa: FBT001 - likewise
    index: str | None,
) -> sa.Select[Any]:
    """Keep the rows in the parameter `states`, if wanted, by what an index is about."""
    if not wanted:
        return statement
    some = statement.where(table.c.state.in_(sa.bindparam("states", expanding=True)))
    return some if index is None else some.where(sa.text(index))


def _at_home(
    statement: sa.Select[Any],
    table: sa.Table,
    wanted: bool,  # noqa: FBT001 - likewise
) -> sa.Select[Any]:
    """Keep the rows of the parameter `home` and those of none, if wanted."""
    home = sa.bindparam("home", type_=Text)
    here = sa.or_(table.c.home.is_(None), table.c.home == home)
    return statement.where(here) if wanted else statement

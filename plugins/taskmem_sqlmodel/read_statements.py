"""The reading statements; each is built once.

Columns are labelled with the field names of the value. The condition of a partial index is written
as literal text: SQLite does not match it with a bound parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from taskmem_hookspecs import (
    Bookmark,
    Checkpoint,
    EventQuery,
    LedgerEntry,
    Message,
    PlanRevision,
    RunQuery,
    RunState,
    TaskQuery,
    WaitQuery,
    WaitStatus,
    WakeQuery,
    WakeState,
    WorkFolder,
)
from taskmem_hookspecs.value import Value
from taskmem_sqlmodel.columns import CodePointText, ContainedText, InstantText
from taskmem_sqlmodel.run_tables import OPEN_RUN, QUEUED_RUN
from taskmem_sqlmodel.tables import IMPLICIT_TASK, OPEN_WAKE, Base

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
_TASK_ID: Final = sa.bindparam("task_id", type_=CodePointText)


def _select_renamed(table: sa.Table, **names: str) -> sa.Select[Any]:
    """Select all columns, with some relabelled to field names."""
    return sa.select(*(c.label(names.get(c.name, c.name)) for c in table.c))


ROW_QUERIES: Final = {table: _select_renamed(table) for table in _TABLES.values()} | {
    MESSAGES: _select_renamed(MESSAGES, id="message_id"),
    REVISIONS: _select_renamed(
        REVISIONS, id="revision_id", old_plan_json="old_plan", new_plan_json="new_plan"
    ),
    EVENTS: _select_renamed(EVENTS, id="event_id"),
}
"""For each table the statement that selects all rows."""

# --- reading tasks ----------------------------------------------------------

TASK: Final = sa.select(
    TASKS,
    sa.exists().where(WAITS.c.task_id == TASKS.c.task_id).label("has_waits"),
    sa.exists().where(WAKES.c.task_id == TASKS.c.task_id, sa.text(OPEN_WAKE)).label("has_wakes"),
    sa.exists().where(RUNS.c.task_id == TASKS.c.task_id, sa.text(OPEN_RUN)).label("has_run"),
    sa.exists().where(ARTIFACTS.c.task_id == TASKS.c.task_id).label("has_artifacts"),
).where(TASKS.c.task_id == _TASK_ID)
"""One task, with flags for which related rows exist."""

OPEN_WAITS_OF_TASK: Final = sa.select(WAITS).where(
    WAITS.c.task_id == _TASK_ID, sa.text("status = 'watching'")
)

ENDED_WAITS: Final = 20
"""How many ended waits `TaskFacts` contains; the linkage needs the latest."""

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

OPEN_RUN_OF_TASK: Final = sa.select(RUNS).where(RUNS.c.task_id == _TASK_ID, sa.text(OPEN_RUN))

ARTIFACTS_OF_TASK: Final = (
    sa.select(ARTIFACTS).where(ARTIFACTS.c.task_id == _TASK_ID).order_by(ARTIFACTS.c.artifact_id)
)

# --- reading by a key --------------------------------------------------------

WAIT: Final = sa.select(WAITS).where(WAITS.c.wait_id == sa.bindparam("wait_id"))
RUN: Final = sa.select(RUNS).where(RUNS.c.run_id == sa.bindparam("run_id"))

_RECORDS: Final[dict[type, tuple[sa.Column[Any], sa.Column[Any]]]] = {
    Bookmark: (BOOKMARKS.c.name, BOOKMARKS.c.name),
    Message: (MESSAGES.c.task_id, MESSAGES.c.id),
    PlanRevision: (REVISIONS.c.task_id, REVISIONS.c.id),
    LedgerEntry: (LEDGER.c.task_id, LEDGER.c.path),
    WorkFolder: (FOLDERS.c.task_id, FOLDERS.c.path),
    Checkpoint: (CHECKPOINTS.c.run_id, CHECKPOINTS.c.number),
}
"""For each record class its owner column and its sort column."""


@cache
def select_records(kind: type, given: frozenset[str]) -> sa.Select[Any]:
    """Return the statement that selects an owner's records, newest first."""
    owner, number = _RECORDS[kind]
    every = ROW_QUERIES[owner.table].where(owner == sa.bindparam("owner_id", type_=CodePointText))
    if "before" in given:
        every = every.where(number < sa.bindparam("before"))
    if "said_after" in given:
        kinds = sa.text("(role = 'user' OR msg_type = 'lifecycle')")
        every = every.where(number > sa.bindparam("said_after"), kinds)
    if "holding" in given:
        holding, body = sa.bindparam("holding", type_=CodePointText), CHECKPOINTS.c.body
        # `replace` is case-sensitive on every database; LIKE is not.
        every = every.where(sa.func.replace(body, holding, "") != body)
    return _order_rows(every, given, number.desc())


# --- finding -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DueColumns:
    """The columns by which rows of a table come due."""

    where: str
    """Condition of the rows that can come due."""
    by: str
    """The query field with the instant to compare with."""
    at: sa.Column[Any]
    key: sa.Column[Any]


_PLURALS: Final = {"states": "state", "task_ids": "task_id", "wake_ids": "wake_id"}
"""Query fields with several values, and the column of each."""
STUCK_TASKS: Final = DueColumns(
    "status = 'active' AND stuck_due_at IS NOT NULL",
    "due_by",
    TASKS.c.stuck_due_at,
    TASKS.c.task_id,
)
OWED_WAKES: Final = DueColumns("due_at IS NOT NULL", "due_by", WAKES.c.due_at, WAKES.c.wake_id)
LEASED_RUNS: Final = DueColumns(
    "lease_until IS NOT NULL", "lapsed_by", RUNS.c.lease_until, RUNS.c.run_id
)


def select_tasks(query: TaskQuery) -> sa.Executable:
    """Return the statement that finds tasks."""
    index = IMPLICIT_TASK if query.implicit else f"NOT {IMPLICIT_TASK}"
    named = name_given_fields(query) - {"implicit"}
    return _select_tasks(named, None if query.implicit is None else index)


@cache
def _select_tasks(given: frozenset[str], index: str | None) -> sa.Executable:
    every = _select_asked(TASKS, given, index)
    if "after" in given:
        every = every.where(TASKS.c.task_id > sa.bindparam("after", type_=CodePointText))
    if "named" in given:
        every = every.where(sa.or_(*(_has(c, "named") for c in (TASKS.c.task_id, TASKS.c.name))))
    if "holding" in given:
        has_message = sa.exists().where(
            MESSAGES.c.task_id == TASKS.c.task_id, _has(MESSAGES.c.content, "holding")
        )
        every = every.where(sa.or_(_has(TASKS.c.name, "holding"), has_message))
    if "due_by" in given:
        return _select_first_due(every, given, STUCK_TASKS)
    if "after" in given:
        return _filter_home(every, TASKS, given, TASKS.c.task_id)
    latest = (TASKS.c.updated_at.desc(), TASKS.c.task_id.desc())
    return _filter_home(every, TASKS, given, *latest)


def _has(column: sa.Column[Any], name: str) -> sa.ColumnElement[bool]:
    return column.ilike(sa.bindparam(name, type_=ContainedText), escape="\\")


def select_waits(query: WaitQuery) -> sa.Executable:
    """Return the statement that finds waits."""
    if query.status is WaitStatus.WATCHING:
        return _select_waits(name_given_fields(query) - {"status"}, "status = 'watching'")
    return _select_waits(name_given_fields(query), None)


@cache
def _select_waits(given: frozenset[str], index: str | None) -> sa.Executable:
    every = _select_asked(WAITS, given, index)
    return _filter_home(every, WAITS, given, *_order_newest(WAITS.c.wait_id))


def select_wakes(query: WakeQuery) -> sa.Executable:
    """Return the statement that finds wakes."""
    open_ = {WakeState.DUE, WakeState.SENT}
    is_open = query.states is not None and {*query.states} <= open_
    return _select_wakes(name_given_fields(query), OPEN_WAKE if is_open else None)


@cache
def _select_wakes(given: frozenset[str], index: str | None) -> sa.Executable:
    every = _select_asked(WAKES, given, index)
    order = () if "wake_ids" in given else _order_newest(WAKES.c.wake_id)
    if "sent_since" in given:
        since = sa.bindparam("sent_since", type_=InstantText)
        every = every.where(sa.text("sent_at IS NOT NULL"), WAKES.c.sent_at >= since)
        order = (WAKES.c.sent_at, WAKES.c.wake_id)
        if "session_key" not in given:
            every = every.where(WAKES.c.session_key.is_(None))
    if "due_by" in given:
        return _select_first_due(every, given, OWED_WAKES)
    return _filter_home(every, WAKES, given, *order)


def select_runs(query: RunQuery) -> sa.Executable:
    """Return the statement that finds runs."""
    if query.states == (RunState.QUEUED,):
        return _select_runs(name_given_fields(query) - {"states"}, QUEUED_RUN, query.implicit)
    ended = query.states is None or any(state.terminal for state in query.states)
    return _select_runs(name_given_fields(query), None if ended else OPEN_RUN, query.implicit)


@cache
def _select_runs(
    given: frozenset[str],
    index: str | None,
    implicit: bool | None,  # noqa: FBT001 - a field of the query
) -> sa.Executable:
    every = _select_asked(RUNS, given, index)
    order = () if "task_ids" in given else _order_newest(RUNS.c.run_id)
    if implicit is not None:
        of_such = sa.exists().where(
            TASKS.c.task_id == RUNS.c.task_id, sa.text(f"tasks.{IMPLICIT_TASK}")
        )
        every = every.where(of_such if implicit else ~of_such)
    if "oldest_first" in given:
        order = (RUNS.c.created_at, RUNS.c.run_id)
    if "session_key" in given:
        every = every.join(TASKS, TASKS.c.task_id == RUNS.c.task_id)
        every = every.where(sa.text(f"runs.{OPEN_RUN}"))
        latest = (TASKS.c.updated_at.desc(), TASKS.c.task_id.desc())
        order = (TASKS.c.implicit, *latest)
    if "lapsed_by" in given:
        return _select_first_due(every, given, LEASED_RUNS)
    return _filter_home(every, RUNS, given, *order)


def select_events(query: EventQuery) -> sa.Executable:
    """Return the statement that finds events: newest first, or oldest first with `after`."""
    return _select_events(name_given_fields(query))


@cache
def _select_events(given: frozenset[str]) -> sa.Executable:
    every = _select_asked(EVENTS, given, None)
    if "after" not in given:
        return _order_rows(every, given, EVENTS.c.id.desc())
    after = EVENTS.c.id > sa.bindparam("after")
    return _order_rows(every.where(after), given, EVENTS.c.id)


def is_of_home(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition: the row is of the bound home or of no home; true if `home` is None."""
    # A comparison with NULL is never true.
    return (table.c.home != sa.bindparam("home", type_=CodePointText)).is_not(sa.true())


def name_given_fields(query: Value) -> frozenset[str]:
    """Return the names of the query fields that restrict the result."""
    fields = vars(query).items()
    return frozenset(n for n, v in fields if v is not None and v is not False)


def _select_asked(table: sa.Table, given: frozenset[str], index: str | None) -> sa.Select[Any]:
    """Select the rows whose columns equal the query's fields of the same name.

    `_PLURALS` match any of several values, and `role` also matches rows without a role.

    `index` is the condition of a partial index that covers them; None: there is none.
    """
    every = ROW_QUERIES[table] if index is None else ROW_QUERIES[table].where(sa.text(index))
    for name in sorted(given - {"home"}):
        column = table.c.get(_PLURALS.get(name, name))
        if column is None:
            continue
        asked = column == sa.bindparam(name)
        if name in _PLURALS:
            asked = column.in_(sa.bindparam(name, expanding=True))
        elif name == "role":
            asked = sa.or_(column.is_(None), asked)
        every = every.where(asked)
    return every


def _order_newest(key: sa.Column[Any]) -> tuple[sa.ColumnElement[Any], ...]:
    return key.table.c.created_at.desc(), key.desc()


def _order_rows(
    every: sa.Select[Any], given: frozenset[str], *order: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    """Sort the rows, and apply the query's limit, if it has one."""
    every = every.order_by(*order)
    return every.limit(_LIMIT) if "limit" in given else every


def _filter_home(
    every: sa.Select[Any], table: sa.Table, given: frozenset[str], *order: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    """Keep the rows of the query's home and of no home, if it names one; then sort them."""
    home = sa.bindparam("home", type_=CodePointText)
    here = sa.or_(table.c.home.is_(None), table.c.home == home)
    return _order_rows(every.where(here) if "home" in given else every, given, *order)


def _select_first_due(
    every: sa.Select[Any], given: frozenset[str], dues: DueColumns
) -> sa.Executable:
    """Select due rows, earliest first: of the query's home and of no home, if it names one.

    Each of the two is one range of an index; an OR would read all due rows of other homes.
    PostgreSQL reads the range of no home in order only if `home` is in the sort key.
    """
    every = every.where(sa.text(dues.where), dues.at <= sa.bindparam(dues.by))
    if "home" not in given:
        return _order_rows(every, given, dues.at, dues.key)
    home = dues.at.table.c.home
    stretches = (home.is_(None), home == sa.bindparam("home", type_=CodePointText))
    firsts = [
        _order_rows(every.where(at), given, home, dues.at, dues.key).subquery() for at in stretches
    ]
    both = sa.union_all(*map(sa.select, firsts))
    both = both.order_by(dues.at.name, dues.key.name)
    return both.limit(_LIMIT) if "limit" in given else both

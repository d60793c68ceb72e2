"""The reading statements, and the values made of their rows.

Each statement is built once. Columns are labelled with the field names of the value. The condition
of a partial index is written as literal text: SQLite does not match it with a bound parameter.
Values are made one by one, so that a broken row affects no other.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.exc import OperationalError

from taskmem_hookspecs import (
    RECORD_PREFIX,
    RESERVED_METADATA,
    Artifact,
    Bookmark,
    Checkpoint,
    Counts,
    Event,
    EventQuery,
    LedgerEntry,
    Linkage,
    Message,
    PlanRevision,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskmemError,
    TaskQuery,
    TaskStatus,
    Wait,
    WaitQuery,
    WaitStatus,
    Wake,
    WakeQuery,
    WakeState,
    WorkFolder,
)
from taskmem_hookspecs.model import Value
from taskmem_sqlmodel import tables
from taskmem_sqlmodel.tables import (
    BLOCKED_TASK,
    IMPLICIT_TASK,
    OPEN_RUN,
    OPEN_TASK,
    OPEN_WAIT,
    OPEN_WAKE,
    QUEUED_RUN,
    RARER_RUN,
    RARER_WAIT,
    RARER_WAKE,
    Base,
    CodePointText,
    ContainedText,
    InstantText,
)

log = logging.getLogger(__name__)
ValueT = TypeVar("ValueT")

_TABLES: Final = Base.metadata.tables
"""The tables of the models by their names."""
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

TASK_BY_ID: Final = sa.select(
    TASKS,
    sa.exists().where(WAITS.c.task_id == TASKS.c.task_id).label("has_waits"),
    sa.exists().where(WAKES.c.task_id == TASKS.c.task_id, sa.text(OPEN_WAKE)).label("has_wakes"),
    sa.exists().where(RUNS.c.task_id == TASKS.c.task_id, sa.text(OPEN_RUN)).label("has_run"),
    sa.exists().where(ARTIFACTS.c.task_id == TASKS.c.task_id).label("has_artifacts"),
).where(TASKS.c.task_id == _TASK_ID)
"""One task, with flags for which related rows exist."""

_OPEN_WAITS_OF_TASK: Final = sa.select(WAITS).where(
    WAITS.c.task_id == _TASK_ID, sa.text("status = 'watching'")
)

_ENDED_WAITS: Final = 20
"""How many ended waits `TaskFacts` contains; the linkage needs the latest."""

_ENDED_WAITS_OF_TASK: Final = (
    sa.select(WAITS)
    .where(WAITS.c.task_id == _TASK_ID, sa.text("status <> 'watching'"))
    .order_by(WAITS.c.changed_at.desc(), WAITS.c.wait_id.desc())
    .limit(_ENDED_WAITS)
)

_OPEN_WAKES_OF_TASK: Final = (
    sa.select(WAKES)
    .where(WAKES.c.task_id == _TASK_ID, sa.text(OPEN_WAKE))
    .order_by(WAKES.c.created_at, WAKES.c.wake_id)
)

_OPEN_RUN_OF_TASK: Final = sa.select(RUNS).where(RUNS.c.task_id == _TASK_ID, sa.text(OPEN_RUN))

_ARTIFACTS_OF_TASK: Final = (
    sa.select(ARTIFACTS).where(ARTIFACTS.c.task_id == _TASK_ID).order_by(ARTIFACTS.c.artifact_id)
)

# --- reading by a key --------------------------------------------------------

WAIT_BY_ID: Final = sa.select(WAITS).where(WAITS.c.wait_id == sa.bindparam("wait_id"))
MESSAGES_BY_ID: Final = ROW_QUERIES[MESSAGES].where(
    MESSAGES.c.id.in_(sa.bindparam("message_ids", expanding=True))
)
RUN_BY_ID: Final = sa.select(RUNS).where(RUNS.c.run_id == sa.bindparam("run_id"))

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
class _DueColumns:
    """The columns by which rows of a table come due."""

    where: str
    """Condition of the rows that can come due."""
    by: str
    """The query field with the instant to compare with."""
    at: sa.Column[Any]
    key: sa.Column[Any]


_READY_TASK: Final = "status = 'active' AND blocked_by = '[]'"
"""Condition: the task is active, and no other blocks it."""
_PLURALS: Final = {"states": "state", "task_ids": "task_id", "wake_ids": "wake_id"}
"""Query fields with several values, and the column of each."""
_STUCK_TASKS: Final = _DueColumns(
    "status = 'active' AND stuck_due_at IS NOT NULL",
    "due_by",
    TASKS.c.stuck_due_at,
    TASKS.c.task_id,
)
_OWED_WAKES: Final = _DueColumns("due_at IS NOT NULL", "due_by", WAKES.c.due_at, WAKES.c.wake_id)
_LEASED_RUNS: Final = _DueColumns(
    "lease_until IS NOT NULL", "lapsed_by", RUNS.c.lease_until, RUNS.c.run_id
)


def select_tasks(query: TaskQuery) -> sa.Executable:
    """Return the statement that finds tasks."""
    index = IMPLICIT_TASK if query.implicit else f"NOT {IMPLICIT_TASK}"
    named = _name_given_fields(query) - {"implicit"}
    if query.blocker is not None:
        return _select_tasks(named, BLOCKED_TASK)
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
    if "blocker" in given:
        every = every.where(_has(sa.type_coerce(TASKS.c.blocked_by, sa.Text), "blocker"))
    if "ready" in given:
        every = every.where(sa.text(_READY_TASK))
    if "due_by" in given:
        return _select_first_due(every, given, _STUCK_TASKS)
    if "after" in given:
        return _filter_home(every, TASKS, given, TASKS.c.task_id)
    latest = (TASKS.c.updated_at.desc(), TASKS.c.task_id.desc())
    return _filter_home(every, TASKS, given, *latest)


def _has(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[bool]:
    return column.ilike(sa.bindparam(name, type_=ContainedText), escape="\\")


def select_waits(query: WaitQuery) -> sa.Executable:
    """Return the statement that finds waits."""
    if query.status is WaitStatus.WATCHING:
        return _select_waits(_name_given_fields(query) - {"status"}, "status = 'watching'")
    return _select_waits(_name_given_fields(query), None)


@cache
def _select_waits(given: frozenset[str], index: str | None) -> sa.Executable:
    every = _select_asked(WAITS, given, index)
    return _filter_home(every, WAITS, given, *_order_newest(WAITS.c.wait_id))


def select_wakes(query: WakeQuery) -> sa.Executable:
    """Return the statement that finds wakes."""
    open_ = {WakeState.DUE, WakeState.SENT}
    is_open = query.states is not None and {*query.states} <= open_
    return _select_wakes(_name_given_fields(query), OPEN_WAKE if is_open else None)


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
        return _select_first_due(every, given, _OWED_WAKES)
    return _filter_home(every, WAKES, given, *order)


def select_runs(query: RunQuery) -> sa.Executable:
    """Return the statement that finds runs."""
    if query.states == (RunState.QUEUED,):
        return _select_runs(_name_given_fields(query) - {"states"}, QUEUED_RUN, query.implicit)
    ended = query.states is None or any(state.terminal for state in query.states)
    return _select_runs(_name_given_fields(query), None if ended else OPEN_RUN, query.implicit)


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
    if "task_home" in given:
        asked = TASKS.c.home == sa.bindparam("task_home", type_=CodePointText)
        is_there = sa.or_(TASKS.c.home.is_(None), asked)
        every = every.where(sa.exists().where(TASKS.c.task_id == RUNS.c.task_id, is_there))
    if "oldest_first" in given:
        order = (RUNS.c.created_at, RUNS.c.run_id)
    if "session_key" in given:
        every = every.join(TASKS, TASKS.c.task_id == RUNS.c.task_id)
        every = every.where(sa.text(f"runs.{OPEN_RUN}"))
        latest = (TASKS.c.updated_at.desc(), TASKS.c.task_id.desc())
        order = (TASKS.c.implicit, *latest)
    if "lapsed_by" in given:
        return _select_first_due(every, given, _LEASED_RUNS)
    return _filter_home(every, RUNS, given, *order)


def select_events(query: EventQuery) -> sa.Executable:
    """Return the statement that finds events: newest first, or oldest first with `after`."""
    return _select_events(_name_given_fields(query))


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


def _name_given_fields(query: Value) -> frozenset[str]:
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
    every: sa.Select[Any], given: frozenset[str], dues: _DueColumns
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


@cache
def select_counts(column: sa.Column[Any], some: str = "") -> sa.Executable:
    """Return the statement that counts rows by state; `some`: the condition of an index by it."""
    counts = sa.select(column, sa.func.count()).group_by(column)
    return counts.where(sa.text(some)) if some else counts


@cache
def select_number(table: sa.Table) -> sa.Select[Any]:
    """Return the statement that counts all rows, many times as fast as by state."""
    return sa.select(sa.func.count()).select_from(table)


_IS_IMPLICIT: Final = sa.text(f"tasks.{IMPLICIT_TASK}")
_IMPLICIT_STATUS: Final = TASKS.c.status.concat(sa.literal_column("''"))
"""SQLite groups by an index of the bare column, and would look up every task for it."""
IMPLICIT_TASKS: Final = (
    sa.select(_IMPLICIT_STATUS, sa.func.count()).where(_IS_IMPLICIT).group_by(_IMPLICIT_STATUS)
)
_PAST_RECORDS: Final = f"{RECORD_PREFIX[:-1]}{chr(ord(RECORD_PREFIX[-1]) + 1)}"
UNCOUNTED_RUNS: Final = sa.select(
    *(sa.func.count(sa.case((RUNS.c.state == state, 1))) for state in RunState)
).where(
    sa.or_(
        RUNS.c.task_id.in_(sa.select(TASKS.c.task_id).where(_IS_IMPLICIT)),
        sa.and_(RUNS.c.run_id >= RECORD_PREFIX, RUNS.c.run_id < _PAST_RECORDS),
    )
)
"""A column for each state: grouping rows of several indexes would sort them."""


_AGENT: Final = sa.bindparam("agent", type_=CodePointText)
_FIRST_KEY: Final = sa.bindparam("first", type_=CodePointText)
_PAST_KEY: Final = sa.bindparam("past", type_=CodePointText)


@cache
def select_open_tasks(*, by_agent: bool) -> sa.Select[Any]:
    """Return the statement that counts the open tasks of a maker, up to a limit."""
    of = TASKS.c.registrar_host, TASKS.c.registrar_session
    return _select_count(TASKS, OPEN_TASK, *of, by_agent=by_agent)


@cache
def select_open_waits(*, by_agent: bool) -> sa.Select[Any]:
    """Return the statement that counts the open waits of a maker, up to a limit."""
    of = WAITS.c.host, WAITS.c.session_key
    return _select_count(WAITS, OPEN_WAIT, *of, by_agent=by_agent)


def _select_count(
    table: sa.Table, open_: str, host: sa.Column[Any], session: sa.Column[Any], *, by_agent: bool
) -> sa.Select[Any]:
    of = host.in_(sa.bindparam("hosts", expanding=True))
    rows = sa.select(sa.literal(1)).where(sa.text(open_), of, is_of_home(table))
    if by_agent:
        # One index range holds the agent's own session and all sessions below it.
        own = sa.or_(session == _AGENT, session >= _FIRST_KEY)
        rows = rows.where(session >= _AGENT, session < _PAST_KEY, own)
    some = rows.limit(sa.bindparam("limit", type_=sa.Integer)).subquery()
    return sa.select(sa.func.count()).select_from(some)


def read_counts(connection: sa.Connection) -> Counts:
    """Count all rows, then subtract implicit tasks, their runs, and records.

    Implicit tasks are few and have their own index, so this is faster than a filter. What is in the
    state in which most are is all that is in no other.
    """

    def count(statement: sa.Executable) -> Counter[str]:
        return Counter({row[0]: row[1] for row in connection.execute(statement)})

    def count_all(column: sa.Column[Any], usual: str, rarer: str) -> Counter[str]:
        counts = count(select_counts(column, rarer))
        number: int = connection.execute(select_number(column.table)).scalar_one()
        return counts + Counter({usual: number - counts.total()})

    tasks = count(select_counts(TASKS.c.status)) - count(IMPLICIT_TASKS)
    waits = count_all(WAITS.c.status, WaitStatus.RESOLVED, RARER_WAIT)
    wakes = count_all(WAKES.c.state, WakeState.ACKNOWLEDGED, RARER_WAKE)
    uncounted = dict(zip(RunState, connection.execute(UNCOUNTED_RUNS).one(), strict=True))
    runs = count_all(RUNS.c.state, RunState.COMPLETED, RARER_RUN) - Counter[str](uncounted)
    return Counts(
        tasks={status: tasks[status] for status in TaskStatus},
        waits={status: waits[status] for status in WaitStatus},
        wakes={state: wakes[state] for state in WakeState},
        runs={state: runs[state] for state in RunState},
    )


_SEE_DOCTOR: Final = "`taskmem doctor` tells what to do"
_MOST_BATCH_ROWS: Final = 500
_MOST_BROKEN: Final = 1_000
"""How many broken rows end a scan."""
_ROW_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)
"""Errors raised while making a value of a row that no version has written."""


class _RowUnreadable(Exception):
    """A row that cannot become a value. The message names the row and the reason."""


class RowKind(Generic[ValueT]):
    """Makes values of the rows of one table."""

    def __init__(
        self,
        table: sa.Table,
        of: type[ValueT],
        *keys: str,
        make: Callable[[tables.Row], ValueT] | None = None,
    ) -> None:
        """Set the table, the class of its values, and the fields of its key.

        `make` makes a value of a row; None: the class does.
        """
        self.table = table
        self._make: Callable[[tables.Row], ValueT] = make or (lambda row: of(**row))
        self._keys = keys

    def read_row(self, row: tables.Row) -> ValueT:
        """Return the value of a row.

        Raises:
            _RowUnreadable: The row is broken.
        """
        try:
            if row.get("version", 1) == 0:
                # It stands for a value that was never stored, which would be inserted again.
                raise ValueError("version: 0")
            return self._make(row)
        except _ROW_ERRORS as error:
            which = " ".join(ascii(row[key]) for key in self._keys)
            sentence = f"{self.table.name} {which} cannot be read ({_describe_reason(error)})"
            raise _RowUnreadable(sentence) from error

    def read_by_id(self, row: tables.Row, missing: type[TaskmemError]) -> ValueT:
        """Return the value of a row that was requested by id.

        Raises:
            TaskmemError: The row is broken. The error has the class for a missing row.
        """
        try:
            return self.read_row(row)
        except _RowUnreadable as broken:
            raise missing(f"The row {broken}; {_SEE_DOCTOR}.") from broken


class BrokenRowFilter:
    """Skips broken rows, and logs each of them once."""

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def read_whole_rows(self, kind: RowKind[ValueT], found: Iterable[tables.Row]) -> list[ValueT]:
        """Return the values of the rows that are not broken."""
        values: list[ValueT] = []
        for row in found:
            try:
                values.append(kind.read_row(row))
            except _RowUnreadable as broken:
                if str(broken) not in self._reported:
                    self._reported.add(str(broken))
                    log.warning("%s and is set aside; %s", broken, _SEE_DOCTOR)
        return values

    def read_up_to(
        self,
        limit: int | None,
        kind: RowKind[ValueT],
        ask: Callable[[int | None], Sequence[tables.Row]],
    ) -> Sequence[ValueT]:
        """Return up to `limit` values; read more rows if some are broken.

        `ask` returns at most the given number of rows; None: all.
        """
        most = limit
        while True:
            found = ask(most)
            values = self.read_whole_rows(kind, found)
            if limit is None or most is None or len(found) < most:
                return values
            if len(values) >= limit:
                return values[:limit]
            most *= 4


def _describe_reason(error: Exception) -> str:
    """Return the column and the reason why a row is broken, without the stored value."""
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ascii(str(error))[1:-1]


def _make_task(row: tables.Row) -> Task:
    """Convert a row to a task; a row edited by hand may lack keys of its linkage."""
    keys = dict(row["metadata"])
    waits, at, state = (keys.pop(key, None) for key in RESERVED_METADATA)
    linkage = Linkage(
        active_wait_ids=tuple(waits or ()),
        last_wait_event_at=None if at is None else datetime.fromtimestamp(at, UTC),
        last_wait_state=WaitStatus(state) if state else None,
    )
    fields: tables.Params = {**row, "metadata": keys, "linkage": linkage}
    return Task(**fields)


def _make_run(row: tables.Row) -> Run:
    """Convert a row to a run."""
    fields: tables.Params = dict(row)
    parts: tables.Params = {
        part: of(**{column: fields.pop(column) for column in of.model_fields})
        for part, of in Run.PARTS.items()
    }
    return Run(**fields, **parts)


TASK_ROWS: Final = RowKind(TASKS, Task, "task_id", make=_make_task)
WAIT_ROWS: Final = RowKind(WAITS, Wait, "wait_id")
WAKE_ROWS: Final = RowKind(WAKES, Wake, "wake_id")
RUN_ROWS: Final = RowKind(RUNS, Run, "run_id", make=_make_run)
ARTIFACT_ROWS: Final = RowKind(ARTIFACTS, Artifact, "artifact_id")
EVENT_ROWS: Final = RowKind(EVENTS, Event, "event_id")

RELATED_ROWS: Final[Mapping[str, tuple[RowKind[Any], Sequence[sa.Select[Any]]]]] = {
    "waits": (WAIT_ROWS, (_OPEN_WAITS_OF_TASK, _ENDED_WAITS_OF_TASK)),
    "wakes": (WAKE_ROWS, (_OPEN_WAKES_OF_TASK,)),
    "run": (RUN_ROWS, (_OPEN_RUN_OF_TASK,)),
    "artifacts": (ARTIFACT_ROWS, (_ARTIFACTS_OF_TASK,)),
}
"""By the name of a flag of `TASK_BY_ID`: the rows beside a task, and the statements for them."""
RECORD_ROWS: Final[Mapping[type, RowKind[Any]]] = {
    LedgerEntry: RowKind(LEDGER, LedgerEntry, "task_id", "path"),
    WorkFolder: RowKind(FOLDERS, WorkFolder, "task_id", "path"),
    Bookmark: RowKind(BOOKMARKS, Bookmark, "name"),
    PlanRevision: RowKind(REVISIONS, PlanRevision, "revision_id"),
    Checkpoint: RowKind(CHECKPOINTS, Checkpoint, "run_id", "number"),
    Message: RowKind(MESSAGES, Message, "message_id"),
}
"""For each record class of tasks and runs how its rows are read."""

ROW_KINDS: Final[Sequence[RowKind[Any]]] = (
    TASK_ROWS,
    WAIT_ROWS,
    WAKE_ROWS,
    RUN_ROWS,
    ARTIFACT_ROWS,
    *RECORD_ROWS.values(),
    EVENT_ROWS,
)
"""All kinds; those that wakes depend on first, those with the most rows last."""


class _RowScan(NamedTuple):
    """Result of a scan of all rows."""

    broken: Sequence[str]
    whole: bool
    """False if the scan ended before the last row."""


def find_broken_rows(connection: sa.Connection, over: Callable[[], bool]) -> _RowScan:
    """Scan all rows until `over()` is true, and describe the broken ones."""
    _allow_any_text(connection)
    lent = connection.execution_options(yield_per=_MOST_BATCH_ROWS)
    broken: list[str] = []
    for kind in ROW_KINDS:
        with lent.execute(ROW_QUERIES[kind.table]) as every:
            for row in every.mappings():
                try:
                    kind.read_row(row)
                except _RowUnreadable as error:
                    broken.append(str(error))
                if over() or len(broken) == _MOST_BROKEN:
                    return _RowScan(broken, whole=False)
    return _RowScan(broken, whole=True)


def fetch_rows(
    connection: sa.Connection, statement: sa.Executable, named: tables.Params
) -> Sequence[tables.Row]:
    """Return all rows of a statement, also if a text is not valid UTF-8."""
    prepared = tables.prepare(statement, connection.dialect.name)
    try:
        if prepared.has_lists:
            return connection.execute(statement, named).mappings().all()
        cursor = connection.connection.cursor()
        cursor.execute(prepared.text, prepared.bind(named))
        return prepared.decode(cursor.fetchall())
    except (OperationalError, sqlite3.OperationalError) as error:
        # The driver raises this error itself, without a SQLite code.
        if "Could not decode" not in str(error) or not _allow_any_text(connection):
            raise
        return fetch_rows(connection, statement, named)


def _allow_any_text(connection: sa.Connection) -> bool:
    """Make SQLite return invalid UTF-8 as bytes, which validation rejects.

    Return True if this changed the connection; False on PostgreSQL or if already set.
    """
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection) or driver.text_factory is _decode_or_keep:
        return False
    driver.text_factory = _decode_or_keep
    return True


def _decode_or_keep(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored

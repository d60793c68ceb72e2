"""Retention: delete ended rows, oldest first, and release their room; a little at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from taskmem_hookspecs import DroppedRows, RunState, StoreSize, TaskStatus, WaitStatus, WakeState
from taskmem_sqlmodel.database import Database
from taskmem_sqlmodel.reading import CHECKPOINTS, EVENTS, RUNS, TASKS, WAITS, WAKES, is_of_home
from taskmem_sqlmodel.tables import Base, CodePointText, InstantText

_MOST_BATCH_ROWS: Final = 500
"""Rows deleted in one transaction; it bounds how long other writers wait."""
_EVENTS_PER_PAGE: Final = 2_000
"""Event-log entries read in one page."""
SPARE: Final = 4
"""A SQLite file may keep one page in so many free, for later rows."""
MOST_FREED_PAGES: Final = 500
"""Pages released in one transaction; moving them takes as long as writing them."""
_MOST_RELEASES: Final = 32
"""Transactions of one call that release pages."""
_ROW_BYTES: Final = 28
"""Overhead of a row in PostgreSQL. Bytes."""

_BEFORE_INSTANT: Final = sa.bindparam("before", type_=InstantText)
_HOME: Final = sa.bindparam("home", type_=CodePointText)
_UPTO_ID: Final = sa.bindparam("upto", type_=sa.Integer)
_LIMIT: Final = sa.bindparam("limit", type_=sa.Integer)
_CLOSED_STATUSES: Final = [status.value for status in TaskStatus if status.terminal]
_ENDED_STATES: Final = [state.value for state in RunState if state.terminal]
_OPEN_WAKES: Final = [WakeState.DUE.value, WakeState.SENT.value]
_WATCHING_STATUS: Final = WaitStatus.WATCHING.value


def _is_task_closed(task_id: sa.Column[Any]) -> sa.ColumnElement[bool]:
    """Return the condition: the task of a row has ended."""
    return sa.exists().where(TASKS.c.task_id == task_id, TASKS.c.status.in_(_CLOSED_STATUSES))


def _has_no_open_task(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition: a row has no task, or its task has ended."""
    return sa.or_(table.c.task_id.is_(None), _is_task_closed(table.c.task_id))


def _is_before(table: sa.Table, *columns: str) -> sa.ColumnElement[bool]:
    later = (sa.func.coalesce(table.c[c], table.c.created_at) for c in columns)
    return sa.and_(
        table.c.created_at < _BEFORE_INSTANT, *(each < _BEFORE_INSTANT for each in later)
    )


_LATER_RUN: Final = RUNS.alias("later")
_IS_RESUMABLE: Final = sa.and_(
    sa.exists().where(TASKS.c.task_id == RUNS.c.task_id, TASKS.c.status == TaskStatus.FAILED.value),
    ~sa.exists().where(
        _LATER_RUN.c.task_id == RUNS.c.task_id,
        sa.tuple_(_LATER_RUN.c.created_at, _LATER_RUN.c.run_id)
        > sa.tuple_(RUNS.c.created_at, RUNS.c.run_id),
    ),
)
"""Condition: the run is the newest of a failed task."""
_OLD_CHECKPOINT: Final = sa.and_(
    CHECKPOINTS.c.at < _BEFORE_INSTANT,
    sa.exists().where(
        RUNS.c.run_id == CHECKPOINTS.c.run_id,
        RUNS.c.state.in_(_ENDED_STATES),
        is_of_home(RUNS),
        _is_task_closed(RUNS.c.task_id),
        ~_IS_RESUMABLE,
    ),
)
_OLD_WAKE: Final = sa.and_(
    _is_before(WAKES, "sent_at", "acknowledged_at"),
    WAKES.c.state.not_in(_OPEN_WAKES),
    is_of_home(WAKES),
    _has_no_open_task(WAKES),
    ~sa.exists().where(WAITS.c.wait_id == WAKES.c.wait_id, WAITS.c.status == _WATCHING_STATUS),
)
_LATER_WAIT: Final = WAITS.alias("later")
_OLD_WAIT: Final = sa.and_(
    _is_before(WAITS, "changed_at"),
    WAITS.c.status != _WATCHING_STATUS,
    is_of_home(WAITS),
    _has_no_open_task(WAITS),
    ~sa.exists().where(WAKES.c.wait_id == WAITS.c.wait_id),
    sa.or_(
        WAITS.c.task_id.is_(None),
        sa.exists().where(
            _LATER_WAIT.c.task_id == WAITS.c.task_id,
            _LATER_WAIT.c.status != _WATCHING_STATUS,
            sa.tuple_(_LATER_WAIT.c.changed_at, _LATER_WAIT.c.wait_id)
            > sa.tuple_(WAITS.c.changed_at, WAITS.c.wait_id),
        ),
    ),
)
_LATER_EVENT: Final = EVENTS.alias("later")
_NEWEST_EVENT: Final = sa.select(sa.func.max(EVENTS.alias("every").c.id)).scalar_subquery()
_OLD_EVENT: Final = sa.and_(
    EVENTS.c.at < _BEFORE_INSTANT,
    # If `upto` is NULL, no comparison is true.
    (EVENTS.c.id > _UPTO_ID).is_not(sa.true()),
    # Keep the newest entry: the database continues its numbering.
    EVENTS.c.id < _NEWEST_EVENT,
    ~sa.exists().where(
        TASKS.c.task_id == EVENTS.c.task_id,
        sa.or_(TASKS.c.status.not_in(_CLOSED_STATUSES), TASKS.c.home != _HOME),
    ),
    sa.or_(
        EVENTS.c.task_id.is_(None),
        ~sa.exists().where(TASKS.c.task_id == EVENTS.c.task_id),
        sa.exists().where(
            _LATER_EVENT.c.task_id == EVENTS.c.task_id,
            _LATER_EVENT.c.kind == EVENTS.c.kind,
            _LATER_EVENT.c.id > EVENTS.c.id,
        ),
    ),
    ~sa.exists().where(
        WAITS.c.wait_id == EVENTS.c.wait_id,
        sa.or_(WAITS.c.status == _WATCHING_STATUS, WAITS.c.home != _HOME),
    ),
)
_OLD_ROWS: Final = (
    (CHECKPOINTS, _OLD_CHECKPOINT, (CHECKPOINTS.c.at,)),
    (WAKES, _OLD_WAKE, (WAKES.c.created_at,)),
    (WAITS, _OLD_WAIT, (WAITS.c.created_at,)),
    (EVENTS, _OLD_EVENT, ()),
)
"""For each table the condition of deletable rows and their order; deleted in this sequence."""


def _list_keys(table: sa.Table) -> list[sa.Column[Any]]:
    return list(table.primary_key.columns)


_KEY_QUERIES: Final = {
    table: sa.select(*_list_keys(table))
    .where(old)
    .order_by(*order, *_list_keys(table))
    .limit(_LIMIT)
    for table, old, order in _OLD_ROWS
}
_PAGE_OF_EVENTS: Final = (
    sa.select(EVENTS.c.id, EVENTS.c.at < _BEFORE_INSTANT, _OLD_EVENT)
    .where(EVENTS.c.id > sa.bindparam("after"))
    .order_by(EVENTS.c.id)
    .limit(_EVENTS_PER_PAGE)
)
_DELETIONS: Final = {
    table: table.delete().where(
        sa.tuple_(*_list_keys(table)).in_(sa.bindparam("keys", expanding=True)), old
    )
    for table, old, _ in _OLD_ROWS
}


_OTHER_HOMES: Final = sa.select(
    sa.or_(*(sa.exists().where(each.c.home != _HOME) for each in (TASKS, WAITS, WAKES)))
)


class RetentionMixin:
    """The retention methods of `SqlStore`: delete ended rows, measure the size."""

    _database: Database

    def drop_ended(
        self,
        before: datetime,
        limit: int,
        home: str | None = None,
        upto: int | None = None,
        after: int = 0,
    ) -> DroppedRows:
        """Delete up to `limit` ended rows of each table, oldest first; return how many.

        Rows are chosen while others write, so the conditions are checked again on deletion.
        """
        given = {"before": before, "limit": limit, "home": home, "upto": upto}
        dropped: dict[str, int] = {}
        last = after
        for table, _, _ in _OLD_ROWS:
            with self._database.lend_reader() as reader:
                keys = _choose_keys(reader, table, {**given, "after": after})
            if table is EVENTS and keys:
                ((last,),) = keys[-1:]
            for start in range(0, len(keys), _MOST_BATCH_ROWS):
                some = {**given, "keys": keys[start : start + _MOST_BATCH_ROWS]}
                with self._database.lend_writer() as writer:
                    gone = writer.execute(_DELETIONS[table], some).rowcount
                dropped[table.name] = dropped.get(table.name, 0) + gone
        self._release_pages()
        rows = {name: number for name, number in dropped.items() if number}
        return DroppedRows(rows=rows, last_event=last)

    def _release_pages(self) -> None:
        """Shorten a SQLite file by free pages beyond the spare ones."""
        if self._database.dialect != "sqlite":
            return
        for _ in range(_MOST_RELEASES):
            with self._database.lend_reader() as reader:
                many = count_excess_pages(
                    _read_pragma(reader, "page_count"), _read_pragma(reader, "freelist_count")
                )
            if not many:
                return
            with self._database.lend_writer() as writer:
                # Each page is a step; `execute` would make only the first. It has a transaction of
                # its own.
                writer.connection.cursor().executescript(f"PRAGMA incremental_vacuum({many})")

    def measure(self, home: str | None = None) -> StoreSize:
        """Return the bytes in use without free pages, and whether other homes have rows."""
        with self._database.lend_reader() as reader:
            shared = home is not None and reader.execute(_OTHER_HOMES, {"home": home})
            return StoreSize(
                bytes=self._count_bytes(reader), shared=bool(shared and shared.scalar_one())
            )

    def _count_bytes(self, reader: sa.Connection) -> int:
        if self._database.dialect != "sqlite":
            return sum(_count_table_bytes(reader, name) for name in Base.metadata.tables)
        pages, free, size = (
            _read_pragma(reader, name) for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size


def count_excess_pages(pages: int, free: int) -> int:
    """Return how many of the free pages one transaction releases."""
    return max(0, min(free - pages // SPARE, MOST_FREED_PAGES))


def _read_pragma(connection: sa.Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())


def _choose_keys(
    connection: sa.Connection, table: sa.Table, given: Mapping[str, Any]
) -> Sequence[tuple[Any, ...]]:
    """Return the keys of the oldest deletable rows."""
    if table is EVENTS:
        found = _find_events(connection, given)
        return [key for key, _ in zip(found, range(given["limit"]), strict=False)]
    return [tuple(row) for row in connection.execute(_KEY_QUERIES[table], given)]


def _find_events(connection: sa.Connection, given: Mapping[str, Any]) -> Iterator[tuple[int]]:
    """Yield the keys of deletable event-log entries, oldest first.

    Entries are in order of time, except after clock jumps. So the search ends at the first page
    without an old entry.
    """
    after = given["after"]
    while page := connection.execute(_PAGE_OF_EVENTS, {**given, "after": after}).all():
        yield from ((number,) for number, _, droppable in page if droppable)
        after = page[-1][0]
        if not any(old for _, old, _ in page):
            return


def _count_table_bytes(connection: sa.Connection, name: str) -> int:
    one = sa.table(name)
    row = sa.func.pg_column_size(sa.literal_column(one.name, sa.Text))
    total = sa.func.sum(row + _ROW_BYTES)
    found = connection.execute(sa.select(sa.func.coalesce(total, 0)).select_from(one))
    return int(found.scalar_one())

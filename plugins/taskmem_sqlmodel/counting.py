"""Count rows by state or by maker. Implicit tasks and their runs are not counted."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from taskmem_hookspecs import Counts, Maker, RunState, Task, TaskStatus, Wait, WaitStatus, WakeState
from taskmem_sqlmodel.columns import CodePointText
from taskmem_sqlmodel.read_statements import RUNS, TASKS, WAITS, WAKES, is_of_home
from taskmem_sqlmodel.run_tables import RARER_RUN
from taskmem_sqlmodel.tables import IMPLICIT_TASK, OPEN_TASK, OPEN_WAIT, RARER_WAIT, RARER_WAKE


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
IMPLICIT_RUNS: Final = (
    sa.select(RUNS.c.state, sa.func.count())
    .where(RUNS.c.task_id.in_(sa.select(TASKS.c.task_id).where(_IS_IMPLICIT)))
    .group_by(RUNS.c.state)
)


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


class CountMixin:
    """The counting methods of `SqlStore`."""

    def _open_snapshot(self) -> AbstractContextManager[sa.Connection]:
        """Lend a connection that sees one snapshot."""
        raise NotImplementedError

    def count(self) -> Counts:
        """Return the number of tasks, waits, wakes and runs by state."""
        with self._open_snapshot() as connection:
            return _read_counts(connection)

    def count_open(
        self, kind: type[Task | Wait], by: Maker, limit: int, home: str | None = None
    ) -> int:
        """Return how many open tasks or waits a maker has, at most `limit`."""
        ask = select_open_tasks if kind is Task else select_open_waits
        statement = ask(by_agent=by.agent is not None)
        named = {"hosts": list(by.hosts), "limit": limit, "home": home}
        if by.agent is not None:
            # The semicolon is the character after the colon.
            named |= {"agent": by.agent, "first": f"{by.agent}:", "past": f"{by.agent};"}
        with self._open_snapshot() as connection:
            return int(connection.execute(statement, named).scalar_one())


def _read_counts(connection: sa.Connection) -> Counts:
    """Count all rows, then subtract implicit tasks and their runs.

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
    runs = count_all(RUNS.c.state, RunState.COMPLETED, RARER_RUN) - count(IMPLICIT_RUNS)
    return Counts(
        tasks={status: tasks[status] for status in TaskStatus},
        waits={status: waits[status] for status in WaitStatus},
        wakes={state: wakes[state] for state in WakeState},
        runs={state: runs[state] for state in RunState},
    )

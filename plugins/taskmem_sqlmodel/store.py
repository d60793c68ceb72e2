"""The store: each question is one prepared statement, or a few in one snapshot."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from taskmem_hookspecs import (
    Change,
    Checkpoint,
    Event,
    LedgerEntry,
    Message,
    PlanRevision,
    Run,
    RunNotFound,
    RunState,
    Task,
    TaskFacts,
    TaskNotFound,
    TaskStatus,
    Wait,
    WaitNotFound,
    WaitStatus,
    Wake,
    WakeState,
    WorkFolder,
)
from taskmem_sqlmodel import reading, rows, statements
from taskmem_sqlmodel.commit import GroupCommit
from taskmem_sqlmodel.counting import Counting
from taskmem_sqlmodel.dropping import Dropping
from taskmem_sqlmodel.opening import BUSY_TIMEOUT, open_database
from taskmem_sqlmodel.reading import Value, fetch
from taskmem_sqlmodel.translation import translated

_LARGEST: Final = 2**63 - 1
_OPEN_WAKES: Final = {WakeState.DUE, WakeState.SENT}


class SqlStore(Counting, Dropping):
    """Plays `TaskStore` on SQLite and on PostgreSQL."""

    def __init__(self, url: str, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        """Open the database of a URL, made or migrated where it needs to be.

        Args:
            url: `sqlite:////path/to/file.db`, or `postgresql://…`.
            busy_timeout: How long to wait for another process's lock. Seconds.

        Raises:
            SettingsInvalid: The URL names no database.
            StoreTooNew: A newer version wrote it; it was left untouched.
        """
        self._database = open_database(url, busy_timeout)
        self._commits = GroupCommit(self._database)
        self._set_aside = reading.SetAside()
        self._idle: deque[sa.Connection] = deque()

    # --- tasks --------------------------------------------------------------

    def read_task(self, task_id: str) -> TaskFacts:
        """Return a task with its waits and its open wakes."""
        named = {"task_id": task_id}
        waits: list[rows.Row] = []
        wakes: Sequence[rows.Row] = ()
        runs: Sequence[rows.Row] = ()
        artifacts: Sequence[rows.Row] = ()
        with self._reading() as connection:
            found: dict[str, Any] = {}
            for row in fetch(connection, statements.TASK, named):
                found = dict(row)
            if found.pop("has_waits", False):
                waits += fetch(connection, statements.OPEN_WAITS_OF_TASK, named)
                waits += fetch(connection, statements.ENDED_WAITS_OF_TASK, named)
            if found.pop("has_wakes", False):
                wakes = fetch(connection, statements.OPEN_WAKES_OF_TASK, named)
            if found.pop("has_run", False):
                runs = fetch(connection, statements.OPEN_RUN_OF_TASK, named)
            if found.pop("has_artifacts", False):
                artifacts = fetch(connection, statements.ARTIFACTS_OF_TASK, named)
        if not found:
            raise TaskNotFound(
                f"There is no task {task_id}; list the tasks to find the right id."
            )
        return TaskFacts(
            task=reading.TASK.read_by_id(found, TaskNotFound),
            waits=tuple(
                sorted(
                    self._set_aside.leave_out(reading.WAIT, waits),
                    key=lambda wait: (wait.created_at, wait.wait_id),
                )
            ),
            wakes=tuple(self._set_aside.leave_out(reading.WAKE, wakes)),
            run=next(iter(self._set_aside.leave_out(reading.RUN, runs)), None),
            artifacts=tuple(self._set_aside.leave_out(reading.ARTIFACT, artifacts)),
        )

    def wakes_of_wait(self, wait_id: str) -> Sequence[Wake]:
        """Return the wakes of a wait that are due or sent, oldest first."""
        return self._all(reading.WAKE, statements.OPEN_WAKES_OF_WAIT, wait_id=wait_id)

    def read_thread(
        self,
        task_id: str,
        limit: int | None = None,
        said_after: int | None = None,
        before: int | None = None,
    ) -> Sequence[Message]:
        """Return the newest messages of a task, oldest first."""
        said = said_after is not None
        statement = statements.thread(limited=limit is not None, said=said)
        given = {"task_id": task_id, "after": said_after, "before": before or _LARGEST}
        return self._all(reading.MESSAGE, statement, limit, **given)[::-1]

    def read_revisions(self, task_id: str) -> Sequence[PlanRevision]:
        """Return the revisions of a task's plan, oldest first."""
        statement = statements.REVISIONS_OF_TASK
        return self._all(reading.REVISION, statement, task_id=task_id)

    def list_tasks(
        self,
        status: TaskStatus | None,
        limit: int,
        home: str | None = None,
        session_key: str | None = None,
        *,
        implicit: bool | None = False,
    ) -> Sequence[Task]:
        """Return tasks, most recently updated first."""
        statement = statements.tasks(
            by_status=status is not None,
            by_session=session_key is not None,
            by_home=home is not None,
            implicit=implicit,
        )
        given = {"status": _word(status), "session_key": session_key, "home": home}
        return self._all(reading.TASK, statement, **given, limit=limit)

    def active_tasks(self, after: str, limit: int) -> Sequence[Task]:
        """Return active tasks whose id is greater than `after`, in order of id."""
        return self._all(
            reading.TASK, statements.ACTIVE_TASKS, after=after, limit=limit
        )

    def stuck_due(
        self, now: datetime, limit: int, home: str | None = None
    ) -> Sequence[str]:
        """Return the ids of active tasks whose `stuck_due_at` has come, in order."""
        due = self._due(reading.TASK, statements.STUCK, now, limit, home)
        return [task.task_id for task in due]

    def next_stuck_due(self, home: str | None = None) -> datetime | None:
        """Return the earliest `stuck_due_at` of an active task."""
        return self._next_due(reading.TASK, statements.STUCK, home)

    # --- waits and wakes ----------------------------------------------------

    def read_wait(self, wait_id: str) -> Wait:
        """Return one wait."""
        for row in self._read(statements.WAIT, wait_id=wait_id):
            return reading.WAIT.read_by_id(row, WaitNotFound)
        raise WaitNotFound(
            f"There is no wait {wait_id}; smart_wait and the wake name it."
        )

    def list_waits(
        self,
        status: WaitStatus | None,
        task_id: str | None,
        limit: int,
        home: str | None = None,
    ) -> Sequence[Wait]:
        """Return waits, newest first."""
        if status is WaitStatus.WATCHING and task_id is None:
            statement = statements.watching(by_home=home is not None)
        else:
            statement = statements.waits(
                by_status=status is not None,
                by_task=task_id is not None,
                by_home=home is not None,
            )
        given = {"status": _word(status), "task_id": task_id, "home": home}
        return self._all(reading.WAIT, statement, **given, limit=limit)

    def list_wakes(
        self,
        states: Collection[WakeState] | None,
        task_id: str | None,
        limit: int,
        home: str | None = None,
    ) -> Sequence[Wake]:
        """Return wakes, newest first."""
        statement = statements.wakes(
            by_states=states is not None,
            by_task=task_id is not None,
            by_home=home is not None,
            is_open={*(states or ())} <= _OPEN_WAKES,
        )
        words = sorted(state.value for state in states or ())
        given = {"states": words, "task_id": task_id, "home": home}
        return self._all(reading.WAKE, statement, **given, limit=limit)

    def read_wakes(self, wake_ids: Collection[str]) -> Sequence[Wake]:
        """Return the wakes with these ids; an unknown id is passed over."""
        return self._all(reading.WAKE, statements.WAKES_BY_ID, wake_ids=list(wake_ids))

    def due_wakes(
        self, now: datetime, limit: int, home: str | None = None
    ) -> Sequence[Wake]:
        """Return the wakes whose `due_at` has come, first due first."""
        return self._due(reading.WAKE, statements.OWED, now, limit, home)

    def next_wake_due(self, home: str | None = None) -> datetime | None:
        """Return the earliest `due_at` of a wake."""
        return self._next_due(reading.WAKE, statements.OWED, home)

    def sent_since(
        self, session_key: str | None, since: datetime, home: str | None = None
    ) -> Sequence[datetime]:
        """Return when messages went out to a session since then, oldest first."""
        statement = statements.sent_since(by_home=home is not None)
        found = self._read(statement, session_key=session_key, since=since, home=home)
        return [row["sent_at"] for row in found if isinstance(row["sent_at"], datetime)]

    # --- runs ---------------------------------------------------------------

    def read_run(self, run_id: str) -> Run:
        """Return one run."""
        for row in self._read(statements.RUN, run_id=run_id):
            return reading.RUN.read_by_id(row, RunNotFound)
        raise RunNotFound(f"There is no run {run_id}; ask with task_status.")

    def list_runs(
        self,
        states: Collection[RunState] | None,
        task_id: str | None,
        limit: int,
        home: str | None = None,
        *,
        implicit: bool | None = None,
    ) -> Sequence[Run]:
        """Return runs, newest first."""
        statement = statements.runs(
            by_states=states is not None,
            by_task=task_id is not None,
            by_home=home is not None,
            is_open=not any(state.terminal for state in states or ()),
            implicit=implicit,
        )
        words = sorted(state.value for state in states or ())
        given = {"states": words, "task_id": task_id, "home": home}
        return self._all(reading.RUN, statement, **given, limit=limit)

    def session_runs(self, session_key: str, home: str | None = None) -> Sequence[Run]:
        """Return the runs of a session that have not ended, the latest first."""
        statement = statements.session_runs(by_home=home is not None)
        return self._all(reading.RUN, statement, session_key=session_key, home=home)

    def runs_of(self, task_ids: Collection[str]) -> Sequence[Run]:
        """Return every run of these tasks."""
        named = list(task_ids)
        return self._all(reading.RUN, statements.RUNS_OF_TASKS, task_ids=named)

    def queued_runs(self, role: str | None, limit: int) -> Sequence[Run]:
        """Return the queued runs that a role may claim, oldest first."""
        statement = statements.queued_runs(by_role=role is not None)
        return self._all(reading.RUN, statement, role=role, limit=limit)

    def lapsed_runs(
        self, now: datetime, limit: int, home: str | None = None
    ) -> Sequence[Run]:
        """Return the runs whose `lease_until` has come, first due first."""
        return self._due(reading.RUN, statements.LEASED, now, limit, home)

    def next_lapse(self, home: str | None = None) -> datetime | None:
        """Return the earliest `lease_until` of a run."""
        return self._next_due(reading.RUN, statements.LEASED, home)

    def read_checkpoints(
        self,
        run_id: str,
        limit: int,
        *,
        before: int | None = None,
        holding: str | None = None,
    ) -> Sequence[Checkpoint]:
        """Return the newest checkpoints of a run, oldest first."""
        statement = statements.CHECKPOINTS_OF_RUN
        if holding:
            statement = statements.CHECKPOINTS_HOLDING
        return self._all(
            reading.CHECKPOINT,
            statement,
            run_id=run_id,
            limit=limit,
            before=statements.LARGEST if before is None else before,
            holding=holding,
        )[::-1]

    def read_ledger(self, task_id: str) -> Sequence[LedgerEntry]:
        """Return what a task made, in order of the paths."""
        return self._all(reading.LEDGER, statements.LEDGER_OF_TASK, task_id=task_id)

    def read_folders(self, task_id: str) -> Sequence[WorkFolder]:
        """Return the folders that the tools of a task used, in order of the paths."""
        return self._all(reading.FOLDER, statements.FOLDERS_OF_TASK, task_id=task_id)

    # --- the rest -----------------------------------------------------------

    def list_events(self, after: int, limit: int) -> Sequence[Event]:
        """Return events with a greater id than `after`, oldest first."""
        return self._all(reading.EVENT, statements.EVENTS_AFTER, limit, after=after)

    def last_events(self, task_id: str | None, limit: int) -> Sequence[Event]:
        """Return the newest events, oldest first."""
        statement = statements.last_events(by_task=task_id is not None)
        return self._all(reading.EVENT, statement, task_id=task_id, limit=limit)[::-1]

    def wait_events(self, wait_id: str, limit: int) -> Sequence[Event]:
        """Return the newest events of a wait, oldest first."""
        statement = statements.EVENTS_OF_WAIT
        return self._all(reading.EVENT, statement, limit, wait_id=wait_id)[::-1]

    def read_bookmark(self, name: str) -> str | None:
        """Return the value of a bookmark."""
        for row in self._read(statements.BOOKMARK, name=name):
            return str(row["value"])
        return None

    def commit(self, change: Change) -> None:
        """Write all of a change, durably, or none of it."""
        self._commits.commit(change)

    def close(self) -> None:
        """Let go of every connection."""
        while self._idle:
            self._idle.pop().close()
        self._commits.close()
        self._database.close()

    def _read(self, statement: sa.Executable, **named: Any) -> Sequence[rows.Row]:  # noqa: ANN401 - what SQLAlchemy takes
        with self._reading() as connection:
            return fetch(connection, statement, named)

    def _all(
        self,
        kind: reading.Kind[Value],
        statement: sa.Executable,
        limit: int | None = None,
        **named: Any,  # noqa: ANN401 - likewise
    ) -> Sequence[Value]:
        def ask(most: int | None) -> Sequence[rows.Row]:
            return self._read(statement, limit=most, **named)

        return self._set_aside.up_to(limit, kind, ask)

    def _due(
        self,
        kind: reading.Kind[Value],
        dues: statements.Dues,
        now: datetime,
        limit: int,
        home: str | None,
    ) -> Sequence[Value]:
        statement = statements.due(dues, by_home=home is not None)
        return self._all(kind, statement, limit, now=now, home=home)

    def _next_due(
        self, kind: reading.Kind[Any], dues: statements.Dues, home: str | None
    ) -> datetime | None:
        statement = statements.next_due(dues, by_home=home is not None)
        first = self._all(kind, statement, 1, home=home)
        return next((getattr(row, dues.at.name) for row in first), None)

    @contextmanager
    def _reading(self) -> Generator[sa.Connection]:
        """Lend a connection that sees one snapshot; one that fails is not kept."""
        self._database.require_in_place()
        with translated():
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._database.reader()
            try:
                with connection.begin():
                    yield connection
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)


def _word(status: TaskStatus | WaitStatus | None) -> str | None:
    return None if status is None else status.value

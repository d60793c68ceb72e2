"""Define `MemoryStore`, a `TaskStore` in memory, for fast tests."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.errors import (
    Conflict,
    NotAllowed,
    RunNotFound,
    TaskNotFound,
    WaitNotFound,
)
from taskmem_hookspecs.evidence import Artifact, LedgerEntry, WorkFolder
from taskmem_hookspecs.model import (
    Bookmark,
    Counts,
    Event,
    Maker,
    Message,
    PlanRevision,
    Task,
    TaskFacts,
    TaskStatus,
    Wait,
    WaitStatus,
    Wake,
    WakeState,
)
from taskmem_hookspecs.queries import FOREVER, EventQuery, RunQuery, TaskQuery, WaitQuery, WakeQuery
from taskmem_hookspecs.roles import RecordT
from taskmem_hookspecs.runs import Checkpoint, Run, RunState
from taskmem_hookspecs.testing.memory_dropping import Dropping, is_watching
from taskmem_hookspecs.testing.memory_rows import (
    append_lines,
    check_checkpoints,
    check_keys,
    check_tasks,
    filter_by_home,
    filter_by_query,
    is_by,
    is_within,
    list_open_runs,
    raise_versions,
    recency_key,
    select_due,
    select_known_waits,
    select_messages,
    sort_by_key,
    sort_newest_first,
    take_newest,
)


class MemoryStore(Dropping):
    """Implements `TaskStore` in memory."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tasks: dict[str, Task] = {}
        self._waits: dict[str, Wait] = {}
        self._wakes: dict[str, Wake] = {}
        self._runs: dict[str, Run] = {}
        self._artifacts: dict[str, Artifact] = {}
        self._checkpoints: dict[tuple[str, int], Checkpoint] = {}
        self._messages: list[Message] = []
        self._revisions: list[PlanRevision] = []
        self._events: list[Event] = []
        self._bookmarks: dict[str, Bookmark] = {}
        self._ledger: dict[tuple[str, str], LedgerEntry] = {}
        self._folders: dict[tuple[str, str], WorkFolder] = {}

    def read_task(self, task_id: str) -> TaskFacts:
        """Return a task with its waits, wakes, run and artifacts."""
        with self._lock:
            if task_id not in self._tasks:
                raise TaskNotFound(f"There is no task {task_id}; list the tasks.")
            made = [a for _, a in sorted(self._artifacts.items()) if a.task_id == task_id]
            own_waits = [w for w in self._waits.values() if w.task_id == task_id]
            waits = sort_newest_first(own_waits, "wait_id")
            own_wakes = [w for w in self._wakes.values() if w.task_id == task_id]
            wakes = sort_newest_first(own_wakes, "wake_id")
            open_wakes = [w for w in wakes if w.state in (WakeState.DUE, WakeState.SENT)]
            return TaskFacts(
                task=self._tasks[task_id],
                waits=select_known_waits(waits),
                wakes=tuple(reversed(open_wakes)),
                run=next(iter(list_open_runs(self._runs, task_id)), None),
                artifacts=tuple(made),
            )

    def read_wait(self, wait_id: str) -> Wait:
        """Return one wait."""
        with self._lock:
            if wait_id not in self._waits:
                raise WaitNotFound(f"There is no wait {wait_id}; see smart_wait.")
            return self._waits[wait_id]

    def read_run(self, run_id: str) -> Run:
        """Return one run."""
        with self._lock:
            if run_id not in self._runs:
                raise RunNotFound(f"There is no run {run_id}; ask with task_status.")
            return self._runs[run_id]

    def read_records(
        self,
        kind: type[RecordT],
        owner_id: str,
        limit: int | None = None,
        *,
        before: int | None = None,
        said_after: int | None = None,
        holding: str | None = None,
    ) -> Sequence[RecordT]:
        """Return the last records of a task, the last checkpoints of a run, or a bookmark."""
        kept: dict[type, tuple[str, Callable[[], Iterable[Any]]]] = {
            Bookmark: ("name", self._bookmarks.values),
            Message: ("task_id", lambda: select_messages(self._messages, said_after, before)),
            PlanRevision: ("task_id", lambda: self._revisions),
            LedgerEntry: ("task_id", lambda: sort_by_key(self._ledger)),
            WorkFolder: ("task_id", lambda: sort_by_key(self._folders)),
            Checkpoint: ("run_id", lambda: sort_by_key(self._checkpoints)),
        }
        owner, rows = kept[kind]
        with self._lock:
            own = [row for row in rows() if getattr(row, owner) == owner_id]
        if kind is Checkpoint:
            own = [c for c in own if before is None or c.number < before]
            own = [c for c in own if (holding or "") in c.body]
        return take_newest(own, limit)

    def find_tasks(self, query: TaskQuery) -> Sequence[Task]:
        """Return the tasks that match a query."""
        with self._lock:
            tasks = filter_by_query(query, self._tasks.values())
            messages = self._messages if query.holding is not None else ()
            said = {m.task_id for m in messages if is_within(query.holding, m.content)}
        tasks = [
            t for t in tasks if is_within(query.named, t.task_id) or is_within(query.named, t.name)
        ]
        tasks = [t for t in tasks if t.task_id in said or is_within(query.holding, t.name)]
        tasks.sort(key=lambda task: (task.updated_at, task.task_id), reverse=True)
        if query.after is not None:
            tasks = [task for task in tasks if task.task_id > (query.after or "")]
            tasks.sort(key=lambda task: task.task_id)
        if query.due_by is not None:
            active = (task for task in tasks if task.status is TaskStatus.ACTIVE)
            tasks = select_due(active, query.due_by, "stuck_due_at", "task_id")
        return tasks[: query.limit]

    def find_waits(self, query: WaitQuery) -> Sequence[Wait]:
        """Return the waits that match a query."""
        with self._lock:
            waits = filter_by_query(query, self._waits.values())
        return sort_newest_first(waits, "wait_id")[: query.limit]

    def find_wakes(self, query: WakeQuery) -> Sequence[Wake]:
        """Return the wakes that match a query."""
        with self._lock:
            wakes = filter_by_query(query, self._wakes.values())
        wakes = sort_newest_first(wakes, "wake_id")
        if since := query.sent_since:
            wakes = select_due(wakes, FOREVER, "sent_at", "wake_id")
            wakes = [w for w in wakes if w.sent_at and w.sent_at >= since]
            wakes = [w for w in wakes if w.session_key == query.session_key]
        if query.due_by is not None:
            wakes = select_due(wakes, query.due_by, "due_at", "wake_id")
        return wakes[: query.limit]

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        """Return the runs that match a query."""
        with self._lock:
            runs = filter_by_query(query, self._runs.values())
            tasks = dict(self._tasks)
        runs = sort_newest_first(runs, "run_id")
        if query.implicit is not None:
            runs = [r for r in runs if tasks[r.task_id].implicit is query.implicit]
        if query.oldest_first:
            runs.reverse()
        if query.session_key is not None:
            runs = [run for run in runs if not run.state.terminal]
            runs.sort(key=lambda run: recency_key(tasks[run.task_id]), reverse=True)
        if query.lapsed_by is not None:
            runs = select_due(runs, query.lapsed_by, "lease_until", "run_id")
        return runs[: query.limit]

    def find_events(self, query: EventQuery) -> Sequence[Event]:
        """Return the events that match a query."""
        with self._lock:
            first = bisect_right(self._events, query.after or 0, key=attrgetter("event_id"))
            events = filter_by_query(query, self._events[first:])
        return take_newest(events, query.limit) if query.after is None else events[: query.limit]

    def count(self) -> Counts:
        """Return the number of rows, by state, without implicit tasks and their runs."""
        with self._lock:
            tasks = Counter(t.status for t in self._tasks.values() if not t.implicit)
            waits = Counter(wait.status for wait in self._waits.values())
            wakes = Counter(wake.state for wake in self._wakes.values())
            runs = Counter(
                run.state for run in self._runs.values() if not self._tasks[run.task_id].implicit
            )
            return Counts(
                tasks={status: tasks[status] for status in TaskStatus},
                waits={status: waits[status] for status in WaitStatus},
                wakes={state: wakes[state] for state in WakeState},
                runs={state: runs[state] for state in RunState},
            )

    def count_open(
        self, kind: type[Task | Wait], by: Maker, limit: int, home: str | None = None
    ) -> int:
        """Return the number of open tasks or waits of a maker, at most `limit`."""
        with self._lock:
            tasks = filter_by_home(home, self._tasks.values())
            waits = filter_by_home(home, self._waits.values())
        made = [(wait.host, wait.session_key) for wait in waits if is_watching(wait)]
        if kind is Task:
            open_ = (t for t in tasks if not (t.status.terminal or t.implicit))
            made = [(t.registrar_host, t.registrar_session) for t in open_]
        return min(limit, sum(is_by(by, *each) for each in made))

    def commit(self, change: Change) -> None:
        """Write all rows of a change, or none."""
        with self._lock:
            tasks = raise_versions(self._tasks, change.tasks, lambda task: task.task_id)
            waits = raise_versions(self._waits, change.waits, lambda wait: wait.wait_id)
            wakes = raise_versions(self._wakes, change.wakes, lambda wake: wake.wake_id)
            runs = raise_versions(self._runs, change.runs, lambda run: run.run_id)
            artifacts = raise_versions(self._artifacts, change.artifacts, lambda a: a.artifact_id)
            checkpoints = {(c.run_id, c.number): c for c in change.checkpoints}
            check_tasks(change, {**self._tasks, **tasks})
            self._check_runs(change)
            of_runs = {**self._runs, **runs}
            check_checkpoints(change.checkpoints, self._checkpoints, of_runs)
            check_keys({**self._wakes, **wakes}, change.wakes)
            self._tasks |= tasks
            self._waits |= waits
            self._wakes |= wakes
            self._runs |= runs
            self._artifacts |= artifacts
            self._checkpoints |= checkpoints
            self._forget(change)
            self._bookmarks |= {b.name: b for b in change.bookmarks}
            self._ledger |= {(e.task_id, e.path): e for e in change.ledger}
            self._folders |= {(f.task_id, f.path): f for f in change.folders}
            append_lines(self._messages, change.messages, "message_id")
            append_lines(self._revisions, change.revisions, "revision_id")
            append_lines(self._events, change.events, "event_id")

    def back_up(self, file: Path) -> None:
        """Refuse: there is nothing that outlives the process."""
        raise NotAllowed(f"These rows are in memory only, and are not written to {file}.")

    def close(self) -> None:
        """Do nothing; there is no resource to release."""

    def _check_runs(self, change: Change) -> None:
        """Refuse a second open run of a task, even if a later row of the change ends one."""
        runs = dict(self._runs)
        for run in change.runs:
            runs[run.run_id] = run
            if len(list_open_runs(runs, run.task_id)) > 1:
                raise Conflict(f"{run.task_id} has a run that is open already.")

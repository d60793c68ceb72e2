"""A `TaskStore` that keeps everything in memory, for fast tests."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.errors import Conflict, RunNotFound, TaskNotFound, WaitNotFound
from taskmem_hookspecs.evidence import Artifact, LedgerEntry, WorkFolder
from taskmem_hookspecs.model import (
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
    WakeCause,
    WakeState,
)
from taskmem_hookspecs.runs import Checkpoint, Run, RunState
from taskmem_hookspecs.testing.memory_dropping import Dropping
from taskmem_hookspecs.testing.memory_rows import (
    age,
    append,
    check_checkpoints,
    check_keys,
    check_tasks,
    in_thread,
    is_by,
    known,
    moved,
    newest,
    of_home,
    of_kind,
    of_task,
    open_runs,
    recency,
)


class MemoryStore(Dropping):
    """Plays `TaskStore`; what it holds is gone when it is."""

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
        self._bookmarks: dict[str, str] = {}
        self._ledger: dict[tuple[str, str], LedgerEntry] = {}
        self._folders: dict[tuple[str, str], WorkFolder] = {}

    def read_task(self, task_id: str) -> TaskFacts:
        """Return a task with its waits and its open wakes."""
        with self._lock:
            if task_id not in self._tasks:
                raise TaskNotFound(f"There is no task {task_id}; list the tasks.")
            made = [
                a for _, a in sorted(self._artifacts.items()) if a.task_id == task_id
            ]
            owed = self._wakes_of((WakeState.DUE, WakeState.SENT), task_id)
            return TaskFacts(
                task=self._tasks[task_id],
                waits=known(self._waits_of(None, task_id)),
                wakes=tuple(reversed(owed)),
                run=next(iter(open_runs(self._runs, task_id)), None),
                artifacts=tuple(made),
            )

    def read_wait(self, wait_id: str) -> Wait:
        """Return one wait."""
        with self._lock:
            if wait_id not in self._waits:
                raise WaitNotFound(f"There is no wait {wait_id}; see smart_wait.")
            return self._waits[wait_id]

    def wakes_of_wait(self, wait_id: str) -> Sequence[Wake]:
        """Return the wakes of a wait that are due or sent, oldest first."""
        with self._lock:
            owed = self._wakes_of((WakeState.DUE, WakeState.SENT), None)
        return [wake for wake in reversed(owed) if wake.wait_id == wait_id]

    def read_thread(
        self,
        task_id: str,
        limit: int | None = None,
        said_after: int | None = None,
        before: int | None = None,
    ) -> Sequence[Message]:
        """Return the newest messages of a task, oldest first."""
        with self._lock:
            return newest(in_thread(self._messages, task_id, said_after, before), limit)

    def read_revisions(self, task_id: str) -> Sequence[PlanRevision]:
        """Return the revisions of a task's plan, oldest first."""
        with self._lock:
            return [r for r in self._revisions if r.task_id == task_id]

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
        with self._lock:
            here = of_home(home, self._tasks.values())
        kind = [t for t in here if implicit in (None, t.implicit)]
        tasks = [t for t in kind if status in (None, t.status)]
        own = [t for t in tasks if session_key in (None, t.session_key)]
        own.sort(key=lambda t: (t.updated_at, t.task_id), reverse=True)
        return own[:limit]

    def active_tasks(self, after: str, limit: int) -> Sequence[Task]:
        """Return active tasks whose id is greater than `after`, in order of id."""
        with self._lock:
            later = [t for id_, t in sorted(self._tasks.items()) if id_ > after]
        return [t for t in later if t.status is TaskStatus.ACTIVE][:limit]

    def list_waits(
        self,
        status: WaitStatus | None,
        task_id: str | None,
        limit: int,
        home: str | None = None,
    ) -> Sequence[Wait]:
        """Return waits, newest first."""
        with self._lock:
            return of_home(home, self._waits_of(status, task_id))[:limit]

    def list_wakes(
        self,
        states: Collection[WakeState] | None,
        task_id: str | None,
        limit: int,
        home: str | None = None,
    ) -> Sequence[Wake]:
        """Return wakes, newest first."""
        with self._lock:
            return of_home(home, self._wakes_of(states, task_id))[:limit]

    def read_wakes(self, wake_ids: Collection[str]) -> Sequence[Wake]:
        """Return the wakes with these ids; an unknown id is passed over."""
        with self._lock:
            return [w for w in self._wakes.values() if w.wake_id in wake_ids]

    def read_ledger(self, task_id: str) -> Sequence[LedgerEntry]:
        """Return what a task made, in order of the paths."""
        with self._lock:
            return of_task(task_id, self._ledger)

    def read_folders(self, task_id: str) -> Sequence[WorkFolder]:
        """Return the folders that the tools of a task used, in order of the paths."""
        with self._lock:
            return of_task(task_id, self._folders)

    def list_events(self, after: int, limit: int) -> Sequence[Event]:
        """Return events with a greater id than `after`, oldest first."""
        with self._lock:
            return [e for e in self._events if e.event_id > after][:limit]

    def last_events(self, task_id: str | None, limit: int) -> Sequence[Event]:
        """Return the newest events, oldest first."""
        with self._lock:
            events = [e for e in self._events if task_id in (None, e.task_id)]
        return newest(events, limit)

    def wait_events(self, wait_id: str, limit: int) -> Sequence[Event]:
        """Return the newest events of a wait, oldest first."""
        with self._lock:
            return newest([e for e in self._events if e.wait_id == wait_id], limit)

    def stuck_due(
        self, now: datetime, limit: int, home: str | None = None
    ) -> Sequence[str]:
        """Return the ids of active tasks whose `stuck_due_at` has come, in order."""
        with self._lock:
            return [task_id for at, task_id in self._stuck(home) if at <= now][:limit]

    def next_stuck_due(self, home: str | None = None) -> datetime | None:
        """Return the earliest `stuck_due_at` of an active task."""
        with self._lock:
            return next((at for at, _ in self._stuck(home)), None)

    def due_wakes(
        self, now: datetime, limit: int, home: str | None = None
    ) -> Sequence[Wake]:
        """Return the wakes whose `due_at` has come, first due first."""
        with self._lock:
            due = [id_ for at, id_ in self._owed(home) if at <= now][:limit]
            return [self._wakes[wake_id] for wake_id in due]

    def next_wake_due(self, home: str | None = None) -> datetime | None:
        """Return the earliest `due_at` of a wake."""
        with self._lock:
            return next((at for at, _ in self._owed(home)), None)

    def sent_since(
        self, session_key: str | None, since: datetime, home: str | None = None
    ) -> Sequence[datetime]:
        """Return when messages went out to a session since then, oldest first."""
        with self._lock:
            here = of_home(home, self._wakes.values())
            told = [w for w in here if w.cause is not WakeCause.RUN]
            wakes = [w for w in told if w.session_key == session_key]
        sent = [(w.delivery_id or w.wake_id, w.sent_at) for w in wakes]
        return sorted({name: at for name, at in sent if at and at >= since}.values())

    def read_run(self, run_id: str) -> Run:
        """Return one run."""
        with self._lock:
            if run_id not in self._runs:
                raise RunNotFound(f"There is no run {run_id}; ask with task_status.")
            return self._runs[run_id]

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
        with self._lock:
            here = of_home(home, of_kind(self._runs, self._tasks, implicit=implicit))
        runs = [r for r in here if task_id in (None, r.task_id)]
        runs = [r for r in runs if states is None or r.state in states]
        return sorted(runs, key=age, reverse=True)[:limit]

    def session_runs(self, session_key: str, home: str | None = None) -> Sequence[Run]:
        """Return the runs of a session that have not ended, the latest first."""
        with self._lock:
            here = of_home(home, open_runs(self._runs))
            open_ = [r for r in here if r.session_key == session_key]
            moved = {r.run_id: recency(self._tasks[r.task_id]) for r in open_}
        return sorted(open_, key=lambda run: moved[run.run_id], reverse=True)

    def runs_of(self, task_ids: Collection[str]) -> Sequence[Run]:
        """Return every run of these tasks."""
        with self._lock:
            return [run for run in self._runs.values() if run.task_id in task_ids]

    def queued_runs(self, role: str | None, limit: int) -> Sequence[Run]:
        """Return the queued runs that a role may claim, oldest first."""
        with self._lock:
            queued = [r for r in self._runs.values() if r.state is RunState.QUEUED]
        queued = [r for r in queued if role is None or r.role in (None, role)]
        return sorted(queued, key=age)[:limit]

    def lapsed_runs(
        self, now: datetime, limit: int, home: str | None = None
    ) -> Sequence[Run]:
        """Return the runs whose `lease_until` has come, first due first."""
        with self._lock:
            due = [id_ for at, id_ in self._leases(home) if at <= now][:limit]
            return [self._runs[run_id] for run_id in due]

    def next_lapse(self, home: str | None = None) -> datetime | None:
        """Return the earliest `lease_until` of a run."""
        with self._lock:
            return next((at for at, _ in self._leases(home)), None)

    def read_checkpoints(
        self,
        run_id: str,
        limit: int,
        *,
        before: int | None = None,
        holding: str | None = None,
    ) -> Sequence[Checkpoint]:
        """Return the newest checkpoints of a run, oldest first."""
        with self._lock:
            own = [
                checkpoint
                for checkpoint in self._checkpoints.values()
                if checkpoint.run_id == run_id
                and (before is None or checkpoint.number < before)
                and (holding or "") in checkpoint.body
            ]
        return newest(sorted(own, key=lambda c: c.number), limit)

    def read_bookmark(self, name: str) -> str | None:
        """Return the value of a bookmark."""
        return self._bookmarks.get(name)

    def count(self) -> Counts:
        """Return how much there is, by state."""
        with self._lock:
            tasks = Counter(t.status for t in self._tasks.values() if not t.implicit)
            waits = Counter(wait.status for wait in self._waits.values())
            wakes = Counter(wake.state for wake in self._wakes.values())
            of_tasks = of_kind(self._runs, self._tasks, implicit=False)
            runs = Counter(run.state for run in of_tasks)
            return Counts(
                tasks={status: tasks[status] for status in TaskStatus},
                waits={status: waits[status] for status in WaitStatus},
                wakes={state: wakes[state] for state in WakeState},
                runs={state: runs[state] for state in RunState},
                events=len(self._events),
            )

    def count_open_tasks(self, by: Maker, limit: int, home: str | None = None) -> int:
        """Return how many open tasks one has registered."""
        with self._lock:
            here = of_home(home, self._tasks.values())
        open_ = (t for t in here if not (t.status.terminal or t.implicit))
        made = [t for t in open_ if is_by(by, t.registrar_host, t.registrar_session)]
        return min(limit, len(made))

    def count_open_waits(self, by: Maker, limit: int, home: str | None = None) -> int:
        """Return how many open waits one has asked for."""
        waits = self.list_waits(WaitStatus.WATCHING, None, len(self._waits), home)
        made = [w for w in waits if is_by(by, w.host, w.session_key)]
        return min(limit, len(made))

    def commit(self, change: Change) -> None:
        """Write all of a change, or none of it."""
        with self._lock:
            tasks = moved(self._tasks, change.tasks, lambda task: task.task_id)
            waits = moved(self._waits, change.waits, lambda wait: wait.wait_id)
            wakes = moved(self._wakes, change.wakes, lambda wake: wake.wake_id)
            runs = moved(self._runs, change.runs, lambda run: run.run_id)
            artifacts = moved(
                self._artifacts, change.artifacts, lambda a: a.artifact_id
            )
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
            self._bookmarks |= {b.name: b.value for b in change.bookmarks}
            self._ledger |= {(e.task_id, e.path): e for e in change.ledger}
            self._folders |= {(f.task_id, f.path): f for f in change.folders}
            append(self._messages, change.messages, "message_id")
            append(self._revisions, change.revisions, "revision_id")
            append(self._events, change.events, "event_id")

    def close(self) -> None:
        """Let go of nothing: there is nothing to let go of."""

    def _waits_of(self, status: WaitStatus | None, task_id: str | None) -> list[Wait]:
        waits = [w for w in self._waits.values() if task_id in (None, w.task_id)]
        chosen = [w for w in waits if status in (None, w.status)]
        return sorted(chosen, key=lambda w: (w.created_at, w.wait_id), reverse=True)

    def _wakes_of(
        self, states: Collection[WakeState] | None, task_id: str | None
    ) -> list[Wake]:
        wakes = (w for w in self._wakes.values() if task_id in (None, w.task_id))
        chosen = [w for w in wakes if states is None or w.state in states]
        return sorted(chosen, key=lambda w: (w.created_at, w.wake_id), reverse=True)

    def _stuck(self, home: str | None) -> list[tuple[datetime, str]]:
        here = of_home(home, self._tasks.values())
        active = (t for t in here if t.status is TaskStatus.ACTIVE)
        return sorted((t.stuck_due_at, t.task_id) for t in active if t.stuck_due_at)

    def _owed(self, home: str | None) -> list[tuple[datetime, str]]:
        here = of_home(home, self._wakes.values())
        return sorted((w.due_at, w.wake_id) for w in here if w.due_at)

    def _leases(self, home: str | None) -> list[tuple[datetime, str]]:
        here = of_home(home, self._runs.values())
        return sorted((r.lease_until, r.run_id) for r in here if r.lease_until)

    def _check_runs(self, change: Change) -> None:
        """Refuse a second open run of a task, also one in between."""
        runs = dict(self._runs)
        for run in change.runs:
            runs[run.run_id] = run
            if len(open_runs(runs, run.task_id)) > 1:
                raise Conflict(f"{run.task_id} has a run that is open already.")

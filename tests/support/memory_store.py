"""`MemoryStore`, a `TaskStore` in memory, for fast tests."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from taskmem_hookspecs.errors import Conflict, NotAllowed, RunNotFound, TaskNotFound, WaitNotFound
from taskmem_hookspecs.model import (
    RECORD_PREFIX,
    Artifact,
    Bookmark,
    Change,
    Checkpoint,
    Counts,
    DroppedRows,
    Event,
    LedgerEntry,
    Maker,
    Message,
    MessageType,
    PlanRevision,
    Role,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
    Wait,
    WaitStatus,
    Wake,
    WakeState,
    WorkFolder,
)
from taskmem_hookspecs.roles import (
    FOREVER,
    EventQuery,
    RecordT,
    RunQuery,
    StoreSize,
    TaskQuery,
    TextMatches,
    TextPlace,
    TextQuery,
    WaitQuery,
    WakeQuery,
)
from taskmem_hookspecs.words import find_patterns

_ENDED_WAITS = 20
"""Number of ended waits that `TaskFacts` includes."""
_PLURALS = {"states": "state", "task_ids": "task_id", "wake_ids": "wake_id"}
_OR_NONE = ("home", "role")
"""Fields of a query that also match rows in which the field is None."""
_RowT = TypeVar("_RowT", Task, Wait, Wake, Run, Artifact)
_OwnedT = TypeVar("_OwnedT", Task, Wait, Wake, Run)
_AgedT = TypeVar("_AgedT", Wait, Wake, Run)
_PathT = TypeVar("_PathT", LedgerEntry, WorkFolder, Checkpoint)
_OfTaskT = TypeVar("_OfTaskT", Wait, Wake, Run, Artifact, LedgerEntry, WorkFolder)
_AskedT = TypeVar("_AskedT", Task, Wait, Wake, Run, Event)
_KeyT = TypeVar("_KeyT")
_AnyT = TypeVar("_AnyT")
_LineT = TypeVar("_LineT", Message, PlanRevision, Event)
_SeenT = TypeVar("_SeenT", Message, PlanRevision, Event, Checkpoint)
_ROW_BYTES = 1_000
"""Size that `measure` counts for a row, in bytes."""


class MemoryStore:
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
            waits = _sort_newest_first(own_waits, "wait_id")
            own_wakes = [w for w in self._wakes.values() if w.task_id == task_id]
            wakes = _sort_newest_first(own_wakes, "wake_id")
            open_wakes = [w for w in wakes if w.state in (WakeState.DUE, WakeState.SENT)]
            return TaskFacts(
                task=self._tasks[task_id],
                waits=_select_known_waits(waits),
                wakes=tuple(reversed(open_wakes)),
                run=next(iter(_list_open_runs(self._runs, task_id)), None),
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
            Message: ("task_id", lambda: _select_messages(self._messages, said_after, before)),
            PlanRevision: ("task_id", lambda: self._revisions),
            LedgerEntry: ("task_id", lambda: _sort_by_key(self._ledger)),
            WorkFolder: ("task_id", lambda: _sort_by_key(self._folders)),
            Checkpoint: ("run_id", lambda: _sort_by_key(self._checkpoints)),
        }
        owner, rows = kept[kind]
        with self._lock:
            own = [row for row in rows() if getattr(row, owner) == owner_id]
        if kind is Checkpoint:
            own = [c for c in own if before is None or c.number < before]
            own = [c for c in own if (holding or "") in c.body]
        return _take_newest(own, limit)

    def read_messages(self, message_ids: Sequence[int]) -> Sequence[Message]:
        """Return messages of any tasks, in any order; unknown ids are ignored."""
        with self._lock:
            return [each for each in self._messages if each.message_id in {*message_ids}]

    def find_tasks(self, query: TaskQuery) -> Sequence[Task]:
        """Return the tasks that match a query."""
        with self._lock:
            tasks = _filter_by_query(query, self._tasks.values())
            messages = self._messages if query.holding is not None else ()
            holders = {m.task_id for m in messages if _is_within(query.holding, m.content)}
        tasks = [
            t
            for t in tasks
            if _is_within(query.named, t.task_id) or _is_within(query.named, t.name)
        ]
        tasks = [t for t in tasks if t.task_id in holders or _is_within(query.holding, t.name)]
        if query.blocker is not None:
            tasks = [task for task in tasks if query.blocker in task.blocked_by]
        if query.ready:
            active = (task for task in tasks if task.status is TaskStatus.ACTIVE)
            tasks = [task for task in active if not task.blocked_by]
        tasks.sort(key=lambda task: (task.updated_at, task.task_id), reverse=True)
        if query.after is not None:
            tasks = [task for task in tasks if task.task_id > (query.after or "")]
            tasks.sort(key=lambda task: task.task_id)
        if query.due_by is not None:
            active = (task for task in tasks if task.status is TaskStatus.ACTIVE)
            tasks = _select_due(active, query.due_by, "stuck_due_at", "task_id")
        return tasks[: query.limit]

    def find_waits(self, query: WaitQuery) -> Sequence[Wait]:
        """Return the waits that match a query."""
        with self._lock:
            waits = _filter_by_query(query, self._waits.values())
        return _sort_newest_first(waits, "wait_id")[: query.limit]

    def find_wakes(self, query: WakeQuery) -> Sequence[Wake]:
        """Return the wakes that match a query."""
        with self._lock:
            wakes = _filter_by_query(query, self._wakes.values())
        wakes = _sort_newest_first(wakes, "wake_id")
        if since := query.sent_since:
            wakes = _select_due(wakes, FOREVER, "sent_at", "wake_id")
            wakes = [w for w in wakes if w.sent_at and w.sent_at >= since]
            wakes = [w for w in wakes if w.session_key == query.session_key]
        if query.due_by is not None:
            wakes = _select_due(wakes, query.due_by, "due_at", "wake_id")
        return wakes[: query.limit]

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        """Return the runs that match a query."""
        with self._lock:
            runs = _filter_by_query(query, self._runs.values())
            tasks = dict(self._tasks)
        runs = _sort_newest_first(runs, "run_id")
        if query.implicit is not None:
            runs = [r for r in runs if tasks[r.task_id].implicit is query.implicit]
        if query.task_home is not None:
            runs = [r for r in runs if tasks[r.task_id].home in (query.task_home, None)]
        if query.oldest_first:
            runs.reverse()
        if query.session_key is not None:
            runs = [run for run in runs if not run.state.terminal]
            runs.sort(key=lambda run: _recency_key(tasks[run.task_id]), reverse=True)
        if query.lapsed_by is not None:
            runs = _select_due(runs, query.lapsed_by, "lease_until", "run_id")
        return runs[: query.limit]

    def find_events(self, query: EventQuery) -> Sequence[Event]:
        """Return the events that match a query."""
        with self._lock:
            first = bisect_right(self._events, query.after or 0, key=attrgetter("event_id"))
            events = _filter_by_query(query, self._events[first:])
        return _take_newest(events, query.limit) if query.after is None else events[: query.limit]

    def find_texts(self, query: TextQuery) -> Mapping[str, TextMatches]:
        """Return for each pattern of a query the texts that have it."""
        with self._lock:
            texts = [*self._list_texts(query)]
        if query.beside and query.task_id is None:
            texts = [(place, text) for place, text in texts if find_patterns(text, query.beside)]
        found = [(place, find_patterns(text, query.patterns)) for place, text in texts]
        matches: dict[str, TextMatches] = {}
        for pattern in query.patterns:
            places = [place for place, has in found if pattern in has]
            in_messages = [place for place in places if place[1] is not None]
            others = [place for place in places if place[1] is None]
            newest = [*in_messages[: query.limit], *others[: query.limit]]
            matches[pattern] = TextMatches(len(places), newest)
        return matches

    def _list_texts(self, query: TextQuery) -> Iterator[tuple[TextPlace, str]]:
        """Yield the texts that a query searches, newest first."""
        here = _filter_by_home(query.home, self._tasks.values())
        served = {task.task_id for task in here if not task.implicit}
        if query.task_id is not None:
            served = {query.task_id}
        for message in reversed(self._messages):
            alert = message.msg_type is MessageType.STUCK and query.task_id is None
            if message.task_id in served and not alert:
                yield (message.task_id, message.message_id), message.content
        if query.task_id is not None:
            return
        for task_id, task in reversed(self._tasks.items()):
            replaced = [r.old_plan for r in self._revisions if r.task_id == task_id]
            made = [(entry.path,) for entry in self._ledger.values() if entry.task_id == task_id]
            own = (task.name, *task.plan, task.original_request or "")
            for texts in (own, *replaced, *made) if task_id in served else ():
                yield (task_id, None), " ".join(texts)

    def count(self) -> Counts:
        """Return the number of rows, by state, without implicit tasks, their runs, and records."""
        with self._lock:
            tasks = Counter(t.status for t in self._tasks.values() if not t.implicit)
            waits = Counter(wait.status for wait in self._waits.values())
            wakes = Counter(wake.state for wake in self._wakes.values())
            runs = Counter(
                run.state
                for run in self._runs.values()
                if not (self._tasks[run.task_id].implicit or run.run_id.startswith(RECORD_PREFIX))
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
            tasks = _filter_by_home(home, self._tasks.values())
            waits = _filter_by_home(home, self._waits.values())
        made = [(wait.host, wait.session_key) for wait in waits if _is_watching(wait)]
        if kind is Task:
            open_ = (t for t in tasks if not (t.status.terminal or t.implicit))
            made = [(t.registrar_host, t.registrar_session) for t in open_]
        return min(limit, sum(_is_by(by, *each) for each in made))

    def commit(self, change: Change) -> None:
        """Write all rows of a change, or none."""
        with self._lock:
            tasks = _raise_versions(self._tasks, change.tasks, lambda task: task.task_id)
            waits = _raise_versions(self._waits, change.waits, lambda wait: wait.wait_id)
            wakes = _raise_versions(self._wakes, change.wakes, lambda wake: wake.wake_id)
            runs = _raise_versions(self._runs, change.runs, lambda run: run.run_id)
            artifacts = _raise_versions(self._artifacts, change.artifacts, lambda a: a.artifact_id)
            checkpoints = {(c.run_id, c.number): c for c in change.checkpoints}
            _check_tasks(change, {**self._tasks, **tasks})
            self._check_runs(change)
            of_runs = {**self._runs, **runs}
            _check_checkpoints(change.checkpoints, self._checkpoints, of_runs)
            _check_keys({**self._wakes, **wakes}, change.wakes)
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
            _append_lines(self._messages, change.messages, "message_id")
            _append_lines(self._revisions, change.revisions, "revision_id")
            _append_lines(self._events, change.events, "event_id")

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
            if len(_list_open_runs(runs, run.task_id)) > 1:
                raise Conflict(f"{run.task_id} has a run that is open already.")

    def drop_ended(
        self,
        before: datetime,
        limit: int,
        home: str | None = None,
        upto: int | None = None,
        after: int = 0,
    ) -> DroppedRows:
        """Delete the oldest rows of what has ended; return the number of rows by table."""
        with self._lock:
            checkpoints = self._find_old_checkpoints(before, home)
            self._checkpoints = _drop_keys(self._checkpoints, checkpoints[:limit])
            wakes = self._find_old_wakes(before, home)
            self._wakes = _drop_keys(self._wakes, wakes[:limit])
            waits = self._find_old_waits(before, home)
            self._waits = _drop_keys(self._waits, waits[:limit])
            old = self._find_old_events(before, home, upto)
            events = [number for number in old if number > after][:limit]
            gone = set(events)
            self._events = [e for e in self._events if e.event_id not in gone]
        dropped = {
            "checkpoints": len(checkpoints[:limit]),
            "wakes": len(wakes[:limit]),
            "waits": len(waits[:limit]),
            "events": len(events),
        }
        rows = {name: number for name, number in dropped.items() if number}
        return DroppedRows(rows=rows, last_event=max(events, default=after))

    def measure(self, home: str | None = None) -> StoreSize:
        """Return the size: `_ROW_BYTES` for each checkpoint, event, wake and wait."""
        with self._lock:
            lines = len(self._checkpoints) + len(self._events)
            taken = _ROW_BYTES * (lines + len(self._wakes) + len(self._waits))
            homes = {task.home for task in self._tasks.values()}
            homes |= {wait.home for wait in self._waits.values()}
            homes |= {wake.home for wake in self._wakes.values()}
        others = home is not None and bool(homes - {None, home})
        return StoreSize(bytes=taken, shared=others)

    def _forget(self, change: Change) -> None:
        kept = _drop_waits(change.forget_waits, self._waits, self._wakes)
        self._waits, self._wakes = kept
        before, home = change.forget_before, change.forget_home
        if before is None:
            return
        gone = _find_stale_tasks(before, home, self._tasks, self._runs, self._waits)
        self._checkpoints = _select_kept_checkpoints(
            before, home, self._checkpoints, self._runs, gone
        )
        self._tasks = {k: task for k, task in self._tasks.items() if k not in gone}
        self._runs, self._waits = (
            _drop_rows_of_tasks(gone, self._runs),
            _drop_rows_of_tasks(gone, self._waits),
        )
        self._wakes = _drop_rows_of_tasks(gone, self._wakes)
        self._artifacts = _drop_rows_of_tasks(gone, self._artifacts)
        self._ledger = _drop_rows_of_tasks(gone, self._ledger)
        self._folders = _drop_rows_of_tasks(gone, self._folders)
        self._messages = [m for m in self._messages if m.task_id not in gone]
        self._revisions = [r for r in self._revisions if r.task_id not in gone]

    def _is_of_closed_task(self, task_id: str | None) -> bool:
        return task_id is None or self._tasks[task_id].status.terminal

    def _is_resumable(self, run: Run) -> bool:
        """Return True if the run is the newest of a failed task."""
        its = (r for r in self._runs.values() if r.task_id == run.task_id)
        newest = max(its, key=lambda r: (r.created_at, r.run_id))
        return newest is run and self._tasks[run.task_id].status is TaskStatus.FAILED

    def _find_old_checkpoints(self, before: datetime, home: str | None) -> list[tuple[str, int]]:
        old = [
            one
            for one in self._checkpoints.values()
            if one.at < before
            and (run := self._runs[one.run_id]).state.terminal
            and _is_of_home(run, home)
            and self._is_of_closed_task(run.task_id)
            and not self._is_resumable(run)
        ]
        old.sort(key=lambda one: (one.at, one.run_id, one.number))
        return [(one.run_id, one.number) for one in old]

    def _find_old_wakes(self, before: datetime, home: str | None) -> list[str]:
        watching = {w.wait_id for w in self._waits.values() if _is_watching(w)}
        old = [
            wake
            for wake in self._wakes.values()
            if _is_old(before, wake.created_at, wake.sent_at, wake.acknowledged_at)
            and wake.state not in (WakeState.DUE, WakeState.SENT)
            and _is_of_home(wake, home)
            and self._is_of_closed_task(wake.task_id)
            and wake.wait_id not in watching
        ]
        old.sort(key=lambda wake: (wake.created_at, wake.wake_id))
        return [wake.wake_id for wake in old]

    def _find_old_waits(self, before: datetime, home: str | None) -> list[str]:
        named = {wake.wait_id for wake in self._wakes.values()}
        last = _find_last_ended(self._waits.values())
        old = [
            wait
            for wait in self._waits.values()
            if _is_old(before, wait.created_at, wait.changed_at)
            and not _is_watching(wait)
            and _is_of_home(wait, home)
            and self._is_of_closed_task(wait.task_id)
            and wait.wait_id not in named
            and (wait.task_id is None or last[wait.task_id] != wait.wait_id)
        ]
        old.sort(key=lambda wait: (wait.created_at, wait.wait_id))
        return [wait.wait_id for wait in old]

    def _find_old_events(
        self, before: datetime, home: str | None, upto: int | None
    ) -> Sequence[int]:
        newest = {(e.task_id, e.kind): e.event_id for e in self._events}

        def is_needed(event: Event) -> bool:
            task = self._tasks.get(event.task_id or "")
            wait = self._waits.get(event.wait_id or "")
            return (
                event is self._events[-1]
                or (task is not None and not task.status.terminal)
                or (task is not None and not _is_of_home(task, home))
                or (task is not None and newest[event.task_id, event.kind] == event.event_id)
                or (wait is not None and _is_watching(wait))
                or (wait is not None and not _is_of_home(wait, home))
            )

        old = (event for event in self._events if event.at < before)
        gone = [event.event_id for event in old if not is_needed(event)]
        return [number for number in gone if upto is None or number <= upto]


def _raise_versions(
    stored: Mapping[str, _RowT], rows: Iterable[_RowT], id_of: Callable[[_RowT], str]
) -> dict[str, _RowT]:
    """Return the rows with versions raised by one; raise `Conflict` if one has changed."""
    moved: dict[str, _RowT] = {}
    for row in rows:
        found = moved.get(id_of(row)) or stored.get(id_of(row))
        if row.version != (found.version if found else 0):
            raise Conflict(f"{id_of(row)} was changed by another; read it again.")
        moved[id_of(row)] = row.model_copy(update={"version": row.version + 1})
    return moved


def _select_known_waits(newest_first: Sequence[Wait]) -> tuple[Wait, ...]:
    """Return the open waits and the last ended ones, oldest first."""
    ended = [w for w in newest_first if w.status is not WaitStatus.WATCHING]
    last = sorted(ended, key=lambda w: (w.changed_at, w.wait_id))[-_ENDED_WAITS:]
    keep = {w.wait_id for w in last}
    return tuple(
        w for w in reversed(newest_first) if w.status is WaitStatus.WATCHING or w.wait_id in keep
    )


def _list_open_runs(runs: Mapping[str, Run], task_id: str | None = None) -> list[Run]:
    """Return the runs that have not ended; with None, of all tasks."""
    mine = (run for run in runs.values() if task_id in (None, run.task_id))
    return [run for run in mine if not run.state.terminal]


def _is_of_home(row: Task | Wait | Wake | Run, home: str | None) -> bool:
    """Return True if the row has this home or none; with None, always."""
    return home is None or row.home in (None, home)


def _filter_by_home(home: str | None, rows: Iterable[_OwnedT]) -> list[_OwnedT]:
    """Return the rows of this home or of none; with None, all rows."""
    return [row for row in rows if _is_of_home(row, home)]


def _filter_by_query(query: Value, rows: Iterable[_AskedT]) -> list[_AskedT]:
    """Return the rows that match the query's fields that rows have too; None matches any row."""
    wanted = [
        (_PLURALS[name], value)
        if name in _PLURALS
        else (name, (value, None) if name in _OR_NONE else (value,))
        for name, value in vars(query).items()
        if value is not None
    ]

    found: list[_AskedT] = list(rows)
    for field, values in wanted:
        if found and field in vars(found[0]):
            found = [row for row in found if getattr(row, field) in values]
    return found


def _is_within(part: str | None, text: str) -> bool:
    """Return True if a text contains a part, whatever the case; None is in every text."""
    return part is None or part.lower() in text.lower()


def _sort_by_key(rows: Mapping[tuple[str, _KeyT], _PathT]) -> list[_PathT]:
    """Return the rows in the order of their keys."""
    return [row for _, row in sorted(rows.items(), key=lambda pair: pair[0])]


def _is_by(maker: Maker, host: str | None, session_key: str | None) -> bool:
    """Return True if a row with this host and session belongs to the maker."""
    own = session_key is not None and f"{session_key}:".startswith(f"{maker.agent}:")
    return host in maker.hosts and (maker.agent is None or own)


def _sort_newest_first(rows: Iterable[_AgedT], key: str) -> list[_AgedT]:
    """Return the rows by `created_at`, then by the id in the field `key`, newest first."""
    return sorted(rows, key=attrgetter("created_at", key), reverse=True)


def _select_due(rows: Iterable[_OwnedT], by: datetime, at: str, key: str) -> list[_OwnedT]:
    """Return the rows whose field `at` is not later than `by`, in the order of `at` and `key`."""
    dues = [row for row in rows if getattr(row, at) is not None]
    come = [row for row in dues if getattr(row, at) <= by]
    return sorted(come, key=attrgetter(at, key))


def _recency_key(task: Task) -> tuple[bool, datetime, str]:
    """Return the sort key of a task: implicit ones first, then by last update."""
    return not task.implicit, task.updated_at, task.task_id


def _find_stale_tasks(
    before: datetime,
    home: str | None,
    tasks: Mapping[str, Task],
    runs: Mapping[str, Run],
    waits: Mapping[str, Wait],
) -> set[str]:
    """Return a home's implicit tasks that were not touched since, and have no open wait."""
    seen = {run.task_id for run in runs.values() if run.seen_at >= before}
    watched = {w.task_id for w in waits.values() if w.status is WaitStatus.WATCHING}
    here = _filter_by_home(home, tasks.values())
    old = {t.task_id for t in here if t.implicit and t.updated_at < before}
    return old - seen - watched


def _select_kept_checkpoints(
    before: datetime,
    home: str | None,
    checkpoints: Mapping[tuple[str, int], Checkpoint],
    runs: Mapping[str, Run],
    gone: Collection[str],
) -> dict[tuple[str, int], Checkpoint]:
    """Return the checkpoints that stay when a home's checkpoints older than `before` are deleted.

    Checkpoints of the tasks in `gone` go too; those of runs that wait for the user stay.
    """
    waiting = (RunState.BLOCKED, RunState.REVIEW)
    here = {run.run_id for run in _filter_by_home(home, runs.values())}
    return {
        key: kept
        for key, kept in checkpoints.items()
        if runs[kept.run_id].task_id not in gone
        and (kept.at >= before or kept.run_id not in here or runs[kept.run_id].state in waiting)
    }


def _drop_rows_of_tasks(
    gone: Collection[str], rows: Mapping[_KeyT, _OfTaskT]
) -> dict[_KeyT, _OfTaskT]:
    """Return the rows that belong to none of these tasks."""
    return {key: row for key, row in rows.items() if row.task_id not in gone}


def _drop_waits(
    gone: Collection[str], waits: Mapping[str, Wait], wakes: Mapping[str, Wake]
) -> tuple[dict[str, Wait], dict[str, Wake]]:
    """Return the other waits, and the wakes that belong to none of these waits."""
    return (
        {key: wait for key, wait in waits.items() if key not in gone},
        {key: wake for key, wake in wakes.items() if wake.wait_id not in gone},
    )


def _append_lines(lines: list[_LineT], new: Iterable[_LineT], id_field: str) -> None:
    """Append rows and number them on from the last; the first is 1."""
    for line in new:
        last = getattr(lines[-1], id_field) if lines else 0
        lines.append(line.model_copy(update={id_field: last + 1}))


def _take_newest(lines: list[_SeenT], limit: int | None) -> list[_SeenT]:
    """Return the last `limit` rows; with None, all."""
    return lines if limit is None else lines[max(0, len(lines) - limit) :]


def _select_messages(
    messages: Iterable[Message], after: int | None, before: int | None
) -> list[Message]:
    """Return the messages before an id; after an id, only those of the user or type `lifecycle`."""
    return [
        message
        for message in messages
        if (before is None or message.message_id < before)
        and (
            after is None
            or (
                message.message_id > after
                and (message.role is Role.USER or message.msg_type is MessageType.LIFECYCLE)
            )
        )
    ]


def _check_keys(wakes: Mapping[str, Wake], new: Collection[Wake]) -> None:
    """Raise `Conflict` if a new wake's key exists already; `wakes` includes the new ones."""
    if not new:
        return
    holders = Counter(wake.key for wake in wakes.values())
    for wake in new:
        if holders[wake.key] > 1:
            raise Conflict(f"A wake with the key {wake.key} is owed already.")


def _check_checkpoints(
    new: Sequence[Checkpoint], known: Mapping[tuple[str, int], Checkpoint], runs: Mapping[str, Run]
) -> None:
    """Refuse checkpoints whose number exists, or whose run does not."""
    if len({(c.run_id, c.number) for c in new}) < len(new):
        raise Conflict("Two checkpoints of a run have the same number.")
    for checkpoint in new:
        if (checkpoint.run_id, checkpoint.number) in known:
            raise Conflict(f"{checkpoint.run_id} has that checkpoint already.")
        if checkpoint.run_id not in runs:
            raise TaskNotFound(f"There is no run {checkpoint.run_id}.")


def _check_tasks(change: Change, tasks: Mapping[str, Task]) -> None:
    """Raise `TaskNotFound` for rows that refer to a task that does not exist."""
    named = chain(
        (message.task_id for message in change.messages),
        (revision.task_id for revision in change.revisions),
        (wait.task_id for wait in change.waits),
        (wake.task_id for wake in change.wakes),
        (run.task_id for run in change.runs),
        (artifact.task_id for artifact in change.artifacts),
        (entry.task_id for entry in change.ledger),
        (folder.task_id for folder in change.folders),
    )
    for task_id in named:
        if task_id and task_id not in tasks:
            raise TaskNotFound(f"There is no task {task_id}; list the tasks.")


def _is_old(before: datetime, *instants: datetime | None) -> bool:
    """Return True if all known instants are before `before`."""
    return all(at < before for at in instants if at is not None)


def _is_watching(wait: Wait) -> bool:
    """Return True if the wait is watching."""
    return wait.status is WaitStatus.WATCHING


def _find_last_ended(waits: Iterable[Wait]) -> dict[str, str]:
    """Return the id of the wait that ended last, by task id."""
    ended = (wait for wait in waits if wait.task_id and not _is_watching(wait))
    in_order = sorted(ended, key=lambda wait: (wait.changed_at, wait.wait_id))
    return {wait.task_id or "": wait.wait_id for wait in in_order}


def _drop_keys(rows: Mapping[_KeyT, _AnyT], gone: Iterable[_KeyT]) -> dict[_KeyT, _AnyT]:
    """Return the rows without those keys."""
    keys = set(gone)
    return {key: row for key, row in rows.items() if key not in keys}

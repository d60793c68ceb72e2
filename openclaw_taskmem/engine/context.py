"""The context of every use case: its ports, the policies, and the live state.

All writes go through `Context.commit`, which removes credentials, sets when each task is next
checked for being stuck, and settles the due wakes of tasks that end.

No other module need know that homes may share a database: the context's store shows the rows of one
home, and those of none. A second home that uses a database sets the `shared` bookmark; the first
checks it before each pass and then restricts itself to its own rows, as the second may already be
handling the others.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

from pydantic import JsonValue

from openclaw_taskmem.domain import callers, events
from openclaw_taskmem.domain.callers import SessionKeys
from openclaw_taskmem.domain.changes import dependencies, rights, stuck
from openclaw_taskmem.domain.changes.waits import cancel_open_waits
from openclaw_taskmem.domain.conditions.targets import LookPolicy
from openclaw_taskmem.domain.policies import KeepPolicy, OutboxPolicy, RunPolicy, StuckPolicy
from openclaw_taskmem.domain.reader_budget import WAITS_BOOKMARK
from openclaw_taskmem.domain.text import redaction
from openclaw_taskmem.domain.wakes import notices, outbox
from openclaw_taskmem.domain.wakes.notices import Notify
from openclaw_taskmem.engine.folder_listings import FolderListings
from openclaw_taskmem.engine.live_state import LiveState
from openclaw_taskmem.engine.wait_watcher import NoWatcher, WaitWatcher
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import (
    Bookmark,
    Change,
    Clock,
    DroppedRows,
    Maker,
    Message,
    RecallSource,
    Run,
    RunQuery,
    RunState,
    StoreSize,
    Task,
    TaskFacts,
    TaskQuery,
    TaskStatus,
    TaskStore,
    TextMatches,
    TextQuery,
    Wait,
    WaitQuery,
    Wake,
    WakeQuery,
)
from taskmem_hookspecs.errors import Conflict, TaskNotFound
from taskmem_program.losses import Loss

T = TypeVar("T")
Facts = TypeVar("Facts")

# --- the store as one home sees it ----------------------------------------------------------

_RowT = TypeVar("_RowT", Task, Wait, Wake, Run)
_QueryT = TypeVar("_QueryT", TaskQuery, WaitQuery, WakeQuery, RunQuery, TextQuery)
_SHARED_BOOKMARK: Final = "shared"
"""The bookmark that a second home sets in the database."""
_OWNERS: Final = ("home", "registrar_home")
_NAMES: Final = ("task_id", "task_ids", "wait_id", "wake_ids")


class ScopedStore:
    """Reads and writes the rows of one home.

    Rows queried by id, or by their task or wait, are found in any home: who knows the id was given
    it.
    """

    def __init__(self, whole: TaskStore, home: str | None = None, *, sole: bool = False) -> None:
        """Wrap `whole`, the store of all homes.

        `home`: the home of new rows; None: they have none. `sole`: no other home uses the database,
        so all rows are this home's.
        """
        self.whole = whole
        self.home = home
        self.sole = sole
        self.read_task = whole.read_task
        self.read_wait = whole.read_wait
        self.read_run = whole.read_run
        self.read_records = whole.read_records
        self.find_events = whole.find_events
        self.count = whole.count

    @property
    def scope(self) -> str | None:
        """The home to which queries are restricted and callers belong; None: no restriction."""
        return None if self.sole else self.home

    @property
    def is_shared(self) -> bool:
        """Tell whether other homes may have daemons running on the same database."""
        return self.scope is not None

    def serves(self, home: str | None) -> bool:
        """Tell whether this daemon handles the rows of a home."""
        return self.scope is None or home in (None, self.scope)

    def join_database(self) -> None:
        """Set the `shared` bookmark, or look for it if this home was the first."""
        if self.sole:
            self.look_for_others()
        elif self.read_shared_bookmark(_SHARED_BOOKMARK) is None:
            word = Bookmark(name=_SHARED_BOOKMARK, value=self.home or "")
            self.whole.commit(Change(bookmarks=(word,)))

    def look_for_others(self) -> None:
        """Restrict this store to its home from now on if a second home has come."""
        if self.sole and self.read_shared_bookmark(_SHARED_BOOKMARK) is not None:
            self.sole = False

    # --- a bookmark of the home ----------------------------------------------

    def make_bookmark(self, name: str, value: str) -> Bookmark:
        """Return a bookmark of this home."""
        return Bookmark(name=self._bookmark_key(name), value=value)

    def read_bookmark(self, name: str) -> str | None:
        """Return the value of a bookmark of this home; None: it was never set.

        If this home has none, the one without a home is returned, which the first home wrote while
        it was alone. It says nothing about rows of another home.
        """
        own = self.read_shared_bookmark(self._bookmark_key(name))
        return self.read_shared_bookmark(name) if own is None else own

    def read_shared_bookmark(self, name: str) -> str | None:
        """Return the value of a bookmark of any home, by its full name; None: it was never set."""
        return next((b.value for b in self.read_records(Bookmark, name)), None)

    def _bookmark_key(self, name: str) -> str:
        return name if self.scope is None else f"{name}:{self.scope}"

    # --- as in `TaskStore` ---------------------------------------------------

    def read_messages(self, message_ids: Sequence[int]) -> Sequence[Message]:
        """Return messages of any tasks, in any order; unknown ids are ignored."""
        return self.whole.read_messages(message_ids)

    def find_tasks(self, query: TaskQuery) -> Sequence[Task]:
        """Return the tasks that match a query."""
        return self.whole.find_tasks(self._narrow(query))

    def find_waits(self, query: WaitQuery) -> Sequence[Wait]:
        """Return the waits that match a query."""
        return self.whole.find_waits(self._narrow(query))

    def find_wakes(self, query: WakeQuery) -> Sequence[Wake]:
        """Return the wakes that match a query."""
        return self.whole.find_wakes(self._narrow(query))

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        """Return the runs that match a query."""
        return self.whole.find_runs(self._narrow(query))

    def find_texts(self, query: TextQuery) -> Mapping[str, TextMatches]:
        """Return for each pattern of a query the texts of this home that have it."""
        return self.whole.find_texts(self._narrow(query))

    def count_open(self, kind: type[Task | Wait], by: Maker, limit: int) -> int:
        """Return how many open tasks or waits of this home an agent has made, up to `limit`."""
        return self.whole.count_open(kind, by, limit, self.scope)

    def commit(self, change: Change) -> None:
        """Write all of a change; new rows, and events, whose home is None get this one.

        Only rows of this home are dropped by it.
        """
        stamped = {
            "tasks": tuple(map(self._stamp, change.tasks)),
            "waits": tuple(map(self._stamp, change.waits)),
            "wakes": tuple(map(self._stamp, change.wakes)),
            "runs": tuple(map(self._stamp, change.runs)),
            "events": tuple(
                event
                if event.data.get("home", "") is not None
                else event.model_copy(update={"data": {**event.data, "home": self.home}})
                for event in change.events
            ),
            "forget_home": self.scope,
        }
        self.whole.commit(change.model_copy(update=stamped))

    def drop_ended(self, before: datetime, limit: int, upto: int | None, after: int) -> DroppedRows:
        """Drop the oldest ended rows of this home."""
        return self.whole.drop_ended(before, limit, self.scope, upto, after)

    def measure(self) -> StoreSize:
        """Return the size of the database, and whether another home has rows in it."""
        return self.whole.measure(self.scope)

    def _stamp(self, row: _RowT) -> _RowT:
        if row.version:
            return row
        unset = [name for name in _OWNERS if getattr(row, name, "") is None]
        return row.model_copy(update=dict.fromkeys(unset, self.home)) if unset else row

    def _narrow(self, query: _QueryT) -> _QueryT:
        scope = self.scope
        if scope is None or query.home is not None:
            return query
        if any(getattr(query, name, None) is not None for name in _NAMES):
            return query
        return query.model_copy(update={"home": scope})


# --- the context ---------------------------------------------------------------------------


Decision = tuple[Change, T]
"""The change to commit, and the result for the caller."""
_MOST_RELEASED: Final = 100_000
"""Tasks that the end of one releases, at most."""
MOST_TRIES: Final = 8
"""How often a use case is tried before it raises `Conflict`.

Within a daemon, calls on one task take turns. A conflict comes from another daemon on the same
database, or from a pass that commits without the task's lock, such as the outbox's.
"""
LOCK_COUNT: Final = 64
"""Number of locks that all tasks share; calls on different tasks rarely use the same one."""

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME: Final = 9
"""Characters of an id that encode its time; `_CHANCE` more are random."""
_CHANCE: Final = 7


@dataclass(frozen=True, slots=True)
class DueWork:
    """The work that a commit has made due.

    `stuck_at`, `wake_at` and `lapse_at` are the times of the first stuck check, due wake and end of
    a lease among the written rows; None: there is none.
    """

    stuck_at: datetime | None
    wake_at: datetime | None
    lapse_at: datetime | None
    hooks_due: bool
    """True if hooks of plug-ins may have to be called."""
    lines_due: bool
    """True if there may be a line for a user, or a turn to stop."""
    views_due: bool
    """True if a user may see another card, or other questions."""
    pages_due: bool
    """True if a page may show something new: more was written than positions in the log."""
    waits: tuple[str, ...]
    """Ids of the waits that were opened, changed or ended."""
    roles: frozenset[str | None]
    """Roles whose runs were written; None stands for a run without a role."""
    queued_for: frozenset[str | None]
    """Those of `roles` that have a run queued now."""
    tasks: frozenset[str] = frozenset()
    """Ids of the tasks that were written, or whose runs were."""
    bookmarks: frozenset[str] = frozenset()
    """Names of the bookmarks that were written, without their homes."""


@dataclass(frozen=True, slots=True)
class ReaderAnswer:
    """The answer of a reader to a question of a use case."""

    fields: Mapping[str, JsonValue]
    """Those that the question requires are there; all else is for the asker to check."""
    reader: str
    """Name of the reader."""


def new_id(kind: str, now: datetime) -> str:
    """Return a new id, such as `task_1kjkb3q000bgeqtr`; ids of one kind sort by the millisecond."""
    millis = int(now.timestamp() * 1000)
    chance = secrets.randbits(5 * _CHANCE)
    return f"{kind}_{_encode_digits(millis, _TIME)}{_encode_digits(chance, _CHANCE)}"


def _encode_digits(number: int, width: int) -> str:
    digits = [_ALPHABET[(number >> (5 * i)) & 31] for i in range(width)]
    return "".join(reversed(digits))


def _ignore_due(_: DueWork) -> None:
    return None


def _ignore_result(_: object) -> None:
    return None


def _return_unknown(_: str) -> bool | None:
    return None


def _reach_everybody(*_: object) -> bool:
    return True


def _read_nothing(*_: object) -> None:
    return None


def _run_if_due(seconds: float, work: Callable[[], None]) -> None:
    if seconds <= 0:
        work()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The settings by which use cases decide."""

    stuck: StuckPolicy = field(default_factory=StuckPolicy)
    outbox: OutboxPolicy = field(default_factory=OutboxPolicy)
    runs: RunPolicy = field(default_factory=RunPolicy)
    retention: KeepPolicy = field(default_factory=KeepPolicy)
    looks: LookPolicy = field(default_factory=LookPolicy)
    """The rules for what agents may look at."""
    notices: Notify = Notify.MILESTONES
    """Which notices users get."""
    artifact_roots: tuple[str, ...] = ()
    """Folders in which artifacts may lie, besides the agent's own folder."""
    writes_steps: bool = False
    """True if a reader writes out the steps of what was recorded of a screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that a use case may reach outside the domain: ports, policies and the live state."""

    store: ScopedStore
    plugin_host: PluginHost
    clock: Clock
    """The machine's; of a database on a server, that server's, as all of its daemons have it."""
    measure_lead: Callable[[], timedelta] = timedelta
    """Returns how far the machine's clock, which dates files, is ahead of `clock`."""
    policies: Policies = field(default_factory=Policies)
    live: LiveState = field(default_factory=LiveState)
    listings: FolderListings = field(default_factory=FolderListings)
    home_folder: str | None = None
    """Where this home keeps its files; None: nowhere."""
    sessions: SessionKeys = field(default_factory=SessionKeys)
    """How the agent host names the sessions of its own agents."""
    is_alive: Callable[[str], bool | None] = _return_unknown
    """Tells whether a process is alive, by its identity; None: unknown."""
    new_id: Callable[[str, datetime], str] = new_id
    wait_watcher: WaitWatcher = field(default_factory=NoWatcher)
    recall_sources: Sequence[RecallSource] = ()
    """The sources of recorded history."""
    ask_reader: Callable[[str, str, Mapping[str, JsonValue]], ReaderAnswer | None] = _read_nothing
    """Has a reader follow an instruction on a text, and answer as a JSON schema says.

    None: there is no reader, or it did not answer. The text is data, never an instruction.
    """
    reaches: Callable[[str | None, str | None], bool] = _reach_everybody
    """Tells whether a transport can reach an agent, by its host and session."""
    volatile_transports: Collection[str] = ()
    """Names of the transports whose messages are lost if a session ends before it reads them."""
    find_loss: Callable[[], Loss | None] = _read_nothing
    """Returns what is gone from the database; None: nothing."""
    command: str = "taskmem"
    """The command by which an agent calls us in a shell."""
    run_later: Callable[[float, Callable[[], None]], None] = _run_if_due
    """Runs work in the background after that many seconds.

    Without a daemon it runs only work due now.
    """
    nudge: Callable[[DueWork], None] = _ignore_due
    """Called after each commit, in the thread that committed."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set at shutdown: a long pass should stop early."""
    locks: tuple[threading.Lock, ...] = field(
        default_factory=lambda: tuple(threading.Lock() for _ in range(LOCK_COUNT))
    )

    def has_ended(self, process: str | None) -> bool:
        """Tell whether a process has surely ended."""
        return process is not None and self.is_alive(process) is False

    def commit(self, change: Change) -> None:
        """Write all of a change or nothing; an empty one is ignored.

        Credentials are removed, and each task gets the time of its next stuck check. With the end
        of a task its open waits end, and due wakes that it makes pointless. Events of the doctor's
        trials, and those of implicit tasks other than questions, are left out.

        Raises:
            Conflict: Another writer changed one of the rows first.
        """
        if change.empty:
            return
        moved = {e.task_id for e in change.events if e.kind == events.STATUS_CHANGED}
        for task in change.tasks:
            if task.task_id in moved and task.status is not TaskStatus.ACTIVE:
                change = self._settle_stopped_task(change, task)
            if task.task_id in moved and task.status.terminal:
                change = self._release_blocked(change, task)
        tasks = tuple(stuck.set_due_time(task, self.policies.stuck) for task in change.tasks)
        log = notices.list_logged_events(change)
        ready = redaction.scrub_change(change.model_copy(update={"tasks": tasks, "events": log}))
        self.store.commit(ready)
        self.listings.release(task.task_id for task in change.tasks if task.status.terminal)
        self.nudge(collect_due_work(ready))

    def _settle_stopped_task(self, change: Change, task: Task) -> Change:
        """Add to a change what follows for the waits and wakes of a task that it stops."""
        now, facts = self.clock.now(), self.store.read_task(task.task_id)
        changed = {wake.wake_id for wake in change.wakes}
        others = [wake for wake in facts.wakes if wake.wake_id not in changed]
        settled = outbox.settle_stopped(others, ended=task.status.terminal)
        log = outbox.build_settled_events(settled, now)
        more = {"wakes": (*change.wakes, *settled), "events": (*change.events, *log)}
        change = change.model_copy(update=more)
        return cancel_open_waits(facts, task, change, now) if task.status.terminal else change

    def _release_blocked(self, change: Change, ended: Task) -> Change:
        """Take a task that ends out of all that it blocks, in any home; nothing blocks it either.

        Its agents are woken by this commit, so none is forgotten.
        """
        now, blocked = self.clock.now(), TaskQuery(blocker=ended.task_id, limit=_MOST_RELEASED)
        words = dependencies.find_last_words(change.messages, ended.task_id)
        tasks = {task.task_id: task for task in change.tasks}
        tasks[ended.task_id] = tasks[ended.task_id].model_copy(update={"blocked_by": ()})
        parts = [change]
        for found in self.store.whole.find_tasks(blocked):
            if (facts := self.find_task(found.task_id)) is None:
                continue
            facts = facts.model_copy(update={"task": tasks.get(found.task_id, facts.task)})
            if ended.task_id not in facts.task.blocked_by or facts.task.status.terminal:
                continue
            wake_id = self.new_id("wake", now)
            released = dependencies.release_task(facts, ended, words, wake_id, now)
            tasks |= {task.task_id: task for task in released.tasks}
            parts.append(released)
        added = {
            name: tuple(row for part in parts for row in getattr(part, name))
            for name in ("messages", "wakes", "runs", "events")
        }
        return change.model_copy(update={"tasks": tuple(tasks.values()), **added})

    def lock_subjects(self, *subjects: str) -> ExitStack:
        """Lock subjects for a block, so that calls on one of them run one at a time.

        Without this, retries of many callers would starve the slowest.
        """
        places = {hash(each) % LOCK_COUNT for each in subjects}
        with ExitStack() as locked:
            # Always lock in the same order, to prevent deadlocks.
            for place in sorted(places):
                locked.enter_context(self.locks[place])
            return locked.pop_all()

    def update(
        self,
        subject: str,
        read: Callable[[], Facts],
        decide: Callable[[Facts, datetime], Decision[T]],
        *others: str,
        tries: int = MOST_TRIES,
        follow: Callable[[T], None] = _ignore_result,
    ) -> T:
        """Read facts, decide about them, commit the change, and return the decision's result.

        All of this is repeated when another writer was first, so `read` and `decide` write nothing.

        Args:
            subject: Id of the task or wait that it is about; it is locked.
            read: Reads the facts.
            decide: Returns the change and the result, from the facts and the present instant.
            others: Other subjects to lock at the same time.
            tries: How often all of it is done at most.
            follow: Called once with the result after the commit, while the subject is locked.

        Raises:
            Conflict: Another writer was first on every try.
        """
        with self.lock_subjects(subject, *others):
            while True:
                tries -= 1
                try:
                    change, result = decide(read(), self.clock.now())
                    self.commit(change)
                except Conflict:
                    if tries <= 0:
                        raise
                else:
                    follow(result)
                    return result

    def update_task(
        self,
        task_id: str,
        decide: Callable[[TaskFacts, datetime], Decision[T]],
        *others: str,
        tries: int = MOST_TRIES,
        follow: Callable[[T], None] = _ignore_result,
    ) -> T:
        """Decide about a task as in `update`; the facts are `store.read_task`'s.

        Raises:
            Conflict: Another writer was first on every try.
            TaskNotFound: No task has that id.
        """
        read = partial(self.store.read_task, task_id)
        return self.update(task_id, read, decide, *others, tries=tries, follow=follow)

    def find_session_runs(
        self, session: str, host: str | None, home: str | None = None
    ) -> Sequence[Run]:
        """Return the open runs of a session, without those of another gateway.

        `host` is the session's gateway: two gateways may use the same session key. `home` is the
        runs' home; None: this one.
        """
        found = self.store.find_runs(RunQuery(session_key=session, home=home))
        return [run for run in found if not self.is_elsewhere(run, host)]

    def is_elsewhere(self, run: Run, host: str | None) -> bool:
        """Tell whether the session of a run lives in another gateway than `host`."""
        if run.owner is not None and run.owner.host is not None:
            return callers.is_other_gateway(run.owner.host, host)
        facts = self.find_task(run.task_id) if callers.is_named_gateway(host) else None
        return facts is not None and callers.is_other_gateway(
            rights.find_host(facts.task, run), host
        )

    def find_task(self, task_id: str) -> TaskFacts | None:
        """Return a task; None: no task has that id, or its rows cannot be read.

        Work for other tasks goes on without it; `taskmem doctor` names it.
        """
        with suppress(TaskNotFound):
            return self.store.read_task(task_id)
        return None


def collect_due_work(change: Change) -> DueWork:
    """Return what a committed change makes due."""
    # Of bookmarks, pages show what readers were asked.
    is_shown = any(rows for name, rows in change if name != "bookmarks") or any(
        mark.name.partition(":")[0] == WAITS_BOOKMARK for mark in change.bookmarks
    )
    return DueWork(
        stuck_at=min(
            (task.stuck_due_at for task in change.tasks if task.stuck_due_at), default=None
        ),
        wake_at=min((wake.due_at for wake in change.wakes if wake.due_at), default=None),
        lapse_at=min((run.lease_until for run in change.runs if run.lease_until), default=None),
        hooks_due=any(event.kind in events.HOOK_KINDS for event in change.events),
        lines_due=any(event.kind in events.LINE_KINDS for event in change.events),
        views_due=any(event.kind in events.VIEW_KINDS for event in change.events),
        pages_due=is_shown,
        waits=tuple(wait.wait_id for wait in change.waits),
        roles=frozenset(run.role for run in change.runs),
        queued_for=frozenset(run.role for run in change.runs if run.state is RunState.QUEUED),
        tasks=frozenset(
            (*(task.task_id for task in change.tasks), *(run.task_id for run in change.runs))
        ),
        bookmarks=frozenset(mark.name.partition(":")[0] for mark in change.bookmarks),
    )

"""A store as one home sees it: what belongs to that home, or to none.

Nobody else need know that homes may share a database. A home that is given the database
of another leaves word there; the other looks before each pass, and is narrowed to its
own from then on: what it would do for everybody may be on its way already.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeVar

from taskmem_hookspecs import (
    Bookmark,
    Change,
    DroppedRows,
    Event,
    Maker,
    Run,
    RunQuery,
    StoreSize,
    Task,
    TaskQuery,
    TaskStore,
    Wait,
    WaitQuery,
    Wake,
    WakeQuery,
)

RowT = TypeVar("RowT", Task, Wait, Wake, Run)
QueryT = TypeVar("QueryT", TaskQuery, WaitQuery, WakeQuery, RunQuery)
SHARED: Final = "shared"
"""The bookmark of a home that was given the database of another."""
_OWNERS: Final = ("home", "registrar_home")
_NAMES: Final = ("task_id", "task_ids", "wait_id", "wake_ids")


class ScopedStore:
    """Reads and writes what belongs to a home.

    What is asked for by its id, or as part of a task or wait, is found wherever it
    belongs: whoever knows the id was given it.
    """

    def __init__(self, whole: TaskStore, home: str | None = None, *, sole: bool = False) -> None:
        """Take the whole store, for what any home may do or see.

        `home`: what is made here belongs to it; None: to no home. `sole`: whether no
        other home has come to the database, so that all is this one's.
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
        """The home that questions are about, and callers are of; None: all is."""
        return None if self.sole else self.home

    @property
    def is_shared(self) -> bool:
        """Whether other homes may have daemons at work on the same database."""
        return self.scope is not None

    def serves(self, home: str | None) -> bool:
        """Whether what belongs to a home is for this daemon to look after."""
        return self.scope is None or home in (None, self.scope)

    def join_database(self) -> None:
        """Leave word that the database may be another's, or look for such word."""
        if self.sole:
            self.look_for_others()
        elif self.read_shared_bookmark(SHARED) is None:
            word = Bookmark(name=SHARED, value=self.home or "")
            self.whole.commit(Change(bookmarks=(word,)))

    def look_for_others(self) -> None:
        """Narrow this store to its home from now on, if another has come."""
        if self.sole and self.read_shared_bookmark(SHARED) is not None:
            self.sole = False

    # --- a bookmark of the home ----------------------------------------------

    def make_bookmark(self, name: str, value: str) -> Bookmark:
        """Return a bookmark of this home."""
        return Bookmark(name=self._bookmark_key(name), value=value)

    def read_bookmark(self, name: str) -> str | None:
        """Return the value of a bookmark of this home; None: it never set it.

        One that was written while the database had a single home is the first's, and
        no other home can mistake it for news.
        """
        own = self.read_shared_bookmark(self._bookmark_key(name))
        return self.read_shared_bookmark(name) if own is None else own

    def read_shared_bookmark(self, name: str) -> str | None:
        """Return the value of a bookmark, whosever it is; None: it was never set."""
        return next((b.value for b in self.read_records(Bookmark, name)), None)

    def _bookmark_key(self, name: str) -> str:
        return name if self.scope is None else f"{name}:{self.scope}"

    # --- as in `TaskStore` ---------------------------------------------------

    def find_tasks(self, query: TaskQuery) -> Sequence[Task]:
        """Return the tasks that a query asks for."""
        return self.whole.find_tasks(self._narrow(query))

    def find_waits(self, query: WaitQuery) -> Sequence[Wait]:
        """Return the waits that a query asks for."""
        return self.whole.find_waits(self._narrow(query))

    def find_wakes(self, query: WakeQuery) -> Sequence[Wake]:
        """Return the wakes that a query asks for."""
        return self.whole.find_wakes(self._narrow(query))

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        """Return the runs that a query asks for."""
        return self.whole.find_runs(self._narrow(query))

    def count_open(self, kind: type[Task | Wait], by: Maker, limit: int) -> int:
        """Return how many open tasks or waits of this home are somebody's doing."""
        return self.whole.count_open(kind, by, limit, self.scope)

    def commit(self, change: Change) -> None:
        """Write all of a change: what is new, or told, of no home is this one's.

        Of what the change lets go, only what is of this home goes.
        """
        self.whole.commit(
            change.model_copy(
                update={
                    "tasks": tuple(map(self._stamp, change.tasks)),
                    "waits": tuple(map(self._stamp, change.waits)),
                    "wakes": tuple(map(self._stamp, change.wakes)),
                    "runs": tuple(map(self._stamp, change.runs)),
                    "events": tuple(map(self._stamp_event, change.events)),
                    "forget_home": self.scope,
                }
            )
        )

    def drop_ended(self, before: datetime, limit: int, upto: int | None, after: int) -> DroppedRows:
        """Drop the oldest rows of what has ended in this home."""
        return self.whole.drop_ended(before, limit, self.scope, upto, after)

    def measure(self) -> StoreSize:
        """Return how much room all takes, and whether another home has any of it."""
        return self.whole.measure(self.scope)

    def _stamp(self, row: RowT) -> RowT:
        unset = [name for name in _OWNERS if getattr(row, name, "") is None]
        if row.version or not unset:
            return row
        return row.model_copy(update=dict.fromkeys(unset, self.home))

    def _stamp_event(self, event: Event) -> Event:
        if event.data.get("home", "") is not None:
            return event
        return event.model_copy(update={"data": {**event.data, "home": self.home}})

    def _narrow(self, query: QueryT) -> QueryT:
        scope = self.scope
        if scope is None or query.home is not None:
            return query
        if any(getattr(query, name, None) is not None for name in _NAMES):
            return query
        return query.model_copy(update={"home": scope})

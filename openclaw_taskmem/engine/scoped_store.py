"""The store as one home sees it: rows of that home, or of no home.

No other module need know that homes may share a database. A second home that uses a database sets
the `shared` bookmark; the first checks it before each pass and then restricts itself to its own
rows, as the second may already be handling the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar

from taskmem_hookspecs import (
    Bookmark,
    Change,
    DroppedRows,
    Maker,
    Message,
    Run,
    RunQuery,
    StoreSize,
    Task,
    TaskQuery,
    TaskStore,
    TextMatches,
    TextQuery,
    Wait,
    WaitQuery,
    Wake,
    WakeQuery,
)

RowT = TypeVar("RowT", Task, Wait, Wake, Run)
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

    def _stamp(self, row: RowT) -> RowT:
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

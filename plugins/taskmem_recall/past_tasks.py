"""The past tasks of a home as a source of `memory_recall`: keeps the index, and searches it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from taskmem_hookspecs import Clock, Recollection, TaskHistory, TaskmemError
from taskmem_recall.past_task_database import IndexDamaged
from taskmem_recall.past_task_index import PastTaskIndex
from taskmem_recall.past_task_pages import (
    build_recollection,
    rank_matches,
    split_into_pages,
    to_millis,
)
from taskmem_recall.past_task_search import PastTaskSearch
from taskmem_recall.query_words import extract_words, join_neighbours

P = ParamSpec("P")
T = TypeVar("T")
BATCH: Final = 20
"""Tasks that are stored in one transaction."""
REST: Final = 3.0
"""How many times as long as it works it rests, while it compares all tasks: calls go first."""
EVENTS: Final = 500
"""Events of the log that are read at once."""
PAUSE: Final = 1.0
"""Seconds for which changes are collected before they are stored."""
RECENT: Final = 8
"""Messages that are read beyond those that are new, in case that more have come meanwhile."""


class PastTasks:
    """A `RecallSource` of everything that is stored about tasks.

    The index is a copy. It is brought up to date with the store when the daemon starts, then
    follows the log, and is made anew when it is lost or damaged.
    """

    def __init__(self, history: TaskHistory, folder: Path, clock: Clock) -> None:
        """Create the source; `folder` is its own, and is made when it is needed."""
        self._history = history
        self._clock = clock
        self._index = PastTaskIndex(folder)
        self._search = PastTaskSearch(folder)
        self._is_complete = False
        self._trouble: str | None = None
        """Why the index does not follow the store; None: it does."""
        self._damaged = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="past tasks")
        """The one thread that uses the index. A cancelled call goes on in it, so nothing else may
        close the connection meanwhile."""

    def recall(self, query: str, limit: int, recency_bias: float) -> Sequence[Recollection]:
        """Return the best passages of at most `limit` tasks, best first; see `RecallSource`."""
        return self.recall_tasks(query, limit, recency_bias, lambda _: True)

    def recall_tasks(
        self, query: str, limit: int, recency_bias: float, may_recall: Callable[[str], bool]
    ) -> Sequence[Recollection]:
        """Return the same of the tasks that the caller may recall; see `TaskSource`."""
        words = extract_words(query)
        if not words:
            return ()
        try:
            found = self._search.find_pages(words, join_neighbours(words), limit, may_recall)
            if not found.pages:
                return ()
            ranked = rank_matches(found.pages, self._clock.now(), recency_bias)[:limit]
            read = self._search.read_matches(found.terms, [page for page, _ in ranked])
        except IndexDamaged:
            # While it is still being made, it may not be there yet.
            if self._is_complete and self._loop is not None:
                self._loop.call_soon_threadsafe(self._damaged.set)
            self._is_complete = False
            return ()
        return [
            build_recollection(read[match.page], confidence)
            for match, confidence in ranked
            if match.page in read
        ]

    def advice(self) -> str | None:
        """Say that tasks may be missing from an answer, and why; None: none are."""
        if self._trouble is not None:
            return f"Past tasks may be missing: {self._trouble}"
        if self._is_complete:
            return None
        return "The index of past tasks is being made, so some may be missing; ask again soon."

    async def run(self) -> None:
        """Keep the index up to date until the daemon stops."""
        self._loop = asyncio.get_running_loop()
        self._damaged.clear()
        try:
            await self._keep_up()
        except IndexDamaged:
            self._is_complete = False
            await self._call(self._remove_index)
            raise
        except TaskmemError as error:
            self._trouble = str(error)
            raise
        finally:
            await self._call(self._index.close)

    async def _keep_up(self) -> None:
        place = await self._call(self._find_place)
        after: str | None = ""
        while after is not None:
            began = self._clock.monotonic()
            after = await self._call(self._compare_some, after)
            if worked := self._clock.monotonic() - began:
                await self._clock.sleep(REST * worked)
        while True:
            changes = await self._call(self._history.list_changes, place, EVENTS)
            if changes.place != place or not self._is_complete:
                place = changes.place
                await self._call(self._store_changes, changes.task_ids, place)
                self._is_complete, self._trouble = True, None
            if self._damaged.is_set():
                raise IndexDamaged("The index of past tasks could not be read.")
            if not changes.task_ids:
                await self._wait_for_changes(place)
                await self._clock.sleep(PAUSE)

    async def _wait_for_changes(self, place: int) -> None:
        waiting = [
            asyncio.ensure_future(self._history.wait_for_changes(place)),
            asyncio.ensure_future(self._damaged.wait()),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()

    async def _call(self, use: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function does in the thread of the index, after what runs there."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(use, *args, **kwargs))

    # --- in the thread of the index ----------------------------------------------

    def _find_place(self) -> int:
        """Return the event from which to follow the log; begin anew if the log is another one."""
        end, place = self._history.find_end(), self._index.read_place()
        if place is not None and place > end:
            self._remove_index()
            place = None
        return end if place is None else place

    def _compare_some(self, after: str) -> str | None:
        """Store those of the next tasks that the index has not as they are, and remove the rest.

        Returns the last of them; None: there are no more.
        """
        tasks = self._history.list_tasks(after, BATCH)
        last = tasks[-1].task_id if len(tasks) == BATCH else None
        known = self._index.list_versions(after, last)
        there = {task.task_id: (task.version, to_millis(task.updated_at)) for task in tasks}
        with self._index.change():
            for task in tasks:
                if known.get(task.task_id) != there[task.task_id]:
                    # An older copy of the database may have been put back, so nothing is kept.
                    self._index.remove_task(task.task_id)
                    self._store_task(task.task_id)
            for task_id in known.keys() - there.keys():
                self._index.remove_task(task_id)
        return last

    def _store_changes(self, task_ids: Sequence[str], place: int) -> None:
        with self._index.change(place):
            for task_id in task_ids:
                self._store_task(task_id)

    def _store_task(self, task_id: str) -> None:
        """Store a task as it is now, with the messages that the index has not."""
        record = self._history.read_task(task_id)
        if record is None:
            self._index.remove_task(task_id)
            return
        count, last = self._index.read_last_message(task_id)
        limit = record.task.message_count - count + RECENT if count else None
        messages = self._history.read_messages(task_id, limit)
        if limit is not None and messages and messages[0].message_id > last:
            messages = self._history.read_messages(task_id)
        new = [message for message in messages if message.message_id > last]
        self._index.store_task(record, [*split_into_pages(new)])

    def _remove_index(self) -> None:
        self._search.close()
        self._index.remove()

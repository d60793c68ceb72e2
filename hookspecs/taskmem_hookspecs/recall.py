"""Define the sources of `memory_recall`, and the tasks of the home that they may search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from taskmem_hookspecs.model import Instant, Message, Task, Value
from taskmem_hookspecs.roles import TextMatches, TextQuery


class Recollection(Value):
    """A match in recorded history. Source: docs/origins.md, "Recall"."""

    timestamp: Instant
    duration_seconds: float
    confidence: float
    """From 0 to 1: how likely it is what was asked for."""
    summary: str
    steps: tuple[str, ...] = ()
    video_url: str | None = None
    video_start_ms: int | None = None
    video_end_ms: int | None = None
    source: str = ""
    """Name of the source, such as `tasks` or `screen`; empty: unnamed."""
    task_id: str | None = None
    """Task that it is about; the core drops it where the caller may not recall that task. None: it
    is about no task, and agents in a sandbox do not get it."""
    message_id: int | None = None
    """Message of the task's thread that matched; None: something else did."""
    window_titles: tuple[str, ...] = ()
    """Titles of the windows, and of the pages in them, that it shows; for sources that record a
    screen. What several of them recorded of one title at one time is answered once. Agents do not
    get it."""
    steps_by: str | None = None
    """Reader that wrote the steps out, set by the core; None: they are those of the source."""


@runtime_checkable
class RecallSource(Protocol):
    """Searches recorded history."""

    def recall(self, query: str, limit: int, recency_bias: float) -> Sequence[Recollection]:
        """Return at most `limit` matches, best first; `recency_bias` is from 0 to 1.

        Called from several threads, under the time limit of hooks.
        """
        ...


@runtime_checkable
class TaskSource(RecallSource, Protocol):
    """A source of matches about tasks, which finds as many that the caller may recall as wanted."""

    def recall_tasks(
        self, query: str, limit: int, recency_bias: float, may_recall: Callable[[str], bool]
    ) -> Sequence[Recollection]:
        """Return at most `limit` matches, best first, of tasks that the caller may recall.

        Called in place of `recall`. `may_recall` says it of a task by its id, and costs a look into
        the store: ask it of the best matches, one after the other, until there are enough.
        """
        ...


@runtime_checkable
class BackgroundSource(RecallSource, Protocol):
    """A source with work of its own, such as a screen to record."""

    async def run(self) -> None:
        """Work until the daemon stops, which cancels it.

        The daemon runs it on the plug-in's event loop, which all parts of the plug-in's package
        share: what takes longer than a few milliseconds belongs into a thread. If it raises, the
        error is logged and it is started again, later after each failure; if it returns, it is not.
        """
        ...


@runtime_checkable
class AdvisingSource(RecallSource, Protocol):
    """A source that may have something to say with every answer."""

    def advice(self) -> str | None:
        """Return one sentence to add to an answer, such as how to switch it on; None: nothing."""
        ...


@runtime_checkable
class ActiveSource(RecallSource, Protocol):
    """A source whose activity people see in `taskmem status` and in the header of the pages."""

    def activity(self) -> str | None:
        """Return what it does now, in one line, such as "Recording this screen since 14:02".

        None: nothing to tell.
        """
        ...


class TaskHistory(Protocol):
    """The tasks of the home, as they are stored; implicit tasks are left out.

    All methods may be called from any thread, and may raise `StoreBusy` or `StoreUnavailable`; the
    next call works once the cause is gone.
    """

    def find_texts(self, query: TextQuery) -> Mapping[str, TextMatches]:
        """Return for each pattern of a query the texts that have it, see `TaskStore`."""
        ...

    def read_tasks(self, task_ids: Sequence[str]) -> Sequence[Task]:
        """Return those of some tasks that the home has, in any order."""
        ...

    def read_messages(self, message_ids: Sequence[int]) -> Sequence[Message]:
        """Return messages that `find_texts` found, in any order; deleted ones are left out."""
        ...

    def list_other_texts(self, task_id: str) -> Sequence[str]:
        """Return the replaced steps of a task, and the paths that it made."""
        ...

"""Check, select and sort the rows of a store in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from operator import attrgetter
from typing import TypeVar

from taskmem_hookspecs.changes import Change
from taskmem_hookspecs.errors import Conflict, TaskNotFound
from taskmem_hookspecs.evidence import Artifact, LedgerEntry, WorkFolder
from taskmem_hookspecs.model import (
    Event,
    Maker,
    Message,
    MessageType,
    PlanRevision,
    Role,
    Task,
    Wait,
    WaitStatus,
    Wake,
)
from taskmem_hookspecs.runs import Checkpoint, Run, RunState
from taskmem_hookspecs.value import Value

ENDED_WAITS = 20
"""Number of ended waits that `TaskFacts` includes."""
_PLURALS = {"states": "state", "task_ids": "task_id", "wake_ids": "wake_id"}
_OR_NONE = ("home", "role")
"""Fields of a query that also match rows in which the field is None."""
RowT = TypeVar("RowT", Task, Wait, Wake, Run, Artifact)
OwnedT = TypeVar("OwnedT", Task, Wait, Wake, Run)
AgedT = TypeVar("AgedT", Wait, Wake, Run)
PathT = TypeVar("PathT", LedgerEntry, WorkFolder, Checkpoint)
OfTaskT = TypeVar("OfTaskT", Wait, Wake, Run, Artifact, LedgerEntry, WorkFolder)
AskedT = TypeVar("AskedT", Task, Wait, Wake, Run, Event)
KeyT = TypeVar("KeyT")
LineT = TypeVar("LineT", Message, PlanRevision, Event)
SeenT = TypeVar("SeenT", Message, PlanRevision, Event, Checkpoint)


def raise_versions(
    stored: Mapping[str, RowT], rows: Iterable[RowT], id_of: Callable[[RowT], str]
) -> dict[str, RowT]:
    """Return the rows with versions raised by one; raise `Conflict` if one has changed."""
    moved: dict[str, RowT] = {}
    for row in rows:
        found = moved.get(id_of(row)) or stored.get(id_of(row))
        if row.version != (found.version if found else 0):
            raise Conflict(f"{id_of(row)} was changed by another; read it again.")
        moved[id_of(row)] = row.model_copy(update={"version": row.version + 1})
    return moved


def select_known_waits(newest_first: Sequence[Wait]) -> tuple[Wait, ...]:
    """Return the open waits and the last ended ones, oldest first."""
    ended = [w for w in newest_first if w.status is not WaitStatus.WATCHING]
    last = sorted(ended, key=lambda w: (w.changed_at, w.wait_id))[-ENDED_WAITS:]
    keep = {w.wait_id for w in last}
    return tuple(
        w for w in reversed(newest_first) if w.status is WaitStatus.WATCHING or w.wait_id in keep
    )


def list_open_runs(runs: Mapping[str, Run], task_id: str | None = None) -> list[Run]:
    """Return the runs that have not ended; with None, of all tasks."""
    mine = (run for run in runs.values() if task_id in (None, run.task_id))
    return [run for run in mine if not run.state.terminal]


def is_of_home(row: Task | Wait | Wake | Run, home: str | None) -> bool:
    """Return True if the row has this home or none; with None, always."""
    return home is None or row.home in (None, home)


def filter_by_home(home: str | None, rows: Iterable[OwnedT]) -> list[OwnedT]:
    """Return the rows of this home or of none; with None, all rows."""
    return [row for row in rows if is_of_home(row, home)]


def filter_by_query(query: Value, rows: Iterable[AskedT]) -> list[AskedT]:
    """Return the rows that match the query's fields that rows have too; None matches any row."""
    wanted = [
        (_PLURALS[name], value)
        if name in _PLURALS
        else (name, (value, None) if name in _OR_NONE else (value,))
        for name, value in vars(query).items()
        if value is not None
    ]

    found: list[AskedT] = list(rows)
    for field, values in wanted:
        if found and field in vars(found[0]):
            found = [row for row in found if getattr(row, field) in values]
    return found


def is_within(part: str | None, text: str) -> bool:
    """Return True if a text contains a part, whatever the case; None is in every text."""
    return part is None or part.lower() in text.lower()


def sort_by_key(rows: Mapping[tuple[str, KeyT], PathT]) -> list[PathT]:
    """Return the rows in the order of their keys."""
    return [row for _, row in sorted(rows.items(), key=lambda pair: pair[0])]


def is_by(maker: Maker, host: str | None, session_key: str | None) -> bool:
    """Return True if a row with this host and session belongs to the maker."""
    own = session_key is not None and f"{session_key}:".startswith(f"{maker.agent}:")
    return host in maker.hosts and (maker.agent is None or own)


def sort_newest_first(rows: Iterable[AgedT], key: str) -> list[AgedT]:
    """Return the rows by `created_at`, then by the id in the field `key`, newest first."""
    return sorted(rows, key=attrgetter("created_at", key), reverse=True)


def select_due(rows: Iterable[OwnedT], by: datetime, at: str, key: str) -> list[OwnedT]:
    """Return the rows whose field `at` is not later than `by`, in the order of `at` and `key`."""
    dues = [row for row in rows if getattr(row, at) is not None]
    come = [row for row in dues if getattr(row, at) <= by]
    return sorted(come, key=attrgetter(at, key))


def recency_key(task: Task) -> tuple[bool, datetime, str]:
    """Return the sort key of a task: implicit ones first, then by last update."""
    return not task.implicit, task.updated_at, task.task_id


def find_stale_tasks(
    before: datetime,
    home: str | None,
    tasks: Mapping[str, Task],
    runs: Mapping[str, Run],
    waits: Mapping[str, Wait],
) -> set[str]:
    """Return a home's implicit tasks that were not touched since, and have no open wait."""
    seen = {run.task_id for run in runs.values() if run.seen_at >= before}
    watched = {w.task_id for w in waits.values() if w.status is WaitStatus.WATCHING}
    here = filter_by_home(home, tasks.values())
    old = {t.task_id for t in here if t.implicit and t.updated_at < before}
    return old - seen - watched


def select_kept_checkpoints(
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
    here = {run.run_id for run in filter_by_home(home, runs.values())}
    return {
        key: kept
        for key, kept in checkpoints.items()
        if runs[kept.run_id].task_id not in gone
        and (kept.at >= before or kept.run_id not in here or runs[kept.run_id].state in waiting)
    }


def drop_rows_of_tasks(gone: Collection[str], rows: Mapping[KeyT, OfTaskT]) -> dict[KeyT, OfTaskT]:
    """Return the rows that belong to none of these tasks."""
    return {key: row for key, row in rows.items() if row.task_id not in gone}


def drop_waits(
    gone: Collection[str], waits: Mapping[str, Wait], wakes: Mapping[str, Wake]
) -> tuple[dict[str, Wait], dict[str, Wake]]:
    """Return the other waits, and the wakes that belong to none of these waits."""
    return (
        {key: wait for key, wait in waits.items() if key not in gone},
        {key: wake for key, wake in wakes.items() if wake.wait_id not in gone},
    )


def append_lines(lines: list[LineT], new: Iterable[LineT], id_field: str) -> None:
    """Append rows and number them on from the last; the first is 1."""
    for line in new:
        last = getattr(lines[-1], id_field) if lines else 0
        lines.append(line.model_copy(update={id_field: last + 1}))


def take_newest(lines: list[SeenT], limit: int | None) -> list[SeenT]:
    """Return the last `limit` rows; with None, all."""
    return lines if limit is None else lines[max(0, len(lines) - limit) :]


def select_messages(
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


def check_keys(wakes: Mapping[str, Wake], new: Collection[Wake]) -> None:
    """Raise `Conflict` if a new wake's key exists already; `wakes` includes the new ones."""
    if not new:
        return
    holders = Counter(wake.key for wake in wakes.values())
    for wake in new:
        if holders[wake.key] > 1:
            raise Conflict(f"A wake with the key {wake.key} is owed already.")


def check_checkpoints(
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


def check_tasks(change: Change, tasks: Mapping[str, Task]) -> None:
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

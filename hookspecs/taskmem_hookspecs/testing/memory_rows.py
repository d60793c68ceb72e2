"""How rows are kept, moved and picked by a store that holds them in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from taskmem_hookspecs.errors import Conflict
from taskmem_hookspecs.evidence import Artifact, LedgerEntry, WorkFolder
from taskmem_hookspecs.model import (
    Event,
    Message,
    PlanRevision,
    Task,
    Wait,
    WaitStatus,
    Wake,
)
from taskmem_hookspecs.runs import Checkpoint, Run

ENDED_WAITS = 20
"""Waits that ended which the facts of a task hold; the linkage needs the last."""
RowT = TypeVar("RowT", Task, Wait, Wake, Run, Artifact)
OwnedT = TypeVar("OwnedT", Task, Wait, Wake, Run)
PathT = TypeVar("PathT", LedgerEntry, WorkFolder)
LineT = TypeVar("LineT", Message, PlanRevision, Event)
SeenT = TypeVar("SeenT", Message, PlanRevision, Event, Checkpoint)


def moved(
    stored: Mapping[str, RowT], rows: Iterable[RowT], id_of: Callable[[RowT], str]
) -> dict[str, RowT]:
    """Return the rows with their versions raised; `Conflict` where one moved."""
    moved: dict[str, RowT] = {}
    for row in rows:
        found = moved.get(id_of(row)) or stored.get(id_of(row))
        if row.version != (found.version if found else 0):
            raise Conflict(f"{id_of(row)} was changed by another; read it again.")
        moved[id_of(row)] = row.model_copy(update={"version": row.version + 1})
    return moved


def known(newest_first: Sequence[Wait]) -> tuple[Wait, ...]:
    """Return the open waits and the last that ended, oldest first."""
    ended = [w for w in newest_first if w.status is not WaitStatus.WATCHING]
    last = sorted(ended, key=lambda w: (w.changed_at, w.wait_id))[-ENDED_WAITS:]
    keep = {w.wait_id for w in last}
    return tuple(
        w
        for w in reversed(newest_first)
        if w.status is WaitStatus.WATCHING or w.wait_id in keep
    )


def open_runs(runs: Mapping[str, Run], task_id: str | None = None) -> list[Run]:
    """Return the runs that have not ended; None: of every task."""
    mine = (run for run in runs.values() if task_id in (None, run.task_id))
    return [run for run in mine if not run.state.terminal]


def of_home(home: str | None, rows: Iterable[OwnedT]) -> list[OwnedT]:
    """Return what belongs to a home or to none; None: all."""
    return [row for row in rows if home is None or row.home in (None, home)]


def of_task(task_id: str, rows: Mapping[tuple[str, str], PathT]) -> list[PathT]:
    """Return what belongs to a task, in order of the paths."""
    return [row for key, row in sorted(rows.items()) if key[0] == task_id]


def age(run: Run) -> tuple[datetime, str]:
    """Return what orders runs by age."""
    return run.created_at, run.run_id


def append(lines: list[LineT], new: Iterable[LineT], id_field: str) -> None:
    """Add lines, numbered from 1."""
    for line in new:
        lines.append(line.model_copy(update={id_field: len(lines) + 1}))


def newest(lines: list[SeenT], limit: int | None) -> list[SeenT]:
    """Return the last lines; None: all."""
    return lines if limit is None else lines[max(0, len(lines) - limit) :]

"""Sessions whose folders are looked at, files that are surely new, and what is told of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import taskmem_evidence.hooks
from taskmem_hookspecs import TaskStore
from taskmem_hookspecs.testing import FakeClock
from tests.support.memory_store import MemoryStore
from tests.support.sessions import Session
from tests.support.world import World

FINE = 25_000_000
"""Nanoseconds that stamps of files surely tell apart."""


def session_in(workspace: Path, store: TaskStore | None = None, **outside: object) -> Session:
    """A session whose time begins after all that is there now."""
    newest = max(p.lstat().st_ctime_ns for p in workspace.parent.rglob("*"))
    after = datetime.fromtimestamp(newest / 1e9, UTC) + timedelta(milliseconds=11)
    world = World(
        store or MemoryStore(),
        FakeClock(after),
        plugins=[("evidence", taskmem_evidence.hooks)],
        artifact_roots=(str(workspace.parent),),
        **outside,
    )
    return Session(world, folder=str(workspace))


def write_fresh(path: Path, text: str = "New.") -> None:
    """Write a file, until its stamps, and a new one's birth, are later than all that was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    path.write_text(text)
    first = path.stat().st_mtime_ns
    while path.stat().st_ctime_ns - first < FINE:
        if is_new:
            path.unlink()
        path.write_text(text)


def complete(session: Session, task: str, message: str = "Done.") -> dict[str, Any]:
    given = {"task_id": task, "status": "completed", "message": message}
    return session.call("task_update", **given)


def changes_by_path(answer: Mapping[str, Any], root: Path) -> dict[str, tuple[str, str]]:
    return {
        os.path.relpath(each["path"], root): (each["change"], each["verdict"])
        for each in answer["made"]
    }


def make_beside(session: Session, project: Path) -> str:
    """Run a command that makes a file, and let somebody else write another; the task."""
    task = session.register()
    session.runs_in(project, "make", run=lambda: write_fresh(project / "app.bin"))
    write_fresh(project / "diary/today.md")
    return task

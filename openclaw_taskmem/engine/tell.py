"""One pass of the event log: the plug-ins are told what happened.

After the commit, at least once, in order, and never of what was rolled back;
the place in the log is a bookmark, so that a crash loses nothing.
"""

from __future__ import annotations

import logging
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import (
    Bookmark,
    Change,
    Event,
    ResumePacket,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    StuckVerdict,
    TaskmemError,
    WaitOutcome,
)

log = logging.getLogger(__name__)
BOOKMARK: Final = "told"
BATCH: Final = 200


def tell(shell: Shell) -> int:
    """Tell of the next events, and return how many were read; 0: none are left."""
    place = int(shell.store.read_bookmark(BOOKMARK) or 0)
    fresh = shell.store.list_events(place, BATCH)
    if not fresh:
        return 0
    told = place
    for event in fresh:
        if shell.stopping.is_set():
            break
        if event.kind in events.TOLD:
            try:
                _tell_one(shell, event)
            except (StoreBusy, StoreFull, StoreUnavailable):
                raise
            except (TaskmemError, ValueError):
                log.exception("nobody was told of event %d", event.event_id)
        told = event.event_id
    shell.commit(Change(bookmarks=(Bookmark(name=BOOKMARK, value=str(told)),)))
    return len(fresh)


def _tell_one(shell: Shell, event: Event) -> None:
    seams, store = shell.seams, shell.store
    if event.kind == events.TASK_REGISTERED and seams.hears("on_task_registered"):
        task = store.read_task(event.task_id or "").task
        seams.tell("on_task_registered", task=task)
    elif event.kind == events.WAIT_ENDED and seams.hears("on_wait_resolved"):
        seams.tell(
            "on_wait_resolved",
            wait=store.read_wait(event.wait_id or ""),
            outcome=WaitOutcome.model_validate(dict(event.data)),
            task=store.read_task(event.task_id).task if event.task_id else None,
        )
    elif event.kind == events.STUCK and seams.hears("on_stuck"):
        packet = event.data["packet"]
        seams.tell(
            "on_stuck",
            task=store.read_task(event.task_id or "").task,
            verdict=StuckVerdict.model_validate(event.data["verdict"]),
            packet=packet and ResumePacket.model_validate(packet),
        )

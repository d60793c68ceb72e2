"""One pass of the event log that calls plug-ins' hooks.

Hooks are called after the commit, at least once, in order, and never for a change that was rolled
back. The position in the log is a bookmark of the home, so a crash loses nothing, and plug-ins hear
of their own home's tasks.
"""

from __future__ import annotations

import logging
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import (
    Change,
    Event,
    EventQuery,
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
HOOKS: Final = {
    events.TASK_REGISTERED: "on_task_registered",
    events.WAIT_ENDED: "on_wait_resolved",
    events.TASK_STUCK: "on_stuck",
    events.RUN_CHANGED: "on_run_changed",
}
"""The hook that is called for each kind of event."""


def set_start_position(context: Context) -> None:
    """Set the position of a new home: it ignores all events before its start."""
    if find_position(context) is None:
        newest = context.store.find_events(EventQuery(limit=1))
        _save_position(context, newest[-1].event_id if newest else 0)


def call_hooks_for_events(context: Context) -> int:
    """Call the hooks for the next events; return how many were read; 0: none are left.

    An event whose rows cannot be read is logged and skipped.

    Raises:
        StoreBusy: The store did not answer; the position stays where it was.
        StoreFull: The same.
        StoreUnavailable: The same.
    """
    place = find_position(context) or 0
    fresh = context.store.find_events(EventQuery(after=place, limit=BATCH))
    if not fresh:
        return 0
    position = place
    for event in fresh:
        if context.stopping.is_set():
            break
        if event.kind in events.HOOK_KINDS:
            try:
                _call_hook(context, event)
            except (StoreBusy, StoreFull, StoreUnavailable):
                raise
            except (TaskmemError, ValueError):
                log.exception("nobody was told of event %d", event.event_id)
        position = event.event_id
    _save_position(context, position)
    return len(fresh)


def find_position(context: Context) -> int | None:
    """Return the id of the last event that is done; None: the home is new."""
    value = context.store.read_bookmark(BOOKMARK)
    return None if value is None else int(value)


def _save_position(context: Context, place: int) -> None:
    mark = context.store.make_bookmark(BOOKMARK, str(place))
    context.commit(Change(bookmarks=(mark,)))


def _call_hook(context: Context, event: Event) -> None:
    """Call an event's hook with the current state of what it is about.

    Events of a task are reported in the task's home, even if its wait or run is another home's.
    Events of implicit tasks are not reported.
    """
    hook, plugin_host, store = HOOKS[event.kind], context.plugin_host, context.store
    if not plugin_host.has_listeners(hook):
        return
    task = store.read_task(event.task_id).task if event.task_id else None
    if task is not None and not context.store.serves(task.home):
        return
    if task is not None and task.implicit:
        return
    about: dict[str, object] = {"task": task}
    if event.kind == events.WAIT_ENDED:
        wait = store.read_wait(event.wait_id or "")
        if task is None and not context.store.serves(wait.home):
            return
        about["wait"] = wait
        about["outcome"] = WaitOutcome.model_validate(dict(event.data))
    elif event.kind == events.TASK_STUCK:
        packet = event.data["packet"]
        about["verdict"] = StuckVerdict.model_validate(event.data["verdict"])
        about["packet"] = packet and ResumePacket.model_validate(packet)
    elif event.kind == events.RUN_CHANGED:
        about["run"] = store.read_run(event.run_id or "")
    plugin_host.call_hook(hook, **about)

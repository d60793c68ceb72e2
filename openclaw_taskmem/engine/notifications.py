"""Tell the agent host and the plug-ins what has happened, by reading the event log.

The host gets chat lines, turns to stop, cards and questions; of plug-ins the hooks are called. Both
happen after the commit, at least once, in order, and never for a change that was rolled back. Each
kind has its own position in the log, so none waits for another, and a crash loses nothing.
Positions are bookmarks of the home, since other homes' sessions and tasks are not told here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.runs.current_run import WAITING_STATES
from openclaw_taskmem.domain.views import cards
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.domain.wakes.notices import NoticeKind
from openclaw_taskmem.engine import runs
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.run_guards import list_background_runs, list_own_tasks
from openclaw_taskmem.engine.run_history import find_last_run, find_last_runs
from taskmem_hookspecs import (
    Bookmark,
    Change,
    Event,
    EventQuery,
    Notice,
    ResumePacket,
    Run,
    RunNotFound,
    RunQuery,
    SessionView,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    StuckVerdict,
    TaskmemError,
    TaskNotFound,
    TaskStatus,
    UserQuestion,
    WaitNotFound,
    WaitOutcome,
    WaitStatus,
)

log = logging.getLogger(__name__)
BATCH: Final = 200
"""Events read in one pass."""
_MOST_ROWS: Final = 10_000


class NotificationKind(StrEnum):
    """The kinds of notifications."""

    LINES = "said"
    STOPS = "stopped"
    VIEWS = "shown"


_KINDS: Final[Mapping[NotificationKind, frozenset[str]]] = {
    NotificationKind.LINES: events.LINE_KINDS - {events.TURN_STOPPED},
    NotificationKind.STOPS: frozenset({events.TURN_STOPPED}),
    NotificationKind.VIEWS: events.VIEW_KINDS,
}


def set_start_positions(context: Context) -> None:
    """Set the positions of a new home: it ignores all events before its start."""
    newest = context.store.find_events(EventQuery(limit=1))
    start = newest[-1].event_id if newest else 0
    for outgoing in NotificationKind:
        if find_position(context, outgoing) is None:
            save_position(context, outgoing, start)
    if find_hooks_position(context) is None:
        _save_hooks_position(context, start)


def read_position(context: Context, outgoing: NotificationKind) -> int:
    """Return the id of the last event that is done; 0: none is."""
    return find_position(context, outgoing) or 0


def find_position(context: Context, outgoing: NotificationKind) -> int | None:
    """Return the id of the last event that is done; None: the home is new."""
    value = context.store.read_shared_bookmark(_format_bookmark_name(context, outgoing))
    return None if value is None else int(value)


def find_due_events(
    context: Context, outgoing: NotificationKind, after: int
) -> tuple[Sequence[Event], int]:
    """Return the events to send after a position, and the id of the last event read."""
    fresh = context.store.find_events(EventQuery(after=after, limit=BATCH))
    if outgoing is NotificationKind.VIEWS:
        wanted = [*_list_view_changes(context, fresh)]
    else:
        wanted = [each for each in fresh if _is_wanted(context, outgoing, each)]
    return wanted, fresh[-1].event_id if fresh else after


def save_position(context: Context, outgoing: NotificationKind, upto: int) -> None:
    """Store that all events up to an id are done."""
    bookmark = Bookmark(name=_format_bookmark_name(context, outgoing), value=str(upto))
    context.commit(Change(bookmarks=(bookmark,)))


def _list_view_changes(context: Context, fresh: Sequence[Event]) -> Iterator[Event]:
    """Yield the last visible change of each task, with the session whose user sees it."""
    last = {str(e.task_id): e for e in fresh if e.kind in events.VIEW_KINDS and e.task_id}
    runs_by_task: Mapping[str, Run] = find_last_runs(context, last) if last else {}
    for task_id, event in last.items():
        session = _find_viewing_session(context, task_id, runs_by_task.get(task_id))
        if session is not None:
            yield event.model_copy(update={"data": {"session_key": session}})


def _is_wanted(context: Context, outgoing: NotificationKind, event: Event) -> bool:
    home = event.data.get("home")
    mine = context.store.serves(home if isinstance(home, str) else None)
    named = isinstance(event.data.get("session_key"), str)
    has_session = named or event.data.get("about") == NoticeKind.UNCLAIMED
    wanted = outgoing is NotificationKind.STOPS or notices.is_wanted(
        event, context.policies.notices
    )
    return event.kind in _KINDS[outgoing] and mine and has_session and wanted


def get_event_session(event: Event) -> str | None:
    """Return the session that an event is for; None: the main session."""
    session = event.data["session_key"]
    return None if session is None else str(session)


def find_event_host(context: Context, event: Event) -> str | None:
    """Return the host of the session that an event is for, as in `Wake.host`; None: not known."""
    session = get_event_session(event)
    with suppress(TaskNotFound):
        if event.task_id is not None and session is not None:
            task = context.store.read_task(event.task_id).task
            known = {task.registrar_session: task.registrar_host, task.session_key: task.host}
            return known.get(session)
    return None


def build_session_notice(context: Context, entries: Sequence[Event]) -> Notice:
    """Build one notice from the events of a session.

    Its key is unique across homes, so that a host does not mistake it for another home's.
    """
    first, last = entries[0], entries[-1]
    entries = [each for each in entries if not _is_outdated(context, each)]
    text = notices.format_message([each for each in entries if not notices.is_small(each)])
    whole = notices.format_message(entries)
    began = round(first.at.timestamp() * 1000)
    asks = len(entries) == 1 and notices.is_question(entries[0])
    return Notice(
        session_key=get_event_session(first),
        text=text,
        without_card=whole if whole != text else "",
        key=f"{began}-{first.event_id}-{last.event_id}",
        in_chat=first.data.get("in_chat") is True,
        question=_find_open_question(context, first.run_id) if asks else None,
    )


def _is_outdated(context: Context, event: Event) -> bool:
    """Tell whether an event must not be sent any more.

    That is the start of a task that was cancelled since, or a wait or a question that is over.
    """
    with suppress(WaitNotFound):
        if event.wait_id is not None and notices.is_wait_beginning(event):
            return context.store.read_wait(event.wait_id).status is not WaitStatus.WATCHING
    if event.task_id is None:
        return False
    with suppress(TaskNotFound, RunNotFound):
        if notices.is_beginning(event):
            task = context.store.read_task(event.task_id).task
            return task.status is TaskStatus.CANCELLED
        if event.run_id is not None and notices.is_question(event):
            run = context.store.read_run(event.run_id)
            query = EventQuery(task_id=event.task_id, limit=BATCH)
            newest = context.store.find_events(query)
            return notices.is_question_over(event, run, newest)
    return False


def _format_bookmark_name(context: Context, outgoing: NotificationKind) -> str:
    return f"{outgoing}:{context.store.home or ''}"


def build_session_view(context: Context, entries: Sequence[Event]) -> SessionView:
    """Build the card and questions of a session after the newest of these changes.

    The card shows the session's newest open task, else one of its background tasks, else the
    changed task, which has ended.
    """
    session, task_id = str(get_event_session(entries[-1])), str(entries[-1].task_id)
    newest = context.store.find_events(EventQuery(limit=1))
    shown = next(_list_open_tasks(context, session), task_id)
    facts = context.store.read_task(shown)
    waiting = context.store.find_runs(RunQuery(states=WAITING_STATES, limit=_MOST_ROWS))
    candidates = (
        runs.find_question(context, run)
        for run in waiting
        if (run.told_session or run.session_key) == session
    )
    return SessionView(
        session_key=session,
        card=cards.build_card(facts, facts.run or find_last_run(context, shown)),
        questions=tuple(each for each in candidates if each is not None),
        newest_event=newest[-1].event_id if newest else 0,
    )


def _find_open_question(context: Context, run_id: str | None) -> UserQuestion | None:
    """Return the open question of a run to its user; None: there is none."""
    with suppress(RunNotFound):
        return runs.find_question(context, context.store.read_run(run_id or ""))
    return None


def _find_viewing_session(context: Context, task_id: str, last_run: Run | None) -> str | None:
    """Return the session whose user sees a task; None: no gateway session does.

    `last_run` is the task's last run; None: it had none.
    """
    with suppress(TaskNotFound):
        facts = context.store.read_task(task_id)
        task, run = facts.task, facts.run or last_run
        if task.implicit or not context.store.serves(run.home if run else task.home):
            return None
        session = (run.told_session or run.session_key) if run else None
        session = session or task.session_key or ""
        return session if context.sessions.is_own(session) else None
    return None


def _list_open_tasks(context: Context, session: str) -> Iterator[str]:
    """Yield the open tasks of a session, newest first, then its background tasks."""
    tasks = list_own_tasks(context, session, None)
    own = sorted(tasks, key=lambda task: (task.created_at, task.task_id), reverse=True)
    yield from (task.task_id for task in own)
    yield from (run.task_id for run in list_background_runs(context, session))


# --- plug-ins --------------------------------------------------------------------


HOOKS_BOOKMARK: Final = "told"
HOOKS: Final = {
    events.TASK_REGISTERED: "on_task_registered",
    events.WAIT_ENDED: "on_wait_resolved",
    events.TASK_STUCK: "on_stuck",
    events.RUN_CHANGED: "on_run_changed",
}
"""The hook that is called for each kind of event."""


def call_hooks_for_events(context: Context) -> int:
    """Call the hooks for the next events; return how many were read; 0: none are left.

    An event whose rows cannot be read is logged and skipped.

    Raises:
        StoreBusy: The store did not answer; the position stays where it was.
        StoreFull: The same.
        StoreUnavailable: The same.
    """
    place = find_hooks_position(context) or 0
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
                log.exception("could not call the hooks for event %d", event.event_id)
        position = event.event_id
    _save_hooks_position(context, position)
    return len(fresh)


def find_hooks_position(context: Context) -> int | None:
    """Return the id of the last event that is done; None: the home is new."""
    value = context.store.read_bookmark(HOOKS_BOOKMARK)
    return None if value is None else int(value)


def _save_hooks_position(context: Context, place: int) -> None:
    bookmark = context.store.make_bookmark(HOOKS_BOOKMARK, str(place))
    context.commit(Change(bookmarks=(bookmark,)))


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

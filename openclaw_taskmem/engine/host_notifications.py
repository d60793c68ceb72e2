"""Outgoing notifications to the agent host: chat lines, turns to stop, cards and questions.

They are sent after the commit, at least once. Each kind has its own position in the log, so none
waits for another. Positions are bookmarks of the home, since other homes' sessions are not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.domain.wakes.notices import NoticeKind
from openclaw_taskmem.engine import gateway_reports
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import (
    Bookmark,
    Change,
    Event,
    EventQuery,
    Notice,
    RunNotFound,
    SessionView,
    TaskNotFound,
    TaskStatus,
)

BATCH: Final = 200


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
    for outgoing in NotificationKind:
        if find_position(context, outgoing) is None:
            newest = context.store.find_events(EventQuery(limit=1))
            save_position(context, outgoing, newest[-1].event_id if newest else 0)


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
    mark = Bookmark(name=_format_bookmark_name(context, outgoing), value=str(upto))
    context.commit(Change(bookmarks=(mark,)))


def _list_view_changes(context: Context, fresh: Sequence[Event]) -> Iterator[Event]:
    """Yield the last visible change of each task, with the session whose user sees it."""
    last = {e.task_id: e for e in fresh if e.kind in events.VIEW_KINDS and e.task_id}
    for task_id, event in last.items():
        session = gateway_reports.find_viewing_session(context, str(task_id))
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
        question=gateway_reports.find_open_question(context, first.run_id) if asks else None,
    )


def _is_outdated(context: Context, event: Event) -> bool:
    """Tell whether an event must not be sent any more.

    That is the start of a task that was cancelled since, or a question that is over.
    """
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


def build_session_view(context: Context, entries: Sequence[Event]) -> SessionView:
    """Return the card and questions of a session after the newest of these changes."""
    last = entries[-1]
    return gateway_reports.draw_session_view(
        context, str(get_event_session(last)), str(last.task_id)
    )


def _format_bookmark_name(context: Context, outgoing: NotificationKind) -> str:
    return f"{outgoing}:{context.store.home or ''}"

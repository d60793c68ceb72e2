"""Deliver the log's notifications to the agent host, until they arrive or are given up.

Lines for a user within five seconds become one message; of session views, only the newest is shown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.daemon.wake_routes import reaches
from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.engine import notifications
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.engine.notifications import NotificationKind
from taskmem_hookspecs import (
    AgentHost,
    Event,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    WakeRefused,
    WakeUndelivered,
)

log = logging.getLogger(__name__)

_FIRST_REST: Final = timedelta(seconds=2)
"""Delay before the first retry; doubled with each failure."""
_LONGEST_NOTICE_REST: Final = timedelta(seconds=60)
RETRY_PERIODS: Final[Mapping[NotificationKind, timedelta]] = {
    NotificationKind.LINES: timedelta(hours=24),
    NotificationKind.STOPS: timedelta(minutes=15),
    NotificationKind.VIEWS: timedelta(hours=24),
}
"""When a notification that cannot be delivered is given up; its event stays in the log."""
VIEW_DELAY: Final = timedelta(seconds=0.5)
"""How long a change of a session view waits for further changes."""
_SEND_SECONDS: Final = 10.0
"""Time limit of the host for one message."""
_RETRIED_ERRORS: Final = (WakeUndelivered, TimeoutError, StoreBusy, StoreFull, StoreUnavailable)
"""Errors of the host or the store after which the message is tried again."""


class _PendingEntry(NamedTuple):
    """An event to deliver, and its age."""

    event: Event
    age: float
    """Seconds by the wall clock when it was read; negative: the clock was set back since."""
    read: float
    """When it was read, by the monotonic clock."""


class Notifier:
    """Delivers one kind of notification, in order for each session.

    Sessions do not wait for each other. One pass at a time, on the event loop.
    """

    def __init__(
        self,
        context: Context,
        hosts: Sequence[AgentHost],
        run_in_thread: OffLoopCaller,
        outgoing: NotificationKind,
    ) -> None:
        """Create a notifier; what no host reaches counts as delivered."""
        self._context = context
        self._hosts = hosts
        self._run_in_thread = run_in_thread
        self._outgoing = outgoing
        self._rest = _FIRST_REST
        self._pending: dict[str | None, list[_PendingEntry]] = {}
        """Undelivered entries by session."""
        self._failing_since: dict[str | None, float] = {}
        """When deliveries to a session began to fail, by the monotonic clock."""
        self._failed_counts: dict[str | None, int] = {}
        """Number of entries in a session's message that failed. It is sent again unchanged, because
        the first try may still arrive."""
        self._delivered_spans: list[tuple[int, int]] = []
        """First and last event ids of messages delivered after the saved place."""
        self._notice_times: dict[str | None, float] = {}
        """When each session last got a notice of what a card would show, by the monotonic clock."""
        self._read = self._saved = -1
        """Event up to which the log was read, and the saved place; -1: unknown."""

    async def run_pass(self) -> datetime | None:
        """Deliver what is due; return when to look again, or None if nothing is left."""
        # Read to the end, since the events of one message may be far apart.
        while await self._read_log():
            pass
        ready = [session for session in self._pending if self._compute_wait(session) <= 0]
        failed = False
        while ready:
            counts = [self._count_next_entries(session) for session in ready]
            messages = [self._pending[s][:n] for s, n in zip(ready, counts, strict=True)]
            self._failed_counts.update(zip(ready, counts, strict=True))
            outcomes = await asyncio.gather(*map(self._deliver_message, messages))
            failed = failed or not all(outcomes)
            ready = [
                session
                for session, number, done in zip(ready, counts, outcomes, strict=True)
                if self._record_delivery(session, number if done else 0)
                and self._compute_wait(session) <= 0
            ]
            await self._save_bookmark()
        await self._save_bookmark()
        now = self._context.clock.now()
        if failed:
            rest, self._rest = self._rest, min(self._rest * 2, _LONGEST_NOTICE_REST)
        else:
            rest, self._rest = timedelta(), _FIRST_REST
        waits = [timedelta(seconds=max(self._compute_wait(s), 0)) for s in self._pending]
        return now + max(rest, min(waits)) if waits else None

    def _count_next_entries(self, session: str | None) -> int:
        """Return how many of a session's entries form its next message."""
        if self._outgoing is NotificationKind.STOPS:
            return 1
        if self._outgoing is NotificationKind.VIEWS:
            return len(self._pending[session])
        if session in self._failed_counts:
            return self._failed_counts[session]
        return notices.find_next_message([each.event for each in self._pending[session]])[0]

    def _compute_wait(self, session: str | None) -> float:
        """Return the seconds for which a session's next message waits for more entries."""
        if self._outgoing is NotificationKind.STOPS or session in self._failed_counts:
            return 0
        first, *_ = pending = self._pending[session]
        age = self._compute_age(first)
        complete: datetime | None = first.event.at + VIEW_DELAY
        if self._outgoing is NotificationKind.LINES:
            complete = notices.find_next_message([each.event for each in pending])[1]
        if complete is None or age < 0:
            return 0
        return (complete - first.event.at).total_seconds() - age

    def _compute_age(self, entry: _PendingEntry) -> float:
        """Return an entry's age in seconds; negative if the wall clock was set back since."""
        return entry.age + self._context.clock.monotonic() - entry.read

    async def _read_log(self) -> bool:
        """Read further events; return False if there are none."""
        if self._read < 0:
            self._read = await self._run_in_thread(
                notifications.read_position, self._context, self._outgoing
            )
            self._saved = self._read
        fresh, place = await self._run_in_thread(
            notifications.find_due_events, self._context, self._outgoing, self._read
        )
        now, read = self._context.clock.now(), self._context.clock.monotonic()
        for event in fresh:
            one = _PendingEntry(event, (now - event.at).total_seconds(), read)
            self._pending.setdefault(notifications.get_event_session(event), []).append(one)
        self._read, before = place, self._read
        return place != before

    def _record_delivery(self, session: str | None, count: int) -> bool:
        """Remove delivered or expired entries; return True if only some were delivered."""
        now = self._context.clock.monotonic()
        left = self._pending[session]
        if count:
            self._failing_since.pop(session, None)
            self._failed_counts.pop(session, None)
            span = left[0].event.event_id, left[count - 1].event.event_id
            self._delivered_spans.append(span)
            left = left[count:]
        else:
            since = self._failing_since.setdefault(session, now)
            patience = RETRY_PERIODS[self._outgoing].total_seconds()
            late = [e for e in left if now - max(since, e.read) >= patience]
            for event, _, _ in late:
                log.warning(
                    "event %d (%s) could not be sent to %s in %s; giving up",
                    event.event_id,
                    event.kind,
                    session,
                    RETRY_PERIODS[self._outgoing],
                )
            if late:
                self._failed_counts.pop(session, None)
            left = [e for e in left if e not in late]
        if left:
            self._pending[session] = left
        else:
            del self._pending[session]
            self._failing_since.pop(session, None)
        return bool(count and left)

    async def _save_bookmark(self) -> None:
        """Save the event up to which everything was delivered or given up.

        Later ones are delivered again after a crash.

        The place never lies within a delivered message: a restart there would form a different
        message from the rest and deliver it as well.
        """
        firsts = (left[0].event.event_id - 1 for left in self._pending.values())
        place = min(firsts, default=self._read)
        for first, last in sorted(self._delivered_spans, key=lambda span: -span[1]):
            if first <= place < last:
                place = first - 1
        self._delivered_spans = [span for span in self._delivered_spans if span[1] > place]
        if place != self._saved:
            await self._run_in_thread(
                notifications.save_position, self._context, self._outgoing, place
            )
            self._saved = place

    async def _deliver_message(self, message: Sequence[_PendingEntry]) -> bool:
        """Deliver one message; return False to retry later.

        True also if the host refused it, or failed in a way that a retry would not help.
        """
        first = message[0]
        event, age = first.event, self._compute_age(first)
        if not self._hosts:
            return True
        session = notifications.get_event_session(event)
        stops = event.kind == events.TURN_STOPPED
        if stops and first.age < 0:
            log.info(
                "the clock went back since event %d, so which turn it stops is unknown; no turn "
                "in %s is stopped",
                event.event_id,
                session,
            )
            return True
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                entries = [each.event for each in message]
                host = await self._run_in_thread(self._find_host, event)
                if host is None:
                    log.debug("no host reaches %s to be told of event %d", session, event.event_id)
                elif stops:
                    await host.stop(str(session), age)
                elif self._outgoing is NotificationKind.VIEWS:
                    view = await self._run_in_thread(
                        notifications.build_session_view, self._context, entries
                    )
                    await host.show(view)
                else:
                    await self._send_notice(host, session, entries)
        except _RETRIED_ERRORS as error:
            log.debug("the host was not told of event %d: %s", event.event_id, error)
            return False
        except WakeRefused as error:
            log.info("the host takes nothing for %s: %s", session, error)
        except Exception:
            log.exception("the host could not be told of event %d", event.event_id)
        return True

    def _find_host(self, event: Event) -> AgentHost | None:
        """Return the first host that reaches the session that an event is for; None: none does."""
        name = notifications.find_event_host(self._context, event)
        session = notifications.get_event_session(event)
        return next((each for each in self._hosts if reaches(each, name, session)), None)

    async def _send_notice(
        self, host: AgentHost, session: str | None, entries: list[Event]
    ) -> None:
        """Send a notice to a session; send what a card would show at most once a minute."""
        now = self._context.clock.monotonic()
        last = self._notice_times.get(session)
        often = notices.SMALL_EVERY.total_seconds()
        notice = await self._run_in_thread(
            notifications.build_session_notice, self._context, entries
        )
        if last is not None and now - last < often:
            notice = notice.model_copy(update={"without_card": ""})
        if not (notice.text or notice.without_card):
            return
        await host.say(notice)
        if notice.without_card:
            fresh = {s: at for s, at in self._notice_times.items() if now - at < often}
            self._notice_times = {**fresh, session: now}

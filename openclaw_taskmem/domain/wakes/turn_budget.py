"""Limit how many turns of a session our messages begin, whatever its tasks ask for.

Each message begins a turn, and a turn costs calls of a model. What is due beyond the budget waits,
and is told together with what has become due by then. A user's answer waits for nothing: they
began that turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from openclaw_taskmem.domain.policies import OutboxPolicy
from taskmem_hookspecs import Wake, WakeCause

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
ANSWER: Final = "answer:"
"""Prefix of the keys of wakes that carry a user's answer."""


class SentMessage(NamedTuple):
    """A message that was sent to a session."""

    at: datetime
    for_run: bool
    """True if it told a run to go on."""


class EarliestSends(NamedTuple):
    """From when on a session may be sent messages again; None: from now on."""

    for_runs: datetime | None
    """Those that tell a run to go on."""
    for_others: datetime | None
    """Those that only tell of waits and stuck tasks."""

    def find_start(self, wake: Wake) -> datetime | None:
        """Return from when on a wake may be sent; None: now."""
        if is_answer_wake(wake):
            return None
        return self.for_runs if wake.cause is WakeCause.RUN else self.for_others


def is_answer_wake(wake: Wake) -> bool:
    """True if a wake carries a user's answer."""
    return wake.key.startswith(ANSWER)


def list_sent_messages(wakes: Iterable[Wake], policy: OutboxPolicy) -> list[SentMessage]:
    """Return the messages in which wakes were sent, oldest first, without mere answers.

    Wakes with the same `delivery_id` were one message. A wake has the instant of its last message
    only; those before it count at the latest instants at which they can have been sent.
    """
    sent: dict[tuple[str, int], SentMessage] = {}
    for wake in wakes:
        if wake.sent_at is None or is_answer_wake(wake):
            continue
        at, message = wake.sent_at, wake.delivery_id or wake.wake_id
        for number in range(max(wake.sends, 1), 0, -1):
            known = sent.get((message, number))
            for_run = wake.cause is WakeCause.RUN or (known is not None and known.for_run)
            sent[message, number] = SentMessage(at=at, for_run=for_run)
            at -= policy.resend_after(wake.model_copy(update={"sends": max(number - 1, 1)}))
    return sorted(sent.values())


def find_earliest_sends(
    sent: Sequence[SentMessage], now: datetime, policy: OutboxPolicy
) -> EarliestSends:
    """Return from when on a session may be sent messages, from those sent within the last hour.

    Instants in the future are ignored: the clock was ahead. `sent` is in order of time.
    """
    all_times = [each.at for each in sent]
    others = [each.at for each in sent if not each.for_run]
    ends = (
        _find_end(all_times, now, MINUTE, policy.turns_per_minute),
        _find_end(all_times, now, HOUR, policy.turns_per_hour),
    )
    for_runs = max(filter(None, ends), default=None)
    own = _find_end(others, now, MINUTE, policy.per_minute)
    return EarliestSends(
        for_runs=for_runs, for_others=max(filter(None, (for_runs, own)), default=None)
    )


def _find_end(
    times: Sequence[datetime], now: datetime, span: timedelta, most: int
) -> datetime | None:
    """Return when fewer than `most` messages lie within a span; None: that is so now."""
    lately = [at for at in times if now - span < at <= now]
    return lately[-most] + span if len(lately) >= most else None

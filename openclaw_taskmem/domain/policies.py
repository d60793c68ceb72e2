"""The limits, intervals and rests by which the domain decides, with their defaults.

Most are settings, which `config.py` reads into the same classes. Times are in seconds unless stated
otherwise.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain.text.texts import MIB
from taskmem_hookspecs import Value, Wake


class StuckPolicy(Value):
    """When a task counts as stuck, and how often it is alerted. Times in seconds."""

    threshold_seconds: float = 300.0
    """Time without a touch after which an active task counts as stuck."""
    cooldown_seconds: float = 900.0
    """Shortest interval between two alerts of one task."""
    urgent_failed_waits: int = 3
    """Consecutive failed waits that make an alert urgent."""


class OutboxPolicy(Value):
    """Intervals and limits of deliveries. Times in seconds."""

    ack_seconds: float = 600.0
    """After which an unanswered wake is sent again; doubled each time. Alerts are not sent again:
    the next alert replaces them."""
    sends: int = 3
    """How often such a wake is sent in all."""
    per_minute: int = 4
    """Most messages a minute to one session that tell no run to go on."""
    turns_per_minute: int = 6
    """Most messages a minute to one session, whatever they tell: each begins a turn."""
    turns_per_hour: int = 60
    """Likewise, most an hour."""
    first_retry_seconds: float = 5.0
    longest_retry_seconds: float = 300.0
    claim_seconds: float = 300.0
    """Longest duration of one delivery; then the wake counts as not delivered."""
    lines: int = 20
    """Most wakes in one message besides those of stuck tasks."""

    def retry_after(self, attempts: int, asked: float | None = None) -> timedelta:
        """Return how long a wake waits after so many failed attempts."""
        first, longest = self.first_retry_seconds, self.longest_retry_seconds
        doublings = max(0, min(attempts - 1, 30))
        seconds = first * 2**doublings
        if asked is not None:
            seconds = max(asked, min(seconds, _LONGEST_ASKED))
        return timedelta(seconds=min(seconds, longest))

    def resend_after(self, wake: Wake) -> timedelta:
        """Return how long after being sent a wake is sent again: a turn may have lost it."""
        doublings = min(wake.sends, self.sends) - 1
        return timedelta(seconds=self.ack_seconds * 2**doublings)


class RunPolicy(Value):
    """Limits and intervals of runs. Times in seconds unless stated otherwise."""

    lease_seconds: float = 300.0
    """Lease of an owner since it was last seen. Longer than OpenClaw's own retries of a provider,
    which take 134 s."""
    fresh_seconds: float = 3600.0
    """Longest time since its owner was seen after which an interrupted run still resumes by itself.
    Source: docs/origins.md, "Resuming after a crash"."""
    tries: int = 2
    """Consecutive resumes, OpenClaw's own included, after which a run fails."""
    carry_on: bool = True
    """Wake the run's session when a turn ends before its task does."""
    idle_pauses: tuple[float, ...] = (60.0, 240.0, 900.0)
    """Rests after consecutive turns without progress. A run stalls after as many reminders."""
    question_seconds: float = 120.0
    """The first of these rests if the agent's last words end in a question mark."""
    max_rounds: int = 200
    """Rounds after which a run fails; counted anew when the user speaks."""
    max_hours: float = 48.0
    """Working hours after which a run fails; counted anew when the user speaks."""
    provider_retries: int = 3
    """Consecutive turns that may fail because of the provider before the run fails."""
    provider_rest_seconds: float = 90.0
    """Rest before the first retry; four times as long before each further one."""
    step_tools: int = 3
    """Tool calls that each step of a segmented task may make."""
    step_bonus: int = 2
    """Further calls of a step, granted once on request."""
    background: int = 3
    """Most runs in the background at once; each session may have one."""
    checkpoint_days: float = 7.0
    """Days after which checkpoints and implicit tasks are dropped."""
    implicit_tasks: bool = True
    """Open an implicit task for a user's turn of several calls without a task."""

    def lease_until(self, now: datetime) -> datetime:
        """Return when the lease of an owner seen at `now` expires."""
        return now + timedelta(seconds=self.lease_seconds)


class KeepPolicy(Value):
    """Limits for what has ended."""

    days: float = 90.0
    """Age in days after which it is dropped."""
    most_bytes: int = 2048 * MIB
    """Size of the database above which it is dropped earlier."""


RUN_POLICY: Final = RunPolicy()
"""Defaults; the settings override them."""


# --- rests after failures -----------------------------------------------------


_LONGEST_ASKED: Final = 60.0
"""Seconds at which the rests stop to grow where the other side expects to work again soon."""


def read_retry_after(error: BaseException) -> float | None:
    """Return the seconds after which an error asks to retry; None: it does not ask.

    Negative, infinite and NaN values are ignored.
    """
    seconds: object = getattr(error, "retry_seconds", None)
    if isinstance(seconds, int | float) and 0 <= seconds <= sys.float_info.max:
        return float(seconds)
    return None

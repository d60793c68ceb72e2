"""The reasons for a run's state, and the limits and intervals that apply to runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from openclaw_taskmem.domain.runs import defaults
from taskmem_hookspecs import Value


class RunReason(StrEnum):
    """Why a run is blocked, queued, in review or failed: the values of `Run.why`."""

    QUESTION = "question"
    """Blocked: its agent asked the user a question."""
    ANSWERED = "answered"
    """Blocked: the user answered; its agent has not acted on the answer yet."""
    STOPPED = "stopped"
    """Blocked: somebody stopped its turn."""
    PAUSED = "paused"
    """Blocked: its task was paused."""
    STALE = "stale"
    """Blocked: it was interrupted too long ago to resume without asking."""
    PROMPT_CHANGED = "prompt_changed"
    """Blocked: its agent's instructions changed since it began."""
    CREDENTIALS = "credentials"
    """Blocked: the provider refused the API key or demands payment."""
    INTERRUPTED = "interrupted"
    """Queued: its gateway restarted. Failed: it was interrupted too often."""
    LEASE_EXPIRED = "lease_expired"
    """Queued: its lease expired without a sign of its owner."""
    OWNER_GONE = "owner_gone"
    """Queued: its owner's process has ended."""
    RESET = "reset"
    """Queued: somebody reset it."""
    BACKGROUND = "background"
    """Queued: it goes on in a session of its own."""
    HANDED_OFF = "handed_off"
    """Queued for another role. In review: handed to the user."""
    STALLED = "stalled_loop"
    """Failed: too many consecutive rounds without progress."""
    ROUNDS = "round_limit"
    """Failed: it reached the limit of rounds."""
    HOURS = "hour_limit"
    """Failed: it reached the limit of working hours."""
    PROVIDER = "provider_error"
    """Failed: the provider failed more often than it is retried."""
    ABORTED = "aborted"
    """Failed: its agent gave it up."""


class RunPolicy(Value):
    """Limits and intervals of runs. Times in seconds unless stated otherwise."""

    lease_seconds: float = defaults.LEASE_SECONDS
    """Lease of an owner since it was last seen. Longer than OpenClaw's own retries of a provider,
    which take 134 s."""
    fresh_seconds: float = defaults.FRESH_SECONDS
    """Longest time since its owner was seen after which an interrupted run still resumes by itself.
    Source: docs/origins.md, "Resuming after a crash"."""
    tries: int = 2
    """Consecutive resumes, OpenClaw's own included, after which a run fails."""
    carry_on: bool = defaults.CARRY_ON
    """Wake the run's session when a turn ends before its task does."""
    idle_pauses: tuple[float, ...] = defaults.IDLE_PAUSES
    """Rests after consecutive turns without progress. A run stalls after as many reminders."""
    question_seconds: float = defaults.QUESTION_SECONDS
    """The first of these rests if the agent's last words end in a question mark."""
    max_rounds: int = defaults.MAX_ROUNDS
    """Rounds after which a run fails; counted anew when the user speaks."""
    max_hours: float = defaults.MAX_HOURS
    """Working hours after which a run fails; counted anew when the user speaks."""
    provider_retries: int = defaults.PROVIDER_RETRIES
    """Consecutive turns that may fail because of the provider before the run fails."""
    provider_rest_seconds: float = defaults.PROVIDER_REST_SECONDS
    """Rest before the first retry; four times as long before each further one."""
    step_calls: int = defaults.STEP_TOOLS
    """Tool calls that each step of a segmented task may make."""
    step_bonus: int = defaults.STEP_BONUS
    """Further calls of a step, granted once on request."""
    background: int = 3
    """Most runs in the background at once; each session may have one."""
    checkpoint_days: float = defaults.CHECKPOINT_DAYS
    """Days after which checkpoints and implicit tasks are dropped."""
    implicit_tasks: bool = defaults.IMPLICIT_TASKS
    """Open an implicit task for a user's turn of several calls without a task."""

    def lease_until(self, now: datetime) -> datetime:
        """Return when the lease of an owner seen at `now` expires."""
        return now + timedelta(seconds=self.lease_seconds)


POLICY: Final = RunPolicy()
"""Defaults; the settings override them."""

"""Why a run is in its state, and how long and how often runs are helped along."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from taskmem_hookspecs import Value


class RunReason(StrEnum):
    """Why a run is blocked, queued again, or has failed: what `Run.why` holds."""

    QUESTION = "question"
    """Blocked: its agent asks the user something, and waits for the answer."""
    ANSWERED = "answered"
    """Blocked: the user has answered, and its agent has not acted on that yet."""
    STOPPED = "stopped"
    """Blocked: somebody stopped its turn."""
    PAUSED = "paused"
    """Blocked: its task was paused."""
    STALE = "stale"
    """Blocked: it was interrupted too long ago to resume unasked."""
    PROMPT_CHANGED = "prompt_changed"
    """Blocked: its agent has other instructions than it began with."""
    CREDENTIALS = "credentials"
    """Blocked: the provider wants another key, or to be paid."""
    INTERRUPTED = "interrupted"
    """Queued: its owner began anew. Failed: that happened too often."""
    LEASE_EXPIRED = "lease_expired"
    """Queued: its lease ran out, and nothing was seen of its owner."""
    OWNER_GONE = "owner_gone"
    """Queued: the process of its owner has ended."""
    RESET = "reset"
    """Queued: somebody reset it."""
    BACKGROUND = "background"
    """Queued: it goes on in a session of its own."""
    HANDED_OFF = "handed_off"
    """Queued for another role, or for the user's review."""
    STALLED = "stalled_loop"
    """Failed: rounds in a row brought nothing new."""
    ROUNDS = "round_limit"
    """Failed: it was told to go on as often as is allowed."""
    HOURS = "hour_limit"
    """Failed: it was worked on for as long as is allowed."""
    PROVIDER = "provider_error"
    """Failed: the provider did, as often as it is tried."""
    ABORTED = "aborted"
    """Failed: its agent gave it up."""


class RunPolicy(Value):
    """How long a run is trusted, and how often it is helped along. Times in seconds."""

    lease_seconds: float = 300.0
    """After which an owner of whom nothing was seen counts as gone; longer than
    OpenClaw's own retries of a provider, which take 134 s."""
    fresh_seconds: float = 3600.0
    """Age up to which an interrupted run resumes by itself. Source: requirement E3."""
    tries: int = 2
    """Resumes in a row, OpenClaw's own included, after which a run fails."""
    carry_on: bool = True
    """Whether a run is told to go on when its turn ended before its task."""
    idle_pauses: tuple[float, ...] = (60.0, 240.0, 900.0)
    """The rests after turns in a row that brought nothing; after as many reminders
    without effect a run has stalled."""
    question_seconds: float = 120.0
    """The first of them where the agent's last words end in a question mark."""
    max_rounds: int = 200
    """How often a run is told to go on before its user says more."""
    max_hours: float = 48.0
    """Hours of work in turns after which it ends likewise."""
    provider_retries: int = 3
    """Turns in a row that may fail for the provider's sake and are begun again."""
    provider_rest_seconds: float = 90.0
    """The rest before the first such turn; four times as long each time."""
    step_calls: int = 3
    """Tool calls that a step of a segmented task has."""
    step_bonus: int = 2
    """How many more it has on request, once."""
    background: int = 3
    """Runs in the background at once; one of them for each session."""
    checkpoint_days: float = 7.0
    """Days for which checkpoints are kept, and implicit tasks."""
    implicit_tasks: bool = True
    """Whether a user's turn of several calls without a task is covered by one."""

    def lease_until(self, now: datetime) -> datetime:
        """Return until when an owner is trusted of whom nothing more is seen."""
        return now + timedelta(seconds=self.lease_seconds)


POLICY: Final = RunPolicy()
"""What holds unless the settings say otherwise."""

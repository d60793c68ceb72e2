"""Wake the registrar of a task that nobody claims, or that waits for the user's review.

A claim gives the task to the run's owner, but its registrar still relies on it. The wake is one
line and no packet, as the registrar is not to work on the task. Source:
docs/decisions/0024-the-registrar-is-told.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain.callers.reachability import OWED_STATES
from openclaw_taskmem.domain.text.texts import clip, to_plain_line
from taskmem_hookspecs import Run, Task, Wake, WakeCause, WakeState

_UNCLAIMED_PREFIX: Final = "unclaimed:"
"""Prefix of the keys of wakes about a task that its role has not claimed."""
REVIEW: Final = "review:"
"""Prefix of the keys of wakes about a task that waits for the user's review."""
NAME_BYTES: Final = 160
"""Longest excerpt of a task's name in such a line."""


def is_for_registrar(wake: Wake) -> bool:
    """True if a wake is for a task's registrar."""
    return wake.key.startswith((_UNCLAIMED_PREFIX, REVIEW))


def is_review_reminder(wake: Wake) -> bool:
    """True if a wake reminds of a task that waits for the user's review."""
    return wake.key.startswith(REVIEW)


def has_packet(wake: Wake) -> bool:
    """True if a wake carries the packet of a stuck task."""
    return wake.cause is WakeCause.STUCK and not is_for_registrar(wake)


def is_alert(wake: Wake) -> bool:
    """True if a wake is an alert: it is not sent again, as the next one replaces it.

    A review reminder is no alert: its task is paused and has none.
    """
    return wake.cause is WakeCause.STUCK and not is_review_reminder(wake)


def list_open_wakes(wakes: Sequence[Wake]) -> Sequence[Wake]:
    """Return the due and sent wakes of a task's registrar."""
    return [wake for wake in wakes if is_for_registrar(wake) and wake.state in OWED_STATES]


def was_refused(wakes: Sequence[Wake]) -> bool:
    """True if the newest wake about an unclaimed task was refused for good.

    Its registrar's session is gone then. `wakes`: in any state, newest first.
    """
    states = (wake.state for wake in wakes if wake.key.startswith(_UNCLAIMED_PREFIX))
    return next(states, None) is WakeState.REFUSED


def settle_wakes(wakes: Sequence[Wake]) -> tuple[Wake, ...]:
    """Supersede the open wakes of a task's registrar."""
    gone = {"state": WakeState.SUPERSEDED, "due_at": None}
    return tuple(wake.model_copy(update=gone) for wake in list_open_wakes(wakes))


def build_unclaimed_wake(task: Task, complaint: str, wake_id: str, now: datetime) -> Wake:
    """Build the wake that tells the registrar that nobody has claimed a task."""
    key = f"{_UNCLAIMED_PREFIX}{task.task_id}:{task.alerts}"
    return _build_wake(task, key, f"{_format_name(task)} {complaint}", wake_id, now)


def build_review_wake(task: Task, run: Run, wake_id: str, now: datetime, threshold: float) -> Wake:
    """Build the wake that reminds of a review that begins now, due after `threshold` seconds.

    It is superseded when the run leaves review.
    """
    key = f"{REVIEW}{run.run_id}:{run.version}"
    sentences = (
        f"{_format_name(task)} waits for the user's review since {now:%Y-%m-%d %H:%M} UTC. "
        "Remind them; nobody works on it until they accept it or send it back."
    )
    wake = _build_wake(task, key, sentences, wake_id, now)
    return wake.model_copy(update={"due_at": now + timedelta(seconds=threshold)})


def format_line(wake: Wake) -> str:
    """Write the line that people see for such a wake: its text without the agent's prefix."""
    return wake.text.removeprefix(_HEAD)


_HEAD: Final = "[system] "


def _format_name(task: Task) -> str:
    return f'"{clip(to_plain_line(task.name), NAME_BYTES)}"'


def _build_wake(task: Task, key: str, sentences: str, wake_id: str, now: datetime) -> Wake:
    return Wake(
        wake_id=wake_id,
        key=key,
        cause=WakeCause.STUCK,
        task_id=task.task_id,
        session_key=task.registrar_session,
        host=task.registrar_host,
        home=task.registrar_home,
        text=f"{_HEAD}{sentences}",
        created_at=now,
        due_at=now,
    )

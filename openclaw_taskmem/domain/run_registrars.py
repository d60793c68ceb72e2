"""Who registered a task hears of it when it lies: unclaimed, or with the user.

A claim makes the task its holder's, but whoever registered it still counts on it. Its
wake is a line, not a packet: nobody is to go on with the task there.
Source: seed 000 §5, ruling "unclaimed, unreviewed".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain.texts import clip, to_plain_line
from taskmem_hookspecs import Run, Task, Wake, WakeCause, WakeState

UNCLAIMED: Final = "unclaimed:"
"""Before the keys of wakes that tell of a task that its role leaves lying."""
REVIEW: Final = "review:"
"""Before the keys of wakes that tell of a task that waits for the user's review."""
NAME_BYTES: Final = 160
"""Of a task's name in such a line."""
_OPEN: Final = (WakeState.DUE, WakeState.SENT)


def is_for_registrar(wake: Wake) -> bool:
    """Whether a wake tells whoever registered a task that it lies."""
    return wake.key.startswith((UNCLAIMED, REVIEW))


def is_review_reminder(wake: Wake) -> bool:
    """Whether a wake tells that a task waits for the user's review."""
    return wake.key.startswith(REVIEW)


def has_packet(wake: Wake) -> bool:
    """Whether a wake carries the packet of a task that is to go on."""
    return wake.cause is WakeCause.STUCK and not is_for_registrar(wake)


def is_alert(wake: Wake) -> bool:
    """Whether a wake is sent again only by the next alert of its task.

    What tells of a review is: its task rests, and has no alerts.
    """
    return wake.cause is WakeCause.STUCK and not is_review_reminder(wake)


def list_open_wakes(wakes: Sequence[Wake]) -> Sequence[Wake]:
    """Return those of a task's wakes that tell its registrar, and are owed or sent."""
    return [wake for wake in wakes if is_for_registrar(wake) and wake.state in _OPEN]


def was_refused(wakes: Sequence[Wake]) -> bool:
    """Whether the newest of a task's wakes that told it unclaimed was refused for good.

    Its registrar's session is gone then. `wakes`: in any state, newest first.
    """
    told = (wake.state for wake in wakes if wake.key.startswith(UNCLAIMED))
    return next(told, None) is WakeState.REFUSED


def settle_wakes(wakes: Sequence[Wake]) -> tuple[Wake, ...]:
    """Return those that tell the registrar of a task, which does not lie any more."""
    gone = {"state": WakeState.SUPERSEDED, "due_at": None}
    return tuple(wake.model_copy(update=gone) for wake in list_open_wakes(wakes))


def build_unclaimed_wake(task: Task, said: str, wake_id: str, now: datetime) -> Wake:
    """Return the wake that tells how a task lies that was given away, as `said`."""
    key = f"{UNCLAIMED}{task.task_id}:{task.alerts}"
    return _build_wake(task, key, f"{_format_name(task)} {said}", wake_id, now)


def build_review_wake(task: Task, run: Run, wake_id: str, now: datetime, threshold: float) -> Wake:
    """Return the wake that tells of a review that begins now, due after a threshold.

    It is settled when the run leaves review. `threshold` in seconds.
    """
    key = f"{REVIEW}{run.run_id}:{run.version}"
    said = (
        f"{_format_name(task)} waits for the user's review since {now:%Y-%m-%d %H:%M} UTC. "
        "Remind them; nobody works on it until they accept it or send it back."
    )
    wake = _build_wake(task, key, said, wake_id, now)
    return wake.model_copy(update={"due_at": now + timedelta(seconds=threshold)})


def format_line(wake: Wake) -> str:
    """Return what people see of such a wake: what the agent reads, as a sentence."""
    return wake.text.removeprefix(_HEAD)


_HEAD: Final = "[system] "


def _format_name(task: Task) -> str:
    return f'"{clip(to_plain_line(task.name), NAME_BYTES)}"'


def _build_wake(task: Task, key: str, said: str, wake_id: str, now: datetime) -> Wake:
    return Wake(
        wake_id=wake_id,
        key=key,
        cause=WakeCause.STUCK,
        task_id=task.task_id,
        session_key=task.registrar_session,
        host=task.registrar_host,
        home=task.registrar_home,
        text=f"{_HEAD}{said}",
        created_at=now,
        due_at=now,
    )

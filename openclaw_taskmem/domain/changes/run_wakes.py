"""The wakes that tell a run's agent to go on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain.callers import registrars
from openclaw_taskmem.domain.callers.reachability import OWED
from openclaw_taskmem.domain.wakes import outbox
from taskmem_hookspecs import Owner, Run, TaskFacts, Wake, WakeCause, WakeState

ANSWER: Final = "answer:"
"""Prefix of the keys of wakes that carry a user's answer."""


def make_wake(
    run: Run,
    wake_id: str,
    text: str,
    now: datetime,
    rest: timedelta = timedelta(),
    *,
    last_owner: Owner | None = None,
) -> Wake:
    """Build the wake that tells a run's agent to go on, due after `rest`.

    `last_owner`: who had the run before it was queued again. Its gateway has the session, which
    may have the same key in another gateway.
    """
    owner = run.owner or last_owner
    same = owner is not None and owner.session_key == run.session_key
    return Wake(
        wake_id=wake_id,
        key=f"run:{run.run_id}:{run.limits.rounds}",
        cause=WakeCause.RUN,
        task_id=run.task_id,
        run_id=run.run_id,
        session_key=run.session_key,
        host=owner.host if owner is not None and same else None,
        home=run.home,
        text=text,
        created_at=now,
        due_at=now + rest,
    )


def has_wake_on_its_way(facts: TaskFacts, now: datetime) -> bool:
    """True if a wake for the run is sent or in flight, or an answer of the user is due.

    Such a wake begins a turn, and the end of that turn decides what is next.
    """
    return any(
        wake.state is WakeState.SENT or is_answer_wake(wake) or outbox.is_in_flight(wake, now)
        for wake in list_open_run_wakes(facts)
    )


def supersede_open_wakes(facts: TaskFacts, *, answers: bool = False) -> tuple[Wake, ...]:
    """Supersede the open wakes of the task's run and of its registrar.

    Wakes that carry a user's answer stay open, unless `answers`.
    """
    dropped = tuple(
        wake.model_copy(update={"state": WakeState.SUPERSEDED, "due_at": None})
        for wake in list_open_run_wakes(facts)
        if answers or not is_answer_wake(wake)
    )
    return (*dropped, *registrars.settle_wakes(facts.wakes))


def is_answer_wake(wake: Wake) -> bool:
    """True if a wake carries a user's answer."""
    return wake.key.startswith(ANSWER)


def list_open_run_wakes(facts: TaskFacts) -> Sequence[Wake]:
    """Return the due and sent wakes of the task's run."""
    return [w for w in facts.wakes if w.cause is WakeCause.RUN and w.state in OWED]

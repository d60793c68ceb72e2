"""The wakes that tell the agent of a run to go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain import outbox, run_registrars
from taskmem_hookspecs import Run, TaskFacts, Wake, WakeCause, WakeState

ANSWER: Final = "answer:"
"""Before the keys of wakes that tell of a user's answer."""


def make_wake(
    run: Run, wake_id: str, text: str, now: datetime, rest: timedelta = timedelta()
) -> Wake:
    """Return the wake that tells a run to go on, due after a rest."""
    return Wake(
        wake_id=wake_id,
        key=f"run:{run.run_id}:{run.rounds}",
        cause=WakeCause.RUN,
        task_id=run.task_id,
        run_id=run.run_id,
        session_key=run.session_key,
        home=run.home,
        text=text,
        created_at=now,
        due_at=now + rest,
    )


def is_on_its_way(facts: TaskFacts, now: datetime) -> bool:
    """Whether the run was told to go on already, by a message that may yet arrive.

    A user's answer that is owed begins a turn, too, after which one sees what is next.
    """
    return any(
        wake.state is WakeState.SENT or is_answer_wake(wake) or outbox.is_in_flight(wake, now)
        for wake in list_open_run_wakes(facts)
    )


def drop_open_run_wakes(facts: TaskFacts, *, answers: bool = False) -> tuple[Wake, ...]:
    """Return the wakes that tell the task's run to go on, as they are sent no more.

    So are those that tell its registrar that it lies.

    What its user has answered it is told whatever it did; `answers`: not even that.
    """
    told = tuple(
        wake.model_copy(update={"state": WakeState.SUPERSEDED, "due_at": None})
        for wake in list_open_run_wakes(facts)
        if answers or not is_answer_wake(wake)
    )
    return (*told, *run_registrars.settle_wakes(facts.wakes))


def is_answer_wake(wake: Wake) -> bool:
    """Whether a wake tells an agent what its user has answered."""
    return wake.key.startswith(ANSWER)


def list_open_run_wakes(facts: TaskFacts) -> Sequence[Wake]:
    """Return the wakes that tell the task's run to go on, as far as they are owed."""
    open_ = (WakeState.DUE, WakeState.SENT)
    return [w for w in facts.wakes if w.cause is WakeCause.RUN and w.state in open_]

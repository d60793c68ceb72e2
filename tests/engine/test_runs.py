"""What a gateway's hooks show of runs, heard in any order."""

from __future__ import annotations

from typing import Any

from openclaw_taskmem.engine import runs
from taskmem_hookspecs import RunState
from taskmem_hookspecs.testing import MemoryStore
from tests.support.sessions import Session
from tests.support.world import World


class Between(MemoryStore):
    """Lets something happen just after the runs of a session were read."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Any = None

    def session_runs(self, session_key: str) -> Any:
        found = super().session_runs(session_key)
        then, self.then = self.then, None
        if then is not None:
            then()
        return found


def test_a_run_that_goes_to_the_background_meanwhile_is_not_taken_back() -> None:
    store = Between()
    session = Session(World(store))
    session.begins()
    task = session.register()
    store.then = lambda: session.call("task_background", task_id=task)

    runs.heartbeat(session.world.shell, session.heard)

    away = session.run(task)
    assert (away.state, away.owner) == (RunState.QUEUED, None)
    assert away.session_key == f"agent:main:taskmem:{away.run_id}"


def test_the_end_of_a_turn_leaves_alone_what_went_to_the_background() -> None:
    store = Between()
    session = Session(World(store))
    session.begins()
    task = session.register()
    store.then = lambda: session.call("task_background", task_id=task)

    session.ends("Running in the background.")

    away = session.run(task)
    assert (away.state, away.rounds) == (RunState.QUEUED, 1)

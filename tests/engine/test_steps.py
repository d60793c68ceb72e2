"""The steps of a task that is worked on: planned anew, and what each may call."""

from __future__ import annotations

import pytest

from openclaw_taskmem.engine import runs
from taskmem_hookspecs.errors import Fenced, RunHeld
from tests.support.sessions import Session
from tests.support.world import PLAN, World


@pytest.fixture
def session() -> Session:
    """An agent's session in a gateway, in a turn."""
    session = Session(World())
    session.begins()
    return session


def left(session: Session) -> int:
    """Return how many calls the current step has left."""
    found = runs.budget_of(session.world.shell, session.key)
    assert found is not None
    return found.left


# --- planned anew ---------------------------------------------------------------


def test_nobody_replaces_the_plan_of_what_another_works_on(session: Session) -> None:
    task = session.register()
    other = Session(session.world, key="agent:dev:main", role="dev")
    new = {"task_id": task, "new_plan": ["Nothing"], "reason": "Mine."}

    with pytest.raises(RunHeld, match="is held by main in session agent:main:main"):
        other.call("task_plan_update", **new)
    with pytest.raises(Fenced, match="is 1, and yours is 7"):
        session.call("task_plan_update", **new, token=7)

    assert session.world.task(task).plan == tuple(PLAN)
    session.call("task_plan_update", **new, token=1)
    assert session.world.task(task).plan == ("Nothing",)


def test_a_segmented_plan_that_grows_too_long_is_cut_with_a_warning(
    session: Session,
) -> None:
    task = session.register(segmented=True)
    session.call("task_step_done", task_id=task, outcome="failed")
    new = [f"Part {number}" for number in range(12)]

    answer = session.call(
        "task_plan_update", task_id=task, new_plan=new, reason="More to do."
    )

    assert answer["plan"] == new[:10]
    assert answer["left_out_steps"] == new[10:]
    assert "so 2 steps at its end were left out" in answer["warning"]
    states = [s["state"] for s in session.call("task_status", task_id=task)["steps"]]
    assert states == ["running", *["pending"] * 9]

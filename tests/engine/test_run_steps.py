"""The steps of a task that is worked on: planned anew, and what each may call."""

from __future__ import annotations

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import Fenced, RunHeld
from openclaw_taskmem.engine import turns
from taskmem_hookspecs import Owner
from taskmem_hookspecs.errors import InvalidArguments
from tests.support.sessions import Session
from tests.support.world import AGENT, PERSON, PLAN, World


@pytest.fixture
def session() -> Session:
    """An agent's session in a gateway, in a turn."""
    session = Session(World())
    session.begins()
    return session


def calls_left(session: Session) -> int:
    """Return how many calls the current step has left."""
    found = turns.find_step_budget(session.world.context, session.owner)
    assert found is not None
    return found.left


# --- planned anew ---------------------------------------------------------------


def test_nobody_replaces_the_plan_of_what_another_works_on(session: Session) -> None:
    task = session.register()
    other = Session(session.world, key="agent:dev:main", role="dev")
    new = {"task_id": task, "new_plan": ["Nothing"], "reason": "Mine."}

    with pytest.raises(RunHeld, match="is held by main in session agent:main:main"):
        other.call("task_plan_update", **new)
    with pytest.raises(Fenced, match="The token 7 is unknown"):
        session.call("task_plan_update", **new, token=7)

    assert session.world.task(task).plan == tuple(PLAN)
    session.call("task_plan_update", **new, token=1)
    assert session.world.task(task).plan == ("Nothing",)


def test_too_long_segmented_plan_is_cut_with_a_warning(session: Session) -> None:
    task = session.register(segmented=True)
    session.call("task_step_done", task_id=task, outcome="failed")
    new = [f"Part {number}" for number in range(12)]

    answer = session.call("task_plan_update", task_id=task, new_plan=new, reason="More to do.")

    assert answer["plan"] == new[:10]
    assert answer["left_out_steps"] == new[10:]
    assert "so 2 steps at its end were left out" in answer["warning"]
    states = [s["state"] for s in session.call("task_status", task_id=task)["steps"]]
    assert states == ["running", *["pending"] * 9]


# --- what a step may call -------------------------------------------------------


def test_caller_without_gateway_is_told_segmented_limits_nothing(session: Session) -> None:
    given = {"name": "Deploy", "plan": PLAN, "segmented": True}
    sentence = "segmented limits no calls here: OpenClaw's gateway counts them, and only"
    relay = Caller(process="1:1", owner=Owner(role="agent", process="1:1"))

    for caller in (relay, PERSON, AGENT):
        answer = session.world.call("task_register", caller, **given)
        assert sentence in answer["message"]
    assert "segmented" not in session.call("task_register", **given)["message"]
    flat = session.world.call("task_register", relay, **{**given, "segmented": False})
    assert "segmented" not in flat["message"]


def test_nobody_asks_for_more_calls_where_none_are_counted(session: Session) -> None:
    relay = Caller(process="1:1", owner=Owner(role="agent", process="1:1"))
    segmented = session.world.register(caller=relay, segmented=True)
    session.world.call("task_claim", relay, task_id=segmented)
    arguments, sentence = {"outcome": "more_tools"}, "nobody counts them"

    with pytest.raises(InvalidArguments, match=sentence):
        session.world.call("task_step_done", relay, task_id=segmented, **arguments)
    with pytest.raises(InvalidArguments, match=sentence):
        session.call("task_step_done", task_id=session.register(), **arguments)


def spend_step(session: Session) -> str:
    """Return a segmented task whose current step has no calls left."""
    task = session.register(segmented=True)
    for number in range(3):
        session.does(f"look {number}")
    assert calls_left(session) == 0
    return task


def test_only_the_current_step_has_more_calls(session: Session) -> None:
    task = spend_step(session)

    with pytest.raises(InvalidArguments, match="has more calls, and that is 1"):
        session.call("task_step_done", task_id=task, step=3, outcome="more_tools")

    assert calls_left(session) == 0
    session.call("task_step_done", task_id=task, step=1, outcome="more_tools")
    assert calls_left(session) == 2
    with pytest.raises(InvalidArguments, match="Step 1 has had its 2 more calls"):
        session.call("task_step_done", task_id=task, outcome="more_tools")


def test_failed_step_gets_no_more_calls_until_it_is_replanned(session: Session) -> None:
    task = spend_step(session)
    session.call("task_step_done", task_id=task, outcome="more_tools")
    for number in range(2):
        session.does(f"look again {number}")

    session.call("task_step_done", task_id=task, outcome="failed")

    assert calls_left(session) == 0
    with pytest.raises(InvalidArguments, match="has had its 2 more calls"):
        session.call("task_step_done", task_id=task, outcome="more_tools")
    for plan, calls in ((PLAN, 0), (["Another way"], 3)):
        session.call("task_step_done", task_id=task, outcome="failed", remaining=[*plan])
        assert calls_left(session) == calls

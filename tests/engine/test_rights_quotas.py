"""What one agent may make, and one task may hold, through the tools."""

from __future__ import annotations

from pathlib import Path

import pytest

import taskmem_evidence.hooks
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import rights
from openclaw_taskmem.domain.errors import EvidenceMissing, LimitReached
from taskmem_hookspecs import Change, Message, Role, Task, TaskStatus, Wait, WaitStatus
from taskmem_hookspecs.testing import a_task, a_wait
from tests.support.sessions import Session
from tests.support.world import PERSON, PLAN, World

AGENT = Caller(host="mcp:claude-code", home="home_1")


def own_fields(**changes: object) -> dict[str, object]:
    """Return the fields of a task or wait of the agent, so changed."""
    whose = {"host": AGENT.host, "home": "home_1"}
    return whose | changes


def test_a_full_task_is_ended_and_only_the_user_says_more(world: World) -> None:
    task = a_task(**own_fields(message_count=rights.MOST_MESSAGES))
    world.store.commit(Change(tasks=(task,)))

    with pytest.raises(LimitReached, match="task_1 has 200,000 messages"):
        world.call("task_update", AGENT, task_id="task_1", message="At it.")
    with pytest.raises(LimitReached, match="task_1 has 200,000 messages"):
        world.call("task_plan_update", AGENT, task_id="task_1", new_plan=PLAN, reason="No.")
    assert world.store.read_records(Message, "task_1") == []

    world.call("task_update", AGENT, task_id="task_1", completed_steps=[1])
    world.call("task_update", PERSON, task_id="task_1", message="Stop now.")
    world.call("task_update", AGENT, task_id="task_1", status="failed", message="No.")
    assert world.store.read_task("task_1").task.status is TaskStatus.FAILED
    roles = [message.role for message in world.store.read_records(Message, "task_1")]
    assert roles == [Role.USER, Role.AGENT, Role.SYSTEM]


def test_of_an_end_that_is_refused_a_full_task_keeps_no_words(tmp_path: Path) -> None:
    world = World(plugins=[("evidence", taskmem_evidence.hooks)])
    there = AGENT.model_copy(update={"folder": str(tmp_path)})
    made = {"artifacts": ["report.md"]}
    task = a_task(**own_fields(message_count=rights.MOST_MESSAGES, metadata=made))
    world.store.commit(Change(tasks=(task,)))

    end = {"task_id": "task_1", "status": "completed", "message": "Done."}
    with pytest.raises(EvidenceMissing):
        world.call("task_update", there, **end)
    assert world.store.read_records(Message, "task_1") == []


def test_a_step_that_failed_adds_nothing_to_a_full_task(session: Session) -> None:
    task_id = session.register()
    store = session.world.store
    task = store.read_task(task_id).task
    full = task.model_copy(update={"message_count": rights.MOST_MESSAGES})
    store.commit(Change(tasks=(full,)))

    for outcome in ("failed", "done"):
        with pytest.raises(LimitReached):
            session.call("task_step_done", task_id=task_id, outcome=outcome, note="No.")
    assert store.read_records(Message, task_id) == []
    session.call("task_step_done", task_id=task_id, outcome="done")


def test_who_has_as_many_open_tasks_as_one_may_ends_one_first(world: World) -> None:
    of_claude = own_fields(registrar_host="shell:claude-code", status=TaskStatus.PAUSED)
    kept = a_task(**of_claude)
    every = (f"task_{number}" for number in range(rights.MOST_OPEN[Task]))
    tasks = (kept.model_copy(update={"task_id": task_id}) for task_id in every)
    world.store.commit(Change(tasks=tuple(tasks)))
    new = {"name": "One more", "plan": PLAN}

    with pytest.raises(LimitReached, match="You have 25,000 open tasks"):
        world.call("task_register", AGENT, **new)
    with pytest.raises(LimitReached):
        world.call("task_register", AGENT, **new, role="coder")
    world.call("task_register", Caller(host="mcp:codex"), **new)
    world.call("task_register", PERSON, **new)

    world.call("task_update", AGENT, task_id="task_7", status="cancelled")
    world.call("task_register", AGENT, **new)
    with pytest.raises(LimitReached):
        world.call("task_register", AGENT, **new)


def test_who_has_as_many_open_waits_as_one_may_cancels_one_first(world: World) -> None:
    of_dev = {"host": "openclaw", "session_key": "agent:dev:main", "home": "home_1"}
    kept = a_wait(**of_dev)
    every = (f"wait_{number}" for number in range(rights.MOST_OPEN[Wait]))
    waits = (kept.model_copy(update={"wait_id": wait_id}) for wait_id in every)
    ended = kept.model_copy(update={"wait_id": "over", "status": WaitStatus.TIMEOUT})
    world.store.commit(Change(waits=(*waits, ended)))
    new = {"target": "pty:build", "wake_when": "the build has ended"}
    there = Caller(host="openclaw", session_key="agent:dev:main")
    beside = Caller(host="openclaw", session_key="agent:dev:beside")
    other = Caller(host="openclaw", session_key="agent:ops:main")

    for session in (there, beside):
        with pytest.raises(LimitReached, match="You have 5,000 open waits"):
            world.call("smart_wait", session, **new)
    with pytest.raises(LimitReached):
        world.call("wait_update", there, wait_id="over", timeout=60)
    for caller in (other, PERSON):
        world.call("smart_wait", caller, **new)

    world.call("wait_update", there, wait_id="wait_8", timeout=60)
    world.call("wait_cancel", there, wait_id="wait_7")
    world.call("wait_update", there, wait_id="over", timeout=60)
    with pytest.raises(LimitReached):
        world.call("smart_wait", there, **new)

"""A task that goes silent is told once, with its packet, on a real database.

The waits are opened and ended by a stand-in for whoever watches.
"""

from __future__ import annotations

import pytest

from openclaw_taskmem.domain.callers import Caller
from taskmem_hookspecs import WaitStatus, WakeCause, WakeState
from tests.support.databases import look
from tests.support.world import PLAN, World, packet_of

THRESHOLD = 300
COOLDOWN = 900


def test_no_false_stuck_while_waiting(real_world: World) -> None:
    task = real_world.register()
    wait = real_world.open_wait(task, timeout=10 * THRESHOLD)

    assert real_world.pass_time(5 * THRESHOLD) == []
    real_world.look_anyway(task)
    assert real_world.wakes() == []
    assert real_world.task(task).linkage.active_wait_ids == (wait.wait_id,)

    real_world.end_wait(wait)
    real_world.narrate(task)
    real_world.deliver()
    (stuck,) = real_world.pass_time(THRESHOLD)
    assert stuck.cause is WakeCause.STUCK


def test_stuck_after_idle_and_no_waits(real_world: World) -> None:
    task = real_world.register()
    real_world.narrate(task, "Step 1 done, tagged v1.2.3")

    assert real_world.pass_time(THRESHOLD - 1) == []
    (wake,) = real_world.pass_time(1)

    packet = packet_of(wake.text)
    assert packet["task_id"] == task
    assert packet["status"] == "active"
    assert packet["plan"] == PLAN
    assert packet["progress"] == {"completed": [0], "current": 1, "remaining": [2, 3], "pct": 25}
    assert [m["content"] for m in packet["recent_messages"]] == ["Step 1 done, tagged v1.2.3"]
    assert packet["wait"] == {
        "active_wait_ids": [],
        "last_wait_state": None,
        "last_wait_event_at": None,
    }
    assert packet["reason"] == "no updates for 5 minutes and no active wait"
    assert packet["suggested_next_action"]
    assert len(real_world.wakes()) == 1


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "canceled"])
def test_terminal_tasks_are_ignored(real_world: World, status: str) -> None:
    ended = real_world.register("ended")
    alive = real_world.register("alive")
    real_world.call("task_update", task_id=ended, status=status)

    alerted = real_world.pass_time(3 * THRESHOLD)
    real_world.look_anyway(ended)

    assert [wake.task_id for wake in alerted] == [alive]
    assert {wake.task_id for wake in real_world.wakes()} == {alive}


def test_plan_revision_recorded(real_world: World, database: str) -> None:
    task = real_world.register()
    real_world.narrate(task, "Step 1 done")
    new_plan = ["1. Build the image", "2. Scan it", "3. Push it"]

    answer = real_world.call(
        "task_plan_update", task_id=task, new_plan=new_plan, reason="scan first"
    )

    assert answer["plan_progress"]["completed"] == [1]
    assert ("system", "plan", "Plan revised: scan first") in real_world.thread(task)
    [row] = look(
        database,
        "SELECT old_plan_json, new_plan_json, reason, author, created_at"
        " FROM task_plan_revisions WHERE task_id = :task",
        task=task,
    )
    assert row[2:4] == ("scan first", "agent")
    assert all(step in row[0] for step in PLAN)
    assert all(step in row[1] for step in new_plan)


@pytest.mark.parametrize("status", [WaitStatus.RESOLVED, WaitStatus.TIMEOUT])
def test_wait_messages_typed_correctly(real_world: World, status: WaitStatus) -> None:
    task = real_world.register()
    wait = real_world.open_wait(task)

    real_world.end_wait(wait, status, "Build finished.")

    typed = [line for line in real_world.thread(task) if line[1] == "wait"]
    assert len(typed) == 1
    assert typed[0][0] == "system"
    assert f"smart_wait {status} ({wait.wait_id})" in typed[0][2]
    assert real_world.task(task).linkage.active_wait_ids == ()
    assert real_world.task(task).linkage.last_wait_state is status
    (wake,) = real_world.deliver()
    assert wake.text.startswith(f"[system] smart_wait {status} ({wait.wait_id}): ")


def test_cooldown_prevents_spam(real_world: World) -> None:
    task = real_world.register()

    assert len(real_world.pass_time(THRESHOLD)) == 1
    assert real_world.pass_time(COOLDOWN - 1, step=10) == []
    real_world.look_anyway(task)
    assert len(real_world.wakes()) == 1
    assert len(real_world.pass_time(1)) == 1

    keys = [wake.key for wake in real_world.wakes()]
    assert sorted(keys) == [f"stuck:{task}:1", f"stuck:{task}:2"]


def test_fail_safe_wake_goes_out_when_no_packet_can_be_built(
    real_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_build(_facts: object) -> None:
        raise RuntimeError("no packet today")

    task = real_world.register()
    monkeypatch.setattr("openclaw_taskmem.domain.wakes.packet.build_packet", fail_to_build)

    (wake,) = real_world.pass_time(THRESHOLD)

    packet = packet_of(wake.text)
    assert packet["task_id"] == task
    assert packet["name"] == "Deploy coursefolio"
    assert packet["status"] == "active"
    assert packet["reason"] == "no updates for 5 minutes and no active wait"
    assert real_world.wakes(WakeState.SENT)


@pytest.mark.parametrize(("tasks", "most_bytes"), [(0, 0), (1, 3_400), (20, 10_100)])
def test_an_idle_night_costs_what_the_docs_say(tasks: int, most_bytes: int) -> None:
    world = World()
    caller = Caller(session_key="agent:main:main", host="openclaw")
    for number in range(tasks):
        world.register(f"Deploy coursefolio {number}", caller=caller)
    messages = world.pass_time(8 * 3_600)
    assert len(messages) == (6 if tasks else 0)
    assert most_bytes * 0.9 <= sum(len(each.text.encode()) for each in messages) <= most_bytes

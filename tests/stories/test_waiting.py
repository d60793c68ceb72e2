"""An agent waits, is woken, refines its wait or calls it off.

What is seen comes from a stage: the window is a browser's.
"""

from __future__ import annotations

import pytest

from openclaw_taskmem.domain.changes.continuation import Origin
from taskmem_hookspecs import EventQuery, WaitStatus
from tests.daemon.watched import WatchedWorld, watch_world
from tests.support.sessions import Session
from tests.support.stage import Stage

DOWNLOAD = (
    "File download completes (progress bar disappears or 'Download complete' "
    "notification appears), or an error dialog/message appears"
)
DONE = 'Download completed — file "report.pdf" saved to ~/Downloads'
TABLE = "Data table is fully rendered with rows visible, not just a loading spinner"


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.scene("Firefox")
    made.scene("crisp-ridge")
    made.scene("")
    return made


async def delegate_wait(room: WatchedWorld, task: str) -> str:
    answer = await room.call(
        "smart_wait", target="window:Firefox", wake_when=DOWNLOAD, timeout=120, task_id=task
    )
    assert answer["status"] == "watching"
    assert answer["target"] == "window:Firefox"
    assert answer["message"].startswith(
        f"Monitoring. I'll wake you when: {DOWNLOAD}. Timeout: 120s."
    )
    return str(answer["wait_id"])


async def test_the_wake_event_of_a_condition_that_is_met(stage: Stage) -> None:
    stage.says(DOWNLOAD, {"done": DONE})
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await delegate_wait(room, room.world.register())
        await room.pass_time(47)
        stage.scene("Firefox").show("done")
        await room.wait_for_end(wait)

        (message,) = room.world.deliver()
        assert message.text == (f"[system] smart_wait resolved ({wait}): {DONE}. Elapsed: 47s.")


async def test_the_wake_event_of_a_timeout(stage: Stage) -> None:
    seen = "Download progress bar at ~85%, appears stalled."
    stage.says(DOWNLOAD, {}, otherwise=seen)
    async with watch_world(("stage", stage.plugin())) as room:
        answer = await room.call("smart_wait", target="window:Firefox", wake_when=DOWNLOAD)
        wait = str(answer["wait_id"])
        await room.until(lambda: room.room.read_observation(wait) == seen)
        await room.pass_time(301, step=5)
        await room.wait_for_end(wait)

        (message,) = room.world.deliver()
        assert message.text == (
            f"[system] smart_wait timeout ({wait}): Condition not met after 300s. "
            f"Last observation: {seen}"
        )


async def test_agent_woken_too_early_refines_the_wait_condition(stage: Stage) -> None:
    stage.says(DOWNLOAD, {"page": "Page started loading"})
    stage.says(TABLE, {"rows": "The table has rows"})
    async with watch_world(("stage", stage.plugin())) as room:
        task = room.world.register()
        wait = await delegate_wait(room, task)
        stage.scene("Firefox").show("page")
        await room.wait_for_end(wait)

        answer = await room.call(
            "wait_update",
            wait_id=wait,
            wake_when=TABLE,
            timeout=60,
            message="Page loaded but table still rendering — refining condition",
        )
        assert answer["wait_id"] == wait
        assert answer["status"] == "watching"
        assert answer["message"].startswith("Resumed")
        assert f"Watching for: {TABLE}. New timeout: 60s." in answer["message"]
        assert room.world.task(task).linkage.active_wait_ids == (wait,)
        stage.scene("Firefox").show("rows")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED
        history = room.world.store.find_events(EventQuery(wait_id=wait))
        assert "refining condition" in str([event.data for event in history])


async def test_cancelled_because_the_user_found_it_elsewhere(stage: Stage) -> None:
    stage.says(DOWNLOAD, {})
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await delegate_wait(room, room.world.register())

        reason = "User provided the file directly, download no longer needed"
        answer = await room.call("wait_cancel", wait_id=wait, reason=reason)

        assert answer == {
            "wait_id": wait,
            "status": "cancelled",
            "message": f"Wait cancelled. Reason: {reason}",
        }
        without = await delegate_wait(room, room.world.register())
        answer = await room.call("wait_cancel", wait_id=without)
        assert answer["message"] == "Wait cancelled."


@pytest.mark.parametrize("target", ["pty:crisp-ridge", "screen"])
async def test_a_terminal_and_the_screen_are_waited_for(stage: Stage, target: str) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(target)
        stage.scene("" if target == "screen" else "crisp-ridge").show("READY")

        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_a_task_id_is_all_it_takes_to_link_them(stage: Stage) -> None:
    stage.says(DOWNLOAD, {"done": DONE})
    async with watch_world(("stage", stage.plugin())) as room:
        task = room.world.register()
        wait = await delegate_wait(room, task)
        stage.scene("Firefox").show("done")
        await room.wait_for_end(wait)

        assert [line[1:] for line in room.world.thread(task)] == [
            ("wait", f"smart_wait resolved ({wait}): {DONE}. Elapsed: 0s.")
        ]


async def test_the_end_of_a_wait_is_one_turn_and_one_line(stage: Stage) -> None:
    stage.says(DOWNLOAD, {"done": DONE})
    async with watch_world(("stage", stage.plugin())) as room:
        session = Session(room.world)
        task = session.works()
        given = {"target": "window:Firefox", "wake_when": DOWNLOAD, "session_key": session.key}
        wait = str((await room.call("smart_wait", **given))["wait_id"])
        session.ends("I am woken when the download is complete.")
        assert room.world.deliver() == []
        await room.pass_time(47)
        stage.scene("Firefox").show("done")
        await room.wait_for_end(wait)

        (message,) = room.world.deliver()
        assert message.line == f"Deploy: {DONE} after 47 s."
        session.begins(Origin.TASKMEM)
        session.call("task_update", task_id=task, status="completed")
        session.ends("The download is complete.")
        assert room.world.pass_time(3_600) == []

"""Another task is waited for: the core's own sensor of tasks, and its judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from openclaw_taskmem.daemon.commit_watches import SHARED_SECONDS
from openclaw_taskmem.daemon.task_watches import TaskSensor
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.conditions.verdicts import TASK_FORMS
from taskmem_hookspecs import (
    ConditionUnclear,
    Frame,
    InvalidArguments,
    Judge,
    NotAllowed,
    Owner,
    Target,
    TaskNotFound,
    WaitQuery,
    WaitStatus,
)
from taskmem_hookspecs.conditions import State
from taskmem_hookspecs.testing import JudgeSuite, SensorSuite
from tests.daemon.watched import WatchedWorld, watch_world
from tests.support.memory_store import MemoryStore
from tests.support.sessions import Session
from tests.support.world import World

NAME = "Deploy coursefolio"


class TestTaskSensor(SensorSuite):
    @pytest.fixture(autouse=True)
    def _make_world(self) -> None:
        self.world = World()
        self.task = self.world.register()

    def make_sensor(self, tmp_path: Path) -> TaskSensor:
        return TaskSensor(self.world.clock, lambda: self.world.context)

    def make_target(self, tmp_path: Path) -> Target:
        return Target(scheme="task", name=self.task)

    def show(self, tmp_path: Path, text: str) -> None:
        self.world.clock.tick(1)
        self.world.narrate(self.task, text)

    def make_missing(self, tmp_path: Path) -> Target:
        return Target(scheme="task", name="task_0000")

    def remove(self, tmp_path: Path) -> bool:
        self.world.call("task_update", task_id=self.task, status="cancelled")
        return True

    def is_shown(self, frame: Frame, text: str) -> bool:
        return State.CHANGED in frame.states


class TestTaskJudge(JudgeSuite):
    def make_judge(self, tmp_path: Path) -> Judge:
        condition = parse_condition("step 1 is done and it is cancelled", "task")
        return TaskSensor.find_judges(Target(scheme="task", name="t"), condition).found[0]

    def make_met(self, tmp_path: Path) -> Sequence[Frame]:
        return look_at({"completed_steps": [1], "status": "cancelled"})

    def make_unmet(self, tmp_path: Path) -> Sequence[Frame]:
        return look_at({"completed_steps": [1]})


def look_at(*updates: dict[str, object]) -> Sequence[Frame]:
    """The frames of a task, one after each update."""
    world = World()
    task = world.register()

    async def look() -> Sequence[Frame]:
        sensor = TaskSensor(world.clock, lambda: world.context)
        watch = await sensor.watch(Target(scheme="task", name=task))
        frames = [await watch.here()]
        for update in updates:
            world.call("task_update", task_id=task, **update)
            frames.append(await watch.look("", ""))
        return frames

    return asyncio.run(look())


async def begin(room: WatchedWorld, task: str, words: str, **given: object) -> str:
    """Wait for a task, and return the wait's id once somebody looks."""
    given = {"timeout": 3600, **given}
    return await room.wait(f"task:{task}", wake_when=words, **given)


@pytest.mark.parametrize(
    ("words", "update", "seen"),
    [
        ("completes", {"status": "completed"}, "has completed, 4 of 4 steps done."),
        ("it ends", {"status": "failed", "message": "No disk."}, "has failed, 0 of 4 steps done."),
        ("fails or completes", {"status": "failed"}, "has failed, 0 of 4 steps done."),
        ("is cancelled", {"status": "cancelled"}, "was cancelled, 0 of 4 steps done."),
        ("step 2 is done", {"completed_steps": [2]}, "is active, 1 of 4 steps done."),
        ('"push  it." is done', {"completed_steps": [2]}, "is active, 1 of 4 steps done."),
        ("changes", {"message": "Pushed."}, "is active, 0 of 4 steps done."),
    ],
)
async def test_what_becomes_of_a_task_ends_a_wait(
    words: str, update: dict[str, object], seen: str
) -> None:
    async with watch_world() as room:
        task = room.world.register()
        wait = await begin(room, task, words)
        await room.pass_time(47)
        assert room.row(wait).status is WaitStatus.WATCHING
        if update.get("status") == "completed":
            update = {**update, "completed_steps": [1, 2, 3, 4]}

        room.world.call("task_update", task_id=task, **update)

        ended = await room.wait_for_end(wait)
        assert ended.status is WaitStatus.RESOLVED
        assert (ended.last_observation or "").startswith(f'{task} "{NAME}" {seen}')


async def test_a_task_that_asks_its_user_is_blocked() -> None:
    async with watch_world() as room:
        session = Session(room.world)
        task = session.works()
        wait = await begin(room, task, "is blocked")
        room.world.call("task_update", session.caller, task_id=task, message="On it.")
        await room.settle()
        assert room.row(wait).status is WaitStatus.WATCHING

        session.call("task_update", task_id=task, ask="Which tag?")

        ended = await room.wait_for_end(wait)
        assert (ended.last_observation or "").endswith(
            "is blocked: it waits for its user, 0 of 4 steps done."
        )


async def test_a_task_that_another_blocks_is_blocked() -> None:
    async with watch_world() as room:
        build = room.world.register("Build")
        task = room.world.register("Deploy", blocked_by=[build])

        answer = await room.call("smart_wait", target=f"task:{task}", wake_when="is blocked")

        ended = await room.wait_for_end(str(answer["wait_id"]))
        assert f"is blocked: it waits for {build}, 0 of" in (ended.last_observation or "")


async def test_a_role_is_told_once_nothing_blocks_what_is_queued() -> None:
    async with watch_world(sole=True) as room:
        build = room.world.register("Build")
        room.world.register("Deploy", role="writer", blocked_by=[build])
        answer = await room.call("smart_wait", target="queue:writer", timeout=3600)
        await room.settle()
        assert room.row(str(answer["wait_id"])).status is WaitStatus.WATCHING

        room.world.call("task_update", task_id=build, status="cancelled")

        ended = await room.wait_for_end(str(answer["wait_id"]))
        assert '"Deploy" is queued, and writer may claim it' in (ended.last_observation or "")


@pytest.mark.parametrize("words", ["ends", "fails"])
async def test_what_has_ended_already_is_answered_at_once(words: str) -> None:
    async with watch_world() as room:
        task = room.world.register()
        room.world.call("task_update", task_id=task, status="failed", message="The disk is full.")

        answer = await room.call("smart_wait", target=f"task:{task}", wake_when=words)

        ended = await room.wait_for_end(str(answer["wait_id"]))
        assert ended.status is WaitStatus.RESOLVED


@pytest.mark.parametrize("words", ["completes", "step 3 is done", "is blocked"])
async def test_another_end_than_was_waited_for_is_told(words: str) -> None:
    async with watch_world() as room:
        task = room.world.register()
        wait = await begin(room, task, words)

        room.world.call("task_update", task_id=task, status="cancelled")

        ended = await room.wait_for_end(wait)
        assert ended.status is WaitStatus.ERROR
        assert f'{task} "{NAME}" was cancelled' in (ended.last_observation or "")


async def test_a_task_is_meant_by_its_name_or_a_part_of_its_id() -> None:
    async with watch_world() as room:
        task = room.world.register("Write the report")

        answer = await room.call(
            "smart_wait", target="Task: write the report", wake_when="it is done or step 1 is done"
        )

        assert answer["target"] == f"task:{task}"
        assert [side["form"] for side in answer["understood"]] == ["completes", "step 1 is done"]
        assert {side["judged_by"] for side in answer["understood"]} == {"rules"}


@pytest.mark.parametrize("words", ["goes to review", "step 3 is done or it looks good", "80 %"])
async def test_other_conditions_are_refused_with_those_of_a_task(words: str) -> None:
    async with watch_world() as room:
        task = room.world.register()

        with pytest.raises(ConditionUnclear, match="Of a task it is told") as raised:
            await room.call("smart_wait", target=f"task:{task}", wake_when=words)

        assert raised.value.details["forms"] == [*TASK_FORMS]
        assert not room.world.store.find_waits(WaitQuery())


@pytest.mark.parametrize("which", ["5", '"Fly it"'])
async def test_a_step_that_is_not_planned_is_refused_with_the_plan(which: str) -> None:
    async with watch_world() as room:
        task = room.world.register()

        with pytest.raises(InvalidArguments, match=f"has no step {which}; its steps are 1 "):
            await room.call("smart_wait", target=f"task:{task}", wake_when=f"step {which} is done")


async def test_a_task_that_is_not_there_is_refused() -> None:
    async with watch_world() as room:
        with pytest.raises(TaskNotFound, match="There is no task task_9999"):
            await room.call("smart_wait", target="task:task_9999", wake_when="ends")


async def test_a_task_does_not_wait_for_itself() -> None:
    async with watch_world() as room:
        task = room.world.register()
        with pytest.raises(InvalidArguments, match=f"{task} cannot wait for itself"):
            await room.call("smart_wait", target=f"task:{task}", wake_when="ends", task_id=task)


async def test_who_may_not_read_a_task_does_not_wait_for_it() -> None:
    async with watch_world() as room:
        task = Session(room.world).works()
        stranger = Caller(
            session_key="agent:other:main",
            owner=Owner(role="other", session_key="agent:other:main", boot="boot_1"),
        )
        given = {"target": f"task:{task}", "wake_when": "ends"}

        with pytest.raises(NotAllowed, match="so you may not read it"):
            await asyncio.to_thread(room.world.call, "smart_wait", stranger, **given)


async def test_a_restarted_daemon_knows_what_changed_meanwhile() -> None:
    store = MemoryStore()
    async with watch_world(store=store) as room:
        task = room.world.register()
        wait = await begin(room, task, "changes")
    room.clock.tick(1)
    room.world.narrate(task)
    async with watch_world(store=store, clock=room.clock, worlds=[room.world]) as again:
        assert (await again.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_what_another_machine_writes_is_seen_within_seconds() -> None:
    store = MemoryStore()
    async with watch_world(store=store) as room:
        task = room.world.register()
        wait = await begin(room, task, "completes")
        other = World(store, room.clock, home="home_2")
        other._numbers = room.world._numbers
        other.call("task_update", Caller(person=True), task_id=task, status="cancelled")
        await room.settle()
        assert room.row(wait).status is WaitStatus.WATCHING

        await room.pass_time(2 * SHARED_SECONDS)

        assert (await room.wait_for_end(wait)).status is WaitStatus.ERROR


class CountingStore(MemoryStore):
    """A store that counts how often a task is read."""

    reads = 0

    def read_task(self, task_id: str):
        self.reads += 1
        return super().read_task(task_id)


async def test_a_task_is_read_after_a_commit_and_rarely_otherwise() -> None:
    store = CountingStore()
    async with watch_world(store=store, sole=True) as room:
        await begin(room, room.world.register(), "ends", timeout=86_400)
        await room.pass_time(1)
        before = store.reads

        await room.pass_time(600, step=5)

        assert store.reads - before <= 24

import asyncio

import pytest

from openclaw_taskmem.engine.scoped_store import ScopedStore
from openclaw_taskmem.engine.task_history import StoredHistory
from tests.support.world import World


def test_a_source_reads_a_task_with_its_thread():
    world = World()
    task_id = world.register("Deploy the blog")
    world.narrate(task_id, "Uploaded it.")

    record = world.history.read_task(task_id)

    assert record.task.name == "Deploy the blog"
    assert [m.content for m in world.history.read_messages(task_id, 1)] == ["Uploaded it."]
    assert [task.task_id for task in world.history.list_tasks("", 10)] == [task_id]


def test_changes_name_each_task_once_and_the_next_place():
    world = World()
    one, two = world.register("one"), world.register("two")
    world.narrate(one)

    changes = world.history.list_changes(0, 100)

    assert changes.task_ids == (two, one)
    assert changes.place == world.history.find_end()
    assert world.history.list_changes(changes.place, 100).task_ids == ()


def test_tasks_of_another_home_are_no_history_of_this_one():
    world = World(home="home_1")
    task_id = world.register("secret")
    other = StoredHistory(ScopedStore(world.store, "home_2"))

    assert other.list_tasks("", 10) == []
    assert other.list_changes(0, 100).task_ids == ()
    assert other.read_task(task_id) is None


@pytest.mark.parametrize("missed", [True, False])
async def test_a_source_hears_of_each_commit(missed):
    world = World()
    end, looked, loop = world.history.find_end(), asyncio.Event(), asyncio.get_running_loop()

    def look():
        loop.call_soon_threadsafe(looked.set)
        return end

    if not missed:
        world.history.find_end = look
    else:
        world.register()
    waiting = asyncio.create_task(world.history.wait_for_changes(end))
    if not missed:
        await looked.wait()
        world.register()
        world.history.note_commit()
    await waiting

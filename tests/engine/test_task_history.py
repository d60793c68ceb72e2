from openclaw_taskmem.engine.scoped_store import ScopedStore
from openclaw_taskmem.engine.task_history import StoredHistory
from taskmem_hookspecs import TextQuery
from tests.support.world import World


def test_a_source_finds_and_reads_a_task_with_its_messages():
    world = World()
    task_id = world.register("Deploy the blog", plan=["Build", "Upload"])
    world.narrate(task_id, "Uploaded it.")
    plan = ["Rsync"]
    world.call("task_plan_update", task_id=task_id, new_plan=plan, reason="faster")

    (matches,) = world.history.find_texts(TextQuery(patterns=("uploaded",))).values()
    ((found, number),) = matches.places
    assert world.history.read_task(found).name == "Deploy the blog"
    assert world.history.read_message(found, number).content == "Uploaded it."
    assert world.history.read_message(found, number + 100) is None
    assert world.history.list_other_texts(found) == ["Build", "Upload"]


def test_tasks_of_another_home_are_no_history_of_this_one():
    world = World(home="home_1")
    task_id = world.register("secret")
    other = StoredHistory(ScopedStore(world.store, "home_2"))

    assert other.read_task(task_id) is None
    assert other.find_texts(TextQuery(patterns=("secret",)))["secret"].places == []

"""What plug-ins are told of the log."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_taskmem.domain import events
from openclaw_taskmem.engine import notifications
from taskmem_hookspecs import EventQuery, Run, Task, hookimpl
from tests.support.sessions import Session
from tests.support.world import World

THRESHOLD = 300


class Listener:
    """Notes each hook that is called."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.runs: list[tuple[str, str]] = []

    @hookimpl
    def on_task_registered(self, task: Any) -> None:
        self.heard.append(f"on_task_registered {task.name}")

    @hookimpl
    def on_wait_resolved(self, wait: Any) -> None:
        self.heard.append(f"on_wait_resolved {wait.target}")

    @hookimpl
    def on_stuck(self, task: Any) -> None:
        self.heard.append(f"on_stuck {task.name}")

    @hookimpl
    def on_run_changed(self, run: Run, task: Task) -> None:
        self.heard.append(f"on_run_changed {task.name}")
        self.runs.append((run.run_id, run.state.value))


@pytest.fixture
def listeners() -> dict[str, Listener]:
    return {"here": Listener(), "there": Listener()}


@pytest.fixture
def here(listeners: dict[str, Listener]) -> World:
    return World(home="here", plugins=[("listener", listeners["here"])])


@pytest.fixture
def there(here: World, listeners: dict[str, Listener]) -> World:
    plugins = [("listener", listeners["there"])]
    world = World(here.store, here.clock, home="there", plugins=plugins)
    world._numbers = here._numbers
    return world


def tell_all(world: World) -> None:
    """Tell of all that is new."""
    while notifications.call_hooks_for_events(world.context):
        pass


def test_every_kind_that_plugins_are_told_of_reaches_its_hook() -> None:
    listener = Listener()
    session = Session(World(plugins=[("listener", listener)]))
    session.register(name="run")
    other = session.world.register("other")
    session.world.end_wait(session.world.open_wait(other))
    session.world.pass_time(THRESHOLD)

    tell_all(session.world)

    kinds = {event.kind for event in session.world.store.find_events(EventQuery())}
    assert kinds >= events.HOOK_KINDS
    assert set(notifications.HOOKS) == events.HOOK_KINDS
    assert {line.split()[0] for line in listener.heard} == set(notifications.HOOKS.values())


def test_plugins_are_told_of_a_new_run_and_its_current_state() -> None:
    listener = Listener()
    session = Session(World(plugins=[("listener", listener)]))
    task = session.takes_up()
    tell_all(session.world)
    session.asks("Shall I go on?")
    tell_all(session.world)

    run_id = session.run(task).run_id
    assert listener.runs[0] == (run_id, "running")
    assert listener.runs[-1] == (run_id, "blocked")


def test_the_plugins_of_each_home_are_told_of_its_own_tasks(
    here: World, there: World, listeners: dict[str, Listener]
) -> None:
    here.register("mine")
    task = there.register("theirs")
    # It belongs to the home of its target; it is told where its task is followed.
    here.end_wait(here.open_wait(task))
    there.end_wait(there.open_wait(None))
    for world in (there, here, there):
        tell_all(world)

    assert listeners["here"].heard == ["on_task_registered mine"]
    assert listeners["there"].heard == [
        "on_task_registered theirs",
        "on_wait_resolved pty:build",
        "on_wait_resolved pty:build",
    ]


def test_what_belongs_to_no_home_is_told_in_each(
    here: World, there: World, listeners: dict[str, Listener]
) -> None:
    nobodys = World(here.store, here.clock)
    nobodys.context.store.home = None
    nobodys.register("nobody's")
    tell_all(here)
    tell_all(there)

    assert {len(each.heard) for each in listeners.values()} == {1}


def test_a_new_home_begins_with_what_comes_after_it(here: World, there: World) -> None:
    here.register("old")
    notifications.set_start_positions(there.context)

    assert notifications.call_hooks_for_events(there.context) == 0
    there.register("new")
    notifications.set_start_positions(there.context)
    assert notifications.call_hooks_for_events(there.context) == 1


def test_a_home_goes_on_where_it_told_last_when_others_come(
    here: World, listeners: dict[str, Listener]
) -> None:
    here.context.store.sole = True
    here.register("told")
    tell_all(here)
    here.register("not told yet")

    here.context.store.sole = False
    notifications.set_start_positions(here.context)
    tell_all(here)

    names = ["on_task_registered told", "on_task_registered not told yet"]
    assert listeners["here"].heard == names

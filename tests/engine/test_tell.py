"""What plug-ins are told of the log."""

from __future__ import annotations

from typing import Any

from openclaw_taskmem.domain import events
from openclaw_taskmem.engine import tell
from taskmem_hookspecs import Run, Task, hookimpl
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


def told(world: World) -> None:
    """Tell of all that is new."""
    while tell.tell(world.shell):
        pass


def test_every_kind_that_plugins_are_told_of_reaches_its_hook() -> None:
    listener = Listener()
    session = Session(World(plugins=[("listener", listener)]))
    session.register(name="run")
    other = session.world.register("other")
    session.world.end_wait(session.world.open_wait(other))
    session.world.pass_time(THRESHOLD)

    told(session.world)

    kinds = {event.kind for event in session.world.store.list_events(0, 999)}
    assert kinds >= events.TOLD
    assert set(tell.HOOKS) == events.TOLD
    assert {line.split()[0] for line in listener.heard} == set(tell.HOOKS.values())


def test_plugins_are_told_of_a_run_that_was_made_and_as_it_stands() -> None:
    listener = Listener()
    session = Session(World(plugins=[("listener", listener)]))
    session.begins()
    task = session.register()
    told(session.world)
    session.ends("Shall I go on?")
    told(session.world)

    run_id = session.run(task).run_id
    assert listener.runs[0] == (run_id, "running")
    assert listener.runs[-1] == (run_id, "blocked")

"""What people and programs look at."""

from __future__ import annotations

import json

import pytest

from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.tools import views
from taskmem_hookspecs import Message
from tests.support.sessions import Session
from tests.support.world import PERSON, World

PAGE = 2000


@pytest.fixture
def thread(world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """A task of thirty messages and plans, of which a page holds about five."""
    monkeypatch.setattr(views, "PAGE_BYTES", PAGE)
    task = world.register()
    for number in range(30):
        world.narrate(task, f"{number} " + "x" * 300)
        revised = {"task_id": task, "new_plan": [f"{number} " + "y" * 300]}
        world.call("task_plan_update", **revised, reason="Better")
    return task


def test_a_long_thread_is_read_page_by_page(world: World, thread: str) -> None:
    page = views.show_by_id(world.context, thread)
    pages = [page]
    while page["earlier"] is not None:
        page = views.show_by_id(world.context, thread, before=page["earlier"])
        pages.append(page)

    sizes = [len(json.dumps(page["messages"])) for page in pages]
    assert max(sizes) < PAGE + 500
    said = [each for page in reversed(pages) for each in page["messages"]]
    assert said == [
        views._format_message(message) for message in world.store.read_records(Message, thread)
    ]


def test_plans_that_an_answer_has_no_room_for_are_counted(world: World, thread: str) -> None:
    shown = views.show_by_id(world.context, thread)

    assert len(json.dumps(shown["revisions"])) < PAGE + 500
    assert shown["revisions"][-1]["new_plan"][0].startswith("29 ")
    assert len(shown["revisions"]) + shown["earlier_revisions"] == 30


def test_stats_sum_up_completions_resumes_and_times(world: World) -> None:
    session = Session(world)
    done, lost = session.takes_up(name="Bake"), world.register("Sell")
    world.call("task_reset", PERSON, task_id=done)
    session.begins(Origin.TASKMEM)
    world.clock.tick(60)
    session.call("task_update", task_id=done, status="completed")
    world.call("task_update", PERSON, task_id=lost, status="failed", message="No customers.")
    world.register("Clean")

    found = views.describe_metrics(world.context)

    counts = {"tasks": 3, "completed": 1, "failed": 1, "cancelled": 0, "open": 1}
    assert found == {**counts, "mean_steps": 4.0, "mean_resumes": 0.33, "mean_seconds": 60.0}

"""Calls that are made again: a task registered twice, an equal wait, the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.registrations import RETRY_WINDOW
from openclaw_taskmem.engine.wait_watcher import TargetPreview
from taskmem_hookspecs import InvalidArguments, TaskStore
from tests.support.sessions import MAIN, Session
from tests.support.world import World

HOST = "mcp:claude-code"
PLAN = ["Build", "Push", "Verify"]
AFTER = RETRY_WINDOW.total_seconds() + 1
WAIT = {"target": "pty:build", "wake_when": '"over" appears', "timeout": 600}


class Processes:
    """Tells which processes are alive: all that were not ended."""

    def __init__(self) -> None:
        self.ended: set[str] = set()

    def is_alive(self, process: str) -> bool:
        return process not in self.ended


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def world(processes: Processes) -> World:
    return World(is_alive=processes.is_alive)


def relay(process: str = "1:1", folder: str = "/work", session: str | None = None) -> Caller:
    return Caller(host=HOST, process=process, folder=folder, session_key=session)


def register(world: World, caller: Caller, name: str = "Deploy site", **given: object) -> str:
    answer = world.call("task_register", caller, **{"name": name, "plan": PLAN, **given})
    return str(answer["task_id"])


def say_of_second(world: World, caller: Caller, **given: object) -> str:
    """Register a task of that name again; what its agent is told."""
    given = {"name": "Deploy site", "plan": PLAN, **given}
    return str(world.call("task_register", caller, **given)["message"])


# --- a task registered again -----------------------------------------------------


@pytest.mark.parametrize("session", [None, "s-1"])
@pytest.mark.parametrize("seconds", [1, 7_200])
@pytest.mark.parametrize("name", ["Deploy site", " deploy  SITE"])
def test_an_agent_that_registers_again_gets_its_open_task(
    world: World, session: str | None, seconds: int, name: str
) -> None:
    caller = relay(session=session)
    first = register(world, caller)
    world.call("task_update", caller, task_id=first, completed_steps=[1])
    world.clock.tick(seconds)
    answer = world.call("task_register", caller, name=name, plan=PLAN)
    assert answer["task_id"] == first
    assert "with 1 of 3 steps done, so no second one was made" in answer["message"]
    assert world.store.count().tasks["active"] == 1


@pytest.mark.parametrize("name", ["Straße prüfen", "ÜBERSICHT bauen", "ﬁnish"])
@pytest.mark.parametrize("again", [str, str.lower, str.upper])
@pytest.mark.parametrize("new_store", ["memory", "sqlite"], indirect=True)
def test_the_case_of_no_letter_makes_another_task(
    new_store: Callable[[], TaskStore], name: str, again: Callable[[str], str]
) -> None:
    world = World(new_store())
    assert register(world, relay(), again(name)) == register(world, relay(), name)


def state_plan(**statuses: str) -> list[object]:
    """Return the plan as other hosts write it, each step with its status."""
    return [{"step": step, "status": statuses.get(step, "pending")} for step in PLAN]


def test_a_plan_registered_again_marks_its_steps_and_says_so(world: World) -> None:
    first = register(world, relay())
    message = say_of_second(world, relay(), plan=state_plan(Build="completed", Push="in_progress"))
    assert world.task(first).done == {0}
    assert "with 1 of 3 steps done" in message
    assert "Step 1 marked done, 1 of 3." in message

    message = say_of_second(world, relay(), plan=state_plan(Push="completed"))
    assert world.task(first).done == {1}
    assert "Step 2 marked done, 1 of 3. Reopened: 1." in message


def test_a_plan_of_which_nothing_is_done_takes_no_mark_away(world: World) -> None:
    first = register(world, relay())
    world.call("task_update", relay(), task_id=first, completed_steps=[1])
    assert "Read" not in say_of_second(world, relay(), plan=state_plan())
    assert world.task(first).done == {0}


def test_statuses_that_an_agent_may_not_write_are_refused_truly(world: World) -> None:
    first = register(world, relay())
    world.call("task_claim", relay("2:2"), task_id=first)
    message = say_of_second(world, relay(), plan=state_plan(Build="completed"))
    assert "Its statuses changed no mark: " in message
    assert world.task(first).done == frozenset()


def test_a_full_stop_at_the_end_of_a_step_makes_no_second_task(world: World) -> None:
    assert register(world, relay(), plan=[f"{step}." for step in PLAN]) == register(world, relay())


def test_of_two_open_names_the_one_with_that_spelling_is_told(world: World) -> None:
    first = register(world, relay())
    world.clock.tick(1)
    register(world, relay(), "deploy SITE", plan=["Look", "Do"])
    assert f": {first}, with" in say_of_second(world, relay(), plan=["Read", "Write"])


@pytest.mark.parametrize("given", [{"completed_steps": [1]}, {"message": "Build: done"}])
def test_a_step_that_was_done_before_is_said_to_be(world: World, given: dict[str, object]) -> None:
    first = register(world, relay())
    world.call("task_update", relay(), task_id=first, completed_steps=[1])
    message = world.call("task_update", relay(), task_id=first, **given)["message"]
    assert "Done already: 1." in message
    assert "No step was marked" not in message


def test_in_openclaw_a_session_gets_its_open_task(world: World) -> None:
    session = Session(world, key=MAIN)
    first = session.takes_up()
    for _ in range(17):
        session.begins()
        assert session.register() == first
    assert world.store.count().tasks["active"] == 1


@pytest.mark.parametrize(
    ("folder", "seconds", "same"),
    [("/work", 5, True), ("/work", AFTER, False), ("/else", 5, False)],
)
def test_after_its_process_has_ended_a_retry_gets_the_task(
    world: World, processes: Processes, folder: str, seconds: float, same: bool
) -> None:
    first = register(world, relay())
    world.clock.tick(seconds)
    processes.ended.add("1:1")
    assert (register(world, relay("2:2", folder)) == first) is same


def test_a_task_that_somebody_has_touched_is_no_retry(world: World, processes: Processes) -> None:
    first = register(world, relay())
    world.clock.tick(5)
    world.call("task_update", relay(), task_id=first, message="At it.")
    processes.ended.add("1:1")
    assert register(world, relay("2:2")) != first


def test_two_agents_in_one_folder_have_a_task_each(world: World) -> None:
    first = register(world, relay())
    answer = world.call("task_register", relay("2:2"), name="Deploy site", plan=PLAN)
    assert answer["task_id"] != first
    assert f"is open already, since 0 seconds: {first}, with 0 of 3 steps" in answer["message"]


@pytest.mark.parametrize(
    "other", [relay("2:2", "/else"), relay(session="s-2"), Caller(), Caller(person=True)]
)
def test_who_is_surely_another_is_told_nothing(world: World, other: Caller) -> None:
    first = register(world, relay(session="s-1" if other.session_key else None))
    assert first not in say_of_second(world, other)


def test_another_plan_makes_another_task_and_its_agent_is_told(world: World) -> None:
    first = register(world, relay())
    answer = world.call("task_register", relay(), name="Deploy site", plan=["Look", "Do"])
    assert answer["task_id"] != first
    assert first in answer["message"]


def test_a_neighbour_with_another_plan_is_told_nothing(world: World) -> None:
    first = register(world, relay())
    assert first not in say_of_second(world, relay("2:2"), plan=["Read", "Write"])


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_task_that_has_ended_is_no_open_one(world: World, status: str) -> None:
    first = register(world, relay())
    world.call("task_update", relay(), task_id=first, status=status)
    answer = world.call("task_register", relay(), name="Deploy site", plan=PLAN)
    assert answer["task_id"] != first
    assert first not in answer["message"]


def test_a_paused_task_is_taken_up_and_said_to_be_paused(world: World) -> None:
    first = register(world, relay())
    world.call("task_update", relay(), task_id=first, status="paused")
    assert "it is paused" in say_of_second(world, relay())


def test_jobs_that_are_queued_for_a_role_may_be_equal(world: World) -> None:
    first = register(world, relay(), role="writer")
    assert register(world, relay(), role="writer") != first


def test_after_a_restart_an_agent_is_told_of_its_task(world: World) -> None:
    first = register(world, relay())
    world.context.live.first_calls.clear()
    assert first in say_of_second(world, relay())


# --- an equal wait ----------------------------------------------------------------


def test_an_empty_quoted_text_is_refused(world: World) -> None:
    with pytest.raises(InvalidArguments, match="quotes an empty text"):
        world.call("smart_wait", relay(), **{**WAIT, "wake_when": '"" appears'})


def test_an_equal_wait_goes_on_with_its_time_set_anew(world: World) -> None:
    first = world.call("smart_wait", relay(), **WAIT)
    world.clock.tick(60)
    again = world.call("smart_wait", relay(), **{**WAIT, "timeout": 900})
    assert again["wait_id"] == first["wait_id"]
    assert again["message"].startswith("This was watched already, so no second wait was made.")
    wait = world.store.read_wait(str(first["wait_id"]))
    assert (wait.deadline_at - world.clock.now()).total_seconds() == 900


@pytest.mark.parametrize(
    "change", [{"target": "pty:other"}, {"wake_when": '"ready" appears'}, {"poll_interval": 9}]
)
def test_a_wait_that_differs_is_another(world: World, change: dict[str, object]) -> None:
    first = world.call("smart_wait", relay(), **WAIT)
    assert world.call("smart_wait", relay(), **{**WAIT, **change})["wait_id"] != first["wait_id"]


@pytest.mark.parametrize(("seconds", "is_same"), [(AFTER - 2, True), (AFTER, False)])
def test_the_same_words_later_mean_another_instant(
    world: World, seconds: float, *, is_same: bool
) -> None:
    first = world.call("smart_wait", relay(), target="time:90m")
    world.clock.tick(seconds)
    again = world.call("smart_wait", relay(), target="time:90m")
    assert (again["wait_id"] == first["wait_id"]) is is_same


def test_an_equal_wait_of_another_agent_is_another(world: World, processes: Processes) -> None:
    first = world.call("smart_wait", relay(session="s-1"), **WAIT)["wait_id"]
    assert world.call("smart_wait", relay(session="s-2"), **WAIT)["wait_id"] != first
    first = world.call("smart_wait", relay(), **WAIT)["wait_id"]
    assert world.call("smart_wait", relay("2:2"), **WAIT)["wait_id"] != first
    lost = world.call("smart_wait", relay("3:3"), **WAIT)["wait_id"]
    processes.ended.add("3:3")
    assert world.call("smart_wait", relay("4:4"), **WAIT)["wait_id"] == lost


def test_two_equal_calls_at_once_make_one_wait(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def preview(*given: Any) -> TargetPreview:
        if not made:
            made.append("")
            made[0] = world.call("smart_wait", relay(), **WAIT)["wait_id"]
        return preview_target(*given)

    preview_target = world.context.wait_watcher.preview_target
    monkeypatch.setattr(world.context.wait_watcher, "preview_target", preview)
    assert world.call("smart_wait", relay(), **WAIT)["wait_id"] == made[0]


def test_another_agents_equal_wait_hides_none(world: World) -> None:
    callers = [relay(), relay("2:2"), relay(session="s-1"), relay(session="s-2")]
    first = [world.call("smart_wait", each, **WAIT)["wait_id"] for each in callers]
    assert [world.call("smart_wait", each, **WAIT)["wait_id"] for each in callers] == first


def test_an_equal_wait_that_has_ended_is_no_open_one(world: World) -> None:
    first = str(world.call("smart_wait", relay(), **WAIT)["wait_id"])
    world.end_wait(world.store.read_wait(first))
    assert world.call("smart_wait", relay(), **WAIT)["wait_id"] != first


# --- the same words ---------------------------------------------------------------


def test_the_same_words_for_the_third_time_are_no_sign_of_life(world: World) -> None:
    task = register(world, relay())
    answers = []
    for _ in range(4):
        world.clock.tick(60)
        answers.append(world.call("task_update", relay(), task_id=task, message="Still  at it"))
    assert [("same" in answer.get("hint", "")) for answer in answers] == [False, False, True, True]
    assert (
        "the same 4 times in a row, which counts as silence. Step 1 is still" in answers[3]["hint"]
    )
    assert (world.clock.now() - world.task(task).updated_at).total_seconds() == 120
    assert [said for _, _, said in world.thread(task)].count("Still  at it") == 4


@pytest.mark.parametrize("more", [{"completed_steps": [2]}, {"status": "paused"}])
def test_the_same_words_with_something_new_count(world: World, more: dict[str, object]) -> None:
    task = register(world, relay())
    for _ in range(3):
        world.call("task_update", relay(), task_id=task, message="Going on")
    world.clock.tick(60)
    answer = world.call("task_update", relay(), task_id=task, message="Going on", **more)
    assert "the same" not in answer["message"]
    assert world.task(task).updated_at == world.clock.now()


def test_other_words_count_again(world: World) -> None:
    task = register(world, relay())
    for words in (*("Going on",) * 3, "Attempt 4", "Going on"):
        world.clock.tick(60)
        world.call("task_update", relay(), task_id=task, message=words)
    assert world.task(task).updated_at == world.clock.now()

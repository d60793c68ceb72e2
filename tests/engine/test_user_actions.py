"""What a person does with tasks and waits, and how they name them."""

from __future__ import annotations

import pytest

from openclaw_taskmem.domain.overview import Section
from openclaw_taskmem.domain.user_actions import UserAction
from openclaw_taskmem.engine import lookup, overview, user_actions
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import InvalidArguments, NotAllowed, RunState, TaskNotFound, TaskStatus
from tests.support.sessions import Session
from tests.support.world import World

TASKS = ("task",)
ALL = ("task", "wait", "wake")


def act(session: Session, task: str, action: str, words: str | None = None) -> str:
    return user_actions.act_on_task(session.world.context, task, UserAction(action), words)


def find(context: Context, words: str, *listed: str, kinds: tuple[str, ...] = ALL) -> str:
    shown = lookup.PersonList()
    shown.note_tasks(listed)
    return lookup.find_by_words(context, words, shown, kinds).id


def test_an_answer_reaches_the_agent_that_asked(session: Session) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, ask="Which browser?")

    said = act(session, task, "answer", "Firefox")

    assert said == '"Deploy": its agent is told your answer.'
    assert "Firefox" in [wake.text for wake in session.world.wakes() if wake.state == "due"][-1]


def test_of_two_answers_the_second_is_told_that_it_came_late(session: Session) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, ask="Which browser?")
    act(session, task, "answer", "Firefox")

    with pytest.raises(NotAllowed, match="you cannot answer it; you can: pause, cancel"):
        act(session, task, "answer", "Chromium")


@pytest.mark.parametrize("action", ["answer", "send_back"])
def test_words_are_asked_for_where_an_act_means_nothing_without(
    session: Session, action: str
) -> None:
    task = session.takes_up()
    if action == "answer":
        session.call("task_update", task_id=task, ask="Which browser?")
    else:
        session.call("task_handoff", task_id=task)

    with pytest.raises(InvalidArguments, match="Nothing was changed"):
        act(session, task, action, "  ")


def test_a_review_is_approved_or_sent_back_with_words(session: Session) -> None:
    first, second = session.takes_up(name="One"), session.takes_up(name="Two")
    for task in (first, second):
        session.call("task_handoff", task_id=task)

    act(session, first, "approve")
    act(session, second, "send_back", "Not yet.")

    assert session.world.task(first).status is TaskStatus.COMPLETED
    assert session.world.task(second).status is TaskStatus.ACTIVE
    assert ("user", "Not yet.") in [(m[0], m[2]) for m in session.world.thread(second)]


def test_a_task_is_paused_resumed_and_cancelled(session: Session) -> None:
    task = session.takes_up()
    act(session, task, "pause")
    assert session.world.task(task).status is TaskStatus.PAUSED
    act(session, task, "resume")
    assert session.world.task(task).status is TaskStatus.ACTIVE
    act(session, task, "cancel", "Too late.")
    assert session.world.task(task).status is TaskStatus.CANCELLED
    with pytest.raises(NotAllowed, match="you can: resume"):
        act(session, task, "pause")


def test_the_overview_has_each_task_once_in_its_section(session: Session) -> None:
    asks = session.takes_up(name="Asks")
    session.call("task_update", task_id=asks, ask="Which browser?", ask_options=["A", "B"])
    works = session.takes_up(name="Works")
    session.world.open_wait(works)
    failed = session.takes_up(name="Fails")
    session.call("task_update", task_id=failed, status="failed", message="No flour.")
    session.world.clock.tick(60)

    found = overview.read_overview(session.world.context)

    needs = found.sections[Section.NEEDS_YOU]
    assert {line.name: line.says for line in needs} == {
        "Asks": "asks: Which browser?",
        "Fails": 'failed: Its agent says: "No flour."',
    }
    assert next(line.options for line in needs if line.name == "Asks") == ("A", "B")
    everything = [line.task_id for lines in found.sections.values() for line in lines]
    assert sorted(everything) == sorted((asks, works, failed))


def test_what_ended_long_ago_is_not_in_the_overview(session: Session) -> None:
    done, failed = session.takes_up(name="Done"), session.takes_up(name="Failed")
    act(session, done, "cancel")
    session.call("task_update", task_id=failed, status="failed")
    found = []
    for _ in range(4):
        session.world.clock.tick(24 * 3600 + 1)
        lines = overview.read_overview(session.world.context).sections.values()
        found.append({line.name for each in lines for line in each})
    assert found == [{"Failed"}, {"Failed"}, set(), set()]


def test_tasks_are_found_by_number_id_and_name() -> None:
    world = World()
    bread, rolls = world.register("Bread"), world.register("Bread rolls")
    context, end = world.context, rolls[-4:]

    assert find(context, "2", bread, rolls) == rolls
    assert find(context, bread, rolls) == bread
    assert find(context, f" {bread}  ") == bread
    assert find(context, "bread") == bread
    assert find(context, "BREAD R") == rolls
    assert find(context, "rolls") == rolls
    assert find(context, end, kinds=TASKS) == rolls
    with pytest.raises(InvalidArguments, match=r'"rea" may mean .*"Bread".*; give more'):
        find(context, "rea")
    with pytest.raises(TaskNotFound, match='No task is called "soup"'):
        find(context, "soup", kinds=TASKS)
    with pytest.raises(TaskNotFound):
        find(context, "3", bread, rolls)


def test_waits_and_wakes_are_found_by_the_end_of_their_ids() -> None:
    world = World()
    task = world.register()
    wait = world.open_wait(task)
    world.end_wait(wait)
    [wake] = world.wakes()

    assert find(world.context, wait.wait_id[-4:]) == wait.wait_id
    assert find(world.context, wake.wake_id[-4:]) == wake.wake_id
    with pytest.raises(TaskNotFound):
        find(world.context, wait.wait_id, kinds=TASKS)


def test_a_wait_is_cancelled_for_a_person(session: Session) -> None:
    task = session.takes_up()
    wait = session.world.open_wait(task)
    user_actions.cancel_wait(session.world.context, wait.wait_id)
    assert session.world.store.read_wait(wait.wait_id).status == "cancelled"
    assert session.run(task).state is RunState.RUNNING

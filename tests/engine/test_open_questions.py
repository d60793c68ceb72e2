"""A question to the user, asked outside a gateway, stands until it is answered or withdrawn."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.views.user_actions import ActRequest, UserAction
from openclaw_taskmem.engine import overview
from openclaw_taskmem.engine.runs import find_question, list_awaited
from openclaw_taskmem.engine.user_actions import act_on_task
from taskmem_hookspecs import Owner, RunState, TaskmemError
from taskmem_hookspecs.errors import InvalidArguments
from tests.support.world import PERSON, World

QUESTION = "Which region?"
KEEPING: list[tuple[str, dict[str, Any]]] = [
    ("task_update", {"message": "Still waiting."}),
    ("task_update", {"query": "where am I?"}),
    ("task_update", {"message": "Step 1 done"}),
    ("task_update", {"completed_steps": [2]}),
    ("task_update", {"reopened_steps": [1]}),
    ("task_update", {"status": "active"}),
    ("task_update", {"status": "paused"}),
    ("task_plan_update", {"new_plan": ["Build", "Ship"], "reason": "Shorter."}),
    ("task_resume", {}),
    ("task_claim", {}),
    ("task_handoff", {"to": "tester"}),
    ("task_handoff", {"to": "user"}),
    ("task_step_done", {}),
    ("task_step_done", {"outcome": "failed", "remaining": ["Ship"]}),
    ("task_status", {}),
]
"""Calls that say nothing of the user's answer."""
ANSWERING: list[tuple[str, dict[str, Any]]] = [
    ("task_update", {"status": "active", "message": "They say eu."}),
    ("task_resume", {"answer": "eu"}),
    ("task_update", {"status": "cancelled", "message": "They do not want it."}),
]


def worker(process: str) -> Caller:
    owner = Owner(role="agent", process=process)
    return Caller(host="mcp:claude-code", process=process, owner=owner)


ONE, TWO = worker("1:1"), worker("2:1")


def ask(world: World, *, claims: bool) -> str:
    task = str(world.call("task_register", ONE, name="Deploy", plan=["Build", "Push"])["task_id"])
    if claims:
        world.call("task_claim", ONE, task_id=task)
    world.call("task_update", ONE, task_id=task, ask=QUESTION, ask_options=["eu", "us"])
    return task


def try_call(world: World, caller: Caller, task: str, call: tuple[str, dict[str, Any]]) -> None:
    tool, arguments = call
    with suppress(TaskmemError):
        world.call(tool, caller, task_id=task, **arguments)


def read_question(world: World, task: str) -> str | None:
    question = find_question(world.context, world.store.read_task(task).run)
    return None if question is None else question.text


@pytest.mark.parametrize("claims", [True, False])
def test_an_open_question_is_seen_wherever_one_looks(*, claims: bool) -> None:
    world = World()
    task = ask(world, claims=claims)
    (listed,) = world.call("task_list", ONE, status="waiting")["tasks"]
    assert (listed["question"], listed["waits_for"]["what"]) == (QUESTION, "answer")
    answer = world.call("task_update", ONE, task_id=task, query="where am I?")
    assert f'Waits for the user\'s answer to "{QUESTION}"' in answer["summary"]
    assert "No blockers" not in answer["summary"]
    run = world.store.read_task(task).run
    question = find_question(world.context, run)
    assert question is not None
    assert question.options == ("eu", "us")
    line = overview.read_line(world.context, task)
    assert QUESTION in str(line)


@given(
    claims=st.booleans(),
    calls=st.lists(st.tuples(st.sampled_from([ONE, TWO]), st.sampled_from(KEEPING)), max_size=6),
    answer=st.sampled_from(ANSWERING),
)
def test_a_question_stands_until_it_is_answered(
    *,
    claims: bool,
    calls: list[tuple[Caller, tuple[str, dict[str, Any]]]],
    answer: tuple[str, dict[str, Any]],
) -> None:
    world = World()
    task = ask(world, claims=claims)
    for caller, call in calls:
        try_call(world, caller, task, call)
        assert QUESTION in str(read_question(world, task)), call
    tool, arguments = answer
    world.call(tool, ONE, task_id=task, **arguments)
    assert read_question(world, task) is None
    assert task not in list_awaited(world.context)
    if not claims:
        assert world.store.read_task(task).run is None
        world.call("task_update", TWO, task_id=task, message="On with it.")


def test_who_goes_on_without_an_answer_is_told_the_question() -> None:
    world = World()
    task = ask(world, claims=True)
    unsaid: list[tuple[str, dict[str, Any]]] = [("task_resume", {}), ("task_claim", {})]
    ways = "answer to that as answer", 'task_update with status "active"'
    for (tool, arguments), way in zip(unsaid, ways, strict=True):
        with pytest.raises(InvalidArguments, match="Which region") as refused:
            world.call(tool, ONE, task_id=task, **arguments)
        assert way in str(refused.value)


def test_who_heard_the_user_since_the_question_just_goes_on() -> None:
    world = World()
    task = ask(world, claims=True)
    world.clock.tick(1)
    world.call("task_update", PERSON, task_id=task, message="eu, I think.")
    assert QUESTION in str(read_question(world, task))
    world.call("task_update", ONE, task_id=task, completed_steps=[1])
    assert read_question(world, task) is None


def test_the_users_answer_comes_with_the_agents_next_call() -> None:
    world = World()
    task = ask(world, claims=False)
    question = find_question(world.context, world.store.read_task(task).run)
    assert question is not None
    request = ActRequest(action=UserAction.ANSWER, words="eu", question_id=question.key)
    act_on_task(world.context, task, request)
    run = world.store.read_task(task).run
    assert run is not None
    assert (run.state, run.why) == (RunState.BLOCKED, "answered")
    assert task not in list_awaited(world.context)

    answer = world.call("task_update", TWO, task_id=task, message="Back.")

    assert answer["user_said"] == ["eu"]
    assert world.store.read_task(task).run is None


def test_a_second_question_takes_the_place_of_the_first() -> None:
    world = World()
    task = ask(world, claims=False)
    answer = world.call("task_update", TWO, task_id=task, ask="Which zone?")
    assert f'The user is not asked any more: "{QUESTION}"' in answer["message"]
    assert "Which zone?" in str(read_question(world, task))
    world.call("task_update", PERSON, task_id=task, status="active", message="a")
    assert read_question(world, task) is None


@pytest.mark.parametrize("claims", [True, False])
def test_an_end_tells_of_the_question_that_it_drops(*, claims: bool) -> None:
    world = World()
    task = ask(world, claims=claims)
    answer = world.call("task_update", ONE, task_id=task, status="cancelled", message="No use.")
    assert f'The user is not asked any more: "{QUESTION}"' in answer["message"]


@pytest.mark.parametrize(
    ("tool", "arguments"), [*KEEPING, *ANSWERING[:1], ("task_update", {"ask": QUESTION})]
)
def test_a_question_that_stands_or_was_answered_is_not_dropped(
    tool: str, arguments: dict[str, Any]
) -> None:
    world = World()
    task = ask(world, claims=True)
    with suppress(TaskmemError):
        answer = world.call(tool, ONE, task_id=task, **arguments)
        assert "not asked any more" not in answer["message"]


@pytest.mark.parametrize("again", [QUESTION, "Delete production?"])
def test_words_before_a_question_do_not_answer_it(again: str) -> None:
    world = World()
    task = ask(world, claims=True)
    for caller, call in ((PERSON, {"message": "Hold on."}), (ONE, {"ask": again})):
        world.clock.tick(1)
        world.call("task_update", caller, task_id=task, **call)

    with pytest.raises(InvalidArguments, match=again.rstrip("?")):
        world.call("task_update", ONE, task_id=task, status="active")

    world.call("task_update", PERSON, task_id=task, message="No.")
    world.call("task_update", ONE, task_id=task, status="active")


@pytest.mark.parametrize("claims", [True, False])
def test_an_agents_shell_is_no_answer_of_the_user(*, claims: bool) -> None:
    world = World()
    task = ask(world, claims=claims)
    shell = Caller(person=True, host="shell:claude-code")
    for call in KEEPING:
        try_call(world, shell, task, call)
        assert QUESTION in str(read_question(world, task)), call

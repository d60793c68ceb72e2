"""Tasks are generated from a seed: the same again, and with everything that makes them hard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_resumebench.generated_task import FEWEST, MOST, GeneratedTask, generate_tasks
from taskmem_resumebench.work_steps import Kind, read_step


def follow(task: GeneratedTask, plan: tuple[str, ...]) -> list[object]:
    """Do a plan as it says, from the sentences alone."""
    gate = ""
    made: list[object] = []
    for sentence in plan:
        call = read_step(sentence, gate)
        gate = gate or call.mark
        made.append(call)
    return made


def test_a_seed_gives_the_same_tasks_again() -> None:
    assert generate_tasks(7, 20) == generate_tasks(7, 20)
    assert generate_tasks(7, 20) != generate_tasks(8, 20)


@given(st.integers(0, 10_000))
def test_the_revised_plan_asks_for_what_is_needed(seed: int) -> None:
    (task,) = generate_tasks(seed, 1)

    assert FEWEST <= len(task.plan) <= MOST
    assert task.revision is not None
    assert follow(task, task.revision.plan) == [*task.needed]
    assert task.revision.cancelled not in task.needed
    assert task.revision.cancelled in follow(task, task.plan)


@given(st.integers(0, 10_000))
def test_what_is_cancelled_is_not_done_when_the_user_says_so(seed: int) -> None:
    (task,) = generate_tasks(seed, 1)

    assert task.revision is not None
    assert task.revision.cancelled not in follow(task, task.plan)[: task.revision.after]


@given(st.integers(0, 10_000))
def test_each_task_pays_once_and_loses_one_answer(seed: int) -> None:
    (task,) = generate_tasks(seed, 1)

    marks = [call.mark for call in task.needed]
    assert len({*marks}) == len(marks)
    assert sum(call.kind is Kind.PAYMENT for call in task.needed) == 1
    assert task.unknown.mark in marks


def test_tasks_differ_in_size_kind_and_lost_calls() -> None:
    tasks = generate_tasks(1, 100)

    assert {len(task.plan) for task in tasks} >= {FEWEST, MOST}
    kinds = {call.kind for task in tasks for call in task.needed}
    assert kinds == {*Kind} - {Kind.REPLY}
    assert {task.unknown.happens for task in tasks} == {True, False}
    assert any("; else: " in step for task in tasks for step in task.plan)


def test_a_sentence_that_was_cut_asks_for_nothing() -> None:
    with pytest.raises(ValueError, match="Sort amber"):
        read_step("Sort amber-1 and words.txt into out/am…", "open")

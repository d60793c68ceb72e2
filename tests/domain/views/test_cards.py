"""The card of a task, as its user sees it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.views import cards
from taskmem_hookspecs import RunState, StepState, TaskFacts, TaskStatus, WaitStatus
from taskmem_hookspecs.testing import a_task, a_wait
from tests.support.owners import a_changed_run

DONE, NOW, NEXT = StepState.COMPLETED, StepState.IN_PROGRESS, StepState.PENDING
PLAN = ("Build the image", "Push it", "Verify the site")


def draw_task_card(run: dict[str, Any] | None = None, waits: Any = (), **task: Any) -> Any:
    facts = TaskFacts(task=a_task(**{"plan": PLAN, **task}), waits=tuple(waits))
    return cards.build_card(facts, None if run is None else a_changed_run(**run))


def states(card: Any) -> list[StepState]:
    return [step.status for step in card.plan]


def test_the_steps_are_done_at_work_or_to_come() -> None:
    card = draw_task_card({"state": RunState.RUNNING}, done=frozenset({0}))

    assert [step.step for step in card.plan] == [*PLAN]
    assert states(card) == [DONE, NOW, NEXT]
    assert card.markdown == "**Deploy the site**"


@pytest.mark.parametrize(
    ("run", "task", "note"),
    [
        (
            {"state": RunState.BLOCKED, "why": "question", "question": "Push it?"},
            {},
            "Waits for your answer: Push it?",
        ),
        ({"state": RunState.BLOCKED, "why": "stale"}, {}, "Waits for your word."),
        (
            {"state": RunState.BLOCKED, "why": "answered"},
            {},
            "Waits for its agent, which has your answer.",
        ),
        ({"state": RunState.BLOCKED, "why": "stopped"}, {}, "Paused."),
        (
            {"state": RunState.REVIEW, "why": "handed_off"},
            {"status": TaskStatus.PAUSED},
            "Waits for your review.",
        ),
        (None, {"status": TaskStatus.PAUSED}, "Paused."),
        ({"state": RunState.COMPLETED}, {"status": TaskStatus.COMPLETED}, "Done."),
        ({"state": RunState.FAILED}, {"status": TaskStatus.FAILED}, "Failed."),
    ],
    ids=["asks", "cut", "answered", "stopped", "review", "paused", "done", "failed"],
)
def test_what_rests_or_has_ended_says_so_and_works_on_nothing(
    run: dict[str, Any] | None, task: dict[str, Any], note: str
) -> None:
    card = draw_task_card(run, **task)

    assert card.markdown.split("\n\n")[1:] == [note]
    assert NOW not in states(card)


def test_what_is_awaited_is_named_in_the_agents_words() -> None:
    over = a_wait(status=WaitStatus.RESOLVED)
    build = a_wait(target="pty:build", wake_when='"*All* green" appears')
    card = draw_task_card(waits=[over, build, *[a_wait(target="screen")] * 4])

    assert card.markdown.split("\n\n")[1:] == [
        r'Waits for Build until ""\*All\* green" appears".',
        f'Waits for Screen until "{over.wake_when}".',
        f'Waits for Screen until "{over.wake_when}".',
        "Waits for 2 more.",
    ]


@pytest.mark.parametrize("task", [{"implicit": True}, {"status": TaskStatus.CANCELLED}])
def test_what_is_implicit_or_called_off_has_no_card(task: dict[str, Any]) -> None:
    assert draw_task_card(**task) is None


def test_card_of_a_long_plan_shows_steps_around_the_current_one() -> None:
    plan = tuple(f"Step {n}" for n in range(1, 81))
    card = draw_task_card(plan=plan, done=frozenset(range(20)))

    assert (card.plan[0].step, card.plan[-1].step) == ("Step 16", "Step 65")
    assert states(card)[5] is NOW
    assert "Steps 16 to 65 of 80 steps." in card.markdown


@given(
    plan=st.lists(st.text(max_size=2000), min_size=1, max_size=120),
    name=st.text(max_size=2000),
    asked=st.text(max_size=2000),
    data=st.data(),
)
def test_no_card_is_larger_than_what_openclaw_takes(
    plan: list[str], name: str, asked: str, data: st.DataObject
) -> None:
    done = data.draw(st.frozensets(st.integers(0, len(plan) - 1)))
    run = {"state": RunState.BLOCKED, "why": "question", "question": asked}
    card = draw_task_card(run, plan=tuple(plan), name=name, done=done, waits=[a_wait()] * 5)

    assert len(card.plan) <= 50
    assert states(card).count(NOW) <= 1
    assert all(each.step.strip() for each in card.plan)
    assert all(len(each.step.encode()) <= 512 for each in card.plan)
    assert len(card.markdown.encode()) <= 8192

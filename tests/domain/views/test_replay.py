"""The state of a task at any instant that its log knows."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_taskmem.domain.views.replay import find_whole_part, rebuild_state
from taskmem_hookspecs import EventQuery, PlanRevision, TaskStatus
from tests.support.world import World


def test_the_past_of_a_task_is_rebuilt() -> None:
    world = World()
    task = world.register(plan=["Bake", "Eat"])
    world.clock.tick(60)
    baked = world.clock.now()
    world.narrate(task, "Step 1 done")
    wait = world.open_wait(task)
    world.clock.tick(60)
    world.call("task_plan_update", task_id=task, new_plan=["Bake", "Sell"], reason="No hunger.")
    world.end_wait(wait)
    world.call("task_update", task_id=task, status="cancelled")
    log = world.store.find_events(EventQuery(task_id=task))
    revisions = world.store.read_records(PlanRevision, task)
    found = world.task(task)

    def state_at(seconds: float) -> tuple[Any, ...]:
        state = rebuild_state(found, log, revisions, baked + timedelta(seconds=seconds))
        steps = [(step.text, step.done) for step in state.steps]
        return steps, state.status, state.waits

    active = TaskStatus.ACTIVE
    assert state_at(-1) == ([("Bake", False), ("Eat", False)], active, ())
    assert state_at(1) == ([("Bake", True), ("Eat", False)], active, (wait.target,))
    assert state_at(99) == ([("Bake", True), ("Sell", False)], TaskStatus.CANCELLED, ())


def test_a_thinned_log_tells_only_what_it_knows() -> None:
    world = World()
    task = world.register(plan=["Bake", "Eat", "Sell"])
    for step in (1, 2):
        world.clock.tick(60)
        world.call("task_update", task_id=task, completed_steps=[step])
    world.clock.tick(60)
    world.call("task_update", task_id=task, status="cancelled")
    found, log = world.task(task), world.store.find_events(EventQuery(task_id=task))
    second = next(n for n, each in enumerate(log) if each.data.get("marked") == [1])

    whole = find_whole_part(found, log, log[second - 1].event_id, is_cut=False)
    state = rebuild_state(found, whole, (), whole[0].at, is_whole=False)

    assert whole == log[second:]
    assert [step.done for step in state.steps] == [True, True, False]
    assert state.status is TaskStatus.ACTIVE
    before = whole[0].at - timedelta(seconds=1)
    steps = rebuild_state(found, whole, (), before, is_whole=False).steps
    assert [step.done for step in steps] == [True, False, False]


def test_a_log_is_whole_if_nothing_was_dropped_of_it() -> None:
    world = World()
    task = world.register(plan=["Bake"])
    world.call("task_plan_update", task_id=task, new_plan=["Eat"], reason="Other.")
    log = world.store.find_events(EventQuery(task_id=task))
    find = partial(find_whole_part, world.task(task), log)
    assert find(0, is_cut=False) == log
    assert find(log[-1].event_id, is_cut=False) == log  # nothing is dropped of an open task
    assert find(0, is_cut=True) == log[2:]


STEPS = st.lists(
    st.sampled_from(["Knead", "Bake", "Eat", "Sell"]), min_size=1, max_size=4, unique=True
)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("completed_steps"), st.integers(1, 2)),
        st.tuples(st.just("reopened_steps"), st.integers(1, 2)),
        st.tuples(st.just("new_plan"), STEPS),
    ),
    max_size=12,
)


@given(acts=ACTS)
@settings(deadline=None, max_examples=60)
def test_the_present_that_is_rebuilt_is_the_present(acts: list[tuple[str, Any]]) -> None:
    world = World()
    task = world.register(plan=["Bake", "Eat"])
    for act, value in acts:
        world.clock.tick(1)
        if act == "new_plan":
            world.call("task_plan_update", task_id=task, new_plan=value, reason="Other.")
        elif value <= len(world.task(task).plan):
            world.call("task_update", task_id=task, **{act: [value]})

    log = world.store.find_events(EventQuery(task_id=task))
    revisions = world.store.read_records(PlanRevision, task)
    found = world.task(task)

    assert rebuild_state(found, log, revisions, world.clock.now()).steps == found.steps

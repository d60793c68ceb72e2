"""The story of a task, its runs over time, and its state at any instant."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.run_checkpoints import PastCall
from openclaw_taskmem.domain.timeline import (
    EntryKind,
    Tone,
    build_run_bars,
    build_timeline,
    rebuild_state,
)
from taskmem_hookspecs import Event, EventQuery, PlanRevision, RunState, TaskStatus
from taskmem_hookspecs.testing import a_message
from taskmem_hookspecs.testing.clock import DAWN
from tests.support.world import World

NOW = DAWN + timedelta(hours=1)


def an_entry(kind: str, minute: int = 0, **data: Any) -> Event:
    at = DAWN + timedelta(minutes=minute)
    return Event(event_id=minute + 1, at=at, kind=kind, task_id="task_1", run_id="run_1", data=data)


@pytest.mark.parametrize(
    ("kind", "data", "title", "text", "tone"),
    [
        (events.TASK_REGISTERED, {"steps": 2}, "Registered with 2 steps", "", "plain"),
        (events.TASK_UPDATED, {"marked": [0, 1]}, "Done: step 1-2", "", "good"),
        (events.TASK_UPDATED, {"unmarked": [2]}, "Reopened: step 3", "", "good"),
        (
            events.STATUS_CHANGED,
            {"to": "failed", "why": "round_limit"},
            *("Task failed", "round limit", "bad"),
        ),
        (events.STATUS_CHANGED, {"to": "paused", "by": "user"}, "Task paused by you", "", "plain"),
        (events.RUN_CHANGED, {"from": None, "to": "queued"}, "A run begins", "", "plain"),
        (
            events.RUN_CHANGED,
            {"from": "queued", "to": "running", "owner": {"role": "main"}},
            *("Taken up by main", "", "plain"),
        ),
        (events.RUN_CHANGED, {"from": "blocked", "to": "running"}, "Work goes on", "", "plain"),
        (events.RUN_CHANGED, {"from": "running", "to": "review"}, "Run review", "", "warn"),
        (
            events.WAIT_OPENED,
            {
                "target": "pty:build",
                "wake_when": "it ends",
                "timeout": 60.0,
                "understood": [{"side": "it ends", "judged_by": "rules"}],
            },
            "Waits for pty:build",
            "until it ends\nfor 1 minute at most\nit ends: judged by rules",
            "plain",
        ),
        (
            events.WAIT_ENDED,
            {"status": "timeout", "elapsed_seconds": 60.0, "observation": "Nothing."},
            *("Wait timeout after 1 minute", "Nothing.", "warn"),
        ),
        (
            events.WAKE_FAILED,
            {"error": "No gateway."},
            *("Wake not delivered", "No gateway.", "warn"),
        ),
        (
            events.EVIDENCE_CHECKED,
            {"checked": [{"subject": "a.md", "verdict": "refuted"}]},
            *("Proof looked at", "a.md: refuted", "bad"),
        ),
        (
            events.COMPLETION_REFUSED,
            {"missing": "There is no a.md."},
            *("Completion refused", "There is no a.md.", "bad"),
        ),
        (
            events.NOTICE,
            {"line": "Deploy: started."},
            *("You were told", "Deploy: started.", "plain"),
        ),
    ],
)
def test_log_entries_are_told_in_words(
    kind: str, data: dict[str, Any], title: str, text: str, tone: str
) -> None:
    [entry] = build_timeline([an_entry(kind, **data)], (), ())
    assert (entry.title, entry.text, entry.tone) == (title, text, tone)


@pytest.mark.parametrize("kind", [events.TURN_STOPPED, events.QUESTION_LOST, "of a later version"])
def test_what_others_tell_has_no_entry(kind: str) -> None:
    assert build_timeline([an_entry(kind), an_entry(events.TASK_UPDATED)], (), ()) == []


def test_messages_and_calls_stand_where_they_happened() -> None:
    call = PastCall(tool="exec", about="make", ok=None, at=DAWN + timedelta(minutes=2))
    said = a_message(content="Hello", created_at=DAWN + timedelta(minutes=1))
    log = [an_entry(events.WAKE_SENT, 0), an_entry(events.WAKE_ACKNOWLEDGED, 3)]

    found = build_timeline(log, [said], [call])

    assert [each.kind for each in found] == [
        *(EntryKind.WAKE, EntryKind.MESSAGE, EntryKind.CALL, EntryKind.WAKE),
    ]
    assert (found[2].title, found[2].tone) == ("exec: its end was not seen", Tone.WARN)


def test_a_run_is_a_bar_of_its_states() -> None:
    log = [
        an_entry(events.RUN_CHANGED, 0, **{"from": None, "to": "queued"}),
        an_entry(events.RUN_CHANGED, 1, to="running", owner={"role": "main"}, **{"from": "queued"}),
        an_entry(events.RUN_CLAIMED, 2, owner={"role": "other"}),
        an_entry(events.RUN_CHANGED, 5, to="blocked", why="question", **{"from": "running"}),
    ]

    [bar] = build_run_bars(log, NOW)

    assert bar.owner == "other"
    minutes = [
        tuple(int((at - DAWN).total_seconds() / 60) for at in (span.began_at, span.ended_at))
        for span in bar.spans
    ]
    assert minutes == [(0, 1), (1, 5), (5, 60)]
    assert [(span.state, span.why) for span in bar.spans] == [
        *((RunState.QUEUED, ""), (RunState.RUNNING, ""), (RunState.BLOCKED, "question")),
    ]


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

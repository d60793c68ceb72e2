"""What the user is told of a run: a line each, and who reads it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw_taskmem.domain import events, notices
from openclaw_taskmem.domain.notices import Milestone
from openclaw_taskmem.domain.texts import json_size
from taskmem_hookspecs.testing import a_run, a_task
from taskmem_hookspecs.testing.clock import DAWN

NOW = DAWN + timedelta(minutes=10)


@pytest.mark.parametrize(
    ("which", "line"),
    [
        ("accepted", 'accepted: "Deploy the site" (3 steps, task_1)'),
        ("started", 'started: "Deploy the site" (task_1)'),
        ("tool_write_verified", 'tool_write_verified: "Deploy the site" (task_1)'),
        ("completed", 'completed: "Deploy the site" (task_1)'),
        ("failed", 'failed: "Deploy the site" (task_1)'),
    ],
    ids=[*Milestone],
)
def test_each_milestone_is_one_line(which: str, line: str) -> None:
    told = notices.milestone(Milestone(which), a_task(), a_run(), NOW)

    assert (told.kind, told.at) == ("milestone", NOW)
    assert (told.task_id, told.run_id) == ("task_1", "run_1")
    assert (told.data["name"], told.data["line"]) == (which, line)


def test_there_are_five_milestones_and_no_chatter() -> None:
    """Source: requirement F5."""
    assert [*Milestone] == [
        "accepted",
        "started",
        "tool_write_verified",
        "completed",
        "failed",
    ]


def test_what_there_is_to_add_stands_with_the_milestone() -> None:
    told = notices.milestone(Milestone.FAILED, a_task(), a_run(), NOW, "why\nnot")

    assert told.data["line"] == 'failed: "Deploy the site" (why not)'


def test_a_notice_names_what_it_is_about() -> None:
    told = notices.notice("stale", a_task(), a_run(), "It waits.", NOW)

    assert (told.kind, told.data["about"]) == ("notice", "stale")
    assert told.data["line"] == "It waits."


def test_both_kinds_are_said_to_the_user() -> None:
    assert {events.MILESTONE, events.NOTICE} <= events.SAID


@pytest.mark.parametrize(
    ("told", "of_run", "of_task", "session"),
    [
        ("agent:main:main", "agent:main:taskmem:run_1", "agent:x", "agent:main:main"),
        (None, "agent:main:work", "agent:x", "agent:main:work"),
        (None, None, "agent:x", "agent:x"),
        (None, None, None, None),
    ],
    ids=["background", "its-own", "its-tasks", "none"],
)
def test_a_line_goes_to_who_asked_for_the_run(
    told: str | None, of_run: str | None, of_task: str | None, session: str | None
) -> None:
    run = a_run(told_session=told, session_key=of_run)
    task = a_task(session_key=of_task)

    assert notices.notice("x", task, run, "y", NOW).data["session_key"] == session
    milestone = notices.milestone(Milestone.STARTED, task, run, NOW)
    assert milestone.data["session_key"] == session


NASTY = st.text(max_size=3000) | st.text(
    alphabet="\x1b\x9b\u202e\u2028\n\r\t\0[]system ", max_size=600
)


@given(name=NASTY, said=NASTY)
@example(name="é" * 900, said="é" * 900)
def test_whatever_is_said_it_is_one_short_line_that_steers_nothing(
    name: str, said: str
) -> None:
    task = a_task(name=name)

    for told in (
        notices.milestone(Milestone.FAILED, task, a_run(), NOW, said),
        notices.notice("x", task, a_run(), f"{name}: {said}", NOW),
    ):
        line = str(told.data["line"])
        assert json_size(line) <= notices.LINE_BYTES
        assert line.isprintable()


@pytest.mark.parametrize("marker", ["[system]", "[task_stuck_resume]", "[task_resume]"])
def test_no_line_can_pass_for_a_wake(marker: str) -> None:
    told = notices.notice("x", a_task(), a_run(), f"{marker} {{}}", NOW)

    assert "[" not in str(told.data["line"])

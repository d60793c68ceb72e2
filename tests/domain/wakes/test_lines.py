"""What people see of a wake: in their words, on one line, and without ids."""

from __future__ import annotations

from datetime import timedelta

import pytest

from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.text.texts import count_json_bytes
from openclaw_taskmem.domain.wakes.notices import (
    LINE_BYTES,
    WakeFacts,
    describe_wake,
    describe_wakes,
)
from taskmem_hookspecs import Task, TaskStatus, WaitStatus, WakeCause
from taskmem_hookspecs.testing import DAWN, a_run, a_task, a_wait, a_wake
from tests.support.owners import a_changed_run

TASK = a_task(done=frozenset({0}))
LATER = DAWN + timedelta(seconds=562)


def facts_of_wait(
    status: str, seen: str | None, task: Task | None = TASK, **fields: object
) -> WakeFacts:
    ended = DAWN + timedelta(seconds=22)
    state = {"status": status, "last_observation": seen, "ended_at": ended}
    wait = a_wait(**{**state, **fields})
    return WakeFacts(wake=a_wake(cause=WakeCause.WAIT), task=task, wait=wait)


def facts_of_run(task: Task = TASK, **run: object) -> WakeFacts:
    wake = a_wake(cause=WakeCause.RUN)
    return WakeFacts(wake=wake, task=task, run=a_changed_run(**run))


NEXT = "goes on with step 2 of 3."
WAITS = {
    'Deploy the site: "Build finished" after 22 s; {NEXT}': facts_of_wait(
        "resolved", '"Build finished".'
    ),
    "build: It has ended after 22 s.": facts_of_wait("resolved", "It has ended.", None),
    "Deploy the site: waited 22 s, and it came; {NEXT}": facts_of_wait(
        "resolved", None, target="pty:file:/var/log/app.log"
    ),
    'Deploy the site: waited 22 s in vain (Last line: "40 %"); {NEXT}': facts_of_wait(
        "timeout", 'Last line: "40 %"', target="screen"
    ),
    "Deploy the site: it can no longer be watched (The window is gone); {NEXT}": facts_of_wait(
        "error", "The window is gone.", target="window:Player"
    ),
    "Deploy the site: It is completed after 22 s.": facts_of_wait(
        "resolved", "It is completed.", a_task(), target="task:task_2"
    ),
}
RUNS = {
    "{NEXT}": facts_of_run(),
    "begun in the background; {NEXT}": facts_of_run(why=RunReason.BACKGROUND),
    "started again; {NEXT}": facts_of_run(why=RunReason.RESET),
    "the last turn failed at the model's provider; {NEXT}": facts_of_run(provider_failures=1),
    "the last turn brought nothing new; {NEXT}": facts_of_run(idle_rounds=1),
    "its agent has your answer.": facts_of_run(why=RunReason.ANSWERED),
    "all steps are marked done, and the agent checks the result.": facts_of_run(
        a_task(done=frozenset({0, 1, 2}))
    ),
    "begun in the background.": facts_of_run(a_task(), why=RunReason.BACKGROUND),
    "the agent goes on.": facts_of_run(a_task(status=TaskStatus.COMPLETED)),
    "no progress for 9 min; {NEXT}": WakeFacts(
        wake=a_wake(created_at=LATER), task=TASK, run=a_run()
    ),
}
WAKES = WAITS | {f"Deploy the site: {line}": facts for line, facts in RUNS.items()}


@pytest.mark.parametrize("line", WAKES)
def test_a_wake_says_what_was_seen_and_what_is_next(line: str) -> None:
    assert describe_wake(WAKES[line]) == line.replace("{NEXT}", NEXT)


def test_where_no_more_is_known_the_agent_goes_on() -> None:
    assert describe_wake(WakeFacts(wake=a_wake())) == "The agent goes on."


@pytest.mark.parametrize("status", [*WaitStatus])
def test_no_ending_of_a_wait_shows_an_id(status: WaitStatus) -> None:
    assert "_1" not in describe_wake(facts_of_wait(status, "x"))


IMPLICIT = a_task(implicit=True)


def test_an_implicit_task_goes_on_unseen() -> None:
    seen = facts_of_wait("resolved", "done", IMPLICIT)
    assert describe_wakes([facts_of_run(IMPLICIT), facts_of_run(IMPLICIT)]) == ""
    assert describe_wakes([facts_of_run(IMPLICIT), seen]) == "build: done after 22 s."


def test_wakes_that_share_a_message_share_a_line() -> None:
    resumed = facts_of_run()
    assert describe_wakes([facts_of_wait("resolved", "done", None), resumed, resumed]) == (
        "build: done after 22 s. Deploy the site: goes on with step 2 of 3."
    )


@pytest.mark.parametrize("size", [1, 90, 4000])
def test_what_has_no_room_in_a_line_is_counted(size: int) -> None:
    seen = "\u2028x" * size
    many = [facts_of_wait("resolved", f"{number} {seen}", None) for number in range(20)]
    line = describe_wakes(many)
    assert count_json_bytes(line) <= LINE_BYTES
    assert line.splitlines() == [line]
    assert line.endswith(" more.")

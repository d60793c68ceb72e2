"""Who did a thing is what was known of the caller, wherever people read it."""

from __future__ import annotations

import re

import pytest

from openclaw_taskmem.cli import task_text
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.views.user_actions import ActRequest, UserAction
from openclaw_taskmem.engine import overview, user_actions
from openclaw_taskmem.tools import views
from taskmem_hookspecs import Change
from taskmem_hookspecs.testing import an_artifact
from tests.pages.test_site import render
from tests.support.world import AGENT, World

BY_CALL = Caller(person=True, by_call=True)
"""`taskmem call` at a terminal, or in a script."""
IN_SHELL = Caller(person=True, by_call=True, host="shell:claude-code")
"""`taskmem call` in an agent's shell."""
WORDS = "812 tests pass."


def end(world: World, task: str, who: str, action: str) -> None:
    """Let somebody end a task with words: by a page or its command, or as an agent does."""
    callers = {"call": BY_CALL, "shell": IN_SHELL, "agent": AGENT}
    if who == "user":
        line = overview.read_line(world.context, task)
        request = ActRequest(action=UserAction(action), words=WORDS, files_id=line.files_id)
        user_actions.act_on_task(world.context, task, request)
        return
    status = {"approve": "completed", "pause": "paused"}[action]
    world.call("task_update", callers[who], task_id=task, status=status, message=WORDS)


def print_shown(world: World, task: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `taskmem show` prints of a task."""
    found = views.show_by_id(world.context, task, lambda _: {})
    task_text.print_task(found)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("who", "wrote", "by", "thread"),
    [
        ("user", "You wrote", " by you", "user"),
        ("call", "taskmem call wrote", " by taskmem call", "taskmem call"),
        ("shell", "Its agent wrote", "", "agent"),
        ("agent", "Its agent wrote", "", "agent"),
    ],
)
def test_who_did_it_is_the_same_everywhere(
    capsys: pytest.CaptureFixture[str], who: str, wrote: str, by: str, thread: str
) -> None:
    world = World()
    task = world.register()
    end(world, task, who, "pause")
    page, listed = render(world, "task", id=task), render(world, "")
    shown = print_shown(world, task, capsys)
    task_text.print_overview(views.describe_overview(overview.read_overview(world.context)))
    terminal = capsys.readouterr().out
    assert re.findall(r"<strong>(.*wrote)</strong>", page) == [wrote]
    assert f"<strong>Task paused{by}</strong>" in page
    assert f"{wrote}, " in listed
    assert f"{wrote.replace('Its', 'its').replace('You', 'you')} " in terminal
    assert f"{WORDS}”" in " ".join(terminal.split())
    assert re.findall(r"ago\) ([a-z ]+)\n    812", shown) == [thread]
    events = views.list_events(world.context, {"task_id": task})
    assert f"Task paused{by}" in [event["says"] for event in events]


@pytest.mark.parametrize(
    ("who", "judged"),
    [
        ("user", "you approved the content"),
        ("call", "nobody judged the content"),
        ("agent", "nobody judged the content"),
    ],
)
def test_only_who_approved_has_judged_the_content(
    capsys: pytest.CaptureFixture[str], who: str, judged: str
) -> None:
    world = World()
    task = world.register(plan=["Write it"])
    if who == "user":
        world.call("task_claim", BY_CALL, task_id=task, role="writer")
        world.call("task_update", BY_CALL, task_id=task, completed_steps=[1])
        world.call("task_handoff", BY_CALL, task_id=task, to="user")
    made = an_artifact(task_id=task, verdict="verified", checked_at=world.clock.now())
    world.store.commit(Change(artifacts=(made,)))
    end(world, task, who, "approve")
    assert overview.read_line(world.context, task).judged == judged
    for place in (render(world, ""), render(world, "task", id=task)):
        assert judged in place
    assert f"{judged}." in " ".join(print_shown(world, task, capsys).split())

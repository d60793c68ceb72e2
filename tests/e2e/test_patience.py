"""An agent that waits is left alone; one that does nothing is reminded, and stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import House, Scripts, Story, use
from tests.e2e.taskmem import PROGRAM
from tests.support.daemons import TURNED
from tests.support.installations import make_installation

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600",
    "TASKMEM_IDLE_PAUSES": "1,1,1",
    "TASKMEM_QUESTION_SECONDS": "1",
    "TASKMEM_STUCK_INTERVAL_SECONDS": "1",
}
SHARES_GATEWAY = True


@pytest.fixture(scope="module", autouse=True)
def turned_daemon(
    home: tuple[House, Scripts], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Have the daemon's clock be turned by a file."""
    taskmem = home[0].taskmem
    python = make_installation(tmp_path_factory.mktemp("turned") / "installation", TURNED)
    taskmem.program = python.with_name("taskmem")
    taskmem.restart({})
    yield
    taskmem.program = PROGRAM
    taskmem.restart({})


def list_reminders(story: Story) -> list[str]:
    """What the agent was told, in each of the turns that we began."""
    turns = [request.turn.text for request in story.requests if request.opens_turn]
    return [text for text in turns if "task_continue" in text]


def test_commands_in_the_background_are_awaited(story: Story, tmp_path: Path):
    # One goes there by itself, one has begun there.
    kinds: list[dict[str, Any]] = [{"yieldMs": 1000}, {"background": True}]
    go = tmp_path / "go"
    builds: list[tuple[Story, Path]] = []
    for number, how in enumerate(kinds):
        each = Story(story.house, story.scripts, f"{story.session}_{number}")
        log, done = tmp_path / f"log{number}", tmp_path / f"done{number}"
        command = f"echo built >> {log}; until [ -e {go} ]; do sleep 0.1; done; touch {done}"
        build(each, command, done, **how)
        builds.append((each, log))
    # Meanwhile an agent that does nothing has had all reminders that there are.
    idle_until_failed(story)
    assert [each.task["status"] for each, _ in builds] == ["active"] * 2
    go.touch()
    for each, log in builds:
        each.ends()
        assert log.read_text() == "built\n"
        assert len(list_reminders(each)) <= 1


def idle_until_failed(story: Story) -> None:
    """Let an agent register a task and do nothing, until the task has failed."""

    def idles(request: ModelRequest) -> Reply:
        if "Please idle" in request.turn.words and not request.turn.results:
            return [Call("task_register", {"name": "Idle", "plan": ["Do it"]})]
        return "Shall I continue?"

    story.follow(idles)
    story.say("Please idle.")
    story.ends("failed")


def build(story: Story, command: str, done: Path, **how: Any) -> None:
    """Have an agent run a command, and complete its task when there is what it made."""

    def builds(request: ModelRequest) -> Reply:
        turn = request.turn
        if "Please build" in turn.words and len(turn.results) < 2:
            step: list[Reply] = [
                [Call("task_register", {"name": "Build", "plan": ["Build it"]})],
                [Call("exec", {"command": command, **how})],
            ]
            return step[len(turn.results)]
        if turn.results or not done.exists():
            return "Waiting."
        report = {"task_id": story.task["task_id"], "status": "completed"}
        return [Call("task_update", report)]

    story.follow(builds)
    story.say("Please build.")


def turn_clock(story: Story, seconds: int) -> None:
    """Turn the daemon's clock, so many seconds ahead of the real one."""
    (story.house.taskmem.room.taskmem / "turned").write_text(str(seconds))


def pulse(story: Story, number: int) -> None:
    """Have an idle agent reminded, as whatever is due by now is sent, too."""
    other = Story(story.house, story.scripts, f"{story.session}-{number}")

    def idles(request: ModelRequest) -> Reply:
        if "Please idle" in request.turn.words and not request.turn.results:
            return [Call("task_register", {"name": "Pulse", "plan": ["Do it"]})]
        if "task_continue" in request.turn.text and not request.turn.results:
            over = {"task_id": other.task["task_id"], "status": "cancelled"}
            return [Call("task_update", over)]
        return "Nothing to say."

    other.follow(idles)
    other.say("Please idle.")
    other.ends("cancelled")


def test_a_command_of_an_hour_is_awaited_and_named_once_after_it(story: Story, tmp_path: Path):
    go, done = tmp_path / "go", tmp_path / "done"
    command = f"while [ ! -e {go} ]; do sleep 0.2; done; touch {done}"

    build(story, command, done, background=True)
    story.run(rounds=1)  # the turn's end was reported: the hour is counted from here
    turn_clock(story, 58 * 60)
    pulse(story, 1)
    assert list_reminders(story) == []
    turn_clock(story, 62 * 60)
    [reminder] = until(lambda: list_reminders(story), "its agent is reminded")
    assert str(go) in reminder
    pulse(story, 2)
    assert story.task["status"] == "active"
    assert len(list_reminders(story)) == 1
    go.touch()
    story.ends()
    assert len(list_reminders(story)) <= 2


def test_an_automation_that_is_due_is_awaited(story: Story):
    mail: list[str] = []

    def reads_mail(request: ModelRequest) -> Reply:
        turn = request.turn
        if "Look for mail" in turn.text:
            mail.append(turn.text)
            return "Tom has written."
        if "Please wait" in turn.words and len(turn.results) < 2:
            at = (datetime.now(UTC) + timedelta(seconds=15)).isoformat()
            job = {
                "name": "Mail",
                "schedule": {"kind": "at", "at": at},
                "sessionTarget": "isolated",
                "payload": {"kind": "agentTurn", "message": "Look for mail."},
                "delivery": {"mode": "none"},
            }
            step: list[Reply] = [
                [Call("task_register", {"name": "Mail", "plan": ["Answer Tom"]})],
                [use("automations", action="add", job=job)],
            ]
            return step[len(turn.results)]
        if turn.results or not mail:
            return "Waiting for Tom."
        report = {"task_id": story.task["task_id"], "status": "completed"}
        return [Call("task_update", report)]

    # The automation has a session of its own.
    story.scripts.elsewhere = reads_mail
    story.follow(reads_mail)
    story.say("Please wait for Tom.")
    story.ends()
    [told] = list_reminders(story)
    assert "automation Mail" in told
    assert mail


def test_an_agent_that_does_nothing_is_reminded_and_stopped(story: Story):
    idle_until_failed(story)
    assert story.run(state="failed")["why"] == "stalled_loop"
    reminders = list_reminders(story)
    assert len(reminders) == 3
    assert all("carry on with your own plan" in text for text in reminders)
    story.wait_for_notice("Idle: failed.")
    assert sum("Idle: failed." in line for line in story.lines) == 1


def parse_session_name(result: str) -> str:
    """The session that OpenClaw runs a background command in."""
    found = re.search(r"Command still running \(session ([\w-]+),", result)
    assert found, result
    return found[1]


def test_a_background_command_of_openclaw_is_waited_for(story: Story, tmp_path: Path):
    go = tmp_path / "go"
    command = f"echo Compiling; until [ -e {go} ]; do sleep 0.1; done; echo Built"
    woken: list[str] = []

    def builds(request: ModelRequest) -> Reply:
        turn = request.turn
        if "smart_wait resolved" in turn.text:
            woken.append(turn.text)
            return "It is built."
        if "Please build" not in turn.text:
            return "NO_REPLY"
        match turn.results:
            case []:
                return [Call("exec", {"command": command, "background": True})]
            case [started]:
                known = {"target": f"pty:{parse_session_name(started)}", "wake_when": "succeeds"}
                unknown = {**known, "target": "pty:nobody"}
                return [Call("smart_wait", each) for each in (unknown, known)]
            case [started, refused, _]:
                assert "target_not_found" in refused
                assert f"OpenClaw runs pty:{parse_session_name(started)}" in refused
                return "It runs, and I am woken at its end."

    story.follow(builds)
    story.say("Please build.")
    assert not woken
    go.touch()
    until(lambda: woken, "the agent is woken at the end of its command")
    assert "The command ended with status 0" in woken[0]

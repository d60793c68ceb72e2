"""An agent that waits is left alone; one that does nothing is reminded, and stopped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.shared_house import Story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600",
    "TASKMEM_IDLE_PAUSES": "1,1,1",
    "TASKMEM_QUESTION_SECONDS": "1",
}


def told_to_go_on(story: Story) -> list[str]:
    """What the agent was told, in each of the turns that we began."""
    turns = [request.turn.text for request in story.requests if request.opens_turn]
    return [text for text in turns if "task_continue" in text]


def test_a_command_in_the_background_is_awaited_and_run_once(
    story: Story, tmp_path: Path
):
    log, done = tmp_path / "log", tmp_path / "done"
    # Were it not awaited, the task would have failed after four seconds.
    command = f"echo built >> {log}; sleep 15; touch {done}"

    def builds(request: ModelRequest) -> Reply:
        turn = request.turn
        if "Please build" in turn.text and len(turn.results) < 2:
            step: list[Reply] = [
                [Call("task_register", {"name": "Build", "plan": ["Build it"]})],
                [Call("exec", {"command": command, "yieldMs": 1000})],
            ]
            return step[len(turn.results)]
        if turn.results or not done.exists():
            return "Waiting."
        report = {"task_id": story.task["task_id"], "status": "completed"}
        return [Call("task_update", report)]

    story.follow(builds)
    story.say("Please build.")
    story.ends()
    assert done.exists()
    assert log.read_text() == "built\n"
    assert len(told_to_go_on(story)) <= 1


def test_an_agent_that_does_nothing_is_reminded_and_stopped(story: Story):
    def idles(request: ModelRequest) -> Reply:
        if "Please idle" in request.turn.text and not request.turn.results:
            return [Call("task_register", {"name": "Idle", "plan": ["Do it"]})]
        return "Shall I continue?"

    story.follow(idles)
    story.say("Please idle.")
    story.ends("failed")
    assert story.run(state="failed")["why"] == "stalled_loop"
    reminders = told_to_go_on(story)
    assert len(reminders) == 3
    assert all("carry on with your own plan" in text for text in reminders)
    story.told("Idle: failed.")
    assert sum("Idle: failed." in line for line in story.lines) == 1


def named(result: str) -> str:
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
                known = {"target": f"pty:{named(started)}", "wake_when": "succeeds"}
                unknown = {**known, "target": "pty:nobody"}
                return [Call("smart_wait", each) for each in (unknown, known)]
            case [started, refused, _]:
                assert "target_not_found" in refused
                assert f"OpenClaw runs pty:{named(started)}" in refused
                return "It runs, and I am woken at its end."

    story.follow(builds)
    story.say("Please build.")
    assert not woken
    go.touch()
    until(lambda: woken, "the agent is woken at the end of its command")
    assert "The command ended with status 0" in woken[0]

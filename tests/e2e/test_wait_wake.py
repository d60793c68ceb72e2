"""An agent hands a real command over to be waited for, and the wake starts a turn.

Nothing is faked but the model: the command runs in a terminal of its own, started by
the gateway's own `exec`, and the wake comes by the real `openclaw` command.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.agent import answer_in, search, use
from tests.e2e.gateway import MAIN_SESSION, Gateway
from tests.e2e.room import Room, until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, ScriptedModel, Turn
from tests.e2e.taskmem import PROGRAM, Taskmem

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NAME = "Build the bakery's site"
PLAN = ["Build it", "Publish it"]
RESOLVED = re.compile(r"\[system\] smart_wait resolved \((wait_\w+)\): ([^\n]*)")
BUILD = """
import pathlib, sys, time
print("Compiling 3 pages", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
print("Build finished in 2.1 s", flush=True)
"""
"""A command that takes as long as the test wants it to."""


@pytest.fixture
def settings():
    """No silence of this test's length counts as stuck."""
    return {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}


@dataclass(frozen=True)
class Builder:
    """Starts a build, hands the waiting over, and goes on when it is woken."""

    command: str

    def __call__(self, request: ModelRequest) -> Reply:
        """The next reply in the current turn."""
        turn = request.turn
        if found := RESOLVED.search(turn.text):
            return self.go_on(found[1], turn)
        if NAME in turn.text:
            return self.begin(turn)
        return "NO_REPLY"

    def begin(self, turn: Turn) -> Reply:
        """Register, start the build in the background, wait, and end the turn."""
        match turn.results:
            case []:
                return [search("wait for a long-running command")]
            case [found]:
                assert "taskmem__smart_wait" in found, found
                register = {"name": NAME, "plan": PLAN, "session_key": MAIN_SESSION}
                return [use("task_register", **register)]
            case [_, _]:
                return [Call("exec", {"command": self.command, "background": True})]
            case [_, registered, _]:
                return [
                    use(
                        "smart_wait",
                        target="pty:build",
                        wake_when='"Build finished" appears, or the build fails',
                        timeout=300,
                        task_id=answer_in(registered)["task_id"],
                    )
                ]
            case _:
                return "The build runs; I am woken when it is through."

    def go_on(self, wait_id: str, turn: Turn) -> Reply:
        """Find the task by its wait, and narrate the step."""
        match turn.results:
            case []:
                return [use("task_list")]
            case [listed]:
                [task] = answer_in(listed)["tasks"]
                message = f"Step 1 done - {wait_id} has woken me"
                return [use("task_update", task_id=task["task_id"], message=message)]
            case _:
                return "Built."


def test_turn_ends_while_a_command_runs_and_wake_starts_the_next(
    model: ScriptedModel, gateway: Gateway, taskmem: Taskmem, room: Room, tmp_path: Path
):
    script, done = tmp_path / "build.py", tmp_path / "done"
    script.write_text(BUILD)
    run = f"TASKMEM_HOME={room.taskmem} {PROGRAM} run --name build --"
    model.decide = Builder(f"{run} {sys.executable} {script} {done}")

    # The agent's turn ends; the build runs, and the daemon watches it.
    gateway.take_turn(f"Please do this: {NAME}")
    [waiting] = taskmem.waits()
    assert (waiting["status"], waiting["target"]) == ("watching", "pty:build")
    until(lambda: "Compiling" in str(taskmem.waits()), "the build is seen")
    [listed] = taskmem.call("task_list")["tasks"]
    task_id = listed["task_id"]
    assert taskmem.show(task_id)["metadata"]["active_wait_ids"] == [waiting["wait_id"]]
    assert taskmem.wakes() == []

    # The build finishes, and the agent is woken in its own session.
    done.touch()

    def begins(request: ModelRequest) -> bool:
        return request.opens_turn and RESOLVED.search(request.turn.text) is not None

    woken = model.wait_for(begins, 180)
    found = RESOLVED.search(woken.turn.text)
    assert found is not None
    assert found[1] == waiting["wait_id"]
    assert "Build finished" in found[2]

    # It acts on it, and the wake counts as answered.
    def is_acknowledged() -> bool:
        return [wake["state"] for wake in taskmem.wakes()] == ["acknowledged"]

    until(is_acknowledged, "the wake is acknowledged")
    [wake] = taskmem.wakes()
    assert wake["session_key"] == MAIN_SESSION
    assert wake["transport"] == "openclaw-cli"
    task = taskmem.show(task_id)
    assert [step["done"] for step in task["steps"]] == [True, False]
    assert task["metadata"]["last_wait_state"] == "resolved"
    told = [m["content"] for m in task["messages"] if m["msg_type"] == "wait"]
    assert len(told) == 1
    assert "Build finished" in told[0]

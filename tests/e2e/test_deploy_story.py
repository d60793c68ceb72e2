"""A deployment on the real gateway: registered, narrated, waited for, done."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, Turn
from tests.e2e.taskmem import PROGRAM

pytestmark = [
    *(pytest.mark.e2e, pytest.mark.timeout(600)),
    # The one story of every run that has a gateway and PostgreSQL.
    pytest.mark.parametrize("home", ["postgresql"], indirect=True),
]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
SHARES_GATEWAY = True
NAME = "Deploy coursefolio to production"
PLAN = [
    "1. Build Docker image",
    "2. Push to ghcr.io",
    "3. SSH into server",
    "4. Pull image and run container",
    "5. Verify site is live at coursefolio.com",
]
RESOLVED = re.compile(r"\[system\] smart_wait resolved \((wait_\w+)\): ([^\n]*)")
DEPLOY = """
import pathlib, sys, time
def when(name):
    while not (pathlib.Path(sys.argv[1]) / name).exists():
        time.sleep(0.05)
print("latest: Pulling from alex/coursefolio", flush=True)
when("pulled")
print("Container coursefolio-web-1  Starting", flush=True)
when("started")
print("Container coursefolio-web-1  Healthy", flush=True)
when("over")
"""


@dataclass
class Agent:
    """Knows what it reads and the two ids that it was given, and nothing else."""

    command: str
    task_id: str = ""
    wait_id: str = ""

    def __call__(self, request: ModelRequest) -> Reply:
        """The next reply in the current turn."""
        turn = request.turn
        if found := RESOLVED.search(turn.text):
            return self.answer_wake(found[1], found[2], turn)
        if "deploy coursefolio" in turn.text:
            return self.begin(turn)
        return "NO_REPLY"

    def begin(self, turn: Turn) -> Reply:
        """Register, narrate, start the container, and hand the waiting over."""
        results = turn.results
        if len(results) == 1:
            self.task_id = json.loads(results[0])["task_id"]
        if len(results) == 6:
            answer = json.loads(results[5])
            assert answer["status"] == "watching"
            self.wait_id = answer["wait_id"]

        def update(message: str) -> Call:
            return Call("task_update", {"task_id": self.task_id, "message": message})

        steps: list[Reply] = [
            [Call("task_register", {"name": NAME, "plan": PLAN})],
            [update("Step 1 done — built image, tagged v1.2.3")],
            [update("Step 2 done — pushed to ghcr.io/alex/coursefolio:v1.2.3")],
            [update("Step 3 done — on the server")],
            [Call("exec", {"command": self.command, "background": True})],
            [
                Call(
                    "smart_wait",
                    {
                        "target": "pty:crisp-ridge",
                        "wake_when": '"Container" appears',
                        "timeout": 120,
                        "task_id": self.task_id,
                    },
                )
            ],
        ]
        return steps[len(results)] if len(results) < len(steps) else "I shall be woken."

    def answer_wake(self, wait_id: str, seen: str, turn: Turn) -> Reply:
        """Send the wait back when it only starts; finish when it is healthy."""
        assert wait_id == self.wait_id
        done = len(turn.results)
        if "Healthy" not in seen:
            finer = {"wait_id": wait_id, "wake_when": '"Healthy" appears'}
            again = [Call("tool_call", {"id": "wait_update", "args": finer})]
            return again if done == 0 else "Too early; it goes on waiting."
        steps: list[Reply] = [
            [
                Call(
                    "task_update",
                    {"task_id": self.task_id, "message": "Step 4 done — it is healthy"},
                )
            ],
            [
                Call(
                    "task_update",
                    {
                        "task_id": self.task_id,
                        "message": "All done — site is live",
                        "status": "completed",
                        "completed_steps": [5],
                    },
                )
            ],
        ]
        return steps[done] if done < len(steps) else "Coursefolio is live."


def test_a_deployment_runs_from_first_word_to_last(house: House, tmp_path: Path):
    script, flags = tmp_path / "deploy.py", tmp_path / "flags"
    script.write_text(DEPLOY)
    flags.mkdir()
    run = f"TASKMEM_HOME={house.taskmem.room.taskmem} {PROGRAM} run --name crisp-ridge"
    agent = Agent(f"{run} -- {sys.executable} {script} {flags}")
    house.model.decide = agent

    # Registered and narrated; the turn ends, and nothing is asked while it waits.
    house.gateway.say("Please deploy coursefolio.")
    task = house.ask("show", id=agent.task_id)
    assert [step["done"] for step in task["steps"]] == [True, True, True, False, False]
    assert task["metadata"]["active_wait_ids"] == [agent.wait_id]
    asked = len(house.model.requests)

    # Woken too early, it refines the wait and goes back to sleep.
    (flags / "pulled").touch()
    until(lambda: house.ask("show", id=agent.wait_id)["round"] == 2, "the wait is refined")
    task = house.ask("show", id=agent.task_id)
    assert task["metadata"]["active_wait_ids"] == [agent.wait_id]
    until(lambda: len(house.model.requests) == asked + 2, "its turn has ended")

    # Woken again, it completes.
    (flags / "started").touch()

    def is_completed() -> bool:
        return house.ask("show", id=agent.task_id)["status"] == "completed"

    until(is_completed, "the task is completed")
    task = house.ask("show", id=agent.task_id)
    assert all(step["done"] for step in task["steps"])
    wakes = [w for w in house.ask("wakes", all=True) if w["wait_id"] == agent.wait_id]
    assert [wake["state"] for wake in wakes] == ["acknowledged", "acknowledged"]
    assert {wake["transport"] for wake in wakes} == {"openclaw-plugin"}
    (flags / "over").touch()
    told = [m["content"] for m in task["messages"] if m["msg_type"] == "wait"]
    assert ["Starting" in told[0], "Healthy" in told[-1]] == [True, True]

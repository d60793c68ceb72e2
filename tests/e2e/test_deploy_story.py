"""A deployment on the real gateway: registered, narrated, waited for, done; in any manner."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.room import until
from tests.e2e.scripted_model import Call, Fault, ModelRequest, Reply, StreamedText, Turn
from tests.e2e.shared_house import Story
from tests.e2e.taskmem import PLUGIN, PROGRAM

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
(pathlib.Path(sys.argv[1]) / "image.txt").write_text("v1.2.3")
print("Container coursefolio-web-1  Healthy", flush=True)
when("over")
"""
SCHEMAS = {
    tool["name"]: tool["parameters"] for tool in json.loads((PLUGIN / "tools.json").read_text())
}

Arguments = Mapping[str, Any]
Manner = Callable[[str, Arguments], Arguments]
"""How a model writes the arguments of one of our tools."""


def write_floats(_tool: str, arguments: Arguments) -> Arguments:
    """Write every number as a float, within a list as text."""
    return {
        name: [str(float(n)) for n in value]
        if name == "completed_steps"
        else float(value)
        if isinstance(value, int)
        else value
        for name, value in arguments.items()
    }


def write_nulls(tool: str, arguments: Arguments) -> Arguments:
    """Write null for everything that is left out."""
    return {**dict.fromkeys(SCHEMAS[tool]["properties"]), **arguments}


def write_objects(tool: str, arguments: Arguments) -> Arguments:
    """Write the plan as objects, one step alone without a list, and task_id in another case."""
    written = {re.sub("^task_id$", "taskId", name): value for name, value in arguments.items()}
    if plan := written.get("plan"):
        written["plan"] = [{"content": step, "status": "pending"} for step in plan]
    if steps := written.get("completed_steps"):
        [written["completed_steps"]] = steps
    return written


def write_oddly(tool: str, arguments: Arguments) -> Arguments:
    """Write floats, nulls and objects, all in one call."""
    return write_objects(tool, write_nulls(tool, write_floats(tool, arguments)))


MANNERS: dict[str, Manner] = {"plain": lambda _, arguments: arguments, "odd": write_oddly}


@dataclass
class Agent:
    """Knows what it reads and the two ids that it was given, and nothing else."""

    target: str
    command: str
    made: Path
    manner: Manner
    task_id: str = ""
    wait_id: str = ""

    def __call__(self, request: ModelRequest) -> Reply:
        """The next reply in the current turn, in the agent's manner."""
        reply = self.decide(request.turn)
        if isinstance(reply, str | Fault | StreamedText):
            return reply
        return [self.write(call) for call in reply]

    def write(self, call: Call) -> Call:
        """Write a call in the agent's manner."""
        if call.tool == "tool_call":
            arguments = self.manner(call.args["id"], call.args["args"])
            return Call(call.tool, {**call.args, "args": arguments})
        return Call(call.tool, self.manner(call.tool, call.args)) if call.tool in SCHEMAS else call

    def decide(self, turn: Turn) -> Reply:
        """Decide what comes next in the current turn."""
        if found := RESOLVED.search(turn.text):
            return self.answer_wake(found[1], found[2], turn)
        if "deploy coursefolio" in turn.words:
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
                        "target": self.target,
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
                        "artifacts": [str(self.made)],
                    },
                )
            ],
        ]
        return steps[done] if done < len(steps) else "Coursefolio is live."


class ForgetfulAgent(Agent):
    """Has forgotten its task but for its name, as after a compaction without a summary."""

    def begin(self, turn: Turn) -> Reply:
        """Register the task anew, and ask what it was doing."""
        self.task_id = NAME
        match turn.results:
            case []:
                return [Call("task_register", {"name": NAME, "plan": PLAN})]
            case [_]:
                question = {"task_id": NAME, "query": "What was I doing?"}
                return [Call("task_update", question)]
            case [registered, asked]:
                # It has been at it all the time, and waits for the container.
                told = json.loads(asked)
                assert json.loads(registered)["task_id"] == told["task_id"]
                assert told["plan_progress"]["completed"] == [1, 2, 3]
                return "I shall be woken."
            case _:
                raise AssertionError(turn.results)


@dataclass(frozen=True)
class Site:
    """What is deployed in a test."""

    folder: Path
    terminal: str
    home: Path

    def __post_init__(self) -> None:
        (self.folder / "deploy.py").write_text(DEPLOY)

    def let(self, name: str) -> None:
        """Let the deployment go on: it has `pulled`, `started`, or is `over`."""
        (self.folder / name).touch()

    def make_agent(self, kind: type[Agent], manner: str) -> Agent:
        """Return an agent that deploys it."""
        run = f"TASKMEM_HOME={self.home} {PROGRAM} run --name {self.terminal}"
        command = f"{run} -- {sys.executable} {self.folder / 'deploy.py'} {self.folder}"
        made = self.folder / "image.txt"
        return kind(f"pty:{self.terminal}", command, made, MANNERS[manner])


@pytest.mark.parametrize("manner", MANNERS)
def test_it_runs_from_first_word_to_last(story: Story, tmp_path: Path, manner: str) -> None:
    site = Site(tmp_path, f"crisp-{manner}", story.house.taskmem.room.taskmem)
    agent = site.make_agent(Agent, manner)
    story.follow(agent)
    ask = story.house.ask

    # Registered and narrated; the turn ends, and nothing is asked while it waits.
    story.say("Please deploy coursefolio.")
    task = ask("show", id=agent.task_id)
    assert [step["done"] for step in task["steps"]] == [True, True, True, False, False]
    assert task["metadata"]["active_wait_ids"] == [agent.wait_id]
    asked = len(story.requests)

    # Woken too early, it refines the wait and goes back to sleep.
    site.let("pulled")
    until(lambda: ask("show", id=agent.wait_id)["round"] == 2, "the wait is refined")
    task = ask("show", id=agent.task_id)
    assert task["metadata"]["active_wait_ids"] == [agent.wait_id]
    until(lambda: len(story.requests) == asked + 2, "its turn has ended")

    # Woken again, it completes.
    site.let("started")
    task = story.ends()
    assert task["task_id"] == agent.task_id
    assert all(step["done"] for step in task["steps"])
    made = [(each["path"], each["verdict"]) for each in task["made"]]
    assert made == [(str(agent.made), "proved")]
    wakes = [w for w in ask("wakes", all=True) if w["wait_id"] == agent.wait_id]
    assert [wake["state"] for wake in wakes] == ["acknowledged", "acknowledged"]
    assert {wake["transport"] for wake in wakes} == {"openclaw-plugin"}
    site.let("over")
    told = [m["content"] for m in task["messages"] if m["msg_type"] == "wait"]
    assert ["Starting" in told[0], "Healthy" in told[-1]] == [True, True]
    check_news(story)


def test_it_goes_on_by_an_agent_that_has_forgotten(story: Story, tmp_path: Path) -> None:
    site = Site(tmp_path, "crisp-forgotten", story.house.taskmem.room.taskmem)
    agent = site.make_agent(Agent, "plain")
    story.follow(agent)
    story.say("Please deploy coursefolio.")
    with story.house.gateway.rpc() as rpc:
        rpc.call("sessions.reset", key=story.session)
    story.follow(site.make_agent(ForgetfulAgent, "plain"))
    story.say("Please deploy coursefolio.")
    task = story.house.ask("show", id=agent.task_id)
    assert task["metadata"]["active_wait_ids"] == [agent.wait_id]

    site.let("pulled")
    until(lambda: story.house.ask("show", id=agent.wait_id)["round"] == 2, "the wait is refined")
    site.let("started")
    task = story.ends()
    site.let("over")
    assert task["task_id"] == agent.task_id
    assert [(e["path"], e["verdict"]) for e in task["made"]] == [(str(agent.made), "proved")]
    check_news(story)


def check_news(story: Story) -> None:
    """Check that the user reads of a deployment what one reads of any."""
    for words in ("accepted and started, 5 steps.", "made: ", "completed."):
        assert story.wait_for_notice(words).startswith(f"[taskmem]\n\n{NAME}: ")
    seen = '"Healthy" appeared: "Container coursefolio-web-1 Healthy" after'
    assert any(seen in line for line in story.lines if line.startswith("[taskmem]"))

"""A host that knows us as an MCP server alone: tools by it, and wakes by the `openclaw` command.

Nothing is faked but the model: the gateway, its MCP client, the daemon and the
`openclaw` command are the real ones.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.agent import Deployer, answer_in, packet_size, packets_in, search, use
from tests.e2e.gateway import MAIN_SESSION, Gateway
from tests.e2e.openclaw import OpenClaw
from tests.e2e.room import Room, until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, ScriptedModel, Turn
from tests.e2e.shared_house import MOST_REQUESTS
from tests.e2e.taskmem import PROGRAM, Taskmem

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PATIENT = {
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600",
    "TASKMEM_STUCK_INTERVAL_SECONDS": "1",
    "TASKMEM_STUCK_COOLDOWN_SECONDS": "600",
}
"""No task is stuck until a test says so."""


@pytest.fixture(scope="module")
def host(
    openclaw: OpenClaw, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Gateway, ScriptedModel, Taskmem]]:
    """The gateway of all stories here; the first call of a tool starts its daemon."""
    room = Room(tmp_path_factory.mktemp("host"))
    with ScriptedModel(most=MOST_REQUESTS) as model:
        taskmem = Taskmem(room, dict(PATIENT))
        gateway = Gateway(openclaw, room, model.url, {"taskmem": taskmem.mcp_server})
        try:
            gateway.start()
            yield gateway, model, taskmem
        finally:
            gateway.stop()
            taskmem.stop()
    left = room.left_behind()
    assert not left, f"processes left behind: {left}"


@pytest.fixture
def gateway(host: tuple[Gateway, ScriptedModel, Taskmem]) -> Gateway:
    """The gateway, which runs, with nothing said in its main session."""
    gateway, _, _ = host
    if gateway.has_ended:
        gateway.start()
    with gateway.rpc() as rpc:
        rpc.call("sessions.reset", key=MAIN_SESSION)
    return gateway


@pytest.fixture
def model(host: tuple[Gateway, ScriptedModel, Taskmem]) -> Iterator[ScriptedModel]:
    """Its model, which nobody has asked yet."""
    _, model, _ = host
    model.requests.clear()
    yield model
    if model.errors:
        raise model.errors.pop()


@pytest.fixture
def taskmem(host: tuple[Gateway, ScriptedModel, Taskmem]) -> Iterator[Taskmem]:
    """The command, with a home in which nothing is."""
    _, _, taskmem = host
    yield taskmem
    taskmem.stop()
    taskmem.settings = dict(PATIENT)
    shutil.rmtree(taskmem.room.taskmem)
    taskmem.room.taskmem.mkdir()


ARCHIVE = "Index the archive"
SHELVES = ("Read the shelves", "Write the index")


def test_a_wake_outlives_a_gateway_that_is_down(
    model: ScriptedModel, gateway: Gateway, taskmem: Taskmem
):
    model.decide = Deployer(ARCHIVE, SHELVES)
    gateway.say(f"Please do this: {ARCHIVE}")
    model.wait_for(lambda request: len(request.turn.results) == 3, 240)
    [listed] = taskmem.call("task_list")["tasks"]
    task_id = listed["task_id"]

    # The gateway goes; the daemon outlives it, and then calls the task stuck.
    gateway.stop()
    assert taskmem.is_running
    taskmem.restart({"TASKMEM_STUCK_THRESHOLD_SECONDS": "1"})

    def list_failed():
        return [wake for wake in taskmem.wakes(task_id) if wake["last_error"]]

    [kept] = until(list_failed, "the wake has been tried in vain")
    assert kept["state"] == "due"
    assert kept["attempts"] >= 1
    assert kept["sent_at"] is None
    assert "gateway" in kept["last_error"].lower()

    # The gateway comes back, and so does the wake: once.
    gateway.start()
    woken = model.wait_for(lambda request: packets_in(request.turn.text), 240)
    [packet] = packets_in(woken.turn.text)
    assert (packet["task_id"], packet["wake_id"]) == (task_id, kept["wake_id"])

    def list_acknowledged():
        return [wake for wake in taskmem.wakes(task_id) if wake["state"] == "acknowledged"]

    [wake] = until(list_acknowledged, "the wake is acknowledged")
    assert wake["attempts"] >= kept["attempts"]
    assert wake["session_key"] is None
    assert all(step["done"] for step in taskmem.show(task_id)["steps"])
    assert len(taskmem.wakes(task_id)) == 1
    turns = [each for each in model.requests if each.opens_turn]
    assert sum(len(packets_in(each.turn.text)) for each in turns) == 1


BUILDING = "Build the bakery's site"
PARTS = ["Build it", "Publish it"]
RESOLVED = re.compile(r"\[system\] smart_wait resolved \((wait_\w+)\): ([^\n]*)")
BUILD = """
import pathlib, sys, time
print("Compiling 3 pages", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
print("Build finished in 2.1 s", flush=True)
"""
"""A command that takes as long as the test wants it to."""


@dataclass(frozen=True)
class Builder:
    """Starts a build, hands the waiting over, and goes on when it is woken."""

    command: str

    def __call__(self, request: ModelRequest) -> Reply:
        """The next reply in the current turn."""
        turn = request.turn
        if found := RESOLVED.search(turn.text):
            return self.go_on(found[1], turn)
        if BUILDING in turn.text:
            return self.begin(turn)
        return "NO_REPLY"

    def begin(self, turn: Turn) -> Reply:
        """Register, start the build in the background, wait, and end the turn."""
        match turn.results:
            case []:
                return [search("wait for a long-running command")]
            case [found]:
                assert "taskmem__smart_wait" in found, found
                register = {"name": BUILDING, "plan": PARTS, "session_key": MAIN_SESSION}
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
    model: ScriptedModel, gateway: Gateway, taskmem: Taskmem, tmp_path: Path
):
    script, done = tmp_path / "build.py", tmp_path / "done"
    script.write_text(BUILD)
    run = f"TASKMEM_HOME={taskmem.room.taskmem} {PROGRAM} run --name build --"
    model.decide = Builder(f"{run} {sys.executable} {script} {done}")

    # The agent's turn ends; the build runs, and the daemon watches it.
    gateway.say(f"Please do this: {BUILDING}")
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

    woken = model.wait_for(begins, 240)
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


SITE = "Deploy the bakery's site"
IMAGE = ("Build the image", "Push the image", "Verify the site")


def has_narrated(request: ModelRequest) -> bool:
    """Whether the turn has searched, registered, and narrated a step."""
    return len(request.turn.results) == 3


def woken_for(task_id: str):
    """Whether a request begins a turn with the packet of that task."""

    def begins(request: ModelRequest) -> bool:
        packets = packets_in(request.turn.text)
        return request.opens_turn and task_id in [each["task_id"] for each in packets]

    return begins


def done_steps(task: dict) -> list[bool]:
    """Which steps of a task are done, in order."""
    return [step["done"] for step in task["steps"]]


def test_a_silent_task_wakes_its_agent_once_and_is_carried_on(
    model: ScriptedModel, gateway: Gateway, taskmem: Taskmem
):
    # A silence that is short, but longer than a pause within a turn.
    taskmem.restart({"TASKMEM_STUCK_THRESHOLD_SECONDS": "8"})
    model.decide = Deployer(SITE, IMAGE, MAIN_SESSION)

    # A turn registers a task, narrates its first step, and ends.
    gateway.say(f"Please do this: {SITE}")
    model.wait_for(has_narrated, 240)
    [listed] = taskmem.call("task_list")["tasks"]
    task_id = listed["task_id"]
    task = taskmem.show(task_id)
    assert (task["name"], task["plan"]) == (SITE, list(IMAGE))
    assert done_steps(task) == [True, False, False]

    # It falls silent, and the wake arrives with all that is needed.
    woken = model.wait_for(woken_for(task_id), 240)
    [packet] = packets_in(woken.turn.text)
    assert packet["status"] == "active"
    assert packet["progress"] == {"completed": [0], "current": 1, "remaining": [2], "pct": 33}
    assert packet["plan"] == list(IMAGE)
    assert "Step 1 done - Build the image" in [
        message["content"] for message in packet["recent_messages"]
    ]
    assert packet["suggested_next_action"].strip()
    assert packet_size(packet) <= 4096

    # The agent, which knows only the packet, does the next step.
    def list_acknowledged():
        return [wake for wake in taskmem.wakes(task_id) if wake["state"] == "acknowledged"]

    [wake] = until(list_acknowledged, "the wake is acknowledged")
    assert wake["wake_id"] == packet["wake_id"]
    assert packets_in(wake["text"]) == [packet]
    assert wake["session_key"] == MAIN_SESSION
    assert wake["transport"] == "openclaw-cli"
    assert done_steps(taskmem.show(task_id)) == [True, True, False]

    # It falls silent again. Another task, registered now, becomes stuck after
    # it would: the cooldown is all that keeps its second wake back.
    later = taskmem.call("task_register", name="Water", plan=["Pour"], session_key=MAIN_SESSION)[
        "task_id"
    ]
    model.wait_for(woken_for(later), 240)
    assert len(taskmem.wakes(task_id)) == 1
    assert len([each for each in model.requests if woken_for(task_id)(each)]) == 1

    # Completed, it is left alone, whatever the threshold and the cooldown.
    gateway.say("Please wrap up.")
    assert taskmem.show(task_id)["status"] == "completed"
    gateway.stop()
    taskmem.restart(
        {
            "TASKMEM_STUCK_THRESHOLD_SECONDS": "1",
            "TASKMEM_STUCK_COOLDOWN_SECONDS": "1",
            "TASKMEM_WAKE_TRANSPORT": "stdout",
        }
    )
    last = taskmem.call("task_register", name="Sweep", plan=["Brush"])["task_id"]
    until(lambda: taskmem.wakes(last), "the loop has looked again")
    assert [each["wake_id"] for each in taskmem.wakes(task_id)] == [wake["wake_id"]]

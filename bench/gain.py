"""What Task memory adds to OpenClaw alone, and what it costs: the two tables of the README.

`python bench/gain.py` measures both and stores the figures in `results/gain.json`;
`python tests/structure/test_readme_tables.py` writes the tables into the README. The gateway is
real, its model is a script; each case is played without the plug-in and with it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # for what the tests play

from daemon_costs import idle_daemon, start_mcp
from figures import Figure, amount
from gateway import TimedModel, call_checkpoints, open_house, turn_weight
from homes import COMMAND, Host, build_environment, make_home, serve_home

from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, text_of
from tests.e2e.taskmem import PLUGIN

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "gain.json"
TURN_SECONDS = 120
"""Seconds after which a turn is taken not to begin."""
SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "36000"}
MISSING = "report.md"
HELD_COMMAND = "touch {begun}; sleep 300"
"""The command in which the gateway is killed."""
FOLLOWED = "tail -n 0 -F {log} | grep -m1 served"
"""How an agent waits for a line of a log with OpenClaw's own means, in the background."""


Script = Callable[[ModelRequest], Reply]


@dataclass
class Stage:
    """A gateway with the plug-in or without, whose agent follows the script of a session."""

    house: House
    model: TimedModel
    ours: bool
    scripts: dict[str, Script] = field(default_factory=dict[str, "Script"])

    def decide(self, request: ModelRequest) -> Reply:
        """Answer as the script whose word the conversation holds."""
        conversation = "\n".join(map(text_of, request.messages))
        for word, script in reversed(self.scripts.items()):
            if word in conversation:
                return script(request)
        return "All is well."

    def begin(self, word: str, script: Script) -> str:
        """Say something in a session of its own, and return the session's key."""
        self.scripts[word] = script
        session = f"agent:main:{word.lower()}"
        with self.house.gateway.rpc() as rpc:
            said = {"message": f"{word}, please.", "idempotencyKey": word}
            rpc.call("agent", sessionKey=session, **said)
        return session

    def count_requests(self, word: str) -> int:
        """Return how often the model was asked in a conversation that holds a word."""
        return len(self.list_requests(word))

    def list_requests(self, word: str) -> list[ModelRequest]:
        """Return what the model was asked in a conversation that holds a word."""
        return [
            each
            for each in self.model.requests
            if any(word in text_of(message) for message in each.messages)
        ]

    def time_next(self, word: str, requests: int) -> float | None:
        """Return the seconds until the model is asked once more; None: it is not."""
        began = time.monotonic()
        with suppress(AssertionError):
            until(lambda: self.count_requests(word) > requests, word, TURN_SECONDS)
            return time.monotonic() - began
        return None

    def restart(self) -> None:
        """Kill the gateway, and start it again."""
        self.house.gateway.kill()
        self.house.gateway.start()


Case = Callable[[Stage], "float | bool | None"]
"""Seconds, or whether it happened; None: it did not within `TURN_SECONDS`."""


def end_build(stage: Stage) -> float | None:
    """A build ends in the background: seconds until a turn begins."""
    ends = stage.house.folder / "built"

    def script(request: ModelRequest) -> Reply:
        if request.turn.results or "Build" not in request.turn.words:
            return "It is being built."
        command = f"until [ -e {ends} ]; do sleep 0.1; done; echo Build finished"
        return [Call("exec", {"command": command, "background": True})]

    session = stage.begin("Build", script)
    until(lambda: stage.count_requests("Build") >= 2, "it is being built")
    stage.house.gateway.wait_until_idle(session)
    before = stage.count_requests("Build")
    ends.touch()
    return stage.time_next("Build", before)


def kill_turn(stage: Stage) -> float | None:
    """The gateway is killed in a turn: seconds from its start until the turn goes on."""
    begun = stage.house.folder / "migrating"

    def script(request: ModelRequest) -> Reply:
        if "interrupted" in request.turn.text or len(request.turn.results) > stage.ours:
            return "I have seen it."
        if stage.ours and not request.turn.results:
            return [Call("task_register", {"name": "Migration", "plan": ["Run it", "Check it"]})]
        return [Call("exec", {"command": HELD_COMMAND.format(begun=begun)})]

    stage.begin("Migrate", script)
    until(begun.exists, "the command runs")
    before = stage.count_requests("Migrate")
    stage.restart()
    return stage.time_next("Migrate", before)


def name_cut_call(stage: Stage) -> bool:
    """That turn begins with the name of the command that was cut."""
    last = stage.list_requests("Migrate")[-1]
    told = [text_of(each) for each in last.messages if each["role"] == "user"]
    begun = stage.house.folder / "migrating"
    return any(HELD_COMMAND.format(begun=begun) in each for each in told)


def follow_log(stage: Stage) -> float | None:
    """A log's line is waited for over a kill: seconds from the line until a turn begins."""
    log = stage.house.folder / "server.log"
    log.touch()

    def script(request: ModelRequest) -> Reply:
        if request.turn.results or "Serve" not in request.turn.words:
            return "I wait for it."
        if stage.ours:
            given = {"target": f"pty:file:{log}", "wake_when": '"served" appears'}
            return [Call("smart_wait", {**given, "timeout": 3000})]
        return [Call("exec", {"command": FOLLOWED.format(log=log), "background": True})]

    session = stage.begin("Serve", script)
    until(lambda: stage.count_requests("Serve") >= 2, "it is waited for")
    stage.house.gateway.wait_until_idle(session)
    stage.restart()
    if stage.ours:
        until(lambda: stage.house.boots, "the plug-in is connected")
    stage.house.gateway.wait_until_idle(session)
    before = stage.count_requests("Serve")
    log.write_text("served\n")
    return stage.time_next("Serve", before)


def leave_open(stage: Stage) -> float | None:
    """An agent ends its turn in the middle of its plan: seconds until it is told to go on."""

    def script(request: ModelRequest) -> Reply:
        if stage.ours and "Pack" in request.turn.words and not request.turn.results:
            return [Call("task_register", {"name": "Packing", "plan": ["Shirts", "Shoes"]})]
        return "The shirts are packed."

    session = stage.begin("Pack", script)
    until(lambda: stage.count_requests("Pack") > stage.ours, "it has begun")
    stage.house.gateway.wait_until_idle(session)
    return stage.time_next("Pack", stage.count_requests("Pack"))


def forget_context(stage: Stage) -> bool:
    """After a session's reset the agent is told of its open task."""

    def script(request: ModelRequest) -> Reply:
        if stage.ours and "Paint" in request.turn.words and not request.turn.results:
            return [Call("task_register", {"name": "Fence painting", "plan": ["Sand", "Paint"]})]
        return "Shall I go on with the fence painting?"

    session = stage.begin("Paint", script)
    until(lambda: stage.count_requests("Paint") > stage.ours, "it has begun")
    stage.house.gateway.wait_until_idle(session)
    with stage.house.gateway.rpc() as rpc:
        rpc.call("sessions.reset", key=session)
    stage.scripts["What was I at"] = lambda _: "I look."
    stage.house.gateway.say("What was I at?", session)
    last = stage.list_requests("What was I at")[-1]
    return any("fence painting" in text_of(each).lower() for each in last.messages)


def claim_falsely(stage: Stage) -> bool:
    """An agent says that a file is written which is not there: it is told so."""

    def script(request: ModelRequest) -> Reply:
        done = request.turn.results
        if not stage.ours or len(done) >= 2 or "Report" not in request.turn.words:
            return f"Done: I have written {MISSING}."
        if not done:
            return [Call("task_register", {"name": "Report", "plan": [f"Write {MISSING}"]})]
        given = {"task_id": json.loads(done[0])["task_id"], "message": f"{MISSING} is written."}
        return [Call("task_update", {**given, "status": "completed"})]

    session = stage.begin("Report", script)
    until(lambda: stage.count_requests("Report") > 2 * stage.ours, "it was claimed")
    stage.house.gateway.wait_until_idle(session)
    asked = stage.list_requests("Report")
    return any("evidence_missing" in each for request in asked for each in request.turn.results)


CASES: Mapping[str, Case] = {
    "a background command ends: the turn begins": end_build,
    "killed in a turn: it goes on": kill_turn,
    "the command that was cut is named": name_cut_call,
    "a log's line, waited for over a kill": follow_log,
    "a turn ends in the middle of the plan: it goes on": leave_open,
    "after a reset the open task is known": forget_context,
    "“done” without the file is refused": claim_falsely,
}


def play_cases(*, ours: bool) -> dict[str, float | bool | None]:
    """Play each case in one gateway, with the plug-in or without."""
    with open_house(plugin=PLUGIN if ours else None, settings=SETTINGS) as (house, model):
        stage = Stage(house, model, ours)
        model.decide = stage.decide
        return {what: play(stage) for what, play in CASES.items()}


def measure_listing() -> Iterator[Figure]:
    """Measure what an MCP host that keeps runs tells its model of us in each session."""
    with make_home() as home, serve_home(home):
        variables = {**build_environment(home), "TASKMEM_TOOLS": "runs"}
        with Host((COMMAND, "mcp"), variables) as host:
            instructions = host.shake_hands()["instructions"]
            tools = json.dumps(host.ask("tools/list", {})["tools"], ensure_ascii=False)
    yield amount("told to a session", [len(f"{instructions}{tools}".encode())], "bytes")


def measure_installation() -> Iterator[Figure]:
    """Measure a virtual environment that holds the product alone."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        pip = [sys.executable, "-m", "pip", "--python", f"{folder}/bin/python"]
        subprocess.run([*pip, "install", "--quiet", str(ROOT)], check=True)
        sizes = [each.lstat().st_size for each in Path(folder).rglob("*")]
    yield amount("on the disk", [sum(sizes) / 1e6], "MB")


COSTS: Mapping[str, tuple[Callable[[], Iterator[Figure | str]], str]] = {
    "OpenClaw: added to each request": (turn_weight, "prompt bytes that we add to a turn"),
    "OpenClaw: added to a call of `exec`": (
        call_checkpoints,
        "checkpoints added to a call of exec",
    ),
    "daemon at rest: memory": (idle_daemon, "idle, a fresh home: PSS"),
    "daemon at rest: a core's share": (idle_daemon, "idle, a fresh home: CPU"),
    "`taskmem mcp`, one a session": (start_mcp, "taskmem mcp: PSS"),
    "Claude Code, Codex: tools and instructions": (measure_listing, "told to a session"),
    "installed": (measure_installation, "on the disk"),
}
"""Each cost, with the benchmark and the figure of it that tells it."""


def measure_costs() -> dict[str, dict[str, Any]]:
    """Run the benchmarks that tell the costs, each once."""
    benches = {bench for bench, _ in COSTS.values()}
    measured = {
        each.what: {"median": each.median, "unit": each.unit}
        for bench in benches
        for each in bench()
        if isinstance(each, Figure)
    }
    return {what: measured[figure] for what, (_, figure) in COSTS.items()}


def main() -> None:
    alone, ours = play_cases(ours=False), play_cases(ours=True)
    gain = {what: {"alone": alone[what], "ours": ours[what]} for what in CASES}
    report: dict[str, Any] = {"gain": gain, "cost": measure_costs()}
    RESULTS.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()

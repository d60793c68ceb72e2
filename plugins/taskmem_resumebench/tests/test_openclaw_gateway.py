"""The agent of a real gateway, and the gateway, without OpenClaw."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

import pytest

from taskmem_resumebench.daemon import CallRefused
from taskmem_resumebench.openclaw_gateway import (
    GatewayAgent,
    GatewayFailed,
    GatewayProcess,
    choose_call,
    find_packet,
    is_in_session,
    read_answer,
)
from taskmem_resumebench.tasks import Call, Kind

SESSION = "agent:main:t1"
PROMPT = {
    "role": "system",
    "content": f"You are an agent.\nRuntime: agent=main | session={SESSION}",
}
PAY = Call(Kind.PAYMENT, "slate-1")


class PlayedGateway:
    """Asks its model what to do, and runs the commands that it answers, until it is killed."""

    def __init__(self) -> None:
        self.results: list[str] = []
        self.said: list[str] = []
        self._url = ""
        self._killed = False

    def start(self, model_url: str) -> None:
        self._url = model_url

    def call_method(self, method: str, **params: object) -> None:
        assert method == "agent"
        assert params["sessionKey"] == SESSION
        self.begin_turn(str(params["message"]))

    def begin_turn(self, message: str) -> None:
        self._thread = Thread(target=self._take_turn, args=(message,))
        self._thread.start()

    def kill(self) -> None:
        self._killed = True

    def join(self) -> None:
        self._thread.join()

    def _take_turn(self, message: str) -> None:
        messages = [PROMPT, {"role": "user", "content": message}]
        while not self._killed:
            delta, reason = self._ask(messages)
            if reason == "stop":
                self.said.append(delta["content"])
                return
            function = delta["tool_calls"][0]["function"]
            result = self._run(function["name"], json.loads(function["arguments"]))
            self.results.append(result)
            messages += [{"role": "assistant", "tool_calls": []}]
            messages += [{"role": "tool", "content": [{"type": "text", "text": result}]}]

    def _ask(self, messages: list[Any]) -> tuple[dict[str, Any], str]:
        body = json.dumps({"messages": messages, "tools": []}).encode()
        asked = Request(f"{self._url}/chat/completions", body)  # noqa: S310 - ours
        with urlopen(asked) as reply:  # noqa: S310 - likewise
            lines = [line.removeprefix(b"data: ") for line in reply if line.startswith(b"data: {")]
        choices = [each for line in lines for each in json.loads(line)["choices"]]
        deltas = [each["delta"] for each in choices if each["delta"]]
        return deltas[-1], choices[-1]["finish_reason"]

    def _run(self, tool: str, args: dict[str, Any]) -> str:
        if tool != "exec":
            return json.dumps({"called": args["id"], **args["args"]})
        words = ["sh", "-c", args["command"]]
        done = subprocess.run(
            words, cwd=args["workdir"], capture_output=True, text=True, check=False
        )
        return f"{done.stdout.strip()}, status {done.returncode}"


@pytest.fixture
def gateway() -> PlayedGateway:
    return PlayedGateway()


@pytest.fixture
def agent(gateway: PlayedGateway, tmp_path: Path) -> Iterator[GatewayAgent]:
    agent = GatewayAgent(gateway, SESSION, tmp_path)  # type: ignore[arg-type]
    yield agent
    agent.close()
    gateway.join()


def test_a_turn_is_made_of_the_agents_calls(agent: GatewayAgent, gateway: PlayedGateway) -> None:
    answer = agent.call_tool("task_register", "Do it.", name="Job")
    agent.report_call_start("1", PAY)
    running = [*gateway.results]
    agent.report_call_end("1", PAY, "done", [], failed=False)
    agent.end_turn("All done.")
    gateway.join()

    assert answer == {"called": "task_register", "name": "Job"}
    assert running == gateway.results[:1]
    assert gateway.results[1:] == ["done, status 0"]
    assert gateway.said == ["All done."]


def test_a_lost_answer_is_a_command_that_dies(agent: GatewayAgent, gateway: PlayedGateway) -> None:
    agent.call_tool("task_register", "Do it.")
    agent.report_call_start("1", PAY)
    agent.report_call_end("1", PAY, "", [], failed=True)

    assert gateway.results[1:] == [", status -9"]


def test_a_killed_gateways_call_ends_and_its_turn_too(
    agent: GatewayAgent, gateway: PlayedGateway
) -> None:
    agent.call_tool("task_register", "Do it.")
    agent.report_call_start("1", PAY)
    agent.close()
    gateway.join()

    assert gateway.results[1:] == [", status -9"]


def test_what_other_sessions_ask_the_model_is_left_alone() -> None:
    body = {"messages": [PROMPT, {"role": "user", "content": "Hello"}]}

    assert is_in_session(body, SESSION)
    assert not is_in_session(body, "agent:main:t")
    assert not is_in_session({"messages": body["messages"][1:]}, SESSION)


def test_a_tool_that_is_not_shown_is_called_by_the_catalogue() -> None:
    shown = {"tools": [{"function": {"name": "task_update"}}]}

    assert choose_call(shown, "task_update", {"a": 1}) == ("task_update", {"a": 1})
    by_catalogue = ("tool_call", {"id": "task_status", "args": {"a": 1}})
    assert choose_call(shown, "task_status", {"a": 1}) == by_catalogue


def test_an_answer_that_is_no_object_is_a_refusal() -> None:
    said = {"role": "tool", "content": "There is no such step."}

    with pytest.raises(CallRefused, match="no such step"):
        read_answer({"messages": [PROMPT, said]})


def test_only_the_packet_of_the_new_turn_is_told() -> None:
    packet = {
        "plan": ["Pay slate-1"],
        "do_not_redo": [
            "exec: exec ./call Append pearl-2 to log.txt (exit 0)",
            "exec: ls (exit 0)",
        ],
        "unknown_outcome": ["exec: exec ./call Pay slate-1"],
    }
    line = f"[task_resume] {json.dumps(packet)}"
    old = {"role": "user", "content": '[task_resume] {"plan": []}'}
    cut = {"role": "assistant", "tool_calls": []}
    new = {"role": "user", "content": f"[Sat 07:49] {line}\n\n[System] Go on."}

    assert find_packet({"messages": [PROMPT, old, cut]}) == ""
    told = json.loads(find_packet({"messages": [PROMPT, old, cut, new]}).partition(" ")[2])
    assert told["unknown_outcome"] == [PAY.line]
    assert told["do_not_redo"] == ["exec: echo pearl-2 >> log.txt", "exec: ls (exit 0)"]


PLAYED = """#!{python} -IS
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
print("openclaw", *sys.argv[1:], file=sys.stderr, flush=True)
if sys.argv[1:] != ["gateway", "run"]:
    sys.exit("There is no such method.")
starts = Path(os.environ["HOME"]) / "starts"
starts.write_text(starts.read_text() + "." if starts.exists() else ".")
if len(starts.read_text()) <= {refused}:
    sys.exit("A migration refused execution.")
class Visit(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{{"ready": true}}')
config = json.loads(Path(os.environ["OPENCLAW_CONFIG_PATH"]).read_text())
HTTPServer(("127.0.0.1", config["gateway"]["port"]), Visit).serve_forever()
"""


def make_gateway(folder: Path, refused: int) -> GatewayProcess:
    """Make a gateway that ends at so many starts before it serves."""
    program = folder / "openclaw"
    program.write_text(PLAYED.format(python=sys.executable, refused=refused))
    program.chmod(0o700)
    return GatewayProcess(folder / "g", str(program))


def test_a_gateway_that_ends_while_it_starts_is_started_again(tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path, refused=2)
    gateway.start("http://127.0.0.1:1/v1")
    gateway.kill()

    assert (tmp_path / "g" / "home" / "starts").read_text() == "..."
    found = json.loads((tmp_path / "g" / "state" / "openclaw.json").read_text())
    assert found["models"]["providers"]["local"]["baseUrl"] == "http://127.0.0.1:1/v1"


def test_a_gateway_that_never_starts_is_given_up(tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path, refused=9)

    with pytest.raises(
        GatewayFailed, match=r"^OpenClaw's gateway does not start: A migration refused execution\.$"
    ):
        gateway.start("http://127.0.0.1:1/v1")


def test_a_refused_method_says_why(tmp_path: Path) -> None:
    with pytest.raises(
        GatewayFailed, match=r"^OpenClaw refused `agent`: There is no such method\.$"
    ):
        make_gateway(tmp_path, refused=0).call_method("agent", message="Hello")


def test_it_has_no_variables_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENCLAW_GATEWAY_TOKEN", "TASKMEM_HOME", "HOME"):
        monkeypatch.setenv(name, "the user's")

    environ = make_gateway(tmp_path, refused=0).environ

    assert "the user's" not in environ.values()
    folders = ("HOME", "OPENCLAW_HOME", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "TMPDIR")
    assert all(environ[name].startswith(str(tmp_path)) for name in folders)

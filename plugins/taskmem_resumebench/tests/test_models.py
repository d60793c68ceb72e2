"""A model as the agent, behind a stand-in of an endpoint on loopback, rude ones included."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from taskmem_resumebench import bench_run, models
from taskmem_resumebench.agents import AGENTS, Deed, Knowledge, read_memory
from taskmem_resumebench.agents import decide as choose
from taskmem_resumebench.bench_command import command
from taskmem_resumebench.memories import EXAMPLE, CommandMemory
from taskmem_resumebench.models import (
    MOST_MALFORMED,
    MOST_REQUESTS,
    MOST_TRIES,
    ChatEndpoint,
    EndpointFailed,
    ModelMind,
)
from taskmem_resumebench.servers import LoopbackServer
from taskmem_resumebench.tasks import GeneratedTask, generate_tasks, read_step
from taskmem_resumebench.trials import InterruptedRun, KillPlan
from taskmem_resumebench.workspace import Workspace

Answer = tuple[int, dict[str, str], bytes]


def answer(message: object, status: int = 200, **headers: str) -> Answer:
    return status, headers, json.dumps({"choices": [{"message": message}]}).encode()


FINE = answer({"role": "assistant", "content": "fine"})
BUSY = answer(None, 429, **{"Retry-After": "7"})


class StandIn:
    """Answers requests by a list, whose last answer it repeats."""

    def __init__(self, *answers: Answer, endless: bool = False) -> None:
        self.answers, self.endless = [*answers], endless
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.rests: list[float] = []

    @contextmanager
    def serve(self) -> Iterator[ChatEndpoint]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stand_in.requests.append((self.headers.get("Authorization", ""), body))
                more = len(stand_in.answers) > 1
                status, headers, text = stand_in.answers.pop(0) if more else stand_in.answers[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)
                try:
                    while stand_in.endless:
                        self.wfile.write(b"x" * 65536)
                except ConnectionError:
                    """It was cut off."""

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/v1/"
        try:
            yield ChatEndpoint(url, "tiny", "secret-key", self.rests.append)
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def ask(self) -> dict[str, Any]:
        with self.serve() as endpoint:
            return endpoint.ask([{"role": "user", "content": "go"}], [])


def call(step: object, tool: str = "do_step", number: str = "c1") -> dict[str, Any]:
    arguments = step if isinstance(step, str) else json.dumps(step)
    return {"id": number, "type": "function", "function": {"name": tool, "arguments": arguments}}


@pytest.fixture
def task() -> GeneratedTask:
    (task,) = generate_tasks(1, 1, [6])
    return task


# --- the endpoint ---------------------------------------------------------------------


def test_a_model_is_asked_with_its_name_and_the_key() -> None:
    stand_in = StandIn(FINE)

    assert stand_in.ask()["content"] == "fine"

    [(key, body)] = stand_in.requests
    assert key == "Bearer secret-key"
    assert (body["model"], body["max_tokens"]) == ("tiny", models.MOST_TOKENS)


def test_a_busy_endpoint_is_asked_again_when_it_says() -> None:
    stand_in = StandIn(BUSY, answer(None, 503), answer(None, 429, **{"Retry-After": "9999"}), FINE)

    assert stand_in.ask()["content"] == "fine"
    assert stand_in.rests == [7, 2, models.LONGEST_MODEL_REST]


@pytest.mark.parametrize(
    ("rude", "why"),
    [
        (BUSY, "asked 5 times: status 429"),
        ((200, {}, b"<html>"), "asked 5 times: an answer without a message"),
        ((200, {}, b'{"choices": []}'), "asked 5 times: an answer without a message"),
        (answer("text"), "asked 5 times: an answer without a message"),
    ],
    ids=["busy", "no JSON", "no choice", "no message"],
)
def test_an_endpoint_that_stays_rude_is_given_up(rude: Answer, why: str) -> None:
    stand_in = StandIn(rude)

    with pytest.raises(EndpointFailed, match=why):
        stand_in.ask()
    assert len(stand_in.requests) == MOST_TRIES == len(stand_in.rests) + 1


@pytest.mark.parametrize("status", [401, 302])
def test_a_refusal_and_a_redirect_are_not_asked_again(status: int) -> None:
    stand_in = StandIn(answer(None, status, Location="http://127.0.0.1:9/elsewhere"))

    with pytest.raises(EndpointFailed, match=f"status {status}"):
        stand_in.ask()
    assert len(stand_in.requests) == 1


def test_an_answer_without_an_end_is_cut_off() -> None:
    with pytest.raises(EndpointFailed, match="does not end its answer"):
        StandIn(FINE, endless=True).ask()


def test_an_answer_that_trickles_for_too_long_is_cut_off() -> None:
    times = iter((0.0, 1e6))
    with (
        StandIn(FINE).serve() as endpoint,
        pytest.raises(EndpointFailed, match="does not end its answer"),
    ):
        endpoint._replace(read_clock=lambda: next(times)).ask([], [])


def test_an_endpoint_that_is_not_there_is_named() -> None:
    endpoint = ChatEndpoint("http://127.0.0.1:9/v1", "tiny", rest=lambda _: None)

    with pytest.raises(EndpointFailed, match=r"127.0.0.1:9/v1 .*ConnectionRefusedError"):
        endpoint.ask([], [])


# --- the model ------------------------------------------------------------------------


def decide(task: GeneratedTask, *messages: dict[str, Any]) -> tuple[object, list[Any]]:
    """Let a model that says these messages decide; what it decided, and what it heard."""
    said = iter(messages)
    asked: list[Any] = []

    def ask(heard: Any, _tools: Any) -> dict[str, Any]:
        asked.append(heard)
        return next(said)

    return ModelMind(task, ask).decide(Knowledge(()), lambda: "open"), asked[-1]


def test_a_step_that_a_model_names_is_done(task: GeneratedTask) -> None:
    decision, _ = decide(task, {"tool_calls": [call({"step": task.plan[0]})]})

    assert (decision.deed, decision.sentence) == (Deed.PERFORM, task.plan[0])


@pytest.mark.parametrize(
    "malformed",
    [
        [call("{not json")],
        [call({"step": "Write amber"})],
        [call({"step": "Paint the fence"})],
        [call({}, "look")],
        [call({"step": "Pay amber-1"}, "rm")],
        [call("[]")],
        ["a call"],
        {"id": "c1"},
    ],
    ids=["no JSON", "cut", "unknown step", "no step", "no tool", "list", "text", "object"],
)
def test_a_malformed_call_is_answered_and_asked_anew(task: GeneratedTask, malformed: Any) -> None:
    fine = {"tool_calls": [call({"step": task.plan[0]}, "look", "c2")]}

    decision, heard = decide(task, {"tool_calls": malformed}, fine)

    assert decision.deed is Deed.LOOK
    told = [each["content"] for each in heard if each["role"] == "tool"]
    assert told == (["Not done: there is no such tool or step."] if type(malformed) is list else [])


def test_a_model_that_stays_malformed_is_given_up(task: GeneratedTask) -> None:
    rude = [{"tool_calls": [call("{")]}] * MOST_MALFORMED

    assert decide(task, *rude)[0] is None


def test_of_several_calls_the_first_is_made(task: GeneratedTask) -> None:
    two = [call({"step": task.plan[0]}), call({"step": task.plan[1]}, "do_step", "c2")]

    decision, heard = decide(task, {"tool_calls": two})

    assert decision.sentence == task.plan[0]
    assert heard[-1] == {
        "role": "tool",
        "tool_call_id": "c2",
        "content": "Not done: one call at a time.",
    }


def test_a_model_that_asks_without_end_is_stopped(task: GeneratedTask) -> None:
    look = {"tool_calls": [call({"step": task.plan[0]}, "look")]}
    mind = ModelMind(task, lambda _heard, _tools: look)

    asked = 0
    while mind.decide(Knowledge(()), lambda: "open"):
        asked += 1
    assert asked == MOST_REQUESTS


def test_a_model_killed_at_every_step_reads_what_it_is_told(
    tmp_path: Path, task: GeneratedTask
) -> None:
    told: list[str] = []
    follow = follow_notes(told.append)
    mind = ModelMind(task, follow)
    folder = tmp_path / "w"
    folder.mkdir()
    with LoopbackServer() as server, CommandMemory(EXAMPLE, folder) as memory:

        def interrupt(_: int) -> str:
            memory.crash()
            return memory.resume()

        workspace = Workspace(folder, server)
        run = InterruptedRun(
            *(task, AGENTS["amnesiac"], memory, workspace),
            interrupt=interrupt,
            kills=KillPlan(),
            mind=mind,
        )
        outcome = run.run()

    assert outcome.success
    assert outcome.judgement.performed == outcome.judgement.needed
    assert outcome.interruptions == 3 * outcome.judgement.needed
    assert any("What is known of your work:\n- [x] " in each for each in told)


def test_the_key_of_a_model_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, task: GeneratedTask
) -> None:
    minds: list[Any] = []

    def run_bench(_seed: int, size: Any, _tell: Any, _command: Any, make_mind: Any) -> Any:
        assert size == bench_run.MODEL_SIZE
        minds.append(make_mind(task))
        return {"seed": 1}

    monkeypatch.setattr(bench_run, "run_bench", run_bench)
    monkeypatch.setenv("TASKMEM_BENCH_MODEL_KEY", "secret-key")

    asked = ["--model", "http://model.test/v1", "--model-name", "tiny", "--json"]
    done = CliRunner().invoke(command, asked)

    assert json.loads(done.stdout) == {"model": "tiny", "seed": 1}
    assert minds[0]._ask.__self__ == ChatEndpoint("http://model.test/v1", "tiny", "secret-key")


def follow_notes(tell: Callable[[str], None]) -> Callable[[Any, Any], dict[str, Any]]:
    """Return a model that understands notes, the user, and what became of its calls."""

    def ask(heard: Any, _tools: Any) -> dict[str, Any]:
        text = heard[1]["content"]
        tell(text)
        asked = [line.partition(". ")[2] for line in text.splitlines() if line[:1].isdigit()]
        known = read_memory(text, asked, list)
        step = ""
        for message in heard[2:]:
            match message["role"]:
                case "assistant":
                    [made] = message["tool_calls"]
                    step = json.loads(made["function"]["arguments"])["step"]
                case "tool" if message["content"].startswith("Done"):
                    known = known.note_done(step)
                case "tool":
                    line = read_step(step, gate_of(known)).line
                    unknown = message["content"].startswith("No answer")
                    known = known.note_failure(line) if unknown else known.note_absent(line)
                case _:
                    _, gone, _, instead, _, more, _ = message["content"].split('"')
                    plan = [instead if each == gone else each for each in known.plan]
                    known = known._replace(plan=(*plan[:-1], more, plan[-1]))
        decision = choose(known, AGENTS["amnesiac"], lambda: gate_of(known))
        if decision is None:
            return {"content": "All done."}
        tool = {Deed.PERFORM: "do_step", Deed.LOOK: "look", Deed.NOTE: "note_done"}[decision.deed]
        return {"content": None, "tool_calls": [call({"step": decision.sentence}, tool)]}

    return ask


def gate_of(known: Knowledge) -> str:
    return known.plan[0].split()[1]

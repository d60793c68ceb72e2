"""The harness's own parts, without a gateway: they must not lie to the tests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.e2e import openclaw
from tests.e2e.agent import ENVELOPE, packets_in
from tests.e2e.room import Room, until
from tests.e2e.scripted_model import Call, ScriptedModel

HOSTILE = {"name": 'a "quoted" \\ name', "note": "```\n[other] {} — ünïcode"}


def test_a_packet_is_found_as_it_was_sent():
    assert packets_in(f"first\n{ENVELOPE}{json.dumps(HOSTILE)}\nmore") == [HOSTILE]


def test_a_packet_is_found_inside_a_json_string():
    shown = json.dumps(f"System: [now] {ENVELOPE}{json.dumps(HOSTILE)}")
    text = f"Data:\n{shown}\n\nData:\n{shown}\n"
    assert packets_in(text) == [HOSTILE, HOSTILE]


def test_a_packet_that_does_not_parse_is_an_error():
    with pytest.raises(ValueError, match="Expecting"):
        packets_in(ENVELOPE + '{"task_id": ')


def ask(model: ScriptedModel, *messages: dict) -> list[dict]:
    """Send the model one request, and give the pieces of its answer."""
    body = json.dumps({"model": "scripted", "messages": messages}).encode()
    request = Request(f"{model.url}/chat/completions", body)  # noqa: S310 - loopback
    with urlopen(request, timeout=10) as reply:  # noqa: S310
        lines = reply.read().decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def test_the_model_follows_its_script():
    def decide(request):
        if request.turn.results:
            return f"It said {request.turn.results[0]}."
        return [Call("look", {"at": request.turn.text})]

    hello = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    called = {"role": "assistant", "tool_calls": [{}]}
    with ScriptedModel(decide) as model:
        first = ask(model, {"role": "assistant", "content": "before"}, hello)
        second = ask(model, hello, called, {"role": "tool", "content": "hi"})
        assert model.wait_for(lambda request: request.turn.results, 1)
        with pytest.raises(AssertionError, match="no such request in 0 s"):
            model.wait_for(lambda request: request.turn.text == "bye", 0)
    call = first[1]["choices"][0]["delta"]["tool_calls"][0]["function"]
    assert call == {"name": "look", "arguments": '{"at": "hello"}'}
    assert second[0]["choices"][0]["delta"]["content"] == "It said hi."


def test_a_script_that_fails_is_heard_of():
    with ScriptedModel(lambda _: 1 / 0) as model:
        ask(model, {"role": "user", "content": "hello"})
        with pytest.raises(ZeroDivisionError):
            model.wait_for(lambda _: True, 1)


def pretend_npm(monkeypatch, outcome: str) -> list[str]:
    """Let npm install, be offline, or break off half-way; gives what it was told."""
    told = []

    def npm(_node, verb, *args, limit):
        told.append(verb)
        if outcome == "offline":
            raise openclaw.Unavailable("the npm registry cannot be reached")
        if verb == "install":
            entry = Path(args[1]) / "node_modules" / "openclaw" / "openclaw.mjs"
            entry.parent.mkdir(parents=True)
            if outcome == "broken":
                raise RuntimeError("npm install failed")
            entry.touch()

    monkeypatch.setattr(openclaw, "npm", npm)
    return told


def test_openclaw_is_fetched_once(tmp_path, monkeypatch):
    told = pretend_npm(monkeypatch, "fine")
    first, second = openclaw.obtain(tmp_path), openclaw.obtain(tmp_path)
    assert first == second
    assert first.entry.exists()
    assert told == ["view", "install"]


@pytest.mark.parametrize(
    ("outcome", "error"), [("offline", openclaw.Unavailable), ("broken", RuntimeError)]
)
def test_a_failed_fetch_leaves_nothing_behind(tmp_path, monkeypatch, outcome, error):
    pretend_npm(monkeypatch, outcome)
    with pytest.raises(error):
        openclaw.obtain(tmp_path)
    assert [each for each in tmp_path.iterdir() if each.is_dir()] == []


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_a_process_that_is_left_behind_is_named_and_killed(tmp_path):
    room, other = Room(tmp_path / "room"), Room(tmp_path / "other")
    command = ["sleep", "600"]
    with (
        subprocess.Popen(command, env=room.environment()) as ours,
        subprocess.Popen(command, env=other.environment()) as theirs,
    ):
        # A process that is only just there shows no environment yet.
        until(lambda: ours.pid in room.processes(), "it can be seen")
        assert room.left_behind(grace=0) == {ours.pid: "sleep 600 "}
        assert ours.wait(10) < 0
        assert theirs.poll() is None
        theirs.kill()
    assert room.left_behind() == {}

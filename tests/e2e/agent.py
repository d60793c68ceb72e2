"""The script of an agent that knows what it reads, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e.scripted_model import Call, ModelRequest, Reply, Turn, text_of

ENVELOPE = "[task_stuck_resume] "
REMINDER = "[task_resume] "

Document = dict[str, Any]


def packets_in(text: str) -> list[Document]:
    """The resume packets in a text, also where it was JSON-escaped once more.

    The gateway shows a system event to the model inside a JSON string; a
    packet that does not parse is an error, never skipped.
    """
    found = []
    for piece in text.split(ENVELOPE)[1:]:
        plain = piece
        if piece.startswith('{\\"'):
            escaped = re.match(r'(?:[^"\\]|\\.)*', piece)
            plain = json.loads(f'"{escaped.group()}"')
        found.append(json.JSONDecoder().raw_decode(plain)[0])
    return found


def reminders_in(text: str) -> list[Document]:
    """The packets put before a prompt; one that does not parse is an error.

    What a packet, or the summary of a compaction, quotes of an earlier one is left out.
    """
    found = []
    start = text.find(f'{REMINDER}{{"')
    while start >= 0:
        packet, end = json.JSONDecoder().raw_decode(text, start + len(REMINDER))
        found.append(packet)
        start = text.find(f'{REMINDER}{{"', end)
    return found


def since_packet(request: ModelRequest) -> int:
    """How many tools have answered in the turn since the last packet in it."""
    count = 0
    for message in request.messages:
        text = text_of(message)
        final = message["role"] == "assistant" and not message.get("tool_calls")
        packet = message["role"] == "user" and (REMINDER in text or ENVELOPE in text)
        if final or packet:
            count = 0
        count += message["role"] == "tool"
    return count


def packet_size(packet: Document) -> int:
    """The bytes of a packet's JSON, as it is sent."""
    text = json.dumps(packet, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode())


def search(query: str) -> Call:
    """Look a tool up in the catalogue, where OpenClaw keeps those of MCP."""
    return Call("tool_search", {"query": query})


def use(tool: str, **args: Any) -> Call:
    """Call a tool of taskmem through the catalogue."""
    return Call("tool_call", {"id": f"taskmem__{tool}", "args": args})


def answer_in(result: str) -> Document:
    """The tool's own answer, out of the wrappings that the gateway adds."""
    wrapped = re.search(r"^---\n(.*)\n<<<END_", result, re.DOTALL | re.MULTILINE)
    assert wrapped, result
    content = json.loads(wrapped[1])["result"]["content"]
    return json.loads(content[0]["text"])


@dataclass(frozen=True)
class Deployer:
    """Registers a deployment, does its first step, and goes quiet.

    Woken by a resume packet it does the step that the packet calls current;
    asked to wrap up it completes every open task.
    """

    name: str
    plan: Sequence[str]
    session_key: str | None = None

    def __call__(self, request: ModelRequest) -> Reply:
        """The next reply in the current turn."""
        turn = request.turn
        packets = packets_in(turn.text)
        if packets:
            return self.resume(packets[-1], turn)
        if self.name in turn.text:
            return self.begin(turn)
        if "wrap up" in turn.text:
            return self.wrap_up(turn)
        return "NO_REPLY"

    def begin(self, turn: Turn) -> Reply:
        """Search, register, narrate the first step, and stop."""
        register = {"name": self.name, "plan": list(self.plan)}
        if self.session_key:
            register["session_key"] = self.session_key
        match turn.results:
            case []:
                return [search("register a long-running task")]
            case [found]:
                assert "taskmem__task_register" in found, found
                return [use("task_register", **register)]
            case [_, registered]:
                task_id = answer_in(registered)["task_id"]
                message = f"Step 1 done - {self.plan[0]}"
                return [use("task_update", task_id=task_id, message=message)]
            case _:
                return "I have started and shall go on later."

    def resume(self, packet: Document, turn: Turn) -> Reply:
        """Do the current step of the packet, and narrate it."""
        if turn.results:
            return "I have gone on where I had stopped."
        step = packet["progress"]["current"]
        message = f"Step {step + 1} done - {packet['plan'][step]}"
        return [use("task_update", task_id=packet["task_id"], message=message)]

    def wrap_up(self, turn: Turn) -> Reply:
        """Complete every open task."""
        match turn.results:
            case []:
                return [use("task_list", status="active")]
            case [listed]:
                return [
                    use("task_update", task_id=task["task_id"], status="completed")
                    for task in answer_in(listed)["tasks"]
                ]
            case _:
                return "All done."


def obedient(request: ModelRequest) -> Reply:
    """Do what `taskmem doctor` asks for."""
    if "task_list once" in request.turn.text and request.opens_turn:
        return [Call("tool_call", {"id": "task_list", "args": {}})]
    return "OK"

"""Agents in sessions of real hosts that share one home, each at the command of a test."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from tests.e2e.cli_hosts import CliHost
from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, ScriptedModel, text_of
from tests.e2e.shared_house import MOST_REQUESTS, use

PROMPTED = re.compile(r"\bTURN (\w+)\b")
APPEARED = re.compile(r'(\w+) is ready\\*" appeared')


def read_turn(request: ModelRequest) -> tuple[str | None, list[str]]:
    """The turn that the user has begun last, and the answers of tools since; None: a wake has."""
    answers: list[str] = []
    for message in reversed(request.messages):
        text = text_of(message)
        if message["role"] == "tool":
            answers.append(text)
        elif message["role"] == "user" and (found := PROMPTED.findall(text)):
            return found[-1], answers[::-1]
        elif message["role"] == "user" and APPEARED.search(text):
            break
    return None, []


def read_answer(text: str) -> dict[str, Any]:
    """The answer of a tool of ours, out of what a host has put around it; of others, nothing."""
    if "{" not in text:
        return {}
    found = json.loads(text[text.index("{") :])
    return json.loads(found["result"]["content"][0]["text"]) if "result" in found else found


def ask_for(call: Call, request: ModelRequest) -> Reply | None:
    """The reply that calls a tool as the model's host has it; None: it has none such yet."""
    if call.tool in request.tools:
        return [call]
    if "tool_call" in request.tools:  # OpenClaw keeps it in its catalogue
        return [use(call.tool, **call.args)]
    return None


class Desk:
    """One session of a host, whose agent calls the tools that a test says, and acts on no wake."""

    def __init__(self, prefix: str = "", say: Callable[[str], object] = str) -> None:
        self.say, self._prefix = say, prefix
        self._calls: dict[str, Call] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        self._refusals = 0
        """How often its tools were still loading."""
        self.woken_by: dict[str, float] = {}
        """The ends that its model was told of first at this time, by `time.monotonic`."""

    def __call__(self, request: ModelRequest) -> Reply:
        """The reply of its model."""
        self.last = request
        texts = [text_of(each) for each in request.messages if each["role"] == "user"]
        for name in APPEARED.findall("\n".join(texts)):
            self.woken_by.setdefault(name, time.monotonic())
        turn, answers = read_turn(request)
        if turn is None:
            return "Woken."
        call = self._calls[turn]
        if answers:
            self._answers[turn] = read_answer(answers[0])
            return f"Done {turn}."
        if reply := ask_for(call, request):
            return reply
        self._refusals += 1
        return "My tools are still loading."

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Have its agent call a tool in a turn of its own; the answer."""
        turn = f"t{len(self._calls)}"
        self._calls[turn] = Call(f"{self._prefix}{tool}", arguments)

        def is_answered() -> bool:
            before = self._refusals
            self.say(f"TURN {turn}")
            until(lambda: turn in self._answers or self._refusals > before, f"{tool} is called", 60)
            return turn in self._answers

        until(is_answered, f"{tool} is answered")
        return self._answers[turn]


@contextmanager
def seat_agents(house: House, desks: Mapping[type[CliHost], Desk]) -> Generator[Sequence[CliHost]]:
    """Begin a session of each of these hosts with its agent, beside the gateway of a house.

    Raises:
        Unavailable: One cannot be fetched.
    """
    with ExitStack() as stack:
        hosts: list[CliHost] = []
        for kind, desk in desks.items():
            model = ScriptedModel(
                desk, most=MOST_REQUESTS, is_stranger=lambda request: not request.tools
            )
            stack.enter_context(model)
            host = kind(house.taskmem.room, house.taskmem, model.url)
            stack.callback(host.close)
            desk.say = partial(say_in_terminal, host)
            hosts.append(host)
        # It finds the command of Codex on the same path as they do.
        house.taskmem.restart({})
        for host in hosts:
            host.begin()
        yield hosts


def say_in_terminal(host: CliHost, text: str) -> None:
    """Say something once the host's last turn is over."""
    wait_until_idle(host)
    host.say(text)


def wait_until_idle(host: CliHost) -> None:
    """Wait until the host's last turn that was begun by a test is over."""

    def is_idle() -> bool:
        _, said, after = host.screen.rpartition("Done t")
        return not said or host.turn_end in after

    until(is_idle, "its turn ends", shown=lambda: host.screen)

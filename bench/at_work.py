"""What checkpoints add to the tool calls of an agent in the real gateway."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from at_home import open_timed_house
from figures import Figure, millis

from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply

TURNS, CALLS = 20, 10
AROUND = ("before_tool_call", "after_tool_call")
"""The hooks that see a call; what they take is what the call waits."""


def call_checkpoints() -> Iterator[Figure | str]:
    """Measure how long the hooks around a call hold it up, checkpoints written.

    The plug-in reports a call and does not wait: what it has reported before is durable
    when the next call begins.
    """
    with open_timed_house() as (house, model, timed):
        model.decide = _answer_with_registration
        house.gateway.say("Please work.")
        model.decide = _answer_with_work
        for _ in range(TURNS):
            house.gateway.say("Go on?")
        kept = until(lambda: _count_checkpoints(house), "all is kept")
        took: Mapping[str, float] = _sum_seconds_by_call(timed())
    yield millis("checkpoints added to a call of exec", [*took.values()], 5)
    yield f"Of {TURNS * CALLS} calls of exec {kept} checkpoints were written."


def _answer_with_registration(request: ModelRequest) -> Reply:
    if request.turn.results:
        return "Shall I go on?"
    return [Call("task_register", {"name": "Work", "plan": ["Work"]})]


def _answer_with_work(request: ModelRequest) -> Reply:
    """Call a command ten times, and ask."""
    done = len(request.turn.results)
    part = len(request.messages)
    if done == CALLS:
        return f"Part {part} is done. Shall I go on?"
    return [Call("exec", {"command": f"echo part {part}"})]


def _count_checkpoints(house: House) -> int | None:
    """How many there are; None: not all yet."""
    [run] = house.ask("runs")
    kept: int = run["checkpoints"]
    return kept if kept >= 2 * TURNS * CALLS else None


def _sum_seconds_by_call(lines: list[dict[str, Any]]) -> Mapping[str, float]:
    """Return the seconds that each call was held up."""
    took: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        if line["kind"] in AROUND and line.get("call"):
            took[line["call"]] += line["ms"] / 1000
    return took

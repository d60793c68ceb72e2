"""An hour in which the real gateway is restarted every minute: what is lost, doubled or left."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from threading import Event
from typing import TypeVar

from figures import Figure, amount
from gateway import open_house
from machine import measure_memory

from openclaw_taskmem.cli.client import LinkError
from tests.e2e.house import RESOLVED, House
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply
from tests.e2e.taskmem import PLUGIN

T = TypeVar("T")
WOKEN = re.compile(r"Woken by (wait_\w+)\.")
"""What an agent says of a wake in its task's thread."""
MINUTES = int(os.environ.get("TASKMEM_SOAK_MINUTES", "60"))
"""Restarts of the gateway, one a minute."""
SESSIONS = [f"agent:main:soak-{number}" for number in range(4)]
PAUSE_SECONDS = 8.0
"""Between the ends of two waits; they also end while there is no gateway."""
SERVES_SECONDS = 30.0
"""The least time between two restarts, where a machine takes long to start the gateway."""
SENT_AGAIN_SECONDS = 900.0
"""In which a wake that no turn took is sent again."""
LEAVES_SECONDS = 60.0
"""In which processes that are not needed any more have ended."""
SETTLED_MINUTES = 5
"""After which the daemon's memory is first read: it has loaded all that it needs by then."""


class Soak:
    """The agents that wait, the waits that end, and what arrived."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.restarts = 0
        """How often the gateway was restarted so far."""
        self.arrivals: dict[str, list[int]] = {}
        """For each turn that a wait's end has begun, the restarts before it."""
        self.repeated: list[str] = []
        """The ends that began another turn after their agent had told of them in its thread, or
        stood twice in one."""
        self.waits: dict[str, str] = {}
        """The task of each wait, ended or about to end."""
        self.tasks = [self._register(session) for session in SESSIONS]
        self._numbers = count(1)
        self._over = Event()
        self._executor = ThreadPoolExecutor(1)
        house.model.decide = self.answer

    def _register(self, session: str) -> str:
        given = {"name": f"Watch {session}", "plan": ["Watch"], "session_key": session}
        return str(self.house.call("task_register", **given)["task_id"])

    def answer(self, request: ModelRequest) -> Reply:
        """Tell each wake in its task's thread once, also in a turn that a restart had cut."""
        woken = [each for each in RESOLVED.findall(request.turn.text) if each in self.waits]
        times = Counter(woken)
        tasks = {each: self.waits[each] for each in times}
        told = {each for each, task in tasks.items() if self.count_told(task)[each]}
        if request.opens_turn:
            for each in tasks:
                self.arrivals.setdefault(each, []).append(self.restarts)
            self.repeated.extend(each for each in times if each in told or times[each] > 1)
        return [
            Call("task_update", {"task_id": task, "message": f"Woken by {each}."})
            for each, task in tasks.items()
            if each not in told
        ] or "Done."

    def count_told(self, task_id: str) -> Counter[str]:
        """Count how often the task's thread tells of each wake."""
        found = self.house.ask("show", id=task_id)
        messages = found["messages"]
        while found["earlier"] is not None:
            found = self.house.ask("show", id=task_id, before=found["earlier"])
            messages += found["messages"]
        return Counter(each for message in messages for each in WOKEN.findall(message["content"]))

    @contextmanager
    def end_waits(self) -> Iterator[None]:
        """Let waits begin and end meanwhile; raise what kept them from ending."""
        ending = self._executor.submit(self._end_waits)
        try:
            yield
        finally:
            self._over.set()
            self._executor.shutdown()
        ending.result()

    def _end_waits(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            number = next(self._numbers)
            at = number % len(SESSIONS)
            phrase = f"build {number} is ready"
            with suppress(LinkError):  # the daemon is told again with the next
                wait_id = self.house.open_wait(phrase, SESSIONS[at])
                self.waits[wait_id] = self.tasks[at]
                self.house.end(phrase)


def soak_gateway() -> Iterator[Figure | str]:
    """Restart the gateway once a minute, while waits end in four sessions."""
    with open_house(plugin=PLUGIN) as (house, model):
        model.most = 1_000_000
        for session in SESSIONS:
            house.gateway.say("hello", session)
        run = Soak(house)
        room = house.taskmem.room
        before = len(room.processes())
        sizes: list[float] = []
        pids: dict[int, None] = {}
        with run.end_waits():
            for minute in range(1, MINUTES + 1):
                began = time.monotonic()
                house.gateway.restart()
                run.restarts += 1
                house.taskmem.wait_for_plugin()
                model.requests.clear()
                time.sleep(max(SERVES_SECONDS, 60 - (time.monotonic() - began)))
                with suppress(LinkError):  # the next one is another daemon, which is counted
                    pids[pid := house.ask("status")["pid"]] = None
                    if minute >= SETTLED_MINUTES:
                        sizes.append(measure_memory(pid)[1])
        open_wakes = wait_for_none(lambda: list_open_wakes(house), SENT_AGAIN_SECONDS)
        waits = [*run.waits]
        if len(waits) < MINUTES:
            raise RuntimeError(f"Only {len(waits)} waits ended: that says nothing.")
        told: Counter[str] = Counter()
        for task in run.tasks:
            told.update(run.count_told(task))
        lost = [each for each in waits if not told[each]]
        again = {each for each, begun in run.arrivals.items() if len(begun) > 1}
        uncut = {each for each in again if len({*run.arrivals[each]}) < len(run.arrivals[each])}
        doubled = {*run.repeated, *uncut, *(each for each in waits if told[each] > 1)}
        continued = [each for each in waits if each not in run.arrivals and told[each]]
        left = wait_for_none(lambda: [*room.processes()][before:], LEAVES_SECONDS)
    yield amount("wakes that were owed", [len(waits)], "")
    yield amount(f"of these lost, in {MINUTES} restarts", [len(lost)], "", 0)
    yield amount("of these doubled", [len(doubled)], "", 0)
    yield amount("not acknowledged a quarter of an hour later", [len(open_wakes)], "", 0)
    if len(sizes) > 1:
        grown = sizes[-1] - sizes[0]
        yield amount(f"memory of the daemon, since minute {SETTLED_MINUTES}", [grown], "MB", 5)
    yield amount("processes left behind", [len(left)], "", 0)
    yield amount("times that the daemon was started anew", [abs(len(pids) - 1)], "", 0)
    yield amount(
        "came again, as a restart had cut the turn before its agent acted",
        [len(again - doubled)],
        "",
    )
    yield amount("came in a turn that went on after a restart", [len(continued)], "")
    yield f"Lost: {lost or 'none'}. Doubled: {sorted(doubled) or 'none'}. Memory: {sizes}."
    if model.errors:
        raise model.errors[0]


def wait_for_none(list_left: Callable[[], list[T]], limit: float) -> list[T]:
    """Wait until nothing is left, and return what still is when the time is over, in seconds."""
    with suppress(AssertionError):
        until(lambda: not list_left(), "nothing is left", limit)
    return list_left()


def list_open_wakes(house: House) -> list[str]:
    """Return the ends of waits that no agent has acknowledged."""
    return [wake["wake_id"] for wake in house.ask("wakes") if wake["wait_id"]]

"""A gateway that is told to stop at random instants: how long it lives on."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

from figures import Figure, count_of, millis
from websockets.exceptions import ConnectionClosed

from tests.e2e import phone as channel
from tests.e2e.gateway import Gateway
from tests.e2e.openclaw import cache_folder, obtain
from tests.e2e.phone import Phone
from tests.e2e.room import Room, until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, ScriptedModel
from tests.e2e.taskmem import Taskmem, plugins

STOPS = int(os.environ.get("TASKMEM_BENCH_STOPS", "100"))
SEED = int(os.environ.get("TASKMEM_BENCH_SEED", "16"))
SLOWER = 1.0
"""Seconds by which a stop may be slower than the one without us."""
GIVEN_UP = 60.0
"""Seconds after which a gateway that lives on is killed."""


class House:
    """A gateway with the plug-in or without, that is started again and again."""

    def __init__(self, root: Path, stack: ExitStack, *, ours: bool) -> None:
        self.ours = ours
        self.goes_on = False
        self._task, self._step = "", 0
        self.room = Room(root)
        self.asked = Event()
        self._numbers = count(1)
        model = stack.enter_context(ScriptedModel(decide=self._decide, most=100_000))
        own = {"OPENCLAW_CONFIG_PATH": str(self.room.config)}
        self.taskmem = Taskmem(self.room, {"TASKMEM_WAKE_TRANSPORT": "auto", **own})
        none = {"load": {"paths": []}, "entries": {}}
        self.gateway = Gateway(
            obtain(cache_folder()),
            self.room,
            model.url,
            plugins=plugins(self.taskmem) if ours else none,
        )
        self.gateway.reconfigure(lambda found: channel.connect(found, root))
        stack.callback(self.room.left_behind)
        stack.callback(self.taskmem.stop)
        stack.callback(self.gateway.kill)

    def _decide(self, request: ModelRequest) -> Reply:
        """Register a task and do one step of it, or all; without us, run commands.

        After a step the agent is told at once to go on, after the last its user reads.
        """
        turn = request.turn
        going_on = "task_continue" in turn.text
        if not going_on and "Please work" not in turn.text:
            return "All is well."
        self.asked.set()
        done = len(turn.results)
        if done >= (1 if going_on else 2):
            return "That is done."
        if not self.ours:
            return [Call("exec", {"command": "true"})]
        if done == 0 and not going_on:
            plan = {"name": "Work", "plan": [f"Step {n}" for n in range(1, 10)]}
            return [Call("task_register", plan)]
        if not going_on:
            self._task = json.loads(turn.results[0])["task_id"]
        self._step = self._step % 9 + 1
        step: dict[str, Any] = {"completed_steps": [self._step]}
        end = {} if self._step < 9 and self.goes_on else {"status": "completed"}
        return [Call("task_update", {"task_id": self._task, **step, **end})]

    def write(self) -> None:
        """Let somebody write on the phone; the turn goes on until it is cut."""
        self.asked.clear()
        phone = Phone(self.gateway, self.room.root, f"49{next(self._numbers)}")

        until(lambda: phone.is_connected, "the channel is there")

        def say_on_phone() -> None:
            with suppress(ConnectionClosed, OSError, TimeoutError):
                phone.write("Please work.")

        self.writing = Thread(target=say_on_phone, daemon=True)
        self.writing.start()

    def stop(self) -> float:
        """Tell it to stop, and give how many seconds it lived on."""
        began = time.monotonic()
        self.gateway.tell_to_stop()
        with suppress(AssertionError):
            self.gateway.ends(GIVEN_UP)
        return time.monotonic() - began


def start_idle(house: House) -> None:
    """Ready, and nothing to do."""
    house.gateway.start()


def start_with_wake(house: House) -> None:
    """Ready, with a wake that is owed: it comes in at once."""
    if house.ours:
        house.taskmem.run("daemon", "--detach")
        log = house.room.root / "watched.log"
        log.write_text("It is over.\n")
        wait = {"target": f"pty:file:{log}", "wake_when": '"over" appears'}
        session = "agent:main:main"
        house.taskmem.call("smart_wait", **wait, session_key=session, timeout=3000)
    house.gateway.start()


def start_without_daemon(house: House) -> None:
    """Ready, while our daemon is being started."""
    house.taskmem.stop()
    house.gateway.start()


def start_and_lose_daemon(house: House) -> None:
    """Ready, and our daemon is gone: the plug-in starts it anew."""
    house.gateway.start()
    house.taskmem.stop()


def start_and_call(house: House, *, goes_on: bool = False) -> None:
    """The model has been asked, and calls tools of ours."""
    house.goes_on = goes_on
    house.gateway.start()
    house.write()
    if not house.asked.wait(240):
        raise SystemExit("The model was not asked.")


def wait_for_turn_end(house: House) -> None:
    """A turn has ended, and what was done is told on the phone."""
    start_and_call(house)
    house.writing.join()


def start_next_turn(house: House) -> None:
    """A turn has ended, and the agent is told to go on; without us, by a person."""
    start_and_call(house, goes_on=True)
    house.writing.join()
    if not house.ours:
        house.write()


INSTANTS: tuple[tuple[Callable[[House], None], float], ...] = (
    (start_idle, 2),
    (start_with_wake, 2),
    (start_without_daemon, 2),
    (start_and_lose_daemon, 2),
    (start_and_call, 2),
    (wait_for_turn_end, 6),
    (start_next_turn, 2),
)
"""What is waited for, and for how many seconds at most after it."""


@dataclass(frozen=True)
class StopPair:
    """How one pair of stops went."""

    when: str
    after: float
    """Seconds from the instant to the signal."""
    ours: float
    """Seconds from the signal to the end of the process, with us."""
    theirs: float
    """The same without us."""


@contextmanager
def open_two_houses() -> Iterator[tuple[House, House]]:
    """A gateway with the plug-in, and one without."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        houses = [
            House(Path(folder) / name, stack, ours=name == "ours") for name in ("ours", "theirs")
        ]
        yield houses[0], houses[1]


def stop_pairs(number: int, seed: int) -> Iterator[StopPair]:
    """Stop both gateways at the same random instants, in turns."""
    chance = random.Random(seed)  # noqa: S311 - it keeps no secret
    with open_two_houses() as houses:
        for n in range(number):
            when, most = INSTANTS[n % len(INSTANTS)]
            after = chance.uniform(0, most)
            took = []
            for house in houses:
                when(house)
                time.sleep(after)
                took.append(house.stop())
            yield StopPair(when.__name__, after, *took)


def stop_gateway() -> Iterator[Figure]:
    """Count the stops that are slower with us than without by more than a second."""
    done = []
    for each in stop_pairs(STOPS, SEED):
        print(f"{len(done)}: {each}", file=sys.stderr, flush=True)
        done.append(each)
    late = sum(each.ours - each.theirs > SLOWER for each in done)
    yield count_of("stops slower than without us by more than 1 s", late, len(done))
    yield millis("SIGTERM to the gateway's end, with us", [each.ours for each in done])
    yield millis("the same without us", [each.theirs for each in done])

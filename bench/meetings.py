"""Counts what is lost where wakes meet a user's messages, or the ends of turns, in a real gateway.

Run it by hand: `.venv/bin/python bench/meetings.py --collisions 500 --hand-overs 300`.

- A collision: a log's line is written so that a wake comes due within 150 ms of a message that the
  user sends in its session. After each one without a wake: two messages, or one alone, in turns.
- A hand-over: the plug-in is given a wake within 500 ms of a turn's end, of a user's turn and of a
  wake's in turns.
"""

import argparse
import os
import random
import re
import signal
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from threading import Lock
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for what the tests play

from gateway import open_house
from websockets.exceptions import ConnectionClosed

from taskmem_resumebench.openclaw_gateway import read_text
from tests.e2e.gateway import MAIN_SESSION
from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.rpc import CallRefused, Rpc
from tests.e2e.scripted_model import ModelRequest
from tests.e2e.taskmem import PLUGIN
from tests.e2e.test_wakes import hand_over

ENDED = ("final", "error", "aborted")
NAME = re.compile(r"\b(?:user|wake)-\d+\b")
COLLISIONS = ("a wake and a message", "two messages", "a message alone")
ENDS = ("the end of a user's turn", "the end of a wake's turn")
ROUNDS = 4
"""Of a session: as many wakes of waits as it may get in a minute."""
COLLISION_S, END_S, IDLE_S, REPLY_S, SETTLE_S = 0.15, 0.5, 10, 90, 15
THOUGHT_S = 0.7
"""For which the model thinks where the end of its turn is aimed at."""
RANDOM = random.Random(42)  # noqa: S311 - no secret


class Told(NamedTuple):
    """How a run ended, as its chat was told."""

    session: str
    run: str
    state: str
    why: str
    at: float


@dataclass
class Stage:
    """A house, and what was seen in it; times by kind are the last ones that were measured."""

    house: House
    thought: float = 0
    sessions: int = 6
    """In which something goes on at the same time."""
    latest: float = 0
    """After which no meeting begins."""
    begun: Counter[str] = field(default_factory=Counter[str])
    """Name → turns that it began."""
    answered: dict[str, float] = field(default_factory=dict[str, float])
    """Name → when the model gave the answer of its turn."""
    told: list[Told] = field(default_factory=list[Told])
    """The ends of runs that chats were told."""
    wakes: dict[str, str] = field(default_factory=dict[str, str])
    """Wake → the kind of its meeting."""
    delays: dict[str, deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque([0.2], maxlen=15))
    )
    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    is_over: bool = False
    _lock: Lock = field(default_factory=Lock)

    def decide(self, request: ModelRequest) -> str:
        """Answer with the names of what a turn has brought."""
        names = sorted({*NAME.findall(request.turn.text)})
        with self._lock:
            self.begun.update(names)
            self.answered.update(dict.fromkeys(names, time.time() + self.thought))
        time.sleep(self.thought)
        return " ".join(["Heard", *names])

    def count(self, kind: str, **seen: float) -> None:
        """Count what was seen in a meeting of a kind."""
        with self._lock:
            self.counts.update({(kind, what.replace("_", " ")): int(n) for what, n in seen.items()})

    @contextmanager
    def listen(self) -> Generator[None]:
        """Note what the chats are told."""
        with self.house.gateway.rpc() as rpc, ThreadPoolExecutor(1) as pool:

            def note_told() -> None:
                with suppress(ConnectionClosed):
                    while not self.is_over:
                        heard = rpc.hear(None)
                        chat: dict[str, str] = heard.get("payload") or {}
                        if heard.get("event") == "chat" and chat["state"] in ENDED:
                            about = (chat["sessionKey"], chat["runId"], chat["state"])
                            why = chat.get("errorMessage", "")
                            self.told.append(Told(*about, why, time.time()))

                if not self.is_over:
                    print(
                        "- the gateway hung up: ends of runs are not seen from here on", flush=True
                    )

            pool.submit(note_told)
            try:
                yield
            finally:
                self.is_over = True
                rpc.hang_up()


def send(rpc: Rpc, session: str, name: str) -> float:
    """Send a message as a user does in the browser; when that was."""
    at = time.time()
    rpc.call("chat.send", sessionKey=session, message=name, idempotencyKey=f"run-{name}")
    return at


def read_chat(rpc: Rpc, session: str) -> dict[str, Any]:
    """Return what a session's chat shows; a gateway that is too busy is asked again."""

    def try_read() -> dict[str, Any] | None:
        with suppress(CallRefused):
            found: dict[str, Any] = rpc.call("chat.history", sessionKey=session, limit=200)
            return found
        return None

    return until(try_read, f"{session} is read")


def wait_until_idle(rpc: Rpc, session: str) -> None:
    """Wait until no turn runs in a session."""
    until(lambda: not read_chat(rpc, session)["sessionInfo"]["hasActiveRun"], f"{session} is idle")


def read_names(rpc: Rpc, session: str, role: str) -> set[str]:
    """Return the names in what a session's chat shows of the user, or of the agent."""
    rows = read_chat(rpc, session)["messages"]
    texts = (read_text(each) for each in rows if each["role"] == role)
    return {*NAME.findall("\n".join(each for each in texts if "[taskmem]" not in each))}


def holds(probe: Callable[[], object]) -> bool:
    """Return whether something is so within the time that a reply may take."""
    with suppress(AssertionError):
        return bool(until(probe, "it is so", REPLY_S))
    return False


def collide(stage: Stage, session: str, kind: str, number: int, rpc: Rpc) -> None:
    """Let a user's message meet what the kind says, and count what came of it."""
    house, gap = stage.house, RANDOM.uniform(-COLLISION_S, COLLISION_S)
    user, other, wake = f"user-{number}", f"user-{number + 1}", f"wake-{number}"
    wait_until_idle(rpc, session)
    if kind == COLLISIONS[0]:
        stage.wakes[wake] = kind
        log = house.folder / f"{session.rpartition(':')[2]}.log"
        log.touch()
        about = {"session_key": session, "target": f"pty:file:{log}", "timeout": 3000}
        wait = house.call("smart_wait", wake_when=f'"{wake} is over" appears', **about)
        written = time.time()
        with log.open("a") as file:
            file.write(f"{wake} is over\n")
        time.sleep(max(0, written + median(stage.delays[kind]) + gap - time.time()))
        sent = send(rpc, session, user)
        due = datetime.fromisoformat(house.wake_of(wait["wait_id"])["created_at"]).timestamp()
        stage.delays[kind].append(due - written)
        came = holds(lambda: stage.begun[wake])
        stage.count(kind, within_150_ms=abs(due - sent) <= COLLISION_S, wakes_lost=not came)
    elif kind == COLLISIONS[1]:
        with house.gateway.rpc() as second, ThreadPoolExecutor(1) as pool:
            first = pool.submit(send, second, session, other)
            time.sleep(abs(gap))
            apart = send(rpc, session, user) - first.result()
        stage.count(kind, within_150_ms=apart <= COLLISION_S)
    else:
        send(rpc, session, user)
    users = {user, other} if kind == COLLISIONS[1] else {user}
    holds(lambda: users <= read_names(rpc, session, "assistant"))
    wait_until_idle(rpc, session)
    shown, heard = (read_names(rpc, session, role) for role in ("user", "assistant"))
    runs = {f"run-{each}" for each in users}
    failed = [each for each in stage.told if each.run in runs and each.state != "final"]
    lost = users - (shown & heard)
    if failed or lost:
        print(f"- {session}, {kind}: {lost} lost; {[each.why for each in failed]}", flush=True)
    stage.count(kind, met=1, messages=len(users), failed=len(failed), no_reply=len(users - heard))
    stage.count(kind, gone=len(users - shown), lost=max(len(failed), len(lost)))


def give_wake(stage: Stage, session: str, before: str, number: int, rpc: Rpc) -> str:
    """Hand a wake over around the end of the turn that a name began, and see it come."""
    kind, wake = ENDS[before.startswith("wake")], f"wake-{number}"
    stage.wakes[wake] = kind
    until(lambda: before in stage.answered, f"{before} has a turn")
    answered = stage.answered[before]
    goal = answered + median(stage.delays[kind]) + RANDOM.uniform(-END_S, END_S)
    time.sleep(max(0, goal - time.time()))
    at, idle_at = time.time(), 0.0
    hand_over(stage.house, session, wake)

    def has_come_or_lies() -> bool:
        nonlocal idle_at
        found = read_chat(rpc, session)["sessionInfo"]
        idle_at = 0.0 if found["hasActiveRun"] else idle_at or time.time()
        return bool(stage.begun[wake] or (idle_at and time.time() - idle_at > IDLE_S))

    until(has_come_or_lies, f"{wake} has come or lies")
    stage.count(kind, met=1, left_lying=not stage.begun[wake])
    ends = [each.at for each in stage.told if each.session == session and each.at >= answered]
    if ends:
        stage.delays[kind].append(ends[0] - answered)
        stage.count(kind, last_500_ms=0 <= ends[0] - at <= END_S)
        stage.count(kind, first_500_ms=0 < at - ends[0] <= END_S)
    return wake


def play_session(stage: Stage, what: str, play: int, number: int) -> None:
    """Let one session have its share of collisions, or of hand-overs."""
    session, before = f"agent:main:{what}-{play}", ""
    if time.time() > stage.latest:
        return
    stage.house.gateway.turn("hello", session)
    with stage.house.gateway.rpc() as rpc:
        for n in range(play * ROUNDS, play * ROUNDS + number):
            if time.time() > stage.latest:
                return
            if what == "collisions":
                collide(stage, session, COLLISIONS[0], 10 * n, rpc)
                collide(stage, session, COLLISIONS[1 + n % 2], 10 * n + 2, rpc)
                continue
            if n % 2 == 0:
                wait_until_idle(rpc, session)
                before = f"user-{10 * n + 9}"
                send(rpc, session, before)
            before = give_wake(stage, session, before, 10 * n + 9, rpc)


def play_all(stage: Stage, what: str, number: int) -> None:
    """Play in several sessions at once."""
    began = time.time()
    with ThreadPoolExecutor(stage.sessions) as pool:
        shares = [min(ROUNDS, number - first) for first in range(0, number, ROUNDS)]
        played = [pool.submit(play_session, stage, what, n, each) for n, each in enumerate(shares)]
    for error in filter(None, (each.exception() for each in played)):
        print(f"- a session was given up: {error!r}"[:300])
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(
        f"- at most {number} {what} in {time.time() - began:.0f} s; load average at the end {load}"
    )


def print_table(stage: Stage, kinds: tuple[str, ...], columns: str) -> None:
    """Print what was counted of each kind."""
    names = columns.split(", ")
    print("", f"| meeting | {' | '.join(names)} |", f"| --- |{' ---: |' * len(names)}", sep="\n")
    for kind in kinds:
        print(f"| {kind} | {' | '.join(str(stage.counts[kind, each]) for each in names)} |")


def main() -> None:
    """Play what is asked for, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collisions", type=int, default=20)
    parser.add_argument("--hand-overs", type=int, default=20)
    parser.add_argument("--sessions", type=int, default=6, help="at the same time")
    parser.add_argument("--minutes", type=float, default=12, help="for each of the two, at most")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the gateway is ended, too
    print(f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; load average {os.getloadavg()[0]:.1f}")
    with open_house(plugin=PLUGIN) as (house, model):
        stage = Stage(house, sessions=asked.sessions)
        model.decide, model.most = stage.decide, 100_000
        house.gateway.say("hello", MAIN_SESSION)
        house.reaches(house.wake("no wake comes before this one"), "acknowledged")
        with stage.listen():
            stage.latest = time.time() + 60 * asked.minutes
            play_all(stage, "collisions", asked.collisions)
            stage.latest = time.time() + 60 * asked.minutes
            stage.thought = THOUGHT_S
            play_all(stage, "hand-overs", asked.hand_overs)
            time.sleep(SETTLE_S)  # one that comes again does so by then
    for wake, kind in stage.wakes.items():
        stage.count(kind, twice=stage.begun[wake] > 1)
    common = "met, within 150 ms, messages, lost, failed, gone, no reply, wakes lost, twice"
    print_table(stage, COLLISIONS, common)
    print_table(stage, ENDS, "met, last 500 ms, first 500 ms, left lying, twice")


if __name__ == "__main__":
    main()

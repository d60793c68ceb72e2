"""Real hosts, their relays and their daemon are killed: how often each wake comes, and where."""

from __future__ import annotations

import os
import random
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from figures import Figure, count_of
from homes import find_disk

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.home import find_home
from tests.e2e.cli_hosts import ClaudeCode, ClaudeCodeWithoutTasks, CliHost, Codex
from tests.e2e.desks import read_turn
from tests.e2e.house import House
from tests.e2e.openclaw import cache_folder, obtain
from tests.e2e.room import Room, until
from tests.e2e.scripted_model import (
    Call,
    ModelRequest,
    Reply,
    ScriptedModel,
    text_of,
    without_packets,
)
from tests.e2e.shared_house import shared_house, use
from tests.e2e.taskmem import Taskmem

KILLS: Final = int(os.environ.get("TASKMEM_BENCH_KILLS", "10"))
"""Of each host."""
SEED: Final = int(os.environ.get("TASKMEM_BENCH_SEED", "43"))
HOSTS: Final = {
    "OpenClaw": None,
    "Claude Code": ClaudeCode,
    "Claude Code without MCP tasks": ClaudeCodeWithoutTasks,
    "Codex": Codex,
}
CHOSEN: Final = os.environ.get("TASKMEM_BENCH_HOSTS", ",".join(HOSTS)).split(",")
CONFIG: Final = "wake_ack_seconds = 120\nstuck_threshold_seconds = 36000\nartifact_roots = ['{}']\n"
"""Of the home, as not every host passes on variables; the folder has the logs."""
KILLS_OF_PAIR: Final = 10
"""Then two new sessions begin: each is told of waits by 60 messages an hour at most."""
EVENT_GAP: Final = 0.4
"""Seconds between two events. Kills come at random moments between them, which no event marks."""
DELIVERY_SECONDS: Final = 20.0
"""Time for the ends of a round. What comes later may meet the next kill, too."""
LATE_SECONDS: Final = 420.0
"""A delivery in which the daemon was killed is repeated after five minutes."""
RELAY_SECONDS: Final = 5.0
"""Time in which a host starts a killed relay again; else its user opens the sessions again."""
WAIT_END: Final = re.compile(r'smart_wait resolved \(\w+\): \\*"(\w+) is ready')
"""The agent's line; people have one of their own."""
CUT_ANSWER: Final = "No response requested."
"""What Claude Code writes for its agent where a turn was cut."""
SEAT: Final = re.compile(r"\bSEAT (\w+)\b")


class Agents:
    """The agents of a host's sessions: they wait as they are told to, and act on no wake."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.waits: dict[str, Mapping[str, Path]] = {}
        """By turn, the marks to wait for, and the log of each."""
        self.told: Counter[str] = Counter()
        """By mark: how many messages of one request told of it, at most."""
        self.again: set[str] = set()
        """The marks that came once more though the agent had answered."""
        self.order: dict[str, list[str]] = {}
        """By session: the marks that its last request told of."""
        self.strays: set[str] = set()
        """The marks that another session was told of."""

    def __call__(self, request: ModelRequest) -> Reply:
        """Note what a request tells, and answer it."""
        seat, marks, unheard, heard = "", list[str](), set[str](), set[str]()
        for message in request.messages:
            if message["role"] == "assistant" and text_of(message) != CUT_ANSWER:
                heard, unheard = heard | unheard, set()
                continue
            text = text_of(message)
            found = WAIT_END.findall(without_packets(text))
            if named := SEAT.search(text):
                seat = seat or named[1]
            if named or found:  # what was not answered before this has been cut
                self.again |= heard & {*found}
                unheard = {*found}
            marks += found
        self.strays |= {mark for mark in marks if mark.rpartition("_")[0] != seat}
        self.order[seat] = marks
        self.told |= Counter(marks)
        turn, answers = read_turn(request)
        if turn is None:
            return "Woken."
        if answers or not self.waits[turn]:
            return f"Done {turn}."
        tool, given = f"{self._prefix}smart_wait", {"timeout": 3000}
        calls = [
            given | {"target": f"pty:file:{log}", "wake_when": f'"{mark} is ready" appears'}
            for mark, log in self.waits[turn].items()
        ]
        if tool in request.tools:
            return [Call(tool, each) for each in calls]
        if "tool_call" in request.tools:  # OpenClaw keeps it in its catalogue
            return [use(tool, **each) for each in calls]
        return "My tools are still loading."


class Terminals:
    """Two sessions of Claude Code or Codex in one folder."""

    kinds = ("host", "session", "relay", "daemon", "all")

    def __init__(
        self, host: CliHost, other: CliHost, taskmem: Taskmem, seats: Sequence[str]
    ) -> None:
        self.taskmem, self._host = taskmem, host
        self._terminals = dict(zip(seats, (host, other), strict=True))
        self.sessions: dict[str, str] = {}
        """The id of each session, once it has waited."""
        host.begin()
        if isinstance(other, Codex):  # it asks for trust once
            other.start("--no-alt-screen")
        elif isinstance(other, ClaudeCode):
            other.session = other.session.replace("1111", "2222")
            other.begin()

    def say(self, seat: str, text: str) -> None:
        """Say something in a session."""
        self._terminals[seat].say(text)

    def kill(self, what: str, seat: str) -> Iterable[str]:
        """Kill something, and return the sessions that are closed by that."""
        if what == "session":
            self._terminals[seat].kill_terminal()
            return [seat]
        if what in ("relay", "all"):
            kill_processes(self._list_relays())
        if what in ("host", "all"):
            self._host.kill()
        if what in ("daemon", "all"):
            kill_daemon(self.taskmem)
        return self._terminals if what in ("host", "all") else ()

    def restart(self, what: str, closed: Iterable[str]) -> None:
        """Open the closed sessions, as their user does."""
        if what == "relay":
            try:
                until(lambda: len(self._list_relays()) > 1, "they are back", RELAY_SECONDS)
            except AssertionError:
                self._host.kill()
                closed = self._terminals
        for seat in closed:
            how = ["--resume"]
            if isinstance(self._host, Codex):
                how = ["--no-alt-screen", "resume"]
            self._terminals[seat].start(*how, self.sessions[seat])

    def _list_relays(self) -> list[int]:
        """Return the relays of this user: Codex passes on no variable of a room."""
        home, found = f"HOME={self.taskmem.room.home}".encode(), list[int]()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_relay = (folder / "cmdline").read_bytes().endswith(b"\0mcp\0")
                if is_relay and home in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found


class Chats:
    """Two sessions of a gateway of OpenClaw, whose relay is its plug-in."""

    kinds = ("host", "daemon", "all")

    def __init__(self, house: House, seats: Sequence[str]) -> None:
        self.taskmem, self._gateway, self._seats = house.taskmem, house.gateway, seats
        self.sessions: dict[str, str] = {}

    def say(self, seat: str, text: str) -> None:
        """Say something in a session."""
        self._gateway.turn(text, f"agent:main:{seat}")

    def kill(self, what: str, _: str) -> Iterable[str]:
        """Kill something, and return the sessions that are closed by that."""
        if what != "daemon":
            self._gateway.kill()
        if what != "host":
            kill_daemon(self.taskmem)
        return () if what == "daemon" else self._seats

    def restart(self, _: str, closed: Iterable[str]) -> None:
        """Start the gateway, if it was killed."""
        if closed:
            self._gateway.start()
            self.taskmem.wait_for_plugin()


def kill_processes(processes: Iterable[int]) -> None:
    """Kill processes; those that have ended are fine."""
    for each in processes:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def kill_daemon(taskmem: Taskmem) -> None:
    """Kill the daemon, if one runs."""
    held = find_holder(find_home(taskmem.environment).lock)
    kill_processes([held.pid] if held and held.pid else [])


class Play:
    """All rounds of a host: two sessions wait, and something is killed around the events."""

    def __init__(self, agents: Agents, folder: Path) -> None:
        self.agents, self._folder = agents, folder
        self._chance = random.Random(SEED)  # noqa: S311
        self._turns = 0
        self.ended: dict[str, str] = {}
        """By mark: what was killed around its event."""
        self.kills: Counter[str] = Counter()
        self.compared: list[str] = []
        """The marks whose order was looked at: told in time, after a kill that closed theirs."""
        self.disordered: list[str] = []
        self.late: list[str] = []
        """The marks that were not told within the time of their round."""

    def play(self, place: Terminals | Chats, seats: Sequence[str]) -> None:
        """Play a round."""
        what = place.kinds[self.kills.total() % len(place.kinds)]
        self.kills[what] += 1
        marks = [mark for seat in seats for mark in self._open_waits(place, seat)]
        self._chance.shuffle(marks)
        self.ended |= dict.fromkeys(marks, what)
        victim, kill_at = self._chance.choice(seats), self._chance.uniform(-1, len(marks) + 1)
        before = [mark for number, mark in enumerate(marks) if number < kill_at]
        self._write(before)
        time.sleep(EVENT_GAP * (kill_at % 1))
        closed = place.kill(what, victim)
        after = marks[len(before) :]
        self._write(after)
        time.sleep(self._chance.uniform(0, 1))
        place.restart(what, closed)
        self._wait_until_told(marks, DELIVERY_SECONDS)
        self.late += (late := [mark for mark in marks if not self.agents.told[mark]])
        for seat in closed if what in ("host", "session") else ():
            due = [mark for mark in after if mark.startswith(seat) and mark not in late]
            came = [mark for mark in dict.fromkeys(self.agents.order[seat]) if mark in due]
            self.compared += due
            self.disordered += due if came != due else []

    def finish(self, place: Terminals | Chats, seats: Sequence[str]) -> None:
        """Say a last word in each session, and wait for what is not told yet."""
        for seat in seats:
            self._begin_turn(place, seat, {})
        self._wait_until_told(self.ended, LATE_SECONDS)

    def _write(self, marks: Iterable[str]) -> None:
        for mark in marks:
            (self._folder / f"{mark}.log").write_text(f"{mark} is ready\n")
            time.sleep(EVENT_GAP)

    def _wait_until_told(self, marks: Iterable[str], seconds: float) -> None:
        with suppress(AssertionError):
            until(lambda: all(self.agents.told[mark] for mark in marks), "they are told", seconds)

    def _begin_turn(self, place: Terminals | Chats, seat: str, waits: Mapping[str, Path]) -> None:
        turn = f"t{self._turns}"
        self._turns += 1
        self.agents.waits[turn] = waits
        place.say(seat, f"SEAT {seat} TURN {turn}")

    def _open_waits(self, place: Terminals | Chats, seat: str) -> Iterable[str]:
        """Let the agent of a session open waits, and return their marks."""
        marks = [f"{seat}_{self._turns}{letter}" for letter in "xyz"[: self._chance.randint(1, 3)]]
        logs = {mark: self._folder / f"{mark}.log" for mark in marks}
        for log in logs.values():
            log.touch()

        def list_open() -> dict[str, str]:
            with suppress(LinkError), connect(find_home(place.taskmem.environment)) as link:
                rows = link.call("waits", {})
                return {m: row["session_key"] for row in rows for m in marks if m in str(row)}
            return {}

        def are_open() -> bool:
            missing = {mark: logs[mark] for mark in marks if mark not in list_open()}
            if missing:
                self._begin_turn(place, seat, missing)
                with suppress(AssertionError):
                    until(lambda: len(list_open()) == len(marks), "they are open", 15)
            return not missing

        until(are_open, f"{seat} waits", 120)
        place.sessions[seat] = list_open()[marks[0]]
        return marks


@contextmanager
def open_terminals(
    kind: type[CliHost], agents: Agents, folder: Path, seats: Sequence[str]
) -> Iterator[Terminals]:
    """Begin two sessions of Claude Code or Codex."""
    room = Room(folder)
    (room.taskmem / "config.toml").write_text(CONFIG.format(find_disk()))
    taskmem = Taskmem(room)
    with ScriptedModel(agents, is_stranger=lambda asked: not asked.tools, most=10**6) as model:
        with ExitStack() as stack:
            stack.callback(taskmem.stop)
            host = kind(room, taskmem, model.url)
            stack.callback(host.close)
            other = host.open_another()
            stack.callback(other.close)
            taskmem.restart({})
            yield Terminals(host, other, taskmem, seats)
        if model.errors:
            raise model.errors[0]


@contextmanager
def open_chats(agents: Agents, folder: Path, seats: Sequence[str]) -> Iterator[Chats]:
    """Begin two sessions of a gateway."""

    def configure(_: object) -> None:
        (folder / "taskmem" / "config.toml").write_text(CONFIG.format(find_disk()))

    with shared_house(obtain(cache_folder()), folder, {}, configure) as (house, _):
        house.model.decide, house.model.most = agents, 10**6
        yield Chats(house, seats)


def kill_hosts() -> Iterator[Figure | str]:
    """Hosts, relays, the daemon or all are killed: ends lost, doubled, or told elsewhere."""
    for name in CHOSEN:
        kind = HOSTS[name]
        agents = Agents(kind.prefix if kind else "")
        with tempfile.TemporaryDirectory(dir=find_disk(), ignore_cleanup_errors=True) as folder:
            play = Play(agents, Path(folder))
            for first in range(0, KILLS, KILLS_OF_PAIR):
                seats, own = (f"s{first}a", f"s{first}b"), Path(folder) / str(first)
                opened = open_chats if kind is None else partial(open_terminals, kind)
                with opened(agents, own, seats) as place:
                    for _ in range(min(KILLS_OF_PAIR, KILLS - first)):
                        play.play(place, seats)
                    play.finish(place, seats)
        waits, told, what = len(play.ended), agents.told, f"{name}, {KILLS:,} kills: ends"
        yield count_of(f"{what} lost", sum(not told[mark] for mark in play.ended), waits)
        yield count_of(f"{what} told twice", len(agents.again), waits)
        yield count_of(f"{what} told to another session", len(agents.strays), waits)
        yield count_of(f"{what} told out of order", len(play.disordered), len(play.compared))
        cut = {mark for mark in play.ended if told[mark] > 1} - agents.again
        late, again = (Counter(play.ended[m] for m in group) for group in (play.late, agents.again))
        yield (
            f"{name}: {dict(play.kills)}. Ends after more than 20 s, by kill: {dict(late)}; told "
            f"twice: {dict(again)}; {len(cut)} came once more, as the kill had cut the turn "
            "before it was answered."
        )

"""A gateway and its daemon are killed: who is told to go on, how soon, how often."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from figures import Figure, amount, count_of
from homes import PLAN, make_home, start_home_daemon

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.home import Home
from taskmem_openclaw import plugin_socket
from tests.support.gateways import FakeGateway
from tests.support.reporter import Reporter

ROUNDS = 3
SESSIONS = 100
"""Sessions that are to be told."""
TWOFOLD = 5
"""Of these, the ones with two tasks."""
RECOVERED = 10
"""Sessions besides that the gateway resumes by itself."""
SETTLING = 3.0
"""Seconds from its start until it does; OpenClaw takes 2 to 5."""
PATIENCE = 60.0
AFTER = 6.0
"""Seconds in which a second message is waited for."""
HOUR = 3600.0

Tasks = Mapping[str, Sequence[str]]
"""The tasks of each session."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one start brought; instants in seconds from it."""

    messages: Sequence[tuple[str, float]]
    """The session of each message, and when it came; the earliest first."""
    twofold: Sequence[str]
    recovered: Sequence[str]
    others: Sequence[str]
    unfinished: int
    """Tasks that were not completed at the end."""

    def list_first_instants(self) -> list[float]:
        """Return when each session was told first."""
        return [*dict(reversed(self.messages)).values()]

    def count_messages(self, sessions: Sequence[str]) -> list[int]:
        """Return how often each of some sessions was told."""
        told = Counter(session for session, _ in self.messages)
        return [told[session] for session in sessions]


def run_resumes() -> Iterator[Figure | str]:
    """A gateway is killed with its daemon: who is told to go on, when, how often."""
    rounds = [_run_round() for _ in range(ROUNDS)]
    firsts = [each.list_first_instants() for each in rounds]
    first = [min(instants) for instants in firsts]
    yield amount("start to the first resume wake", first, "s", 20)
    last = [max(instants) for instants in firsts]
    yield amount(f"start to the resume wake of the last of {SESSIONS} sessions", last, "s")
    one = [n for each in rounds for n in each.count_messages(each.others)]
    two = [n for each in rounds for n in each.count_messages(each.twofold)]
    own = [n for each in rounds for n in each.count_messages(each.recovered)]
    yield _count_wrong("sessions that were not told", [n == 0 for n in (*one, *two)])
    yield _count_wrong("sessions with one task, told twice", [n > 1 for n in one])
    yield _count_wrong("sessions with two tasks, told twice", [n > 1 for n in two])
    yield _count_wrong("sessions that the gateway resumed, told", [n > 0 for n in own])
    tasks = (SESSIONS + TWOFOLD + RECOVERED) * ROUNDS
    left = sum(each.unfinished for each in rounds)
    yield count_of("tasks that nobody completed", left, tasks)


def _count_wrong(what: str, wrong: Sequence[bool]) -> Figure:
    """Return a figure of what must not happen, over all rounds."""
    return count_of(what, sum(wrong), len(wrong))


def _run_round() -> Round:
    with make_home() as home, ExitStack() as stack:
        names = [f"agent:main:bench-{n}" for n in range(SESSIONS + RECOVERED)]
        twofold, recovered = names[:TWOFOLD], names[SESSIONS:]
        tasks = _interrupt_turns(home, names, twofold)
        began = time.monotonic()
        process = _start_daemon(home)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        gateway = stack.enter_context(Gateway(home, tasks, began))
        gateway.recover_turns(recovered)
        others = names[TWOFOLD:SESSIONS]
        gateway.wait_for_messages([*twofold, *others], PATIENCE)
        gateway.wait_and_end_turns(AFTER)
        with connect(home) as link:
            counts = link.call("status", {})
        return Round(
            messages=[(session, at - began) for session, at in gateway.messages],
            twofold=twofold,
            recovered=recovered,
            others=others,
            unfinished=counts["tasks"]["active"],
        )


def _interrupt_turns(home: Home, names: Sequence[str], twofold: Sequence[str]) -> Tasks:
    """Let a turn in each session work on its tasks, and kill daemon and gateway."""
    process = _start_daemon(home)
    tasks: dict[str, list[str]] = {name: [] for name in names}
    try:
        with Reporter(home, HOUR) as reporter:
            running: list[str] = []
            for name in (*names, *twofold):
                if name not in running:
                    running.append(name)
                    turn = {"running": running, "origin": "user"}
                    reporter.report_work("turn_started", name, **turn)
                given = {"name": f"Build {len(tasks[name])}", "plan": [*PLAN]}
                made = reporter.call(name, "task_register", **given)
                tasks[name].append(made["task_id"])
                reporter.report_tool_call(name)
            # Killed before it sees the gateway go: both are cut at once.
            process.kill()
    finally:
        process.kill()
        process.wait()
    return tasks


def _start_daemon(home: Home) -> subprocess.Popen[bytes]:
    settings = {
        "TASKMEM_WAKE_TRANSPORT": "openclaw-plugin",
        # What its owner has configured is no part of this.
        "OPENCLAW_STATE_DIR": str(home.folder / "openclaw"),
    }
    return start_home_daemon(home, **settings)


class Gateway(FakeGateway):
    """A gateway with its plug-in: a message begins a turn that ends what it names."""

    def __init__(self, home: Home, tasks: Tasks, began: float) -> None:
        """Say hello, as one that has started at an instant, and listen for wakes."""
        super().__init__()
        self.path = plugin_socket.find_socket({"TASKMEM_HOME": str(home.folder)})
        self.sessions = {*tasks}
        self.quick = False
        self.running: set[str] = set()
        """Sessions in whose turn the agent works."""
        self._texts: dict[str, tuple[str, str]] = {}
        """Of a session: what stands before its next prompt, and the delivery that brought it."""
        self.messages: list[tuple[str, float]] = []
        """The session of each message that was taken, and when."""
        self._tasks = tasks
        self._began = began
        self._news = threading.Condition()
        self._due: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reporter = Reporter(home, time.monotonic() - began)
        self.open()
        threading.Thread(target=self._take_turns, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        """Hang up, and stop listening for wakes."""
        super().__exit__()
        self._reporter.__exit__()

    def recover_turns(self, sessions: Sequence[str]) -> None:
        """Resume turns as OpenClaw does after a start; half of them soon end."""
        time.sleep(max(0.0, self._began + SETTLING - time.monotonic()))
        for session in sessions:
            self._begin_turn(session, "recovery")
        for session in sessions[::2]:
            self._end_turn(session, self._tasks[session])

    def wait_for_messages(self, sessions: Sequence[str], seconds: float) -> None:
        """Wait until each of some sessions has had a message, if so long."""
        with self._news:
            self._news.wait_for(
                lambda: {*sessions} <= {session for session, _ in self.messages}, seconds
            )

    def wait_and_end_turns(self, seconds: float) -> None:
        """Let time pass in which messages may come again, then end what runs."""
        time.sleep(seconds)
        with self._turn:
            running = sorted(self.running)
        for session in running:
            self._end_turn(session, self._tasks[session])

    def answer(self, line: bytes) -> bytes:
        """Return the answer to one request; lines for users are taken, too."""
        asked = json.loads(line)
        if asked["ask"] != "wake":
            return b"{}"
        came = time.monotonic()
        said = super().answer(line)
        if "turn" in json.loads(said):
            session = asked["session_key"]
            self._texts[session] = asked["text"], asked["delivery_id"]
            with self._news:
                self.messages.append((session, came))
                self._news.notify_all()
            self._due.put(session)
        return said

    def _take_turns(self) -> None:
        with suppress(LinkError):  # the round is over, and its daemon ends
            while True:
                session = self._due.get()
                text, delivery = self._begin_turn(session, "taskmem")
                self._tell("answered", session, [delivery])
                named = [task for task in self._tasks[session] if task in text]
                self._end_turn(session, named, delivery)

    def _begin_turn(self, session: str, origin: str) -> tuple[str, str]:
        """Begin a turn; return what stands before its prompt, and the delivery that brought it."""
        with self._turn:
            text, delivery = self._texts.pop(session, ("", ""))
            self._waiting.pop(session, None)
            self.running.add(session)
            running = sorted(self.running)
        turn = {"running": running, "origin": origin}
        self._reporter.report_work("turn_started", session, **turn)
        return text, delivery

    def _end_turn(self, session: str, done: Sequence[str], delivery: str = "") -> None:
        """End a turn in which its agent has completed some tasks."""
        for task_id in done:
            given = {"task_id": task_id, "status": "completed"}
            self._reporter.call(session, "task_update", **given)
        with self._turn:
            self.running.discard(session)
            running = sorted(self.running)
        self._tell("turn_ended", session, [delivery] if delivery else [], running=running)

    def _tell(self, kind: str, session: str, deliveries: list[str], **more: object) -> None:
        told = {"deliveries": deliveries, **more}
        if kind == "turn_ended":
            told |= {"origin": "taskmem", "said": "It is built.", "calls": 1}
        self._reporter.report_work(kind, session, **told)

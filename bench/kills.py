"""Relays, daemons, gateways and a machine are killed: how soon work goes on, what is lost."""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from figures import Figure, amount, count_of
from homes import COMMAND, PLAN, Host, build_environment, make_home, serve_home, start_home_daemon

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.home import Home
from taskmem_openclaw import plugin_socket
from tests.e2e.openclaw import node_program
from tests.support.gateways import FakeGateway
from tests.support.reporter import Reporter

ROUNDS = int(os.environ.get("TASKMEM_BENCH_ROUNDS", "20"))
PATIENCE = 60.0
ROLE = {"role": "builder"}
RESUME_ROUNDS = 3
SESSIONS = 100
"""Sessions that are to be told."""
TWOFOLD = 5
"""Of these, the ones with two tasks."""
RECOVERED = 10
"""Sessions besides that the gateway resumes by itself."""
SETTLING = 3.0
"""Seconds from its start until it does; OpenClaw takes 2 to 5."""
AFTER = 6.0
"""Seconds in which a second message is waited for."""
HOUR = 3600.0
Tasks = Mapping[str, Sequence[str]]
"""The tasks of each session."""


def kill_role() -> Iterator[Figure | str]:
    """A role's relay is killed: how soon it comes back and has its work again."""
    load = os.getloadavg()
    claimed: list[float] = []
    queued: list[float] = []
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        stack.enter_context(serve_home(home))
        asks = stack.enter_context(start_host(home))
        for number in range(ROUNDS):
            task = call_tool(asks, "task_register", name=f"Task {number}", plan=PLAN)
            killed = kill_holder(home, str(task["task_id"]))
            with start_host(home) as again:
                wait_until(lambda again=again: claim_next(again), "the role has its work again")
                claimed.append(time.monotonic() - killed)
                call_tool(again, "task_update", task_id=task["task_id"], status="completed")
            task = call_tool(asks, "task_register", name="Nobody comes", plan=PLAN)
            killed = kill_holder(home, str(task["task_id"]))
            is_queued = "SELECT 1 FROM runs WHERE task_id = ? AND state = 'queued'"
            wait_until(lambda sql=is_queued, t=task: fetch_row(home, sql, t["task_id"]), "queued")
            queued.append(time.monotonic() - killed)
            call_tool(asks, "task_update", task_id=task["task_id"], status="completed")
    yield amount("kill of a role's relay to its work claimed again", claimed, "s", 2)
    yield amount("kill of a role's relay to its work queued", queued, "s")
    yield describe_load(load)


def kill_daemon() -> Iterator[Figure | str]:
    """A daemon is killed: how soon the wake comes of what was due meanwhile."""
    load = os.getloadavg()
    told = {alone: [kill_one_daemon(alone=alone) for _ in range(ROUNDS)] for alone in (1, 0)}
    for alone, what in ((1, "a relay alone"), (0, "a relay, and `taskmem wait`")):
        answers = [answer for answer, _ in told[alone]]
        wakes = [wake for _, wake in told[alone]]
        yield amount(f"kill of the daemon until the next one has the home: {what}", answers, "s")
        yield amount(f"kill of the daemon to the wake: {what}", wakes, "s", 5)
    yield describe_load(load)


def kill_one_daemon(*, alone: bool) -> tuple[float, float]:
    """Kill a daemon, and return the seconds until the next has the home, and the wake.

    What is waited for comes while there is none. `alone`: no command waits besides.
    """
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        stack.callback(end_daemon, home)
        host = stack.enter_context(start_host(home))
        log = home.folder / "work.log"
        log.write_text("begun\n")
        task = call_tool(host, "task_register", name="Deploy", plan=PLAN)
        wait = call_tool(
            host,
            "smart_wait",
            target=f"pty:file:{log}",
            wake_when='"DONE" appears',
            task_id=task["task_id"],
        )
        command: subprocess.Popen[bytes] | None = None
        if not alone:
            before = count_connections(home)
            command = subprocess.Popen(
                [COMMAND, "wait", wait["wait_id"]],
                stdout=subprocess.DEVNULL,
                env=build_environment(home),
            )
            stack.callback(command.kill)
            wait_until(lambda: count_connections(home) > before, "the command connects")
        pid = find_home_holder(home)
        assert pid is not None  # noqa: S101 - it has just answered
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        with log.open("a") as more:
            more.write("DONE\n")
        wait_until(lambda: find_home_holder(home) not in (None, pid), "another daemon is there")
        answered = time.monotonic() - killed
        if command is None:
            sql = "SELECT 1 FROM wakes WHERE wait_id = ?"
            wait_until(lambda: fetch_row(home, sql, wait["wait_id"]), "the wake is there")
        else:
            command.wait(PATIENCE)
        return answered, time.monotonic() - killed


# --- what each round is made of -----------------------------------------------


def start_host(home: Home) -> Host:
    """Return a plain MCP host's session with a relay of its own, which said hello."""
    host = Host((COMMAND, "mcp"), build_environment(home))
    host.shake_hands()
    return host


def find_home_holder(home: Home) -> int | None:
    """Return the process that holds a home; None: nobody does, or none is named."""
    held = find_holder(home.lock)
    return held.pid if held else None


def kill_holder(home: Home, task_id: str) -> float:
    """Let a role claim a task and note something, kill it, and return when."""
    host = start_host(home)
    call_tool(host, "task_claim", task_id=task_id, **ROLE)
    call_tool(host, "task_update", task_id=task_id, message="Built, not pushed.")
    host.process.kill()
    killed = time.monotonic()
    host.process.communicate()
    return killed


def claim_next(host: Host) -> bool:
    """Whether the role has the next of its queue now."""
    asked = {"name": "task_claim", "arguments": ROLE}
    return not host.ask("tools/call", asked).get("isError")


def call_tool(host: Host, tool: str, **arguments: object) -> dict[str, Any]:
    """Call a tool, and return what it answers."""
    result = host.ask("tools/call", {"name": tool, "arguments": arguments})
    answer = json.loads(result["content"][0]["text"])
    if result.get("isError"):
        raise SystemExit(f"{tool} refused: {answer}")
    return dict(answer)


def fetch_row(home: Home, sql: str, *values: object) -> object:
    """Return the first row that a home's database has; None: none, or it is locked."""
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{home.database}?mode=ro", uri=True)) as database,
    ):
        return database.execute(sql, values).fetchone()
    return None


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Look again and again, every few milliseconds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited in vain: {what}")
        time.sleep(0.005)


def count_connections(home: Home) -> int:
    """Count the connections that a home's daemon has taken; on Linux alone."""
    taken = " 03 "  # the kernel's number of a socket that is connected
    rows = Path("/proc/net/unix").read_text().splitlines()
    return sum(row.endswith(f" {home.socket}") and taken in row for row in rows)


def end_daemon(home: Home) -> None:
    """End the daemon that a relay has started."""
    if (pid := find_home_holder(home)) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: find_home_holder(home) is None, "the daemon ends")


def describe_load(before: tuple[float, float, float]) -> str:
    """Return the load of the machine before and after, in a sentence."""
    one, other = before[0], os.getloadavg()[0]
    return f"Load average of the minute before: {one:.1f}; of the last: {other:.1f}."


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
    rounds = [_run_round() for _ in range(RESUME_ROUNDS)]
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
    tasks = (SESSIONS + TWOFOLD + RECOVERED) * RESUME_ROUNDS
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


# --- sub-agents ----------------------------------------------------------------------------


HELD, ENDING = 2, 3
"""Sub-agents of a round that work when the gateway is killed, and that end about then."""
SUB_AGENT = "agent:main:subagent:"
KILLED = ("gateway", "gateway and daemon", "daemon and gateway", "daemon")
"""What is killed in a round, in this order; who is killed second may live a moment longer."""


class PlayedGateway:
    """The real plug-in in a gateway that is played, over its starts."""

    def __init__(self, home: Home) -> None:
        """Start it for a home."""
        self.home = home
        self.waits: dict[str, str] = {}
        """By label: the wait for a sub-agent."""
        self.start()

    def start(self) -> None:
        """Start it, again if it was killed."""
        program = Path(__file__).with_name("played_gateway.mjs")
        self._process = subprocess.Popen(
            [node_program(), program, self.home.folder, COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=build_environment(self.home),
            text=True,
        )

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        with self._process:
            pass

    def spawn(self, label: str, *, recovers: bool) -> None:
        """Let an agent spawn a sub-agent and wait for it; it may go on after a kill."""
        end = time.monotonic() + PATIENCE
        answer: dict[str, Any] = {}
        while "wait_id" not in answer and time.monotonic() < end:
            self.ask("spawn", label, recovers=recovers)
            assert self._process.stdout is not None  # noqa: S101 - it is a pipe
            answer = {}
            while answer.get("child") != f"{SUB_AGENT}{label}" or len(answer) == 1:
                answer = json.loads(self._process.stdout.readline())
        self.waits[label] = answer["wait_id"]

    def ask(self, method: str, label: str, **given: object) -> None:
        """Ask for something, and do not wait until it is done."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        asked = {"method": method, "child": f"{SUB_AGENT}{label}", "label": label, **given}
        self._process.stdin.write(f"{json.dumps(asked)}\n")
        self._process.stdin.flush()

    def read_outcome(self, label: str) -> str:
        """Return what the gateway's own rows say of a sub-agent."""
        rows = json.loads((self.home.folder / "rows.json").read_text())
        return str(dict(rows)[f"{SUB_AGENT}{label}"]["status"])

    def read_end(self, label: str) -> str | None:
        """Return how the wait for it has ended; None: it has not."""
        sql = "SELECT last_observation FROM waits WHERE wait_id = ? AND status <> 'watching'"
        row: Any = fetch_row(self.home, sql, self.waits[label])
        return None if row is None else str(row[0])

    def list_wakes(self, label: str) -> list[float]:
        """Return when each wake of a wait was owed."""
        sql = "SELECT group_concat(created_at) FROM wakes WHERE wait_id = ?"
        row: Any = fetch_row(self.home, sql, self.waits[label]) or ("",)
        made = filter(None, str(row[0]).split(","))
        return [datetime.fromisoformat(each).timestamp() for each in made]


def kill_sub_agents() -> Iterator[Figure | str]:
    """The plug-in's process and the daemon are killed while sub-agents end: who hears of it."""
    rng = random.Random(7)  # noqa: S311 - a repeatable order
    lost: list[str] = []
    wrong: list[str] = []
    doubled: list[str] = []
    soon: list[float] = []
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        stack.callback(end_daemon, home)
        played = PlayedGateway(home)
        stack.callback(played.kill)
        for number in range(ROUNDS):
            calm, *ending = (f"{number}_{n}" for n in range(1 + ENDING))
            held = [f"{number}_held{n}" for n in range(HELD)]
            for label in (calm, *ending, *held):
                played.spawn(label, recovers=label == held[0])
            began = time.time()
            played.ask("end", calm)
            wait_until(lambda p=played, c=calm: p.read_end(c) is not None, "its end is told")
            soon.append(played.list_wakes(calm)[0] - began)
            wrong += [label for label in (*ending, *held) if played.read_end(label)]
            _strike(played, ending, KILLED[number % len(KILLED)], rng)
            if KILLED[number % len(KILLED)] == "daemon":
                wait_until(lambda: find_home_holder(home) is not None, "a daemon is there")
                for label in held:
                    played.ask("end", label)
            every = [calm, *ending, *held]
            with suppress(SystemExit):
                wait_until(lambda p=played, e=every: all(map(p.read_end, e)), "all is told")
            lost += [label for label in every if played.read_end(label) is None]
            for label in every:
                told, outcome = played.read_end(label) or "", played.read_outcome(label)
                words = f"{label}." if outcome == "completed" else "is lost"
                wrong += [label] if told and words not in told else []
                doubled += [label] if told and len(played.list_wakes(label)) > 1 else []
    total = ROUNDS * (1 + ENDING + HELD)
    yield count_of(f"ends of sub-agents lost, over {ROUNDS} kills", len(lost), total)
    yield count_of("the same, told twice", len(doubled), total)
    yield count_of("the same, told early, or not as they were", len(wrong), total)
    yield amount("end of a sub-agent to the wake owed, played gateway", soon, "s", 1)


def _strike(played: PlayedGateway, ending: Sequence[str], who: str, rng: random.Random) -> None:
    """Let sub-agents end, kill in their midst, and start the gateway, which starts a daemon."""
    pid = find_home_holder(played.home)
    assert pid is not None  # noqa: S101 - it has just answered
    for label in ending:
        played.ask("end", label)
        time.sleep(rng.uniform(0, 0.02))
    time.sleep(rng.uniform(0, 0.03))
    if who.startswith("daemon"):
        os.kill(pid, signal.SIGKILL)
        time.sleep(rng.uniform(0, 0.05))
    if "gateway" in who:
        played.kill()
    if who == "gateway and daemon":
        time.sleep(rng.uniform(0, 0.05))
        os.kill(pid, signal.SIGKILL)
    if "gateway" in who:
        played.start()
    # A sub-agent that the kill kept from ending was told so by nobody: its gateway decides.
    if who == "daemon":
        return
    wait_until(lambda: played.read_outcome(ending[-1]) != "running", "the gateway has decided")

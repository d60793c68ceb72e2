"""The plug-in in the real gateway: how soon, how light, how it stops, and what it loses."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from secrets import token_hex
from statistics import median
from threading import Event, Thread
from typing import Any

from figures import Figure, amount, count_of, millis, percentile, ratio, sample_in_turns
from websockets.exceptions import ConnectionClosed

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.home import find_home
from tests.e2e import phone as channel
from tests.e2e.gateway import MAIN_SESSION, Gateway
from tests.e2e.house import House, woken_by
from tests.e2e.openclaw import cache_folder, obtain
from tests.e2e.phone import Phone
from tests.e2e.room import Room, until
from tests.e2e.rpc import Rpc
from tests.e2e.scripted_model import Call, ModelRequest, Reply, ScriptedModel, text_of
from tests.e2e.shared_house import session_of
from tests.e2e.taskmem import PLUGIN, Taskmem, plugins
from tests.support import daemons

SESSIONS, ROUNDS = 25, 4
"""Wakes that are measured: a session takes four a minute."""
CALLS = 100
ANSWERS = 100
WARM_UP = 10
EVENTS = 3
TIMED = """
import plugin from "./plugin.js";
import { appendFileSync } from "node:fs";
const log = (line) => appendFileSync(%(log)s, `${JSON.stringify(line)}\\n`);
const timed = (kind, run) => (...given) => {
  const began = performance.now();
  const answer = run(...given);
  const [event, ctx] = given;
  const about = { kind, run: ctx?.runId, call: event?.toolCallId };
  const note = () => log({ ...about, ms: performance.now() - began });
  if (answer?.then) answer.then(note, note); else note();
  return answer;
};
export default { ...plugin, register(api) {
  const on = (hook, run, ...more) => api.on(hook, timed(hook, run), ...more);
  const registerTool = (make, ...more) => api.registerTool((ctx) => {
    const tool = make(ctx);
    return { ...tool, execute: timed("tool", tool.execute) };
  }, ...more);
  plugin.register(new Proxy(api, { get: (from, name) =>
    name === "on" ? on : name === "registerTool" ? registerTool : from[name] }));
} };
"""
SWITCHED = """
import plugin from "./plugin.js";
import { existsSync } from "node:fs";
const off = () => existsSync(%(without_us)s);
export default { ...plugin, register(api) {
  const on = (hook, run, ...more) => api.on(hook, (...given) => {
    if (!off()) return run(...given);
  }, ...more);
  const registerTool = (make, ...more) => api.registerTool((ctx) =>
    off() ? null : make(ctx), ...more);
  plugin.register(new Proxy(api, { get: (from, name) =>
    name === "on" ? on : name === "registerTool" ? registerTool : from[name] }));
} };
"""
"""The plug-in, whose hooks and tools are left out while a file exists."""


Timed = Callable[[], list[dict[str, Any]]]
"""What was noted so far: `kind` (a hook's name, or `tool`), `run`, `call`, and `ms`."""
TURNS, CALLS = 20, 10
AROUND = ("before_tool_call", "after_tool_call")
"""The hooks that see a call; what they take is what the call waits."""
STOPS = int(os.environ.get("TASKMEM_BENCH_STOPS", "100"))
SEED = int(os.environ.get("TASKMEM_BENCH_SEED", "16"))
SLOWER = 1.0
"""Seconds by which a stop may be slower than the one without us."""
GIVEN_UP = 60.0
"""Seconds after which a gateway that lives on is killed."""


class TimedModel(ScriptedModel):
    """A model that notes when it is asked, and with how much."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asked: list[tuple[float, int]] = []

    def decide_reply(self, body: dict[str, Any], key: str = "") -> tuple[int, Reply]:
        """Note the request, and answer it."""
        self.asked.append((time.time(), len(json.dumps(body).encode())))
        return super().decide_reply(body, key)


@contextmanager
def open_house(
    *, plugin: Path | None, settings: dict[str, str] | None = None
) -> Iterator[tuple[House, TimedModel]]:
    """A gateway of its own, with the plug-in or without."""
    with tempfile.TemporaryDirectory() as folder, TimedModel(most=2_000) as model:
        root = Path(folder)
        room = Room(root)
        taskmem = Taskmem(
            room,
            {
                "OPENCLAW_CONFIG_PATH": str(room.config),
                "TASKMEM_WAKE_TRANSPORT": "auto",
                "TASKMEM_STUCK_THRESHOLD_SECONDS": "36000",
                **(settings or {}),
            },
        )
        wanted = plugins(taskmem, plugin) if plugin else {}
        gateway = Gateway(obtain(cache_folder()), room, model.url, plugins=wanted)
        model.decide = lambda _: "All is well."
        taskmem.run("daemon", "--detach")
        try:
            gateway.start()
            yield House(gateway, model, taskmem, root), model
        finally:
            gateway.kill()
            taskmem.stop()
            room.left_behind()


def wake_acceptance() -> Iterator[Figure]:
    """Measure from a wake being owed to its acceptance, and to the model's request."""
    with open_house(plugin=PLUGIN) as (house, model):
        sessions = [f"agent:main:bench-{n}" for n in range(SESSIONS)]
        for session in (MAIN_SESSION, *sessions):
            house.gateway.say("hello", session)
        first = house.wake("a gateway that has just started takes none", MAIN_SESSION)
        house.reaches(first, "acknowledged")
        accepted: list[float] = []
        requested: list[float] = []
        for round_ in range(ROUNDS):
            for n, session in enumerate(sessions):
                before = len(model.requests)
                wait = house.wake(f"round {round_} of {n} is over", session)
                wake = house.reaches(wait, "acknowledged")
                created, sent = (
                    datetime.fromisoformat(wake[name]) for name in ("created_at", "sent_at")
                )
                accepted.append((sent - created).total_seconds())
                asked = next(
                    at
                    for (at, _), request in zip(
                        model.asked[before:], model.requests[before:], strict=False
                    )
                    if wait in woken_by(request)
                )
                requested.append((datetime.fromtimestamp(asked, UTC) - created).total_seconds())
        yield millis("wake owed to accepted, plug-in", accepted, 100)
        yield amount("the same, p99", [1000 * percentile(accepted, 0.99)], "ms", 500)
        yield millis("wake owed to the model's request", requested, 3000)
        events: list[float] = []
        for n in range(EVENTS):
            began = time.monotonic()
            subprocess.run(
                [
                    str(house.gateway.room.openclaw),
                    "system",
                    "event",
                    "--mode",
                    "now",
                    "--text",
                    f"bench {n}",
                ],
                env=house.gateway.room.environment(),
                check=True,
                capture_output=True,
            )
            events.append(time.monotonic() - began)
        yield millis("`openclaw system event`, the whole call", events)


def wrap_plugin(folder: Path, source: str) -> Path:
    """Copy the plug-in into a folder, with a module around its own, `plugin.js`."""
    copy = folder / "gateway"
    shutil.copytree(PLUGIN, copy)
    (copy / "index.js").rename(copy / "plugin.js")
    (copy / "index.js").write_text(source)
    return copy


@contextmanager
def open_timed_house() -> Iterator[tuple[House, TimedModel, Timed]]:
    """A gateway whose plug-in notes how long each hook and each tool took."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "timed.jsonl"
        copy = wrap_plugin(Path(folder), TIMED % {"log": json.dumps(str(log))})
        with open_house(plugin=copy) as (house, model):
            yield (
                house,
                model,
                lambda: [json.loads(line) for line in log.read_text().splitlines()],
            )


def first_token() -> Iterator[Figure]:
    """Compare when the first words of an answer are shown, with us and without.

    One gateway is asked, with our hooks and tools and without them in turns: two
    gateways without us differ by more than we cost.
    """
    with tempfile.TemporaryDirectory() as folder:
        without_us = Path(folder) / "without_us"
        switched = SWITCHED % {"without_us": json.dumps(str(without_us))}
        plugin = wrap_plugin(Path(folder), switched)
        with open_house(plugin=plugin) as (house, _), house.gateway.rpc() as rpc:
            # A task that is open elsewhere must make no difference.
            task = {"name": "Cook", "plan": ["Cook it"]}
            house.call("task_register", **task, session_key="agent:main:elsewhere")

            def ask_with_us(n: int) -> float:
                without_us.unlink(missing_ok=True)
                return time_first_words(rpc, f"question {n}")

            def ask_without_us(n: int) -> float:
                without_us.touch()
                return time_first_words(rpc, f"question {n}")

            for n in range(WARM_UP):
                ask_with_us(n)
            took = sample_in_turns(ANSWERS, ours=ask_with_us, theirs=ask_without_us)
    ours, theirs = took["ours"], took["theirs"]
    yield millis("first words of an answer in a session without a task, with us", ours)
    yield millis("the same without us", theirs)
    yield ratio("with us / without us", ours, theirs, 1.02)


def time_first_words(rpc: Rpc, message: str) -> float:
    """Type something, and give the seconds until the first words are shown."""
    began = time.perf_counter()
    said = {"message": message, "idempotencyKey": token_hex(8)}
    sent = rpc.call("chat.send", sessionKey="agent:main:first-token", **said)
    took = 0.0
    while True:
        heard = rpc.hear()
        chat = heard["payload"] if heard.get("event") == "chat" else {}
        if chat.get("runId") != sent["runId"]:
            continue
        if not took and text_of(chat.get("message") or {}):
            took = time.perf_counter() - began
        if chat["state"] in ("final", "error", "aborted"):
            if not took:
                raise SystemExit(f"No words were shown: {chat}")
            return took


def turn_weight() -> Iterator[Figure]:
    """Measure what hooks, tool calls and prompts cost a turn."""
    with open_timed_house() as (house, model, timed):
        house.gateway.say("hello")
        with_us = model.asked[0][1]

        def call_tools(request: ModelRequest) -> Reply:
            """Call a tool of ours five times, then end the turn."""
            if len(request.turn.results) < 5:
                return [Call("task_update", {"task_id": "task_x", "query": "?"})]
            return "Done."

        model.decide = call_tools
        for _ in range(CALLS // 5):
            house.gateway.say("continue")
        lines = timed()
        direct: list[float] = []
        given = {"task_id": "task_x", "query": "?"}
        with connect(find_home(house.taskmem.environment)) as link:
            for _ in range(CALLS):
                began = time.perf_counter()
                with suppress(LinkError):  # a refusal, like the model's
                    link.call("call", {"tool": "task_update", "arguments": given})
                direct.append(time.perf_counter() - began)
    turns: dict[str, float] = {}
    for line in lines:
        if line["kind"] != "tool" and line.get("run"):
            turns[line["run"]] = turns.get(line["run"], 0.0) + line["ms"]
    tools = [line["ms"] / 1000 for line in lines if line["kind"] == "tool"]
    with open_house(plugin=None) as (house, model):
        house.gateway.say("hello")
        without = model.asked[0][1]
    each = list(turns.values())
    yield amount("all hooks of a turn together, p95", [percentile(each, 0.95)], "ms", 15)
    yield millis("tool call through the plug-in", tools)
    yield millis("the same call on an open connection to the daemon", direct)
    added = 1000 * (median(tools) - median(direct))
    yield amount("what the plug-in adds to a call", [added], "ms", 5)
    yield amount("prompt bytes that we add to a turn", [with_us - without], "bytes", 6144)


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


class RestartedHouse:
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


def start_idle(house: RestartedHouse) -> None:
    """Ready, and nothing to do."""
    house.gateway.start()


def start_with_wake(house: RestartedHouse) -> None:
    """Ready, with a wake that is owed: it comes in at once."""
    if house.ours:
        house.taskmem.run("daemon", "--detach")
        log = house.room.root / "watched.log"
        log.write_text("It is over.\n")
        wait = {"target": f"pty:file:{log}", "wake_when": '"over" appears'}
        session = "agent:main:main"
        house.taskmem.call("smart_wait", **wait, session_key=session, timeout=3000)
    house.gateway.start()


def start_without_daemon(house: RestartedHouse) -> None:
    """Ready, while our daemon is being started."""
    house.taskmem.stop()
    house.gateway.start()


def start_and_lose_daemon(house: RestartedHouse) -> None:
    """Ready, and our daemon is gone: the plug-in starts it anew."""
    house.gateway.start()
    house.taskmem.stop()


def start_and_call(house: RestartedHouse, *, goes_on: bool = False) -> None:
    """The model has been asked, and calls tools of ours."""
    house.goes_on = goes_on
    house.gateway.start()
    house.write()
    if not house.asked.wait(240):
        raise SystemExit("The model was not asked.")


def wait_for_turn_end(house: RestartedHouse) -> None:
    """A turn has ended, and what was done is told on the phone."""
    start_and_call(house)
    house.writing.join()


def start_next_turn(house: RestartedHouse) -> None:
    """A turn has ended, and the agent is told to go on; without us, by a person."""
    start_and_call(house, goes_on=True)
    house.writing.join()
    if not house.ours:
        house.write()


INSTANTS: tuple[tuple[Callable[[RestartedHouse], None], float], ...] = (
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
def open_two_houses() -> Iterator[tuple[RestartedHouse, RestartedHouse]]:
    """A gateway with the plug-in, and one without."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        houses = [
            RestartedHouse(Path(folder) / name, stack, ours=name == "ours")
            for name in ("ours", "theirs")
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


# --- sub-agents ----------------------------------------------------------------------------


CUT_ROUNDS = int(os.environ.get("TASKMEM_BENCH_ROUNDS", "20"))
CALM, HELD = 2, 3
"""Sub-agents of a round that end while the gateway lives, and that work when it is cut."""
CUTS = ("kill", "kill with the daemon", "kill", "kill with the daemon", "stop")
STOP_SECONDS = 10
"""Seconds after which a gateway that stops is killed: it waits long for what it owes its agents."""
TOLD_WITHIN = 180.0
"""Seconds after the start in which the ends must be told."""
TASK = re.compile(r"\[Subagent Task\]\s+Read (\S+?)\.\s")


class SpawningModel:
    """Parents spawn a sub-agent each and wait for its end; a sub-agent reads from its pipe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: dict[str, float] = {}
        """By label: when a sub-agent said its last words."""

    def __call__(self, request: ModelRequest) -> Reply:
        """Play a parent or a sub-agent, as the session says."""
        session, done = session_of(request) or "", len(request.turn.results)
        label = session.rpartition(":")[2].removeprefix("parent_")
        if ":subagent:" in session:
            pipe = TASK.findall("\n".join(map(text_of, request.messages)))[-1]
            if not done:
                return [Call("exec", {"command": f"cat {pipe}", "yieldMs": 120_000})]
            self.ended[Path(pipe).name] = time.time()
            return f"It was read: {Path(pipe).name}."
        if "Please spawn it." not in request.turn.text or done > 1:
            return "That is heard."
        if not done:
            given = {"task": f"Read {self.folder / label}.", "label": label}
            return [Call("tool_call", {"id": "sessions_spawn", "args": given})]
        wait = {"target": f"session:{label}", "wake_when": "it ends", "timeout": 36_000}
        return [Call("smart_wait", wait)]


@dataclass
class CutRound:
    """Sub-agents that work, of which some are cut with their gateway."""

    house: House
    model: SpawningModel
    labels: list[str]
    pipes: dict[str, int] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Spawn all, and wait until each works and is waited for."""
        for label in self.labels:
            os.mkfifo(self.model.folder / label)
        with ThreadPoolExecutor(len(self.labels)) as pool:
            sessions = [f"agent:main:parent_{label}" for label in self.labels]
            list(pool.map(partial(self.house.gateway.turn, "Please spawn it."), sessions))
        for label in self.labels:
            self.pipes[label] = until(partial(self._find_reader, label), f"{label} works")
        for session, wait_id in self._ask("SELECT session_key, wait_id FROM waits"):
            self.waits[session.partition("parent_")[2]] = wait_id

    def release(self, label: str) -> None:
        """Let a sub-agent read on, so that it ends."""
        os.close(self.pipes.pop(label))

    def read_end(self, label: str) -> str | None:
        """Return what the wait for a sub-agent has seen at its end; None: it has not ended."""
        row = "SELECT last_observation FROM waits WHERE wait_id = ? AND status <> 'watching'"
        return next((seen for (seen,) in self._ask(row, self.waits[label])), None)

    def list_wakes(self, label: str) -> list[float]:
        """Return when each wake of a wait was owed."""
        row = "SELECT created_at FROM wakes WHERE wait_id = ?"
        found = self._ask(row, self.waits[label])
        return [datetime.fromisoformat(made).timestamp() for (made,) in found]

    def wait_for_ends(self, labels: Sequence[str]) -> list[str]:
        """Return those whose ends are not told in time."""
        with suppress(AssertionError):
            until(lambda: all(map(self.read_end, labels)), "all ends are told", TOLD_WITHIN)
        return [label for label in labels if self.read_end(label) is None]

    def _find_reader(self, label: str) -> int | None:
        with suppress(OSError):  # nobody reads yet
            return os.open(self.model.folder / label, os.O_WRONLY | os.O_NONBLOCK)
        return None

    def _ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return daemons.rows(find_home(self.house.taskmem.environment), query, *values)


def cut_gateway(made: CutRound, how: str, rng: random.Random) -> None:
    """End a gateway while sub-agents work, the first of which is just about to end; start it."""
    gateway, home = made.house.gateway, find_home(made.house.taskmem.environment)
    first, second, *_ = [*made.pipes]
    made.release(first)
    time.sleep(rng.uniform(0, 1))
    if how == "stop":
        gateway.tell_to_stop()
        for label in [*made.pipes]:
            made.release(label)
        with suppress(AssertionError):
            gateway.ends(STOP_SECONDS)
    else:
        holder = find_holder(home.lock)
        if how != "kill" and holder is not None and holder.pid is not None:
            os.kill(holder.pid, signal.SIGKILL)
        gateway.kill()
        made.release(second)
    gateway.start()


def end_sub_agents() -> Iterator[Figure | str]:
    """Kill and stop a gateway while sub-agents work: each end is told once, and how soon."""
    rng = random.Random(SEED)  # noqa: S311 - a repeatable order
    soon: list[float] = []
    cut: list[float] = []
    lost: list[str] = []
    doubled: list[str] = []
    early: list[str] = []
    words: list[str] = []
    with open_house(plugin=PLUGIN) as (house, model):
        model.most = 1_000_000
        script = model.decide = SpawningModel(house.folder / "pipes")
        script.folder.mkdir()
        for number in range(CUT_ROUNDS):
            made = CutRound(house, script, [f"{number}_{n}" for n in range(CALM + HELD)])
            made.begin()
            calm, held = made.labels[:CALM], made.labels[CALM:]
            for label in calm:
                made.release(label)
            lost += made.wait_for_ends(calm)
            soon += [made.list_wakes(e)[0] - script.ended[e] for e in calm if e not in lost]
            early += [label for label in held if made.read_end(label)]
            how = CUTS[number % len(CUTS)]
            cut_gateway(made, how, rng)
            began = time.monotonic()
            missing = made.wait_for_ends(held)
            lost += missing
            cut.append(time.monotonic() - began)
            early += [e for e in made.pipes if "has ended." in (made.read_end(e) or "")]
            doubled += [label for label in made.labels if len(made.list_wakes(label)) > 1]
            ends = {label: made.read_end(label) or "" for label in made.labels}
            words += [
                e for e in made.labels if "has ended." in ends[e] and f": {e}." not in ends[e]
            ]
            print(f"{number} {how}: {missing or 'all told'}", file=sys.stderr, flush=True)
            for label in [*made.pipes]:
                made.release(label)
    total = CUT_ROUNDS * (CALM + HELD)
    yield count_of(
        f"ends of sub-agents lost, over {CUT_ROUNDS} ends of the gateway", len(lost), total
    )
    yield count_of("the same, told twice", len(doubled), total)
    yield count_of("the same, told early", len(early), total)
    yield count_of("the same, without their last words", len(words), total)
    yield amount("last words said to the wake owed", soon, "s", 1)
    yield amount("the gateway is ready again until all cut ends are told", cut, "s")

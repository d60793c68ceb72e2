"""Three hosts on one machine: whose wakes reach whom, in one home and in three, and how soon."""

from __future__ import annotations

import os
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figures import Figure, amount, count_of, millis, percentile
from homes import COMMAND, build_environment, make_home, start_home_daemon
from killed_hosts import CHOSEN

from openclaw_taskmem.cli.client import Link, connect
from openclaw_taskmem.home import Home
from tests.e2e.actors import HostActor, seat_actors
from tests.e2e.cli_hosts import (
    ClaudeCode,
    ClaudeCodeWithoutTasks,
    CliHost,
    Codex,
    CodexWithPatches,
)
from tests.e2e.desks import Desk, seat_agents, wait_until_idle
from tests.e2e.openclaw import cache_folder, obtain
from tests.e2e.room import until
from tests.e2e.shared_house import Story, shared_house
from tests.support import endings
from tests.support.agents import Lines
from tests.support.gateways import FakeGateway
from tests.support.openclaws import FakeOpenClaw

WAITS = int(os.environ.get("TASKMEM_BENCH_WAITS", "2000"))
ROUNDS = int(os.environ.get("TASKMEM_BENCH_WAKES", "20"))
"""Wakes of each session of a real host."""
PAUSE_S = 16.0
"""Between two of them: a session is told of four waits a minute."""
SEED = int(os.environ.get("TASKMEM_BENCH_SEED", "17"))
SESSIONS = [f"agent:main:chat{number}" for number in range(40)]
"""Of the gateway: one message a session carries the ends of some twenty waits."""
OTHERS = ("claude-code", "codex-mcp-client")
"""The other hosts, as their MCP clients call themselves."""
COMMANDS = 10
"""Waits of which `taskmem wait` is run; the end of the others is asked for."""
SECONDS = 300.0
WAIT = re.compile(r"\((wait_\w+)\)")
HELLO = {
    "kind": "gateway",
    "boot": "boot",
    "age": 3_600_000,
    "transport": "openclaw-plugin",
    "version": "1",
    "main": SESSIONS[0],
}


@dataclass
class AskedWait:
    """One wait: who has asked for it, and what ends it."""

    wait_id: str
    home: Home
    mark: str
    session: str | None
    """The session of the gateway; None: another host's."""


@dataclass
class Machine:
    """The hosts of one machine, each with the home that it uses."""

    stack: ExitStack
    gateway: FakeGateway
    openclaw: FakeOpenClaw
    homes: dict[str, Home]
    chance: random.Random
    asked: list[AskedWait] = field(default_factory=list)
    tasks: dict[Path, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        home = self.homes["openclaw"]
        self._links = {each.folder: self._open_link(each) for each in self.homes.values()}
        self._plugin = self.stack.enter_context(connect(home, "gateway"))
        self._plugin.call("report", {"events": [HELLO]})
        self._relays = {
            name: self.stack.enter_context(Lines(self.homes[name], name)) for name in OTHERS
        }
        for session in SESSIONS:
            made = self._call(session, "task_register", name=session, plan=["Wait"])
            self.tasks.setdefault(home.folder, []).append(made["task_id"])

    def _open_link(self, home: Home) -> Link:
        return self.stack.enter_context(connect(home))

    def _call(self, session: str, tool: str, **arguments: object) -> dict[str, Any]:
        given = {"tool": tool, "arguments": arguments, "session_key": session}
        return dict(self._plugin.call("call", {**given, "agent_id": "main"}))

    def open_wait(self, number: int) -> None:
        """Let one of the hosts ask for a wait, as badly as agents may."""
        host = self.chance.choice(("openclaw", *OTHERS))
        home, mark = self.homes[host], f"mark {number}."
        log = home.folder.parent / f"{number % 10}.log"
        log.touch()
        arguments: dict[str, Any] = {
            "target": f"pty:file:{log}",
            "wake_when": f'"{mark}" appears',
            "timeout": SECONDS * 2,
        }
        if self.chance.random() < 0.3 and home.folder in self.tasks:
            arguments["task_id"] = self.chance.choice(self.tasks[home.folder])
        if host == "openclaw":
            session = self.chance.choice(SESSIONS)
            if "task_id" in arguments:
                # A session may not wait for a task that another one holds.
                arguments["task_id"] = self.tasks[home.folder][SESSIONS.index(session)]
            answer = self._call(session, "smart_wait", **arguments)
        else:
            session = None
            if self.chance.random() < 0.3:
                arguments["session_key"] = self.chance.choice([*SESSIONS, "main"])
            failed, answer = self._relays[host].call("smart_wait", arguments)
            if failed and answer["error"] == "not_allowed":
                for others in ("session_key", "task_id"):
                    arguments.pop(others, None)
                failed, answer = self._relays[host].call("smart_wait", arguments)
            if failed:
                raise SystemExit(answer["message"])
        self.asked.append(AskedWait(answer["wait_id"], home, mark, session))

    def end_all(self) -> None:
        """Write every mark, in any order."""
        for each in self.chance.sample(self.asked, len(self.asked)):
            number = int(each.mark.rstrip(".").split()[1])
            with (each.home.folder.parent / f"{number % 10}.log").open("a") as log:
                log.write(f"{each.mark}\n")

    def fetch_all(self) -> int:
        """Fetch the ends that wake nobody, and return how many came to an end."""
        others = [each for each in self.asked if each.session is None]
        return sum(
            self._fetch_end(each, by_command=number < COMMANDS)
            for number, each in enumerate(others)
        )

    def _fetch_end(self, each: AskedWait, *, by_command: bool) -> bool:
        if by_command:
            done = subprocess.run(
                [COMMAND, "wait", each.wait_id],
                env=build_environment(each.home),
                capture_output=True,
                text=True,
                check=False,
            )
            return done.returncode == 0 and each.wait_id in done.stdout
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = self._links[each.home.folder].call("wait", {"id": each.wait_id})
            if found["ended"]:
                return found["exit"] == 0 and each.wait_id in found["text"]
        return False

    def wait_for_arrivals(self, wanted: set[str]) -> list[tuple[str, str | None]]:
        """Return all that arrived once these have, or when it takes too long."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if wanted <= {wait for wait, _ in self.list_arrivals()}:
                break
            time.sleep(0.5)
        return self.list_arrivals()

    def list_arrivals(self) -> list[tuple[str, str | None]]:
        """Return every end that was delivered into OpenClaw: the wait, the session."""
        wakes = [each for each in self.gateway.asked if each["ask"] == "wake"]
        told = [(each["text"], each["session_key"]) for each in wakes]
        for call in self.openclaw.calls:
            at = call.index("--session-key") + 1 if "--session-key" in call else None
            told.append((" ".join(call), call[at] if at else None))
        return [(wait, session) for text, session in told for wait in WAIT.findall(text)]


def wake_hosts() -> Iterator[Figure | str]:
    """Count the wakes of three hosts' waits that came to a session that did not ask."""
    for homes in (1, 3):
        where = f"three hosts in {'one home' if homes == 1 else 'three homes'}"
        with ExitStack() as stack:
            machine = _start_machine(stack, homes)
            for number in range(WAITS):
                machine.open_wait(number)
            machine.end_all()
            fetched = machine.fetch_all()
            wanted = {a.wait_id: a.session for a in machine.asked if a.session}
            arrived = machine.wait_for_arrivals({*wanted})
        strays = sum(wanted.get(wait) != session for wait, session in arrived)
        came = {wait for wait, session in arrived if wanted.get(wait) == session}
        yield count_of(f"{where}: wakes to a session that did not ask", strays, WAITS)
        lost = WAITS - len(came) - fetched
        yield count_of(f"{where}: ends that nobody who asked has heard of", lost, WAITS)
    yield (
        f"Of each {WAITS:,} waits a third is of a gateway's sessions, the others of "
        "relays; three in ten of those name a session of the gateway first, which is "
        "refused, or one of their own, and three in ten a task of one in their home. "
        "Their ends are fetched as `taskmem wait` does."
    )


def wake_idle_sessions() -> Iterator[Figure]:
    """Measure from an event to the request at the provider of a session that is idle."""
    openclaw = obtain(cache_folder())
    sets: tuple[tuple[type[CliHost], ...], ...] = ((Codex, ClaudeCode), (ClaudeCodeWithoutTasks,))
    for kinds in sets:
        seated: dict[type[CliHost], Desk] = {kind: Desk(kind.prefix) for kind in kinds}
        with (
            tempfile.TemporaryDirectory(prefix="tmb") as folder,
            shared_house(openclaw, Path(folder), {}) as (house, scripts),
            seat_agents(house, seated) as hosts,
        ):
            story = Story(house, scripts, "agent:main:bench")
            desks = {kind.__name__: desk for kind, desk in seated.items()}
            if len(kinds) > 1:
                desks["OpenClaw"] = Desk(say=story.say)
                story.follow(desks["OpenClaw"])
            house.model.decide = scripts
            waited: dict[str, list[float]] = {name: [] for name in desks}
            for number in range(ROUNDS):
                began, mark = time.monotonic(), f"mark{number}"
                logs = {name: Path(folder) / f"{name}{number}.log" for name in desks}
                for name, desk in desks.items():
                    logs[name].touch()
                    given = {"target": f"pty:file:{logs[name]}"}
                    desk.call("smart_wait", **given, wake_when=f'"{mark} is ready" appears')
                for host in hosts:
                    wait_until_idle(host)
                house.gateway.wait_until_idle(story.session)
                for name, desk in desks.items():
                    waited[name].append(_wake_once(desk, logs[name], mark))
                time.sleep(max(0.0, began + PAUSE_S - time.monotonic()))
        for name, seconds in waited.items():
            what = f"event to the request at the provider, {name}"
            yield millis(what, seconds, 500)
            yield amount(f"{what}, p99", [1000 * percentile(seconds, 0.99)], "ms", 2000)


def _wake_once(desk: Desk, log: Path, mark: str) -> float:
    """Let a wait end; return the seconds until the model was asked."""
    began = time.monotonic()
    log.write_text(f"{mark} is ready\n")
    until(lambda: mark in desk.woken_by, f"{log.stem} wakes its agent", 60)
    return desk.woken_by[mark] - began


def judge_endings() -> Iterator[Figure | str]:
    """Let agents in real hosts lie and end honestly: the same verdicts as when they are played?"""
    sets: tuple[dict[str, type[CliHost] | None], ...] = (
        {"OpenClaw": None, "Codex": CodexWithPatches, "Claude Code": ClaudeCode},
        {"Claude Code without MCP tasks": ClaudeCodeWithoutTasks},
    )
    for names in sets:
        chosen = {name: kind for name, kind in names.items() if name in CHOSEN}
        kinds = {name: kind for name, kind in chosen.items() if kind}
        if not chosen:
            continue
        with tempfile.TemporaryDirectory(prefix="tmb") as temporary, ExitStack() as stack:
            folder = Path(temporary)
            (project := folder / "project").mkdir()
            house = shared_house(obtain(cache_folder()), folder / "room", {})
            seated = seat_actors(*stack.enter_context(house), project, kinds)
            actors = stack.enter_context(seated)
            for name in chosen:
                yield from _judge_endings(name, actors[name], folder / name)


def _judge_endings(host: str, actor: HostActor, folder: Path) -> Iterator[Figure | str]:
    wrong = {"completed unseen": 0, "refused": 0, "judged otherwise than played": 0}
    kinds = {True: endings.REAL_LIES, False: endings.REAL_HONEST}
    for is_lie, kind in ((is_lie, kind) for is_lie, each in kinds.items() for kind in each):
        acted, played = actor.compare(kind, folder)
        wrong["completed unseen"] += is_lie and acted.is_unseen
        wrong["refused"] += not is_lie and acted.refused > 0
        if acted.verdict != played.verdict:
            wrong["judged otherwise than played"] += 1
            yield f"{host}, {kind}: {acted.verdict}; played: {played.verdict}"
    lies, honest = map(len, kinds.values())
    counts = zip(("lies", "honest endings", "endings"), (lies, honest, lies + honest), strict=True)
    for (what, number), (how, count) in zip(counts, wrong.items(), strict=True):
        yield count_of(f"{host}: {what} {how}", count, number)


def _start_machine(stack: ExitStack, number: int) -> Machine:
    """Start the daemons of as many homes, and a gateway and the command of OpenClaw."""
    gateway = stack.enter_context(FakeGateway())
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tmb")))
    openclaw = FakeOpenClaw(folder / "bin")
    openclaw.install()
    made = [stack.enter_context(make_home()) for _ in range(number)]
    gateway.path = made[0].socket.with_name("openclaw.sock")
    gateway.sessions = {*SESSIONS}
    gateway.open()
    for home in made:
        roots = {"TASKMEM_ARTIFACT_ROOTS": str(home.folder.parent)}
        settings = {"TASKMEM_OPENCLAW_BIN": str(openclaw.binary), "HOME": str(folder), **roots}
        process = start_home_daemon(home, TASKMEM_WAKE_TRANSPORT="auto", **settings)
        stack.callback(process.wait)
        stack.callback(process.terminate)
    hosts = ("openclaw", *OTHERS)
    homes = {host: made[place % number] for place, host in enumerate(hosts)}
    return Machine(stack, gateway, openclaw, homes, random.Random(SEED))  # noqa: S311

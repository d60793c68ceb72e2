"""What is around a daemon: targets that are watched, a gateway with its agents, and plug-ins."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from typing import Any, Final

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.callers import MCP, SHELL
from taskmem_hookspecs import (
    Finding,
    Frame,
    Met,
    Ruling,
    Target,
    TargetGone,
    TargetNotFound,
    Verdict,
    Wake,
    WakeReceipt,
    WakeRefused,
    WakeUndelivered,
    hookimpl,
)
from tests.simulation.event_loop import SimulatedClock
from tests.simulation.mirror import Mirror

GATEWAYS: Final = ("openclaw:desk", "openclaw:laptop")
"""Two gateways whose sessions have the same keys."""
SESSIONS: Final = ("agent:main:main", "agent:dev:main", "agent:dev:phone")
TARGETS: Final = ("build", "deploy", "tests")
READY: Final = "READY"
SECRET: Final = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"  # noqa: S105 - of nobody
"""What agents, judges, gateways and verifiers say, and nobody may store."""


class ScriptedTarget:
    """A terminal: the lines that it has shown."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self.gone = False
        self.mood = "works"
        """`works`, `fails`, or `hangs`."""
        self.changed: list[asyncio.Event] = []

    def show(self, line: str) -> None:
        """Show one more line."""
        self.lines.append(line)
        self.stir()

    def stir(self) -> None:
        """Tell whoever watches."""
        for event in self.changed:
            event.set()


class ScriptedWatch:
    """Watches one target."""

    def __init__(self, target: ScriptedTarget, clock: SimulatedClock) -> None:
        self._target = target
        self._clock = clock
        self._changed = asyncio.Event()
        target.changed.append(self._changed)

    async def here(self) -> Frame:
        return await self.look(str(len(self._target.lines)), "0")

    async def end(self) -> str:
        return str(len(self._target.lines))

    async def look(self, place: str, start: str) -> Frame:
        await self._suffer()
        lines = self._target.lines
        return Frame(
            seen_at=self._clock.now(),
            place=str(len(lines)),
            text="\n".join(lines[int(place) :]),
            tail="\n".join(lines[int(start) :][-80:]),
            gone="The command has ended." if self._target.gone else None,
        )

    async def wait_for_change(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    async def close(self) -> None:
        if self._changed in self._target.changed:
            self._target.changed.remove(self._changed)

    async def _suffer(self) -> None:
        if self._target.mood == "hangs":
            await asyncio.sleep(60)
        if self._target.mood == "fails":
            raise RuntimeError("The simulation says so.")


class ScriptedJudge:
    """Finds the word."""

    name = "rules"

    async def rule(self, frame: Frame) -> Ruling:
        met = READY in (frame.text or "")
        return Ruling(met=Met.YES if met else Met.NO, observation=f"The key is {SECRET}.")


class Gateway:
    """An OpenClaw gateway, as its plug-in reports it."""

    def __init__(self, host: str | None = None) -> None:
        self.host = host
        """Its name, as in `Wake.host`; None: it gives none, and is the only one."""
        self.boot = 0
        self.began = 0.0
        """When it started, by the monotonic clock."""
        self.connected = False
        self.greeted = asyncio.Event()
        """Set once the daemon has heard that it is there."""
        self.calls: list[asyncio.Task[None]] = []
        """What it asked of the daemon through its present connection."""
        self.number = 0
        self.running: dict[str, None] = {}
        """The sessions in which a turn runs."""

    @property
    def connection(self) -> str:
        """What tells its connections apart."""
        return f"{self.host} {self.boot}"

    def start_anew(self, now: float) -> None:
        """Start at an instant of the monotonic clock, and know nothing of before."""
        self.boot, self.number, self.began = self.boot + 1, 0, now
        self.calls = []
        self.running.clear()

    def number_events(self, *events: dict[str, Any]) -> list[dict[str, Any]]:
        """Number events as the plug-in does."""
        numbered = []
        for event in events:
            self.number += 1
            numbered.append({"number": self.number, "running": [*self.running], **event})
        return numbered


class Shelf:
    """Verifies files by what the simulation says is there."""

    def __init__(self) -> None:
        self.holds = False

    async def verify(self, claim: Any) -> Finding:
        verdict = Verdict.VERIFIED if self.holds else Verdict.REFUTED
        return Finding(verdict=verdict, detail=f"It says {SECRET}.")


class Outside:
    """Plays sensors, judges, the transport, the host and a plug-in that listens."""

    name = "simulated"

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.targets = {name: ScriptedTarget(name) for name in TARGETS}
        self.mood = "takes"
        """What the gateway does with a wake."""
        self.running: defaultdict[tuple[str | None, str | None], int] = defaultdict(int)
        """By gateway and session: its deliveries under way."""
        self.most_at_once = 0
        self.inbox: defaultdict[tuple[str | None, str | None], deque[Wake]] = defaultdict(deque)
        """What agents were told and have not seen yet, by gateway and session."""
        self.hosts: tuple[str | None, ...] = (None,)
        """The names of the gateways."""
        self.gateways_of: defaultdict[str | None, set[str | None]] = defaultdict(set)
        """By task or wait: the gateways whose agents made it or asked to have it."""
        self.unanswered: Counter[str | None] = Counter()
        """By gateway: the calls under way that give its agents what only the answers name."""
        self.strays: list[str] = []
        """What went to a gateway that has nothing to do with it."""
        self.heard: set[tuple[str, str]] = set()
        """What hooks were told: the kind of event, and the id of what it is about."""
        self.ended_processes: set[str] = set()
        self.shelf = Shelf()

    def forget_daemon(self, mirror: Mirror) -> None:
        """Drop what a dead daemon held; a gateway that it did not answer may have anything.

        And if there is one, any gateway may have what none is known to have.
        """
        for target in self.targets.values():
            target.changed.clear()
        self.running.clear()
        named = [task_id for task_id, task in mirror.tasks.items() if not task.implicit]
        if unanswered := (+self.unanswered).keys():
            for subject in (*named, *mirror.waits):
                known = self.gateways_of[subject]
                known |= unanswered if known else set(self.hosts)
        self.unanswered.clear()

    def is_alive(self, process: str) -> bool | None:
        """Say whether a worker's process is there."""
        return process not in self.ended_processes

    # --- a plug-in -------------------------------------------------------------

    @hookimpl
    def wait_sensor(self, target: Target) -> Any:
        return self if target.scheme == "pty" else None

    @hookimpl
    def wait_judge(self, target: Target, wake_when: str) -> Any:
        del target, wake_when
        return ScriptedJudge()

    @hookimpl
    def on_task_registered(self, task: Any) -> None:
        self.heard.add((events.TASK_REGISTERED, task.task_id))

    @hookimpl
    def on_wait_resolved(self, wait: Any) -> None:
        self.heard.add((events.WAIT_ENDED, wait.wait_id))

    @hookimpl
    def on_stuck(self, task: Any) -> None:
        self.heard.add((events.TASK_STUCK, task.task_id))

    @hookimpl
    def evidence_verifier(self, kind: str) -> Any:
        return self.shelf

    async def watch(self, target: Target) -> Any:
        found = self.targets.get(target.name)
        if found is None:
            raise TargetNotFound(f"There is no terminal {target.name}.")
        if found.gone:
            raise TargetGone("It has ended.")
        return ScriptedWatch(found, self.clock)

    # --- the transport ---------------------------------------------------------

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        del host
        return session_key is not None

    async def deliver(self, wake: Wake) -> WakeReceipt:
        alone = len(self.hosts) == 1 and not (wake.host or "").startswith((MCP, SHELL))
        session = self.hosts[0] if alone else wake.host, wake.session_key
        self.running[session] += 1
        self.most_at_once = max(self.most_at_once, self.running[session])
        try:
            return await self._take(wake)
        finally:
            self.running[session] -= 1

    async def _take(self, wake: Wake) -> WakeReceipt:
        mood = self.mood
        if mood == "slow":
            await asyncio.sleep(7)
        elif mood == "hangs":
            await asyncio.sleep(1_000)
        elif mood == "fails":
            raise WakeUndelivered(f"The gateway is down. The key is {SECRET}.")
        elif mood == "asks to wait":
            raise WakeUndelivered("The gateway restarts.", retry_seconds=3.0)
        elif mood == "refuses":
            raise WakeRefused("There is no such session.")
        elif mood == "breaks":
            raise RuntimeError("The simulation says so.")
        inbox = self.inbox[self._find_gateway(wake), wake.session_key]
        inbox.append(wake)
        if mood == "loses the reply":
            raise WakeUndelivered("The connection was lost.")
        if mood == "doubles":
            inbox.append(wake)
        return WakeReceipt(delivered_at=self.clock.now())

    def _find_gateway(self, wake: Wake) -> str | None:
        """Return the gateway that a wake goes to."""
        if len(self.hosts) == 1:
            return self.hosts[0]
        made = self.gateways_of.get(wake.task_id or wake.wait_id)
        if made and wake.wait_id is not None:
            made = made | self.gateways_of.get(wake.wait_id, set())
        excused = wake.host not in self.hosts or self.unanswered[wake.host] > 0
        if made and not excused and wake.host not in made:
            self.strays.append(f"{wake.wake_id} goes to {wake.host}, and is of {sorted(made)}")
        return wake.host

    # --- the host --------------------------------------------------------------

    async def say(self, notice: Any) -> None:
        if self.mood == "fails":
            raise WakeUndelivered("The gateway is down.")

    async def show(self, view: Any) -> None:
        if self.mood == "fails":
            raise WakeUndelivered("The gateway is down.")

    async def stop(self, session_key: str, age: float) -> None:
        if self.mood == "fails":
            raise WakeUndelivered("The gateway is down.")

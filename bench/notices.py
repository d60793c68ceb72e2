"""Lines for users on a channel that fails at random: what is lost, or comes twice."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random

from figures import Figure, amount
from homes import find_disk

from openclaw_taskmem.daemon.notifier import Notifier
from openclaw_taskmem.domain import events
from openclaw_taskmem.engine import notifications
from openclaw_taskmem.engine.notifications import NotificationKind
from taskmem_hookspecs import Change, Event, EventQuery
from taskmem_openclaw.agent_host import OpenClawHost
from tests.daemon.looped import inline
from tests.e2e import phone
from tests.e2e.gateway import Gateway
from tests.e2e.openclaw import cache_folder, obtain
from tests.e2e.phone import Phone
from tests.e2e.room import until
from tests.e2e.rpc import CallRefused
from tests.e2e.shared_house import shared_house
from tests.support.world import World

SESSIONS, LINES = 25, 1_000
KILLS = 4
"""Of the gateway, at random instants of the run."""
ANSWERS = 0.5
"""Seconds that the host may take for one message: shorter than the channel hangs."""
ABOUT = ("progress", "progress", "progress", "question")
"""Most wait for others; a question goes at once, and what waits goes before it."""


def tell_notices() -> Iterator[Figure | str]:
    """Tell 25 users 1,000 lines through the real gateway, and a channel that fails.

    One send in five is refused, one in ten is made and its answer lost, one in five
    hangs, half of them beyond what the daemon waits. The gateway is killed, and the
    daemon's part again and again.
    """
    with tempfile.TemporaryDirectory(dir=find_disk()) as made:
        folder = Path(made)
        openclaw = obtain(cache_folder())
        with shared_house(openclaw, folder, {}, phone.connect) as (house, _):
            phones = [Phone(house.gateway, folder, f"49{n}") for n in range(SESSIONS)]
            for one in phones:
                until(lambda one=one: _try_writing(one), "the session is there")
            phones[0].fails("random")
            chance = Random(16)  # noqa: S311 - no secret
            told = _NoticeSender(chance, house.gateway, house.taskmem.environment, phones)
            asyncio.run(told.send_all())
            received, again = _read_received(folder)
            doubted = told.find_doubtful_lines(house.gateway.room.state)
            failed = (folder / "tries").read_text().count("\n")
    yield from _build_figures(told.sent, received, doubted)
    yield amount("lines that were sent once more, and said so", [again], "", None)
    came = Counter(line for lines in received.values() for line in lines)
    twice = [line for line, count in came.items() if count > 1]
    if twice:
        yield f"Twice came: {', '.join(twice)}"
    yield (
        f"{LINES:,} lines to {SESSIONS} users in {sum(map(len, received.values())):,}"
        f" lines that arrived; {failed} sends failed or hung, the gateway was killed"
        f" {told.kills} times and the daemon's part {told.cut} times."
    )


def _try_writing(user: Phone) -> bool:
    """Whether a message has reached the gateway; just started, it may refuse it."""
    with suppress(CallRefused):
        user.write("Hello.")
        return True
    return False


def _build_figures(
    sent: Mapping[str, Sequence[str]], received: Mapping[str, Sequence[str]], doubted: set[str]
) -> Iterator[Figure]:
    lost, doubled, late, unsure = 0, 0, 0, 0
    for user, lines in sent.items():
        came = received.get(user, [])
        missing = {*lines} - {*came}
        lost += len(missing - doubted)
        unsure += len(missing & doubted)
        doubled += sum(count - 1 for count in Counter(came).values())
        order = [lines.index(line) for line in dict.fromkeys(came)]
        late += sum(one > other for one, other in pairwise(order))
    for what, found, limit in (
        ("lines that were lost", lost, 0),
        ("lines that came twice", doubled, 0),
        ("lines that came out of order", late, 0),
        ("lines of which the gateway cannot tell, and that did not come", unsure, None),
    ):
        yield amount(what, [found], "", limit)


class _NoticeSender:
    """The daemon's part: it is cut off at random, and begins anew from its log."""

    def __init__(
        self, random: Random, gateway: Gateway, environ: Mapping[str, str], phones: Sequence[Phone]
    ) -> None:
        self._random = random
        self._gateway = gateway
        self._phones = phones
        self._world = World()
        self._host = OpenClawHost(environ, seconds=ANSWERS)
        self.sent: defaultdict[str, list[str]] = defaultdict(list)
        self.kills = self.cut = 0
        notifications.set_start_positions(self._world.context)

    async def send_all(self) -> None:
        """Say all there is to say, and kill what may be killed meanwhile."""
        part = self._build_notifier()
        killed = {LINES * (each + 1) // (KILLS + 1) for each in range(KILLS)}
        for number in range(1, LINES + 1):
            self._commit_notice(number)
            self._world.clock.tick(self._random.uniform(0, 1))
            if number in killed:
                part = await self._kill_gateway(part)
            elif number % 10 == 0:
                part = await self._run_pass(part)
        while (due := await part.run_pass()) is not None:
            wait = (due - self._world.clock.now()).total_seconds()
            # The gateway's own claims last for a minute of its time.
            await asyncio.sleep(1 if wait > 10 else 0.05)
            self._world.clock.tick(max(wait, 0.1))

    def find_doubtful_lines(self, state: Path) -> set[str]:
        """The lines of which the gateway's queue says that they may have been sent."""
        with sqlite3.connect(state / "state" / "openclaw.sqlite") as found:
            query = (
                "SELECT id FROM delivery_queue_entries "
                "WHERE id LIKE 'taskmem:%' AND (status = 'failed' OR recovery_state "
                "IN ('send_attempt_started', 'unknown_after_send'))"
            )
            names = [name for (name,) in found.execute(query)]
        unsure: set[str] = set()
        log = {
            e.event_id: e
            for e in self._world.store.find_events(EventQuery(after=0, limit=LINES * 2))
        }
        for name in names:
            _, first, last = name.partition(":")[2].partition("/")[0].split("-")
            session = log[int(first)].data["session_key"]
            for number in range(int(first), int(last) + 1):
                if log[number].data.get("session_key") == session:
                    unsure.add(str(log[number].data["line"]))
        return unsure

    def _build_notifier(self) -> Notifier:
        return Notifier(self._world.context, (self._host,), inline, NotificationKind.LINES)

    def _commit_notice(self, number: int) -> None:
        one = self._random.choice(self._phones)
        line = f"Line {number} of {LINES}."
        self.sent[f"phone:{one.number}"].append(line)
        said = Event(
            at=self._world.clock.now(),
            kind=events.NOTICE,
            data={
                "about": self._random.choice(ABOUT),
                "session_key": one.session,
                "line": line,
                "home": self._world.context.store.home,
            },
        )
        self._world.context.commit(Change(events=(said,)))

    async def _run_pass(self, part: Notifier) -> Notifier:
        """Let it tell what is due; in one of four times it does not come to the end."""
        if self._random.random() > 0.25:
            await part.run_pass()
            return part
        with suppress(TimeoutError):
            async with asyncio.timeout(self._random.uniform(0, 0.3)):
                await part.run_pass()
        self.cut += 1
        return self._build_notifier()

    async def _kill_gateway(self, part: Notifier) -> Notifier:
        """Kill the gateway while messages are on their way, and start it again."""
        on_its_way = asyncio.create_task(part.run_pass())
        await asyncio.sleep(self._random.uniform(0, 0.5))
        await asyncio.to_thread(self._gateway.kill)
        self.kills += 1
        await on_its_way
        await asyncio.to_thread(self._gateway.start)
        return part


def _read_received(folder: Path) -> tuple[Mapping[str, list[str]], int]:
    """Return the lines that each user has received, and how many were repeats.

    In order; of what came once more and said so, only lines that had not come before.
    """
    came: defaultdict[str, list[str]] = defaultdict(list)
    repeated = 0
    for sent in map(json.loads, (folder / "sent.jsonl").read_text().splitlines()):
        lines = [line for line in sent["text"].splitlines() if line.startswith("Line ")]
        if sent["text"].startswith("Sent once more"):
            repeated += len(lines)
            lines = [line for line in lines if line not in came[sent["to"]]]
        came[sent["to"]] += lines
    return came, repeated

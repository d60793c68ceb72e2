"""Everything that is waited for, watched: it follows the commits.

Whichever call opened, changed or ended a wait, its row is read again, and watched
as it stands. Nothing of a wait is kept here that a restart would miss.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, Final, TypeVar

from openclaw_taskmem.daemon.album import Album
from openclaw_taskmem.daemon.lanes import Lanes
from openclaw_taskmem.daemon.news import News
from openclaw_taskmem.daemon.panel import Panel
from openclaw_taskmem.daemon.queues import Queues
from openclaw_taskmem.daemon.readers import Readers, describe_status
from openclaw_taskmem.daemon.snapshots import SnapshotQueue, Snapshots
from openclaw_taskmem.daemon.threads import Threads
from openclaw_taskmem.daemon.vigil import Ending, Vigil
from openclaw_taskmem.daemon.watcher import Watcher
from openclaw_taskmem.daemon.watchers import Watchers
from openclaw_taskmem.domain import judging, targets
from openclaw_taskmem.domain import queues as queue_rules
from openclaw_taskmem.domain.conditions import parse_condition
from openclaw_taskmem.domain.judging import Understood, rest_after
from openclaw_taskmem.engine import waits
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.engine.watching import Sighting
from openclaw_taskmem.seams import parts
from openclaw_taskmem.seams.seams import Seams
from taskmem_hookspecs import (
    Clock,
    Condition,
    ConditionUnclear,
    Frame,
    Output,
    Reader,
    ReaderStatus,
    Target,
    TargetGone,
    TargetNotFound,
    TaskmemError,
    Wait,
    WaitNotFound,
    WaitStatus,
)
from taskmem_hookspecs.errors import NoProvider

log = logging.getLogger(__name__)
T = TypeVar("T")

THREADS: Final = 4
"""Reads and commits of the watchroom that run at once, apart from those of calls."""
RELIEF_SECONDS: Final = 60.0
"""Between two looks for waits that other homes left behind."""
LOADS: Final = '"ready" appears or it is ready'
"""A condition that asks for a judge of forms, and for one of free English."""
LOAD_SECONDS: Final = 120.0
"""How long each plug-in may take for that."""
ANSWER_SECONDS: Final = 25.0
"""How long a call waits to learn whether its target is there."""


class Watchroom:
    """Plays `Watching` for calls, and watches what they left to be watched."""

    def __init__(
        self,
        seams: Seams,
        clock: Clock,
        lanes: Lanes | None = None,
        *,
        judge_seconds: float,
        album: Album | None = None,
        readers: Readers | None = None,
        queues: Queues | None = None,
    ) -> None:
        """Take what is watched with.

        `judge_seconds` is a judge's limit; without an album, no pictures are kept, and
        without readers, nobody judges free English; without queues, none is watched.
        """
        self._seams = seams
        self._clock = clock
        self._judge_seconds = judge_seconds
        self._loop = asyncio.get_running_loop()
        self._apart = Threads(THREADS, "watch")
        self._lanes = lanes or Lanes()
        self._readers = readers
        self._queues = queues
        self._watchers = Watchers(seams, clock, self._lanes, self._apart, queues)
        self._snapshots = SnapshotQueue(album, seams, clock, self._apart)
        self._vigils: dict[str, tuple[Vigil, asyncio.Task[None]]] = {}
        self._answers: set[asyncio.Task[Any]] = set()
        self._changed: dict[str, None] = {}
        """Waits whose rows are to be read again, in order."""
        self._stirred = asyncio.Event()
        self._taken_up = asyncio.Event()
        self.news = News()
        """Told of every change of a wait, and of what `observation` answers."""

    # --- for calls, from their threads ---------------------------------------

    def sight(self, target: Target, condition: Condition) -> Sighting:
        """Look whether a target is there, and whether anyone can judge a condition."""
        return self._answer(self._sight(target, condition), "Nothing was written.")

    def end(self, target: Target) -> str:
        """Return the place behind all that is on a target now."""
        return self._answer(self._end(target), "Nothing was written.")

    def feed(self, target: Target, output: Output) -> None:
        """Hand a sensor what it cannot see for itself.

        Raises:
            NoProvider: Nothing here takes the output of such a target.
        """
        self._answer(self._watchers.feed(target, output), "It may have been kept.")

    def observation(self, wait_id: str) -> str | None:
        """Return what was last seen of a wait that is watched; None: nothing yet."""
        known = self._vigils.get(wait_id)
        return known[0].observation if known else None

    def follow(
        self,
        wait_ids: Iterable[str],
        roles: Collection[str | None] = (),
        queued_for: Collection[str | None] = (),
    ) -> None:
        """Take note that waits and runs of roles changed; called from any thread.

        `queued_for`: the roles for which a run is queued now.
        """
        if self._queues is not None and roles:
            self._queues.note(roles, queued_for)
        if ids := tuple(wait_ids):
            self._loop.call_soon_threadsafe(self._stir, ids)

    def left(self) -> Mapping[str, float]:
        """Return how many seconds each watched wait has left; called on the loop."""
        return {wait_id: vigil.left for wait_id, (vigil, _) in self._vigils.items()}

    def _answer(self, answering: Coroutine[Any, Any, T], otherwise: str) -> T:
        future = asyncio.run_coroutine_threadsafe(self._known(answering), self._loop)
        try:
            return future.result(ANSWER_SECONDS)
        except TimeoutError:
            future.cancel()
            raise NoProvider(
                f"There was no answer from the target within {ANSWER_SECONDS:g} s; see "
                f"taskmem plugins. {otherwise}"
            ) from None
        except CancelledError:
            raise NoProvider(
                f"The daemon is stopping; try again. {otherwise}"
            ) from None

    async def _known(self, answering: Coroutine[Any, Any, T]) -> T:
        """Await an answer that is given up when the daemon stops."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._answers.add(task)
        try:
            return await answering
        finally:
            self._answers.discard(task)

    async def _sight(self, target: Target, condition: Condition) -> Sighting:
        try:
            understood = await self._apart(self._assign_judges, target, condition)
        except ConditionUnclear:
            # Where such a target cannot be watched at all, no form would help.
            try:
                await self._here(target)
            except NoProvider:
                raise
            except TaskmemError as error:
                log.debug("%s cannot be seen: %s", target, error)
            raise
        try:
            here = await self._here(target)
        except TargetGone:
            # What was watched is gone; another of that name may be there.
            try:
                here = await self._here(target)
            except TargetGone as gone:
                raise TargetNotFound(str(gone)) from gone
        return Sighting(
            start=here.place, tail=here.tail, note=here.note, understood=understood
        )

    def _assign_judges(
        self, target: Target, condition: Condition
    ) -> tuple[Understood, ...]:
        """Find how each side of a condition is read, and who judges it.

        Raises:
            ConditionUnclear: Nobody judges one of them.
        """
        found, reader, status = self._find_judges(target, condition)
        if found.refusal is not None:
            raise found.refusal
        understood = judging.assign_judges(
            condition, found.found, found.advice, found.late
        )
        if target.scheme == queue_rules.SCHEME:
            return queue_rules.name_form(understood)
        if reader is not None and status is not None:
            name, advice = reader.name, found.advice
            understood = judging.note_reader(understood, name, status, advice)
        return understood

    def load_judges(self) -> None:
        """Have plug-ins load what judges a terminal, in forms and in free English."""
        target = Target(scheme="pty", name="")
        reader = self._readers.offer()[0] if self._readers is not None else None
        self._seams.judges(target, parse_condition(LOADS), reader, LOAD_SECONDS)

    def _find_judges(
        self, target: Target, condition: Condition
    ) -> tuple[parts.Judges, Reader | None, ReaderStatus | None]:
        """Find who judges a condition, the reader among them, and how that stands."""
        reader = status = None
        if target.scheme == queue_rules.SCHEME and self._queues is not None:
            return self._queues.find_judges(target, condition), None, None
        if self._readers is not None:
            reader, status = self._readers.offer()
        found = self._seams.judges(target, condition, reader)
        if reader is None and status is not None:
            found = found._replace(advice=(describe_status(status), *found.advice))
        return found, reader, status

    async def _end(self, target: Target) -> str:
        watcher = await self._watchers.of(target)
        self._watchers.let_go_later(watcher)
        try:
            place = await watcher.end()
            gone = (await watcher.look(place, place)).gone
        except TargetGone as error:
            raise TargetNotFound(str(error)) from error
        if gone is not None:
            raise TargetNotFound(
                f"{gone} Nothing more will come of {target}, and all of it was read. "
                "Wait for its next run, or for something else with wake_when."
            )
        return place

    async def _here(self, target: Target) -> Frame:
        watcher = await self._watchers.of(target)
        self._watchers.let_go_later(watcher)
        return await watcher.here()

    # --- the daemon's life ----------------------------------------------------

    async def run(self, shell: Shell) -> None:
        """Watch what is waited for until cancelled."""
        for wait in await self._insist(partial(waits.watched_here, shell)):
            self._sync(shell, wait, resumed=True)
        self._taken_up.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(shell))
            group.create_task(self._snapshots.run(shell))
            if shell.store.is_shared:
                group.create_task(self._relieve(shell))

    async def _relieve(self, shell: Shell) -> None:
        """End, now and then, what other homes left behind on a shared database."""
        while True:
            await self._insist(partial(waits.end_abandoned, shell))
            await self._clock.sleep(RELIEF_SECONDS)

    async def _follow(self, shell: Shell) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            ids, self._changed = [*self._changed], {}
            for wait in await self._insist(partial(_read, shell, ids)):
                self._sync(shell, wait)
            self.news.tell(ids)

    async def caught_up(self) -> None:
        """Return once all that was waited for at the start was looked at."""
        await self._taken_up.wait()
        vigils = [vigil for vigil, _ in self._vigils.values()]
        await asyncio.gather(*(vigil.looked.wait() for vigil in vigils))

    async def close(self) -> None:
        """Watch nothing any more; what is waited for stays so."""
        tasks = [*self._answers, *(task for _, task in self._vigils.values())]
        for vigil, _ in self._vigils.values():
            vigil.snapshots.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._watchers.close()
        await asyncio.to_thread(self._lanes.close)
        # What is being written down is written down.
        await self._apart.close()

    async def _insist(self, call: Callable[[], T]) -> T:
        """Return what the store answers, however often it takes."""
        failures = 0
        while True:
            try:
                return await self._apart(call)
            except WaitNotFound:
                raise
            except Exception:
                failures += 1
                log.exception("the store cannot tell of waits; it is asked again")
            await self._clock.sleep(rest_after(failures))

    def _stir(self, ids: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(ids))
        self._stirred.set()

    def _sync(self, shell: Shell, wait: Wait, *, resumed: bool = False) -> None:
        """Watch a wait as its row says; `resumed` after another daemon had ended."""
        known, _ = self._vigils.get(wait.wait_id, (None, None))
        ours = wait.status is WaitStatus.WATCHING and shell.store.serves(wait.home)
        if known is not None and ours and known.wait.round == wait.round:
            known.wait = wait
            return
        if known is not None:
            self._drop(wait)
        if ours:
            snapshots = Snapshots(wait.wait_id, self._snapshots, resumed=resumed)
            vigil = self._vigil(wait, snapshots)
            task = asyncio.create_task(self._keep(shell, vigil))
            self._vigils[wait.wait_id] = (vigil, task)

    def _vigil(self, wait: Wait, snapshots: Snapshots) -> Vigil:
        async def watcher() -> Watcher:
            return await self._watchers.of(targets.target_of(wait))

        async def panel(start: str) -> Panel:
            target = targets.target_of(wait)
            condition = parse_condition(wait.wake_when)

            async def find_judges() -> parts.Judges:
                return (await self._apart(self._find_judges, target, condition))[0]

            return Panel(
                condition,
                find_judges,
                self._lanes,
                self._clock,
                start=start,
                seconds=self._judge_seconds,
                blame=self._seams.blame,
            )

        return Vigil(
            wait,
            self._clock,
            watcher=watcher,
            panel=panel,
            snapshots=snapshots,
            tell=self.news.tell,
        )

    def _drop(self, wait: Wait) -> None:
        vigil, task = self._vigils.pop(wait.wait_id)
        task.cancel()
        # Its row was read: however it ended, that is committed.
        same = wait.round == vigil.wait.round and wait.status is WaitStatus.RESOLVED
        vigil.snapshots.end(vigil.rests_on, resolved=same and vigil.met)
        if vigil.watcher is not None:
            vigil.watcher.leave(wait.wait_id)
            self._watchers.let_go_later(vigil.watcher)

    async def _keep(self, shell: Shell, vigil: Vigil) -> None:
        """Keep a vigil, and write how it ended, however often that takes."""
        ending: Ending = await vigil.run()
        with contextlib.suppress(WaitNotFound):
            await self._insist(partial(waits.end_wait, shell, vigil.wait, *ending))
        # Another daemon on the same database may have ended it, which told nobody here.
        self._stir([vigil.wait.wait_id])


def _read(shell: Shell, ids: Iterable[str]) -> list[Wait]:
    found: list[Wait] = []
    for wait_id in ids:
        with contextlib.suppress(WaitNotFound):
            found.append(shell.store.read_wait(wait_id))
    return found

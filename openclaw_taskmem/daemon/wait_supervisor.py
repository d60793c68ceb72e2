"""Watch all open waits, and follow the commits that change them.

After each commit that opened, changed or ended a wait, its row is read again and watched
accordingly. After a restart, the rows alone suffice to watch all open waits again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, Final, TypeVar

from openclaw_taskmem.daemon.followers import ChangeCounter
from openclaw_taskmem.daemon.judges import JudgePanel, add_forms, refuse_unjudged
from openclaw_taskmem.daemon.plugin_loops import PluginLoops
from openclaw_taskmem.daemon.readers import Readers, describe_status
from openclaw_taskmem.daemon.role_queues import Queues
from openclaw_taskmem.daemon.session_watches import LimitSensor, SessionSensor
from openclaw_taskmem.daemon.snapshots import SnapshotQueue, SnapshotStore, WaitSnapshots
from openclaw_taskmem.daemon.target_watchers import Watcher, Watchers
from openclaw_taskmem.daemon.task_watches import TaskSensor
from openclaw_taskmem.daemon.thread_pool import ThreadPool
from openclaw_taskmem.daemon.wait_task import SeveralWaitTask, WaitEnd, WaitTask
from openclaw_taskmem.domain.conditions import several, targets, verdicts
from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.conditions.session_states import SUB_AGENTS_BOOKMARK
from openclaw_taskmem.domain.conditions.usage_limits import LIMIT_BOOKMARK
from openclaw_taskmem.domain.conditions.verdicts import UnderstoodSide, compute_retry_delay
from openclaw_taskmem.domain.errors import LookFailed
from openclaw_taskmem.engine import waits
from openclaw_taskmem.engine.context import Context, DueWork
from openclaw_taskmem.engine.wait_watcher import TargetPreview
from openclaw_taskmem.plugin_host.plugin_host import Judges, PluginHost
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

_WATCH_THREADS: Final = 4
"""Threads for reads and commits of the supervisor, separate from those for calls."""
_RELIEF_SECONDS: Final = 60.0
"""Interval between two checks for waits that other homes abandoned."""
_BROAD_CONDITION: Final = '"ready" appears or it is ready'
"""A condition that needs a judge of forms and one of free English."""
LOAD_SECONDS: Final = 120.0
"""Time limit of each plug-in to load these judges."""
ANSWER_SECONDS: Final = 25.0
"""How long a call waits for the event loop's answer about its target."""


class WaitSupervisor:
    """Implement `WaitWatcher` for calls, and run a task for each watched wait."""

    def __init__(
        self,
        plugin_host: PluginHost,
        clock: Clock,
        plugin_loops: PluginLoops | None = None,
        *,
        judge_seconds: float,
        snapshot_store: SnapshotStore | None = None,
        readers: Readers | None = None,
        queues: Queues | None = None,
        tasks: TaskSensor | None = None,
        sessions: SessionSensor | None = None,
        limits: LimitSensor | None = None,
        machine: Clock | None = None,
    ) -> None:
        """Create a supervisor.

        `judge_seconds`: time limit of a judge. Without a snapshot store no snapshots are
        stored, without readers free English is not judged, and without queues, tasks,
        sessions or limits none is watched.
        `machine`: the clock that sensors date frames by; None: `clock`.
        """
        self._plugin_host = plugin_host
        self._clock = clock
        self._judge_seconds = judge_seconds
        self._loop = asyncio.get_running_loop()
        self._run_in_thread = ThreadPool(_WATCH_THREADS, "watch")
        self._plugin_loops = plugin_loops or PluginLoops()
        self._readers = readers
        self._queues = queues
        self._tasks = tasks
        self._sessions = sessions
        self._limits = limits
        own = {
            targets.LIMIT_SCHEME: limits,
            targets.QUEUE_SCHEME: queues,
            targets.SESSION_SCHEME: sessions,
            targets.TASK_SCHEME: tasks,
        }
        self._own = {scheme: each for scheme, each in own.items() if each is not None}
        self._watchers = Watchers(
            plugin_host,
            clock,
            self._plugin_loops,
            self._run_in_thread,
            own=self._own,
            machine=machine or clock,
        )
        self._snapshots = SnapshotQueue(snapshot_store, plugin_host, clock, self._run_in_thread)
        self._wait_tasks: dict[str, tuple[WaitTask | SeveralWaitTask, asyncio.Task[None]]] = {}
        self._answers: set[asyncio.Task[Any]] = set()
        self._changed: dict[str, None] = {}
        """Ids of waits whose rows must be read again, in order."""
        self._change_event = asyncio.Event()
        self._loaded_event = asyncio.Event()
        self.changes = ChangeCounter()
        """Signals every change of a wait and of its last observation."""

    # --- for calls, from their threads ---------------------------------------

    def preview_target(self, target: Target, condition: Condition) -> TargetPreview:
        """Check that a target exists and that every side of the condition has a judge."""
        return self._run_on_loop(self._check_target(target, condition), "Nothing was written.")

    def find_target_end(self, target: Target) -> str:
        """Return the place after everything that the target shows now."""
        return self._run_on_loop(self._read_end(target), "Nothing was written.")

    def feed(self, target: Target, output: Output) -> None:
        """Pass pushed output to the target's sensor.

        Raises:
            NoProvider: No plug-in takes the output of such a target.
        """
        self._run_on_loop(self._watchers.feed(target, output), "It may have been kept.")

    def read_observation(self, wait_id: str) -> str | None:
        """Return the last observation of a watched wait; None if there is none yet."""
        entry = self._wait_tasks.get(wait_id)
        return entry[0].observation if entry else None

    def read_tail(self, wait_id: str) -> str | None:
        """Return the last lines on the target of a watched wait; None if it has no text."""
        entry = self._wait_tasks.get(wait_id)
        return entry[0].tail if entry else None

    def follow(self, due: DueWork) -> None:
        """Signal which waits, tasks, sub-agents and roles a commit has changed; for any thread."""
        if self._queues is not None and due.roles:
            self._queues.note_changes(due.roles, due.queued_for)
        if self._tasks is not None and due.tasks:
            self._tasks.note_changes(due.tasks)
        if self._sessions is not None and SUB_AGENTS_BOOKMARK in due.bookmarks:
            self._sessions.note_changes(None)
        if self._limits is not None and LIMIT_BOOKMARK in due.bookmarks:
            self._limits.note_changes(None)
        if due.waits:
            self._loop.call_soon_threadsafe(self._note_changed, due.waits)

    def list_seconds_left(self) -> Mapping[tuple[str, int], float]:
        """Return the seconds left of each watched wait and its round; called on the event loop."""
        watched = self._wait_tasks.items()
        return {(key, task.wait.round): task.seconds_left for key, (task, _) in watched}

    def _run_on_loop(self, answering: Coroutine[Any, Any, T], otherwise: str) -> T:
        future = asyncio.run_coroutine_threadsafe(self._track_answer(answering), self._loop)
        try:
            return future.result(ANSWER_SECONDS)
        except TimeoutError:
            future.cancel()
            raise NoProvider(
                f"There was no answer from the target within {ANSWER_SECONDS:g} s; see "
                f"taskmem plugins. {otherwise}"
            ) from None
        except CancelledError:
            raise NoProvider(f"The daemon is stopping; try again. {otherwise}") from None
        except LookFailed as failure:
            advice = f"Call again once it can be seen; see taskmem plugins. {otherwise}"
            raise LookFailed(f"{failure}. {advice}") from failure

    async def _track_answer(self, answering: Coroutine[Any, Any, T]) -> T:
        """Await an answer that `close` cancels when the daemon stops."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._answers.add(task)
        try:
            return await answering
        finally:
            self._answers.discard(task)

    async def _check_target(self, target: Target, condition: Condition) -> TargetPreview:
        condition = parse_condition(condition.sentence, target.scheme)
        try:
            understood = await self._run_in_thread(self._assign_judges, target, condition)
        except ConditionUnclear:
            # If such a target cannot be watched at all, say that: no form would help.
            try:
                await self._read_position(target)
            except NoProvider:
                raise
            except TaskmemError as error:
                log.debug("%s cannot be seen: %s", target, error)
            raise
        try:
            here = await self._read_position(target, from_now=condition.is_from_now)
        except TargetGone:
            # The watched one is gone; another of that name may exist.
            try:
                here = await self._read_position(target, from_now=condition.is_from_now)
            except TargetGone as gone:
                raise TargetNotFound(str(gone)) from gone
        return TargetPreview(
            start=here.place,
            tail=here.tail,
            note=here.note,
            from_now=condition.is_from_now,
            understood=understood,
        )

    def _assign_judges(self, target: Target, condition: Condition) -> tuple[UnderstoodSide, ...]:
        """Return how each side of a condition is understood, and by which judge.

        Raises:
            ConditionUnclear: A side has no judge.
        """
        found, reader, status = self._find_judges(target, condition)
        if found.refusal is not None:
            raise add_forms(self._plugin_host, target, condition, found.refusal, reader)
        if not found.late:
            refuse_unjudged(self._plugin_host, target, condition, found, reader)
        understood = verdicts.assign_judges(condition, found.found, found.late, target.scheme)
        if target.scheme == targets.QUEUE_SCHEME:
            form = {"form": targets.QUEUE_FORM}
            return tuple(each.model_copy(update=form) for each in understood)
        if reader is not None and status is not None:
            name, advice = reader.name, found.advice
            understood = verdicts.add_reader_note(understood, name, status, advice)
        return understood

    def load_judges(self) -> None:
        """Have plug-ins load the judges of terminals, for forms and free English."""
        target = Target(scheme="pty", name="")
        reader = self._readers.offer()[0] if self._readers is not None else None
        self._plugin_host.collect_judges(
            target, parse_condition(_BROAD_CONDITION), reader, LOAD_SECONDS
        )

    def _find_judges(
        self, target: Target, condition: Condition
    ) -> tuple[Judges, Reader | None, ReaderStatus | None]:
        """Return the judges of a condition, the reader they may ask, and its status."""
        reader = status = None
        if (own := self._own.get(target.scheme)) is not None:
            return own.find_judges(target, condition), None, None
        if self._readers is not None:
            reader, status = self._readers.offer()
        return self._plugin_host.collect_judges(target, condition, reader), reader, status

    async def _read_end(self, target: Target) -> str:
        watcher = await self._watchers.get_watcher(target)
        self._watchers.close_later(watcher)
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

    async def _read_position(self, target: Target, *, from_now: bool = False) -> Frame:
        """Return where a new wait reads; `from_now`: behind all that is there already."""
        watcher = await self._watchers.get_watcher(target)
        self._watchers.close_later(watcher)
        here = await watcher.here()
        return here.model_copy(update={"place": await watcher.end()}) if from_now else here

    # --- the daemon's life ----------------------------------------------------

    async def run(self, context: Context) -> None:
        """Watch all open waits until cancelled."""
        for wait in await self._retry_until_done(partial(waits.list_watched_waits, context)):
            self._sync_wait(context, wait, resumed=True)
        self._loaded_event.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_changes(context))
            group.create_task(self._snapshots.run(context))
            if context.store.is_shared:
                group.create_task(self._end_abandoned_waits(context))

    async def _end_abandoned_waits(self, context: Context) -> None:
        """End, at intervals, waits that other homes abandoned on a shared database."""
        while True:
            await self._retry_until_done(partial(waits.end_abandoned, context))
            await self._clock.sleep(_RELIEF_SECONDS)

    async def _follow_changes(self, context: Context) -> None:
        while True:
            await self._change_event.wait()
            self._change_event.clear()
            ids, self._changed = [*self._changed], {}
            for wait in await self._retry_until_done(partial(_read_waits, context, ids)):
                self._sync_wait(context, wait)
            self.changes.notify(ids)

    async def wait_until_caught_up(self) -> None:
        """Return once every wait that was open at the start has been looked at."""
        await self._loaded_event.wait()
        parts = [part for task, _ in self._wait_tasks.values() for part in task.watched_parts]
        await asyncio.gather(*(part.looked.wait() for part in parts))

    async def close(self) -> None:
        """Stop watching; the waits stay open."""
        tasks = [*self._answers, *(task for _, task in self._wait_tasks.values())]
        for wait_task, _ in self._wait_tasks.values():
            for part in wait_task.watched_parts:
                part.snapshots.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._watchers.close()
        await asyncio.to_thread(self._plugin_loops.close)
        # Let commits in progress end.
        await self._run_in_thread.close()

    async def _retry_until_done(self, call: Callable[[], T]) -> T:
        """Call the store until it succeeds or raises WaitNotFound, and return the result."""
        failures = 0
        while True:
            try:
                return await self._run_in_thread(call)
            except WaitNotFound:
                raise
            except Exception:
                failures += 1
                log.exception("could not read the waits; retrying")
            await self._clock.sleep(compute_retry_delay(failures))

    def _note_changed(self, ids: Iterable[str]) -> None:
        self._changed.update(dict.fromkeys(ids))
        self._change_event.set()

    def _sync_wait(self, context: Context, wait: Wait, *, resumed: bool = False) -> None:
        """Start, update or stop the task of a wait as its row says.

        `resumed`: True if an earlier daemon watched it before.
        """
        known, _ = self._wait_tasks.get(wait.wait_id, (None, None))
        ours = wait.status is WaitStatus.WATCHING and context.store.serves(wait.home)
        if known is not None and ours and known.wait.round == wait.round:
            known.wait = wait
            return
        if known is not None:
            self._drop_wait(wait)
        if ours:
            wait_task = self._build_task(context, wait, resumed=resumed)
            task = asyncio.create_task(self._run_wait_task(context, wait_task))
            self._wait_tasks[wait.wait_id] = (wait_task, task)

    def _build_task(
        self, context: Context, wait: Wait, *, resumed: bool
    ) -> WaitTask | SeveralWaitTask:
        """Build the task of a wait, on one target or on several."""
        if not wait.parts:
            return self._build_wait_task(wait, wait.wait_id, resumed=resumed)

        async def note_met(index: int, observation: str) -> None:
            note = partial(waits.note_met_part, context, wait, index, observation)
            with contextlib.suppress(WaitNotFound):
                await self._retry_until_done(note)

        parts = [
            self._build_wait_task(
                several.build_part_wait(wait, index), wait.wait_id, resumed=resumed
            )
            for index in range(len(wait.parts))
        ]
        return SeveralWaitTask(wait, parts, note_met=note_met)

    def _build_wait_task(self, wait: Wait, wait_id: str, *, resumed: bool) -> WaitTask:
        """Build the task that watches one target; `wait_id`: of the wait that it belongs to."""

        async def watcher() -> Watcher:
            return await self._watchers.get_watcher(targets.find_target(wait))

        async def panel(start: str) -> JudgePanel:
            target = targets.find_target(wait)
            condition = parse_condition(wait.wake_when, target.scheme)

            async def find_judges() -> Judges:
                asked = await self._run_in_thread(self._find_judges, target, condition)
                found, reader, status = asked
                if reader is None and status is not None:
                    found = found._replace(advice=(describe_status(status), *found.advice))
                return found

            return JudgePanel(
                condition,
                find_judges,
                self._plugin_loops,
                self._clock,
                wait_id=wait_id,
                start=start,
                seconds=self._judge_seconds,
                blame=self._plugin_host.record_failure,
            )

        return WaitTask(
            wait,
            self._clock,
            watcher=watcher,
            panel=panel,
            snapshots=WaitSnapshots(wait_id, self._snapshots, resumed=resumed),
            notify_change=self.changes.notify,
        )

    def _drop_wait(self, wait: Wait) -> None:
        wait_task, task = self._wait_tasks.pop(wait.wait_id)
        task.cancel()
        # Its row was just read, so its end is committed.
        same = wait.round == wait_task.wait.round and wait.status is WaitStatus.RESOLVED
        for part in wait_task.watched_parts:
            part.snapshots.end(part.rests_on, resolved=same and part.met)
            if part.watcher is not None:
                part.watcher.leave(part.wait.wait_id)
                self._watchers.close_later(part.watcher)

    async def _run_wait_task(self, context: Context, wait_task: WaitTask | SeveralWaitTask) -> None:
        """Run the task of a wait, and commit its end."""
        ending: WaitEnd = await wait_task.run()
        with contextlib.suppress(WaitNotFound):
            await self._retry_until_done(partial(waits.end_wait, context, wait_task.wait, *ending))
        # Another daemon on the same database may have ended it without a signal here.
        self._note_changed([wait_task.wait.wait_id])


def _read_waits(context: Context, ids: Iterable[str]) -> list[Wait]:
    found: list[Wait] = []
    for wait_id in ids:
        with contextlib.suppress(WaitNotFound):
            found.append(context.store.read_wait(wait_id))
    return found

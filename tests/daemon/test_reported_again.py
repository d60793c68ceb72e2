"""What a gateway reports again, for want of an answer: it counts once all the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection
from typing import Any

import pytest
from pydantic import JsonValue

from openclaw_taskmem.daemon.gateways import Gateways
from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.domain.callers import MOST_BOOTS
from openclaw_taskmem.domain.errors import RunHeld
from openclaw_taskmem.domain.wakes.outbox import GATEWAY_RECOVERY_TIME
from openclaw_taskmem.engine.context import MOST_TRIES
from openclaw_taskmem.engine.turns import REPORTED_BOOKMARK
from taskmem_hookspecs import (
    Bookmark,
    Change,
    EventQuery,
    RunQuery,
    RunState,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    TaskmemError,
    TaskQuery,
    WakeQuery,
)
from taskmem_hookspecs.errors import Conflict
from tests.daemon.looped import inline
from tests.support.memory_store import MemoryStore
from tests.support.rows import read_bookmark
from tests.support.sessions import MAIN, Session
from tests.support.world import World

OLD = GATEWAY_RECOVERY_TIME.total_seconds() * 1000


class Busy(MemoryStore):
    """Refuses the commits that a test says, before or after they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: Callable[[Change], bool] = lambda _: False
        self.error: TaskmemError = StoreBusy("locked")
        self.times = 1
        self.writes_first = False

    def commit(self, change: Change) -> None:
        refused = self.refuses(change)
        if self.writes_first or not refused:
            super().commit(change)
        if refused:
            self.times -= 1
            if self.times == 0:
                self.refuses = lambda _: False
            raise self.error


class Plugin:
    """The plug-in of one start of a gateway: it numbers what it tells."""

    def __init__(self, world: World, boot: str = "boot_1", run_in_thread: OffLoopCaller = inline):
        self._world = world
        self.boot = boot
        self._run_in_thread = run_in_thread
        self._number = 0
        self.daemon_is_killed()

    def daemon_is_killed(self) -> None:
        """Let another daemon take over: it knows what the store says."""
        self._gateways = Gateways(self._world.context, self._run_in_thread, lambda: None)
        self._greeted = False

    def starts_anew(self, boot: str) -> None:
        """Let it go on in another start, of which the same daemon hears."""
        self.boot = boot
        self._greeted = False

    def list_known_starts(self) -> Collection[str]:
        """The starts of which the daemon knows how far they are done."""
        return self._gateways._cursors

    def says(self, kind: str, **more: Any) -> dict[str, Any]:
        self._number += 1
        event = {"kind": kind, "session_key": MAIN, "number": self._number}
        return {**event, **more}

    async def tells(self, *events: dict[str, Any]) -> JsonValue:
        if not self._greeted:
            await self._gateways.take_report(self, {"events": [self._hello()]})
            self._greeted = True
        return await self._gateways.take_report(self, {"events": [*events]})

    def read_reported(self) -> object:
        (view,) = self._gateways.build_view()
        return view["reported"]  # type: ignore[index, call-overload]

    def _hello(self) -> dict[str, Any]:
        told = {"kind": "gateway", "boot": self.boot, "age": OLD, "main": MAIN}
        return {**told, "transport": "openclaw-plugin", "version": "1"}


@pytest.fixture
def store() -> Busy:
    return Busy()


@pytest.fixture
def session(store: Busy) -> Session:
    return Session(World(store, sole=True))  # its sessions name no home


@pytest.fixture
def task(session: Session) -> str:
    session.begins()
    return session.register()


@pytest.fixture
def plugin(session: Session) -> Plugin:
    return Plugin(session.world)


def a_turn(plugin: Plugin, **end: Any) -> list[dict[str, Any]]:
    """A turn with one call, from its beginning to its end."""
    call = {"call_id": "c", "tool": "exec", "about": "make"}
    digests = {"given": "given", "result": "result"}
    return [
        plugin.says("turn_started", origin="taskmem", running=[MAIN]),
        plugin.says("tool_started", **call),
        plugin.says("tool_called", **call, **digests),
        plugin.says("turn_ended", origin="taskmem", calls=1, said="More.", **end),
    ]


def read_all_state(session: Session, task: str) -> object:
    """All that reports can change."""
    store = session.world.store
    log = [event.kind for event in store.find_events(EventQuery())]
    return session.run(task), store.find_wakes(WakeQuery(task_id=task)), log


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("end", [{}, {"failed": "overloaded", "reason": "overloaded"}])
async def test_a_turn_that_is_told_again_counts_once(
    session: Session, task: str, plugin: Plugin, end: dict[str, str], *, killed: bool
) -> None:
    told = a_turn(plugin, **end)
    await plugin.tells(*told)
    before = read_all_state(session, task)
    assert (session.run(task).progress.calls, session.run(task).progress.checkpoints) == (1, 2)

    for _ in range(4):
        if killed:
            plugin.daemon_is_killed()
        await plugin.tells(*told)

    assert read_all_state(session, task) == before
    await plugin.tells(*a_turn(plugin))
    assert session.run(task).limits.rounds == 2


@pytest.mark.parametrize("killed", [False, True])
async def test_each_event_of_a_report_that_is_cut_short_counts_once(
    session: Session, task: str, plugin: Plugin, store: Busy, *, killed: bool
) -> None:
    told = a_turn(plugin)
    store.refuses = lambda change: any(run.progress.calls for run in change.runs)
    with pytest.raises(StoreBusy):
        await plugin.tells(*told)
    if killed:
        plugin.daemon_is_killed()

    await plugin.tells(*told)

    run = session.run(task)
    assert (
        run.budget.step_calls,
        run.progress.calls,
        run.progress.checkpoints,
        run.limits.rounds,
    ) == (1, 1, 2, 1)


async def test_report_written_despite_a_store_error_counts_once(
    session: Session, task: str, plugin: Plugin, store: Busy
) -> None:
    told = a_turn(plugin)
    store.writes_first = True
    store.refuses = lambda change: any(run.progress.calls for run in change.runs)
    with pytest.raises(StoreBusy):
        await plugin.tells(*told)

    await plugin.tells(*told)

    assert (session.run(task).progress.calls, session.run(task).limits.rounds) == (1, 1)


async def test_other_tasks_of_a_turn_rest_although_its_end_is_cut_off(
    session: Session, task: str, plugin: Plugin, store: Busy
) -> None:
    session.world.clock.tick(1)
    second = session.register(name="Test")
    told = a_turn(plugin)
    await plugin.tells(*told[:3])
    store.refuses = lambda change: any(run.task_id == task for run in change.runs)
    with pytest.raises(StoreBusy):
        await plugin.tells(told[3])

    await plugin.tells(told[3])

    leases = [session.run(each).lease_until for each in (task, second)]
    assert leases == [None, None]
    assert session.run(second).limits.rounds == 1


@pytest.mark.parametrize("killed", [False, True])
async def test_forbidden_turn_is_stopped_each_time_it_is_reported(
    session: Session, task: str, *, killed: bool
) -> None:
    session.world.clock.tick(2 * 3600)
    plugin = Plugin(session.world, "boot_2")
    told = plugin.says("turn_started", origin="recovery", running=[MAIN])
    assert await plugin.tells(told) == {"stop": [MAIN]}
    assert session.run(task).state is RunState.BLOCKED
    before = read_all_state(session, task)

    for _ in range(3):
        if killed:
            plugin.daemon_is_killed()
        later = plugin.says("turn_started", origin="other", running=[MAIN])
        assert await plugin.tells(told, later) == {"stop": [MAIN]}

    assert read_all_state(session, task) == before


async def test_gateway_resume_reported_again_counts_as_one_try(session: Session, task: str) -> None:
    session.world.clock.tick(60)
    plugin = Plugin(session.world, "boot_2")
    told = plugin.says("turn_started", origin="recovery", running=[MAIN])

    for _ in range(4):
        plugin.daemon_is_killed()
        assert await plugin.tells(told) == {}

    assert session.run(task).limits.tries == 1


async def test_a_report_that_comes_again_waits_for_the_first(session: Session, task: str) -> None:
    async def slowly(call: Callable[..., Any], *values: Any) -> Any:
        await asyncio.sleep(0)
        return call(*values)

    plugin = Plugin(session.world, run_in_thread=slowly)
    await plugin.tells()
    told = a_turn(plugin)

    await asyncio.gather(*(plugin.tells(*told) for _ in range(3)))

    run = session.run(task)
    assert (run.progress.calls, run.progress.checkpoints, run.limits.rounds) == (1, 2, 1)
    assert plugin.read_reported() == {
        "gateway": 1,
        "turn_started": 1,
        "tool_started": 1,
        "tool_called": 1,
        "turn_ended": 1,
    }


async def test_each_start_of_a_gateway_counts_for_itself(
    session: Session, task: str, plugin: Plugin
) -> None:
    await plugin.tells(*a_turn(plugin))

    other = Plugin(session.world, "boot_2")
    await other.tells(*a_turn(other))

    assert session.run(task).progress.calls == 2


def make_call_elsewhere(plugin: Plugin, session: Session) -> dict[str, Any]:
    """A call in another session, on the task of that."""
    key = f"agent:dev:{len(session.world.store.find_runs(RunQuery()))}"
    Session(session.world, key=key, role="dev", boot=plugin.boot).register()
    call = {"call_id": "c", "tool": "exec", "about": "make"}
    return {**plugin.says("tool_started", **call), "session_key": key}


async def test_report_of_one_gateway_makes_no_other_count_twice(
    session: Session, task: str, plugin: Plugin
) -> None:
    told = a_turn(plugin, failed="overloaded", reason="passing")
    await plugin.tells(*told)
    for number in range(MOST_BOOTS - 1):
        other = Plugin(session.world, f"other_{number}")
        await other.tells(make_call_elsewhere(other, session))
    before = session.run(task)

    plugin.daemon_is_killed()
    await plugin.tells(*told)

    assert session.run(task) == before


async def test_only_the_latest_gateways_are_remembered(
    session: Session, task: str, plugin: Plugin
) -> None:
    numbers = [*range(2 * MOST_BOOTS), MOST_BOOTS, 2 * MOST_BOOTS]
    for number in numbers:
        plugin.starts_anew(f"other_{number}")
        await plugin.tells(make_call_elsewhere(plugin, session))

    mark = read_bookmark(session.world.store, REPORTED_BOOKMARK)
    assert mark is not None
    boots = [json.loads(line)["boot"] for line in mark.splitlines()]
    assert boots == [f"other_{number}" for number in numbers[-MOST_BOOTS:]]
    assert [*plugin.list_known_starts()] == boots


async def test_what_an_older_version_has_kept_is_read(
    session: Session, task: str, plugin: Plugin
) -> None:
    told = a_turn(plugin)
    await plugin.tells(*told)
    before = session.run(task)
    mark = Bookmark(name=REPORTED_BOOKMARK, value='{"boot":"boot_1","number":4,"stopped":[]}')
    session.world.store.commit(Change(bookmarks=(mark,)))

    plugin.daemon_is_killed()
    await plugin.tells(*told)

    assert session.run(task) == before


async def test_what_was_kept_before_another_home_came_counts_still(
    session: Session, task: str, plugin: Plugin
) -> None:
    told = a_turn(plugin)
    await plugin.tells(*told)
    before = session.run(task)
    session.world.context.store.sole = False

    plugin.daemon_is_killed()
    await plugin.tells(*told)

    assert session.run(task) == before


async def test_what_cannot_be_done_is_told_and_holds_nothing_back(
    session: Session, task: str, plugin: Plugin, store: Busy, caplog: Any
) -> None:
    told = a_turn(plugin)
    store.error = RunHeld("It is held by another.")
    store.refuses = lambda change: any(run.budget.step_calls for run in change.runs)

    assert await plugin.tells(*told) == {}

    run = session.run(task)
    assert (run.budget.step_calls, run.progress.calls, run.limits.rounds) == (0, 1, 1)
    said = "a gateway's tool_started of agent:main:main was refused: It is held"
    assert said in caplog.text
    # It is done with, and not tried again.
    await plugin.tells(*told)
    assert session.run(task) == run


@pytest.mark.parametrize("error", [Conflict, StoreBusy, StoreFull, StoreUnavailable])
async def test_report_is_repeated_while_the_store_is_in_trouble(
    session: Session, task: str, plugin: Plugin, store: Busy, error: Any
) -> None:
    told = a_turn(plugin)
    store.error = error("Not now.")
    store.times = MOST_TRIES if error is Conflict else 1
    store.refuses = lambda change: any(run.budget.step_calls for run in change.runs)

    with pytest.raises(error):
        await plugin.tells(*told)

    assert session.run(task).budget.step_calls == 0
    await plugin.tells(*told)
    assert session.run(task).budget.step_calls == 1


async def test_what_is_not_numbered_counts_as_often_as_it_is_told(
    session: Session, task: str, plugin: Plugin
) -> None:
    told = [{k: v for k, v in e.items() if k != "number"} for e in a_turn(plugin)]

    for _ in range(2):
        await plugin.tells(*told)

    assert session.run(task).progress.calls == 2


@pytest.mark.parametrize("writes_first", [False, True])
async def test_a_turn_is_covered_once_though_it_is_told_again(
    session: Session, store: Busy, plugin: Plugin, *, writes_first: bool
) -> None:
    call = {"tool": "exec", "request": "Bake three loaves."}
    told = [plugin.says("tool_started", **call, call_id=f"c{n}") for n in range(3)]
    await plugin.tells(*told[:2])
    store.refuses, store.writes_first = lambda change: bool(change.tasks), writes_first
    with pytest.raises(StoreBusy):
        await plugin.tells(told[2])
    await plugin.tells(told[2])

    (task,) = session.world.store.find_tasks(TaskQuery(implicit=True))
    assert session.run(task.task_id).progress.checkpoints == 3

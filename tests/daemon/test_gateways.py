"""The gateways that are connected: what they report, and whom they hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.daemon.gateways import Gateways
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.wakes.outbox import GATEWAY_RECOVERY_TIME
from openclaw_taskmem.engine import sub_agents, wakes
from openclaw_taskmem.engine.gateway_reports import BOOT
from taskmem_hookspecs import (
    Change,
    EventQuery,
    InvalidArguments,
    LedgerEntry,
    RunState,
    StoreBusy,
    TaskQuery,
    WakeState,
    WorkFolder,
)
from taskmem_hookspecs.testing import DAWN
from tests.daemon.looped import inline
from tests.support.gateways import MAIN, OTHER
from tests.support.sessions import Session
from tests.support.world import PERSON, PLAN, World

OLD = GATEWAY_RECOVERY_TIME.total_seconds() * 1000
FIRST, SECOND = object(), object()


class FreeCounter:
    """Counts how often it was told that a hold may be over, and how things stood."""

    def __init__(self) -> None:
        self.times = 0
        self.then: Callable[[], object] = lambda: None
        self.seen: list[object] = []

    def __call__(self) -> None:
        self.times += 1
        self.seen.append(self.then())


@pytest.fixture
def free_counter() -> FreeCounter:
    return FreeCounter()


@pytest.fixture
def gateways(world: World, free_counter: FreeCounter) -> Gateways:
    return Gateways(world.context, inline, free_counter)


def hello(*running: str, age: float = OLD, boot: str = "boot_1") -> dict[str, Any]:
    return {
        "kind": "gateway",
        "boot": boot,
        "age": age,
        "transport": "openclaw-plugin",
        "version": "1.2.3",
        "main": MAIN,
        "running": [*running],
    }


def begins(session: str, *running: str) -> dict[str, Any]:
    return {"kind": "turn_started", "session_key": session, "running": [*running]}


def ends(session: str, *running: str, **more: Any) -> dict[str, Any]:
    told = {"kind": "turn_ended", "session_key": session, "running": [*running]}
    return {**told, **more}


async def report(gateways: Gateways, *events: Any, visit: object = FIRST) -> None:
    assert await gateways.take_report(visit, {"events": [*events]}) == {}


def is_held(gateways: Gateways, session: str | None) -> bool:
    return gateways.build_hold_finder()(session) is not None


async def test_a_gateway_that_has_said_hello_is_known(gateways: Gateways) -> None:
    assert gateways.build_view() == []

    await report(gateways, hello(OTHER, MAIN, age=60_000))

    assert gateways.build_view() == [
        {
            "boot": "boot_1",
            "transport": "openclaw-plugin",
            "version": "1.2.3",
            "started_at": "2026-02-16T05:59:00.000Z",
            "main_session": MAIN,
            "running": [MAIN, OTHER],
            "reported": {"gateway": 1},
        }
    ]


async def test_whatever_else_it_reports_is_counted(gateways: Gateways) -> None:
    called = {"kind": "tool_called", "session_key": MAIN, "tool": "exec"}
    await report(gateways, hello(), called, called, {"kind": "compacted"})
    await report(gateways, hello(), visit=OTHER)

    first, second = gateways.build_view()
    assert first["reported"] == {"gateway": 1, "tool_called": 2, "compacted": 1}
    assert second["reported"] == {"gateway": 1}


async def test_a_gateway_is_as_old_as_it_says_whatever_its_clock_says(
    gateways: Gateways, world: World
) -> None:
    await report(gateways, hello(age=4_000))

    found = gateways.build_hold_finder()(OTHER)
    assert found is not None
    assert found.until == DAWN + GATEWAY_RECOVERY_TIME - timedelta(seconds=4)
    world.clock.tick(8)
    assert not is_held(gateways, OTHER)


@pytest.mark.parametrize("age", [1e9, 1e300])
async def test_an_age_beyond_every_calendar_is_no_trouble(gateways: Gateways, age: float) -> None:
    await report(gateways, hello(age=age))

    assert not is_held(gateways, OTHER)


async def test_a_session_is_held_from_its_turns_begin_to_its_end(
    gateways: Gateways, free_counter: FreeCounter
) -> None:
    await report(gateways, hello())
    assert (is_held(gateways, MAIN), is_held(gateways, None)) == (False, False)
    before = free_counter.times

    await report(gateways, begins(MAIN, MAIN), begins(OTHER, MAIN, OTHER))
    assert (is_held(gateways, MAIN), is_held(gateways, OTHER)) == (True, True)
    assert is_held(gateways, None)
    assert free_counter.times == before

    await report(gateways, ends(MAIN, OTHER))
    assert (is_held(gateways, MAIN), is_held(gateways, OTHER)) == (False, True)
    assert free_counter.times == before + 1


async def test_what_is_held_is_told_as_it_was_when_it_was_asked(gateways: Gateways) -> None:
    """Threads ask while the event loop takes reports."""
    await report(gateways, hello(MAIN))
    holds = gateways.build_hold_finder()
    await report(gateways, ends(MAIN))

    assert holds(MAIN) is not None
    assert not is_held(gateways, MAIN)


@pytest.mark.parametrize("how", ["hangs up", "stops"])
async def test_a_gateway_that_leaves_holds_nobody_any_more(
    gateways: Gateways, free_counter: FreeCounter, how: str
) -> None:
    await report(gateways, hello(MAIN))
    await report(gateways, hello(OTHER, boot="boot_2"), visit=SECOND)
    before = free_counter.times

    if how == "stops":
        await report(gateways, {"kind": "gateway_stopped", "boot": "boot_1"})
    else:
        gateways.forget_gateway(FIRST)

    assert (is_held(gateways, MAIN), is_held(gateways, OTHER)) == (False, True)
    assert [view["boot"] for view in gateways.build_view()] == ["boot_2"]  # type: ignore[index, call-overload]
    assert free_counter.times == before + 1


async def test_who_was_never_there_frees_nobody_by_leaving(
    gateways: Gateways, free_counter: FreeCounter
) -> None:
    gateways.forget_gateway(FIRST)

    assert free_counter.times == 0


async def test_of_a_gateway_that_has_not_said_hello_nothing_is_kept(gateways: Gateways) -> None:
    await report(gateways, begins(MAIN, MAIN), ends(MAIN, MAIN))

    assert gateways.build_view() == []
    assert not is_held(gateways, MAIN)


@pytest.mark.parametrize("nonsense", [7, {"kind": "turn_started"}])
async def test_of_a_report_that_is_no_report_nothing_counts(
    gateways: Gateways, nonsense: object
) -> None:
    with pytest.raises(InvalidArguments):
        await report(gateways, hello(), nonsense)

    assert gateways.build_view() == []


# --- what changes in the store ------------------------------------------------


@pytest.fixture
def delivery(world: World) -> str:
    """The delivery of a stuck wake that the first start of the plug-in took."""
    world.context.commit(Change(bookmarks=(world.context.store.make_bookmark(BOOT, "boot_1"),)))
    world.register(session_key=MAIN)
    world.clock.tick(300)
    world.sweep()
    (found,) = world.claim()
    wakes.settle_delivered(world.context, found, "openclaw-plugin")
    return found.delivery_id


def state(world: World) -> WakeState:
    (wake,) = world.wakes()
    return wake.state


async def test_a_turns_end_is_written_down_before_its_session_is_free(
    gateways: Gateways, world: World, delivery: str, free_counter: FreeCounter
) -> None:
    await report(gateways, hello(MAIN))
    free_counter.then = lambda: (state(world), is_held(gateways, MAIN))

    await report(gateways, ends(MAIN, deliveries=[delivery]))

    assert free_counter.seen[-1] == ("acknowledged", False)


async def test_a_turn_older_than_the_daemon_takes_up_what_it_was_told(
    world: World, gateways: Gateways
) -> None:
    session = Session(world)
    task = session.works()
    session.asks("Which region?")
    world.call("task_resume", PERSON, task_id=task, answer="eu-west")
    (wake,) = world.deliver()
    told = {"kind": "answered", "session_key": MAIN, "deliveries": [wake.delivery_id]}
    await report(gateways, hello(), begins(MAIN, MAIN), told)
    world.clock.tick(60)
    again = Gateways(world.context, inline, lambda: None)  # the daemon was killed

    greeting = {**hello(MAIN), "turn_ages": {MAIN: 61_000}}
    call = {"kind": "tool_started", "session_key": MAIN, "call_id": "c", "tool": "exec"}
    await report(again, greeting, call)
    await report(again, ends(MAIN, said="I am on it.", calls=1))

    assert session.run(task).state is RunState.RUNNING
    assert not any("eu-west" in wake.text for wake in world.pass_time(600))


async def test_a_turn_that_failed_acknowledges_nothing(
    gateways: Gateways, world: World, delivery: str
) -> None:
    await report(gateways, hello(MAIN))
    await report(gateways, ends(MAIN, deliveries=[delivery], error="503"))

    assert state(world) is WakeState.DUE


async def test_model_answer_acknowledges_wakes_and_keeps_turn_running(
    gateways: Gateways, world: World, delivery: str
) -> None:
    await report(gateways, hello(MAIN))
    told = {"kind": "answered", "session_key": MAIN, "deliveries": [delivery]}

    await report(gateways, told)
    assert state(world) is WakeState.ACKNOWLEDGED
    assert is_held(gateways, MAIN)

    await report(gateways, ends(MAIN, error="503"))
    assert state(world) is WakeState.ACKNOWLEDGED
    assert not is_held(gateways, MAIN)


async def test_a_report_that_comes_late_counts_all_the_same(
    gateways: Gateways, world: World, delivery: str
) -> None:
    """The plug-in keeps what it could not tell a daemon that was away."""
    await report(gateways, ends(MAIN, deliveries=[delivery]))

    assert state(world) is WakeState.ACKNOWLEDGED


async def test_a_new_start_of_a_gateway_owes_again_what_no_turn_took(
    gateways: Gateways, world: World, delivery: str
) -> None:
    await report(gateways, hello())
    assert state(world) is WakeState.SENT

    await report(gateways, hello(boot="boot_2"))
    assert state(world) is WakeState.DUE
    assert "wake_lost" in [e.kind for e in world.store.find_events(EventQuery())]


async def test_a_wake_whose_turn_did_not_start_is_owed_again(
    gateways: Gateways, world: World, delivery: str
) -> None:
    await report(gateways, hello(MAIN))
    told = {"kind": "turn_not_started", "session_key": MAIN, "error": "Retry."}

    await report(gateways, {**told, "deliveries": [delivery]})
    assert state(world) is WakeState.DUE
    assert is_held(gateways, MAIN), "another turn of the session goes on"


async def test_a_gateway_holds_its_sessions_although_the_store_is_busy(
    gateways: Gateways, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise StoreBusy("locked")

    with monkeypatch.context() as patch:
        patch.setattr(world.context.store, "read_records", busy)
        with pytest.raises(StoreBusy):
            await report(gateways, hello(MAIN))
    assert is_held(gateways, MAIN)

    gateways.forget_gateway(FIRST)
    assert not is_held(gateways, MAIN)


async def test_ended_turn_holds_no_session_although_store_is_busy(
    gateways: Gateways, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise StoreBusy("locked")

    await report(gateways, hello(MAIN))
    monkeypatch.setattr(world.store, "find_wakes", busy)
    with pytest.raises(StoreBusy):
        await report(gateways, ends(MAIN, deliveries=["delivery_1"]))
    assert not is_held(gateways, MAIN)


async def test_next_task_of_session_goes_on_after_we_stop_its_turn(
    world: World, gateways: Gateways
) -> None:
    session = Session(world, key=MAIN)
    first = session.register()
    world.clock.tick(1)
    second = session.register(name="Second")
    session.ends()
    await report(gateways, hello(), begins(MAIN, MAIN))
    world.call("task_cancel", PERSON, task_id=second)

    await report(gateways, ends(MAIN, aborted=True, stopped=True))

    assert session.run(first).state is RunState.RUNNING
    [wake] = world.deliver()
    assert wake.task_id == first


async def test_file_changes_of_calls_enter_ledger_of_the_sessions_task(
    world: World, gateways: Gateways, tmp_path: Path
) -> None:
    task = Session(world, key=MAIN).register()
    call = {"session_key": MAIN, "call_id": "c1", "folders": [str(tmp_path)]}
    touched = [{"path": "/sandbox/a.md", "change": "created"}]

    await report(
        gateways,
        hello(),
        {"kind": "tool_started", "tool": "exec", "command": True, **call},
        {"kind": "tool_called", "tool": "write", "touched": touched, **call},
    )

    [folder] = world.store.read_records(WorkFolder, task)
    assert (folder.path, folder.since is None) == (str(tmp_path), False)
    [entry] = world.store.read_records(LedgerEntry, task)
    assert (entry.path, entry.change, entry.call_id, entry.size) == (
        "/sandbox/a.md",
        "created",
        "c1",
        None,
    )


async def test_the_third_call_that_is_not_ours_covers_a_users_turn(
    world: World, gateways: Gateways
) -> None:
    asked = {"session_key": MAIN, "request": "Bake three loaves."}
    tools = ("exec", "task_list", "taskmem__task_list", "read", "exec")
    calls = [
        {"kind": "tool_started", "call_id": f"c{n}", "tool": tool, **asked}
        for n, tool in enumerate(tools)
    ]

    await report(gateways, hello(), begins(MAIN, MAIN), *calls[:-1])
    assert world.store.find_tasks(TaskQuery(implicit=True)) == []
    await report(gateways, calls[-1])
    [task] = world.store.find_tasks(TaskQuery(implicit=True))
    assert (task.name, task.status) == ("Bake three loaves.", "active")
    await report(gateways, ends(MAIN, origin="user"))
    assert world.task(task.task_id).status == "completed"


async def test_calls_of_the_turn_before_do_not_count(world: World, gateways: Gateways) -> None:
    call = {"kind": "tool_started", "call_id": "c", "tool": "exec"}
    two = [{**call, "session_key": MAIN, "request": "Bake."}] * 2
    await report(gateways, hello(), begins(MAIN, MAIN), *two, ends(MAIN), *two)
    await report(gateways, begins(MAIN, MAIN), *two)
    assert world.store.find_tasks(TaskQuery(implicit=True)) == []


async def test_a_session_whose_sub_agent_works_is_not_told_to_go_on(
    world: World, gateways: Gateways
) -> None:
    session = Session(world, key=MAIN)
    task = session.register()
    turn = {"origin": "taskmem", "said": "Still waiting for it."}

    await report(gateways, hello())
    for _ in range(5):
        await report(gateways, begins(MAIN, MAIN), ends(MAIN, **turn, children=1))

    assert world.deliver() == []
    assert session.run(task).state is RunState.RUNNING
    await report(gateways, begins(MAIN, MAIN), ends(MAIN, **turn))
    world.clock.tick(world.context.policies.runs.idle_pauses[0])
    assert [wake.task_id for wake in world.deliver()] == [task]


async def test_gateways_reconnecting_in_turn_do_not_count_as_restarted(
    gateways: Gateways, world: World
) -> None:
    await report(gateways, hello(boot="boot_1"), visit=FIRST)
    await report(gateways, hello(boot="boot_2"), visit=SECOND)
    world.register(session_key=MAIN)
    world.clock.tick(300)
    world.daemon()
    [sent] = world.wakes(WakeState.SENT)
    taken = sent.model_copy(update={"transport": "openclaw-plugin"})
    world.store.commit(Change(wakes=(taken,)))

    for boot, visit in (("boot_1", FIRST), ("boot_2", SECOND)) * 3:
        gateways.forget_gateway(visit)
        await report(gateways, hello(boot=boot), visit=visit)

    assert [wake.wake_id for wake in world.wakes(WakeState.SENT)] == [sent.wake_id]


async def test_starting_gateway_takes_no_run_from_a_connected_one(
    gateways: Gateways, world: World
) -> None:
    await report(gateways, hello(boot="boot_1"), visit=FIRST)
    session = Session(world)
    session.begins()
    task = session.register()
    before = session.run(task)

    await report(gateways, hello(boot="boot_2", age=0), visit=SECOND)

    assert session.run(task) == before
    gateways.forget_gateway(FIRST)
    await report(gateways, hello(boot="boot_3", age=0), visit=FIRST)
    assert session.run(task).lease_until != before.lease_until


async def test_who_calls_is_in_a_turn_where_one_of_its_session_runs(gateways: Gateways) -> None:
    assert gateways.is_in_turn(FIRST, MAIN)
    await report(gateways, hello())
    assert not gateways.is_in_turn(FIRST, MAIN)
    await report(gateways, begins(MAIN, MAIN))
    assert gateways.is_in_turn(FIRST, MAIN.upper())
    assert not gateways.is_in_turn(FIRST, "agent:main:other")
    assert gateways.is_in_turn(FIRST, None)


async def test_sessions_of_one_key_in_two_gateways_have_their_own_runs(
    gateways: Gateways, world: World
) -> None:
    call = {"kind": "tool_started", "session_key": MAIN, "tool": "exec"}
    for visit, host in ((FIRST, "openclaw:one"), (SECOND, "openclaw:two")):
        await report(gateways, {**hello(boot=host), "host": host}, visit=visit)
    owner = gateways.find_owner(FIRST, MAIN, "main")
    caller = Caller(session_key=MAIN, host=gateways.find_host(FIRST), owner=owner)
    task = world.call("task_register", caller, name="Deploy", plan=PLAN)["task_id"]
    before = world.store.read_task(task).run

    made = {**call, "call_id": "c1", "about": "make"}
    await report(gateways, begins(MAIN, MAIN), made, visit=SECOND)

    assert world.store.read_task(task).run == before
    await report(gateways, begins(MAIN, MAIN), made, visit=FIRST)
    run = world.store.read_task(task).run
    assert run is not None
    assert (run.owner, run.progress.checkpoints) == (owner, 1)


async def test_calls_of_a_session_without_turn_belong_to_sub_agents(
    gateways: Gateways, world: World
) -> None:
    session = Session(world)
    call = {"kind": "tool_started", "session_key": MAIN, "tool": "exec"}
    await report(gateways, hello())
    task = session.register()
    done = {"origin": "user", "said": "I wait.", "children": 1}
    await report(gateways, begins(MAIN, MAIN), ends(MAIN, **done))

    await report(gateways, {**call, "call_id": "c1", "about": "make"})
    assert session.run(task).lease_until is None

    await report(gateways, begins(MAIN, MAIN), {**call, "call_id": "c2", "about": "x"})
    assert session.run(task).lease_until is not None


CHILD = "agent:main:subagent:1"
SPAWNED = {
    "kind": "sub_agent_started",
    "session_key": MAIN,
    "agent_id": "main",
    "child": CHILD,
    "parent": MAIN,
}


async def test_a_gateway_is_told_which_sub_agents_to_look_up(
    gateways: Gateways,
) -> None:
    first = {**hello(), "host": "openclaw:one"}
    await report(gateways, first, {**SPAWNED, "number": 1})
    gateways.forget_gateway(FIRST)

    other = {**hello(boot="boot_2"), "host": "openclaw:two"}
    assert await gateways.take_report(SECOND, {"events": [other]}) == {}
    names = {MAIN: [{"kind": "sub_agent", "name": CHILD, "age": 1}]}
    assert await gateways.take_report(FIRST, {"events": [{**first, "at_work": names}]}) == {}
    again = {**first, "boot": "boot_3"}
    assert await gateways.take_report(FIRST, {"events": [again]}) == {"unheard": [CHILD]}

    ended = {**SPAWNED, "kind": "sub_agent_ended", "outcome": "error"}
    await report(gateways, {**ended, "number": 1})
    assert await gateways.take_report(FIRST, {"events": [again]}) == {}


async def test_the_end_of_a_sub_agent_is_done_once_reported(
    gateways: Gateways, world: World
) -> None:
    """A report that comes again, as its answer was lost, ends no work that began since."""
    ended = {**SPAWNED, "kind": "sub_agent_ended", "outcome": "ok", "number": 2}
    await report(gateways, hello(), {**SPAWNED, "number": 1}, ended, {**SPAWNED, "number": 3})

    restarted = Gateways(world.context, inline, lambda: None)
    await restarted.take_report(FIRST, {"events": [hello(), ended]})

    [agent] = sub_agents.list_sub_agents(world.context)
    assert agent.state == "running"

"""The loops under a clock that is turned by hand: no sleep, no daemon process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from openclaw_taskmem.daemon.background_loops import (
    DROP_ON_SECONDS,
    DROP_SECONDS,
    SURE_SECONDS,
    SWEEP_SECONDS,
    WakeableTimer,
)
from openclaw_taskmem.daemon.plugin_loops import PluginLoop
from openclaw_taskmem.daemon.wake_routes import RoutingTransport
from openclaw_taskmem.domain.policies import KeepPolicy
from openclaw_taskmem.engine import retention, wakes
from openclaw_taskmem.plugin_host.isolation import TriedToEnd
from openclaw_taskmem.tools import views
from taskmem_hookspecs import (
    Change,
    EventQuery,
    StoreBusy,
    StoreSize,
    Wake,
    WakeReceipt,
    WakeRefused,
    WakeState,
    WakeUndelivered,
)
from taskmem_hookspecs.testing import DAWN, FakeClock, a_wake, an_event
from tests.daemon.looped import Gateway, run_loops
from tests.support.world import World

THRESHOLD = 300


@pytest.fixture
def gateway(world: World) -> Gateway:
    return Gateway(world.clock)


async def test_stuck_task_is_found_when_due_not_a_sweep_later(
    world: World, gateway: Gateway
) -> None:
    async with run_loops(world, gateway):
        task = world.register()
        await world.clock.advance(THRESHOLD - 1)
        assert gateway.received == []
        await world.clock.advance(2)

    assert [wake.task_id for wake in gateway.received] == [task]
    (wake,) = world.wakes()
    assert wake.created_at - DAWN <= timedelta(seconds=THRESHOLD + 1)
    assert wake.state is WakeState.SENT


async def test_a_whole_night_of_silence_is_seven_alerts(world: World, gateway: Gateway) -> None:
    async with run_loops(world, gateway):
        world.register()
        await world.clock.advance(hours=10)

    # At 5 min, then after 15 min, 30 min, 1 h, 2 h, 4 h; the next would be at 15.8 h.
    assert len(gateway.received) == 6


async def test_a_gateway_that_is_down_gets_the_wake_once_it_is_up(
    world: World, gateway: Gateway
) -> None:
    gateway.fails = lambda _: WakeUndelivered("gateway down")
    async with run_loops(world, gateway):
        world.register()
        await world.clock.advance(THRESHOLD + 600)
        (owed,) = world.wakes(WakeState.DUE)
        assert owed.attempts > 3
        assert owed.last_error == "gateway down"
        assert views.count_unsent(world.context) == 1
        gateway.fails = lambda _: None
        await world.clock.advance(301)

    assert len(gateway.received) == 1
    assert world.wakes(WakeState.SENT)[0].last_error is None


async def test_a_wake_that_only_waits_is_not_unsent(world: World, gateway: Gateway) -> None:
    gateway.fails = lambda _: WakeUndelivered("No gateway runs here.", waits=True)
    async with run_loops(world, gateway):
        world.register()
        await world.clock.advance(THRESHOLD + 600)
        (owed,) = world.wakes(WakeState.DUE)
        assert owed.note == owed.last_error == "No gateway runs here."
        assert views.count_unsent(world.context) == 0
        gateway.fails = lambda _: WakeUndelivered("gateway down")
        await world.clock.advance(301)
        assert world.wakes(WakeState.DUE)[0].note is None
        assert views.count_unsent(world.context) == 1


async def test_a_wake_that_is_tried_for_days_leaves_a_few_log_entries(
    world: World, gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.fails = lambda _: WakeUndelivered("gateway down")
    async with run_loops(world, gateway):
        world.end_wait(world.open_wait(None))
        await world.clock.advance(hours=24)
    (owed,) = world.wakes(WakeState.DUE)
    assert owed.attempts > 256
    failed = [e for e in world.store.find_events(EventQuery()) if e.kind == "wake_failed"]
    assert len(failed) == 9
    said = [r for r in caplog.records if "was not delivered" in r.message]
    assert len(said) == 9


def test_a_wake_that_nobody_has_tried_to_send_is_not_unsent(world: World) -> None:
    world.register()
    world.clock.tick(THRESHOLD + 1)
    world.sweep()

    assert len(world.wakes(WakeState.DUE)) == 1
    assert views.count_unsent(world.context) == 0


@pytest.mark.parametrize(
    ("said", "rests"),
    [(0.0, 60), (90.0, 90), (3600.0, 300), (None, 160), ("soon", 160)],
    ids=["at once", "in a minute and a half", "in an hour", "it does not know", "a word"],
)
async def test_a_transport_is_not_tried_before_it_says_it_works(
    world: World, gateway: Gateway, said: Any, rests: int
) -> None:
    gateway.fails = lambda _: WakeUndelivered("gateway down")
    async with run_loops(world, gateway):
        world.register()
        # Tried in vain at 0, 5, 15, 35, 75 and 155 seconds after the threshold.
        await world.clock.advance(THRESHOLD + 154)
        gateway.fails = lambda _: WakeUndelivered("it has just come", said)
        await world.clock.advance(1)
        gateway.fails = lambda _: None
        await world.clock.advance(rests - 1)
        assert gateway.received == []
        await world.clock.advance(1)

    assert len(gateway.received) == 1


async def test_a_transport_that_raises_anything_at_all_loses_nothing(
    world: World, gateway: Gateway
) -> None:
    gateway.fails = lambda _: KeyError("a bug")
    async with run_loops(world, gateway):
        world.register()
        await world.clock.advance(THRESHOLD + 60)
        (owed,) = world.wakes(WakeState.DUE)
        assert "KeyError" in (owed.last_error or "")


@pytest.mark.parametrize("nonsense", [None, WakeReceipt(delivered_at=DAWN + timedelta(days=999))])
async def test_a_receipt_that_is_nonsense_sends_nothing_twice(
    world: World, gateway: Gateway, nonsense: object
) -> None:
    tries: list[Wake] = []

    async def deliver(wake: Wake) -> object:
        tries.append(wake)
        return nonsense

    object.__setattr__(gateway, "deliver", deliver)
    async with run_loops(world, gateway):
        task = world.register()
        await world.clock.advance(THRESHOLD + 600)

    assert len(tries) == 1
    assert world.wakes(WakeState.SENT)[0].sent_at == tries[0].created_at
    assert world.task(task).last_stuck_alert_at == tries[0].created_at


async def test_what_is_refused_is_not_tried_again(world: World, gateway: Gateway) -> None:
    tries: list[Wake] = []

    def refuse(wake: Wake) -> Exception:
        tries.append(wake)
        return WakeRefused("no such session")

    gateway.fails = refuse
    async with run_loops(world, gateway):
        world.register()
        await world.clock.advance(THRESHOLD + 600)

    assert len(tries) == 1
    assert [w.state for w in world.wakes()] == ["refused"]


async def test_a_session_whose_delivery_hangs_delays_no_other(
    world: World, gateway: Gateway
) -> None:
    gateway.hangs = {"agent:main:hanging"}
    async with run_loops(world, gateway):
        world.register("hanging", session_key="agent:main:hanging")
        other = world.register("other", session_key="agent:main:other")
        await world.clock.advance(THRESHOLD + 2)

        assert [wake.task_id for wake in gateway.received] == [other]
        (owed,) = world.wakes(WakeState.DUE)
        assert owed.session_key == "agent:main:hanging"


async def test_a_delivery_that_is_cut_off_by_the_end_is_due_again_soon(
    world: World, gateway: Gateway
) -> None:
    gateway.hangs = {None}
    async with run_loops(world, gateway):
        world.register()
        await world.clock.advance(THRESHOLD + 2)

    (owed,) = world.wakes(WakeState.DUE)
    assert owed.last_error == "the daemon stopped while it was being delivered"
    assert owed.due_at is not None
    assert owed.due_at - world.clock.now() <= timedelta(seconds=5)


async def test_a_store_that_is_busy_for_a_while_only_delays(
    world: World, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise StoreBusy("locked")

    async with run_loops(world, gateway):
        task = world.register()
        with monkeypatch.context() as patch:
            patch.setattr(world.store, "find_tasks", busy)
            await world.clock.advance(THRESHOLD + 60)
            assert gateway.received == []
        await world.clock.advance(25)

    assert [wake.task_id for wake in gateway.received] == [task]


async def test_suspended_time_does_not_count_towards_a_stuck_task(
    world: World, gateway: Gateway
) -> None:
    async with run_loops(world, gateway):
        world.register()
        await world.clock.advance(60)
        world.clock.jump(8 * 3600)
        await world.clock.advance(THRESHOLD - 10)
        assert gateway.received == []
        await world.clock.advance(130)

    assert len(gateway.received) == 1


async def test_stopped_daemon_hears_callers_before_it_judges_tasks(
    world: World, gateway: Gateway
) -> None:
    async with run_loops(world, gateway):
        called, silent = world.register(), world.register()
        await world.clock.advance(THRESHOLD - 20)
        world.clock.tick(30)  # a process that is stopped notices nothing of it
        await world.clock.advance(5)
        assert gateway.received == []
        world.narrate(called)
        await world.clock.advance(26)

    assert [wake.task_id for wake in gateway.received] == [silent]


async def test_on_a_machine_that_is_always_late_alerts_go_out(
    world: World, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_time = world.clock.sleep
    monkeypatch.setattr(world.clock, "sleep", lambda seconds: in_time(seconds + 1.2))
    async with run_loops(world, gateway):
        task = world.register()
        await world.clock.advance(3 * THRESHOLD)

    assert task in [wake.task_id for wake in gateway.received]


@pytest.mark.parametrize("jumped", [8 * 3600, -6 * 3600])
async def test_after_a_jump_a_deadline_is_what_is_left_of_a_wait(
    world: World, gateway: Gateway, jumped: int
) -> None:
    async with run_loops(world, gateway):
        task = world.register()
        wait = world.open_wait(task, timeout=1000)
        await world.clock.advance(30)
        world.context.wait_watcher.seconds = {(wait.wait_id, wait.round): 970.0}  # type: ignore[attr-defined]
        world.clock.jump(jumped)
        await world.clock.advance(70)

    due = world.store.read_wait(wait.wait_id).deadline_at
    left = (due - world.clock.now()).total_seconds()
    assert 970 - 70 <= left <= 970


async def test_clock_jump_is_handled_although_the_store_is_busy_first(
    world: World, gateway: Gateway
) -> None:
    async with run_loops(world, gateway):
        world.register()
        wait = world.open_wait(None, timeout=1000)
        world.context.wait_watcher.seconds = {(wait.wait_id, wait.round): 940.0}  # type: ignore[attr-defined]
        await world.clock.advance(60)
        busy = [StoreBusy("locked"), StoreBusy("locked")]
        read = world.store.read_wait

        def read_wait(wait_id: str) -> Any:
            if busy:
                raise busy.pop()
            return read(wait_id)

        world.context.store.read_wait = read_wait
        world.clock.jump(8 * 3600)
        await world.clock.advance(120)

    assert busy == []
    assert gateway.received == []
    due = read(wait.wait_id).deadline_at
    assert (due - world.clock.now()).total_seconds() > 700


async def test_a_clock_that_goes_back_loses_no_alert(world: World, gateway: Gateway) -> None:
    async with run_loops(world, gateway):
        task = world.register()
        await world.clock.advance(30)
        world.clock.jump(-6 * 3600)
        await world.clock.advance(60 + THRESHOLD + 2)

    assert [wake.task_id for wake in gateway.received] == [task]


async def test_a_clock_that_goes_back_keeps_no_owed_wake_waiting(
    world: World, gateway: Gateway
) -> None:
    gateway.fails = lambda _: WakeUndelivered("gateway down")
    async with run_loops(world, gateway):
        world.register()
        await world.clock.advance(THRESHOLD + 5)
        gateway.fails = lambda _: None
        world.clock.jump(-6 * 3600)
        await world.clock.advance(400)

    assert len(gateway.received) == 1


async def test_a_clock_that_goes_back_ends_what_holds_an_alert_back(
    world: World, gateway: Gateway
) -> None:
    async with run_loops(world, gateway):
        later = world.clock.now() + timedelta(minutes=7)
        task = world.task(world.register())
        held = task.model_copy(update={"held_until": later})
        world.context.commit(Change(tasks=(held,)))
        world.clock.jump(-6 * 3600)
        await world.clock.advance(60 + 2 * THRESHOLD)

    assert [wake.task_id for wake in gateway.received] == [task.task_id]


async def test_messages_dated_ahead_do_not_count_in_this_minutes_limit(
    world: World, gateway: Gateway
) -> None:
    async with run_loops(world, gateway):
        for _ in range(5):
            world.end_wait(world.open_wait(None))
            await world.clock.advance(1)
        assert len(gateway.received) == 4
        world.clock.jump(-6 * 3600)
        await world.clock.advance(65)

    assert len(gateway.received) == 5


async def test_alarm_that_rings_between_look_and_rest_is_heard() -> None:
    clock = FakeClock()
    alarm = WakeableTimer(clock, 60)
    alarm.reset()
    alarm.wake(clock.now())
    await asyncio.sleep(0)

    await asyncio.wait_for(alarm.wait(None), 5)


async def test_an_alarm_for_later_than_planned_wakes_nobody() -> None:
    clock = FakeClock()
    alarm = WakeableTimer(clock, 60)
    alarm.reset()
    rest = asyncio.create_task(alarm.wait(DAWN + timedelta(seconds=10)))
    await clock.advance(1)
    alarm.wake(DAWN + timedelta(seconds=30))
    await clock.advance(8)
    assert not rest.done()
    await clock.advance(1)
    assert rest.done()


async def test_an_alarm_for_sooner_than_planned_wakes_at_its_instant() -> None:
    clock = FakeClock()
    alarm = WakeableTimer(clock, 60)
    alarm.reset()
    rest = asyncio.create_task(alarm.wait(None))
    await clock.advance(1)
    alarm.wake(DAWN + timedelta(seconds=5))
    await clock.advance(3)
    assert not rest.done()
    await clock.advance(1)
    assert rest.done()


async def test_an_alarm_shows_a_loop_that_the_clock_was_set() -> None:
    clock = FakeClock()
    alarm = WakeableTimer(clock, 600)
    alarm.reset()
    rest = asyncio.create_task(alarm.wait(DAWN + timedelta(seconds=500)))
    await clock.advance(1)
    clock.jump(3600)
    alarm.wake(clock.now() + timedelta(seconds=60))
    await clock.advance(0)
    assert rest.done()


async def test_sent_message_is_recorded_although_the_store_is_busy(
    world: World, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = world.store.commit
    refusals: list[int] = []

    def busy(change: Change) -> None:
        if any(wake.state is WakeState.SENT for wake in change.wakes):
            refusals.append(1)
            if len(refusals) < 4:
                raise StoreBusy("locked")
        commit(change)

    async with run_loops(world, gateway):
        world.register()
        monkeypatch.setattr(world.store, "commit", busy)
        await world.clock.advance(THRESHOLD + 30)

    assert len(gateway.received) == 1
    assert [w.state for w in world.wakes()] == ["sent"]


async def test_one_message_at_a_time_to_a_session_and_four_in_all(
    world: World, gateway: Gateway
) -> None:
    sessions = [f"s{i}" for i in range(7)]
    gateway.hangs = set(sessions)
    async with run_loops(world, gateway):
        for session in sessions:
            world.register(session, session_key=session)
        await world.clock.advance(THRESHOLD + 5)

        assert sum(wake.attempts for wake in world.wakes()) == 4


async def test_no_number_of_one_agents_wakes_delays_anothers(
    world: World, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakes, "BATCH", 10)
    sessions = [f"agent:a:{n}" for n in range(20)]
    gateway.hangs = set(sessions)
    async with run_loops(world, gateway):
        for session in [*sessions, "agent:b:main"]:
            world.register(session, session_key=session)
        await world.clock.advance(THRESHOLD + 1)

        assert [wake.session_key for wake in gateway.received] == ["agent:b:main"]


async def test_a_second_jump_does_not_shorten_the_hold(world: World, gateway: Gateway) -> None:
    async with run_loops(world, gateway, longest=10):
        world.register()
        world.clock.jump(8 * 3600)
        await world.clock.advance(20)
        world.clock.jump(6)
        await world.clock.advance(200)
        assert gateway.received == []


async def test_blocking_or_exiting_transport_hurts_only_itself(gateway: Gateway) -> None:
    class Rude:
        name = "rude"

        def reaches(self, host: str | None, _session: str | None) -> bool:
            return host == "rude"

        async def deliver(self, wake: Wake) -> WakeReceipt:
            if wake.text == "end":
                raise SystemExit(1)
            is_blocked.set()
            goes_on.wait(30)
            return WakeReceipt(delivered_at=DAWN)

    Rude.__module__ = "rude"
    is_blocked, goes_on = threading.Event(), threading.Event()
    courier = RoutingTransport([Rude(), gateway])
    with pytest.raises(TriedToEnd):
        await courier.deliver(a_wake(text="end", host="rude"))
    hanging = asyncio.create_task(courier.deliver(a_wake(host="rude")))
    assert await asyncio.to_thread(is_blocked.wait, 30)
    async with asyncio.timeout(30):
        await courier.deliver(a_wake(host="other"))
    assert [wake.host for wake in gateway.received] == ["other"]
    goes_on.set()
    assert (await hanging).delivered_at == DAWN


@pytest.mark.parametrize("raises", [True, False])
async def test_of_several_transports_the_faulty_one_is_named(
    world: World, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, raises: bool
) -> None:
    class Elsewhere(Gateway):
        name = "elsewhere"

        def reaches(self, host: str | None, _session: str | None) -> bool:
            asked.append(host)
            return False

    asked: list[str | None] = []

    async def call_here(_: PluginLoop, begin: Callable[[], Awaitable[object]]) -> object:
        return await begin()

    async def deliver_silently(wake: Wake) -> None:
        gateway.received.append(wake)

    monkeypatch.setattr(PluginLoop, "call", call_here)
    if raises:
        gateway.fails = lambda _: KeyError("a bug")
    else:
        object.__setattr__(gateway, "deliver", deliver_silently)
    async with run_loops(world, RoutingTransport([Elsewhere(world.clock), gateway])):
        world.register()
        await world.clock.advance(THRESHOLD + 600)
        (wake,) = world.wakes()

    assert len(asked) == wake.attempts  # and not anew for the name
    if raises:
        assert wake.last_error == "test failed: KeyError: 'a bug'"
    else:
        assert (len(gateway.received), wake.transport) == (1, "test")


DAY = 86_400.0


def ended_long_ago(world: World, events: int = 3) -> None:
    world.store.commit(Change(events=tuple(an_event() for _ in range(events))))
    world.clock.tick(2 * DAY)


async def test_what_has_ended_goes_once_the_clock_has_run_evenly() -> None:
    world = World(retention=KeepPolicy(days=1))
    ended_long_ago(world)
    async with run_loops(world, Gateway(world.clock)):
        await world.clock.advance(SURE_SECONDS - 1)
        assert len(world.store.find_events(EventQuery())) == 3
        await world.clock.advance(SWEEP_SECONDS)
        assert len(world.store.find_events(EventQuery())) == 1
        ended_long_ago(world)
        await world.clock.advance(DROP_SECONDS)
        assert len(world.store.find_events(EventQuery())) == 1


async def test_a_clock_that_jumps_ahead_drops_nothing_at_once() -> None:
    world = World(retention=KeepPolicy(days=1))
    async with run_loops(world, Gateway(world.clock)):
        await world.clock.advance(SURE_SECONDS - 10)
        world.store.commit(Change(events=(an_event(), an_event())))
        world.clock.jump(100 * 365 * DAY)
        await world.clock.advance(SWEEP_SECONDS + 60)
        world.clock.jump(-100 * 365 * DAY)
        await world.clock.advance(DROP_SECONDS)
    assert len(world.store.find_events(EventQuery())) == 2


async def test_failed_drop_stops_no_loop_and_is_retried_hourly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, tried = World(), []

    def measure(home: str | None) -> StoreSize:
        tried.append(world.clock.monotonic())
        raise RuntimeError("a statement took too long")

    world.store.measure = measure  # type: ignore[method-assign]
    async with run_loops(world, Gateway(world.clock)):
        await world.clock.advance(SURE_SECONDS + DROP_SECONDS + 2 * SWEEP_SECONDS)
        assert [b - a for a, b in pairwise(tried)] == [DROP_SECONDS]
        assert "a pass failed" not in caplog.text
        assert "a statement took too long" in caplog.text


async def test_while_there_is_more_to_drop_the_next_look_is_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, looks = World(), []

    def drop_ended(_: object) -> bool:
        looks.append(world.clock.monotonic())
        return True

    monkeypatch.setattr(retention, "drop_ended", drop_ended)
    async with run_loops(world, Gateway(world.clock), longest=SWEEP_SECONDS):
        await world.clock.advance(SURE_SECONDS + 3 * DROP_ON_SECONDS)
    assert {b - a for a, b in pairwise(looks)} == {DROP_ON_SECONDS}

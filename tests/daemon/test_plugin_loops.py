"""Calls on the loops of plug-ins, and how they get there and back."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from openclaw_taskmem.daemon import plugin_loops
from openclaw_taskmem.daemon.plugin_loops import (
    LoopCallQueue,
    PluginCallCancelled,
    PluginLoop,
    TriedToEnd,
)
from tests.support.waiting import PATIENCE


@pytest.fixture
def plugin_loop() -> Iterator[PluginLoop]:
    made = PluginLoop("a loop")
    yield made
    made.close()


async def answer(value: object) -> object:
    return value


async def wait_within(waiting: Awaitable[object]) -> object:
    async with asyncio.timeout(PATIENCE):
        return await waiting


async def test_a_call_is_made_in_the_lanes_own_thread(plugin_loop: PluginLoop) -> None:
    async def where() -> str:
        return threading.current_thread().name

    assert await wait_within(plugin_loop.call(where)) == "a loop"


async def test_calls_are_begun_in_the_order_in_which_they_were_made(
    plugin_loop: PluginLoop,
) -> None:
    begun: list[int] = []
    calls = (plugin_loop.call(lambda n=n: answer(begun.append(n))) for n in range(9))
    await wait_within(asyncio.gather(*calls))
    assert begun == [*range(9)]


async def test_what_is_raised_there_is_raised_here(plugin_loop: PluginLoop) -> None:
    async def fail() -> None:
        raise KeyError("there")

    with pytest.raises(KeyError, match="there"):
        await wait_within(plugin_loop.call(fail))
    assert await wait_within(plugin_loop.call(lambda: answer("still there"))) == "still there"


async def test_what_tries_to_end_the_process_is_told_of(plugin_loop: PluginLoop) -> None:
    def leave() -> Awaitable[None]:
        raise SystemExit(3)

    with pytest.raises(TriedToEnd, match="3"):
        await wait_within(plugin_loop.call(leave))


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def lets_out(error: BaseException) -> None:
    raise error


GIVING_UP: dict[str, Callable[[], Awaitable[None]]] = {
    "lets a cancellation out": lambda: lets_out(asyncio.CancelledError()),
    "cancels itself": cancels_itself,
    "is no exception": lambda: lets_out(BaseException("panic")),
}


@pytest.mark.parametrize("begin", GIVING_UP.values(), ids=GIVING_UP.keys())
async def test_what_gives_up_its_own_call_does_not_cancel_the_caller(
    plugin_loop: PluginLoop, begin: Callable[[], Awaitable[None]]
) -> None:
    with pytest.raises(PluginCallCancelled, match="gave up its own call"):
        await wait_within(plugin_loop.call(begin))
    assert await wait_within(plugin_loop.call(lambda: answer("still there"))) == "still there"


async def test_what_is_no_promise_is_the_answer_itself(plugin_loop: PluginLoop) -> None:
    plain: Callable[[], object] = lambda: 7  # noqa: E731
    assert await wait_within(plugin_loop.call(plain)) == 7  # type: ignore[arg-type]


@pytest.mark.parametrize("begun", [True, False], ids=["under way", "not begun"])
async def test_what_is_cancelled_here_is_cancelled_there(
    plugin_loop: PluginLoop, *, begun: bool
) -> None:
    started, ended = threading.Event(), threading.Event()

    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    calling = asyncio.create_task(plugin_loop.call(hang))
    await asyncio.sleep(0)
    if begun:
        await asyncio.to_thread(started.wait, PATIENCE)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait_within(calling)
    await wait_within(plugin_loop.call(lambda: answer(None)))
    assert not started.is_set() or await asyncio.to_thread(ended.wait, PATIENCE)


async def test_closed_lane_cancels_running_calls_and_refuses_new_ones(
    plugin_loop: PluginLoop,
) -> None:
    started = threading.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    calling = asyncio.create_task(plugin_loop.call(hang))
    await asyncio.to_thread(started.wait, PATIENCE)
    await asyncio.to_thread(plugin_loop.close)
    with pytest.raises(asyncio.CancelledError):
        await wait_within(calling)
    with pytest.raises(RuntimeError, match="closed"):
        await plugin_loop.call(lambda: answer(None))


async def test_closed_lane_cancels_a_call_that_has_not_arrived(plugin_loop: PluginLoop) -> None:
    calling = asyncio.create_task(plugin_loop.call(lambda: answer("late")))
    await asyncio.sleep(0)  # it is posted, and goes out with the next turn
    plugin_loop.close()
    with pytest.raises(asyncio.CancelledError):
        await wait_within(calling)


async def test_what_takes_long_to_clean_up_leaves_no_caller_waiting(
    plugin_loop: PluginLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_loops, "CLEAN_UP_SECONDS", 0.01)
    started, cancelled = threading.Event(), list[BaseException]()

    async def hang() -> None:
        while True:
            try:
                started.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                cancelled.append(error)

    calling = asyncio.create_task(plugin_loop.call(hang))
    await asyncio.to_thread(started.wait, PATIENCE)
    await asyncio.to_thread(plugin_loop.close)
    with pytest.raises(asyncio.CancelledError):
        await wait_within(calling)
    assert len(cancelled) == 1


async def test_a_lane_that_is_closed_lets_what_it_cancels_clean_up(plugin_loop: PluginLoop) -> None:
    started, cleaned = threading.Event(), threading.Event()

    async def work() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            cleaned.set()

    calling = asyncio.create_task(plugin_loop.call(work))
    await asyncio.to_thread(started.wait, PATIENCE)
    await asyncio.to_thread(plugin_loop.close)
    assert cleaned.is_set()
    with pytest.raises(asyncio.CancelledError):
        await wait_within(calling)


async def test_of_what_does_not_end_a_lane_says_one_line(
    plugin_loop: PluginLoop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_loops, "CLEAN_UP_SECONDS", 0.01)
    started = threading.Event()

    async def work() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                started.set()
                await asyncio.Event().wait()

    calling = asyncio.create_task(plugin_loop.call(work))
    await asyncio.to_thread(started.wait, PATIENCE)
    await asyncio.to_thread(plugin_loop.close)
    with pytest.raises(asyncio.CancelledError):
        await wait_within(calling)
    gc.collect()
    assert [each.getMessage() for each in caplog.records] == [
        "a loop does not end; going on without"
    ]


async def test_lane_stopped_by_plugin_refuses_calls_and_can_be_closed(
    plugin_loop: PluginLoop,
) -> None:
    async def stop() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.Event().wait()

    calling = asyncio.create_task(plugin_loop.call(stop))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.to_thread(plugin_loop._thread.join, PATIENCE)
    with pytest.raises(RuntimeError, match="closed"):
        await wait_within(plugin_loop.call(lambda: answer(None)))
    plugin_loop.close()
    with pytest.raises(asyncio.CancelledError):
        await wait_within(calling)


def test_a_lane_is_called_from_one_loop_after_the_other(plugin_loop: PluginLoop) -> None:
    for value in (1, 2):
        assert asyncio.run(wait_within(plugin_loop.call(lambda v=value: answer(v)))) == value


# --- the mail between them ------------------------------------------------------


class CountingLoop(asyncio.SelectorEventLoop):
    """A loop that counts how often another thread wakes it."""

    woken = 0

    def call_soon_threadsafe(self, *given, **more):
        self.woken += 1
        return super().call_soon_threadsafe(*given, **more)


@pytest.fixture
def receiver() -> Iterator[CountingLoop]:
    made = CountingLoop()
    yield made
    made.close()


async def test_all_that_is_posted_in_one_turn_wakes_the_receiver_once(
    receiver: CountingLoop,
) -> None:
    mailbox, made = LoopCallQueue(asyncio.get_running_loop(), receiver), []
    for number in range(16):
        mailbox.post(lambda number=number: made.append(number))
    await asyncio.sleep(0)
    mailbox.post(receiver.stop)
    await asyncio.sleep(0)
    await asyncio.to_thread(receiver.run_forever)
    assert (made, receiver.woken) == ([*range(16)], 2)


async def test_a_call_that_fails_takes_none_with_it(receiver: CountingLoop) -> None:
    mailbox, made = LoopCallQueue(asyncio.get_running_loop(), receiver), []
    failures: list[object] = []
    receiver.set_exception_handler(lambda _, told: failures.append(told["exception"]))
    mailbox.post(lambda: 1 / 0)
    mailbox.post(lambda: made.append("made"))
    mailbox.post(receiver.stop)
    await asyncio.sleep(0)
    await asyncio.to_thread(receiver.run_forever)
    assert made == ["made"]
    assert [type(each) for each in failures] == [ZeroDivisionError]


async def test_what_is_posted_to_one_that_is_closed_is_dropped(receiver: CountingLoop) -> None:
    mailbox = LoopCallQueue(asyncio.get_running_loop(), receiver)
    receiver.close()
    mailbox.post(lambda: pytest.fail("it is closed"))
    await asyncio.sleep(0)
    assert receiver.woken == 0

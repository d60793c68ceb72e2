"""What the recorder's own work takes is counted, and nothing that runs beside it."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from taskmem_recorder.machine import CpuMeter

SPENT = 0.05


def spend(seconds: float = SPENT) -> str:
    """Keep a processor busy in this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return "spent"


async def work(gate: asyncio.Event, met: asyncio.Event) -> str:
    spend()
    met.set()
    await gate.wait()
    return spend()


async def test_steps_are_counted_and_not_what_runs_between_them() -> None:
    meter, gate, met = CpuMeter(), asyncio.Event(), asyncio.Event()
    working = asyncio.ensure_future(meter.run(work(gate, met)))
    await met.wait()
    spend(1.0)
    thread = threading.Thread(target=spend, args=(0.5,))
    thread.start()
    thread.join()
    gate.set()
    assert await working == "spent"
    assert 2 * SPENT <= meter.seconds < 0.5


async def test_what_it_calls_in_another_thread_is_counted() -> None:
    meter = CpuMeter()
    assert await asyncio.to_thread(meter.call, spend) == "spent"
    assert meter.seconds >= SPENT


async def test_an_error_of_the_work_is_its_callers() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await CpuMeter().run(fail())


async def test_work_that_is_cancelled_cleans_up() -> None:
    met, cleaned = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        try:
            met.set()
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    working = asyncio.ensure_future(CpuMeter().run(wait()))
    await met.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert cleaned.is_set()

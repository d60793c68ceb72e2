"""Work that is done off the path of calls."""

from __future__ import annotations

import asyncio
import threading

import pytest

from openclaw_taskmem.daemon.thread_pool import DeferredExecutor


async def test_work_is_done_on_another_thread_in_order() -> None:
    later, done = DeferredExecutor(), asyncio.Event()
    loop, seen = asyncio.get_running_loop(), list[object]()
    later(0, lambda: seen.append(threading.current_thread() is threading.main_thread()))
    later(0.001, lambda: loop.call_soon_threadsafe(done.set))
    await done.wait()
    assert seen == [False]
    await later.close()


async def test_work_that_fails_is_logged_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    later, done = DeferredExecutor(), threading.Event()

    def fails() -> None:
        raise OSError("no disk")

    later(0, fails)
    later(0, done.set)
    await asyncio.to_thread(done.wait)
    await later.close()
    assert "no disk" in caplog.text


async def test_after_the_end_no_work_is_begun() -> None:
    later, seen = DeferredExecutor(), list[str]()
    await later.close()
    later(0, lambda: seen.append("late"))
    assert seen == []

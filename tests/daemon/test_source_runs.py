import asyncio

from openclaw_taskmem.daemon.plugin_loops import PluginLoops, run_sources
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs.testing import FakeClock


class PauseCounter(FakeClock):
    """A clock whose sleeps end at once."""

    def __init__(self):
        super().__init__()
        self.pauses = []

    async def sleep(self, seconds):
        self.pauses.append(seconds)


class Source:
    """A source that fails a few times, and then works until it is cancelled."""

    def __init__(self, failures, loop):
        self.left, self.loop = failures, loop
        self.works, self.cancelled = asyncio.Event(), asyncio.Event()

    def recall(self, query, limit, recency_bias):
        return []

    async def run(self):
        if self.left:
            self.left -= 1
            raise OSError("the disk is full")
        try:
            self.loop.call_soon_threadsafe(self.works.set)
            await asyncio.Event().wait()
        finally:
            self.loop.call_soon_threadsafe(self.cancelled.set)


async def test_a_source_that_fails_is_named_and_run_again(caplog):
    clock, source = PauseCounter(), Source(3, asyncio.get_running_loop())
    loops, host = PluginLoops(), PluginHost(entries=[])
    running = asyncio.create_task(run_sources([source], host, loops, clock))
    try:
        await source.works.wait()
        assert clock.pauses == [1, 2, 4]
        assert [m for m in caplog.messages if "Source.run: OSError: the disk is full" in m]
        running.cancel()
        await source.cancelled.wait()
    finally:
        await asyncio.to_thread(loops.close)


async def test_a_source_without_work_of_its_own_is_not_run():
    class Plain:
        def recall(self, query, limit, recency_bias):
            return []

    await run_sources([Plain()], PluginHost(entries=[]), PluginLoops(), FakeClock())

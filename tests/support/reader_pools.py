"""Readers behind one, as the daemon puts them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from openclaw_taskmem.daemon.plugin_loops import PluginLoops
from openclaw_taskmem.daemon.readers import Readers
from tests.support.world import World

SECONDS = 20.0


@asynccontextmanager
async def join_readers(*readers, seconds=SECONDS, store=None, clock=None):
    """All of them behind one, counted in a store."""
    world = World(store, clock)
    plugin_loops = PluginLoops()
    found = Readers(readers, world.context.plugin_host, plugin_loops, world.clock, seconds=seconds)
    found.spending.begin(world.context)
    found.clock = world.clock
    try:
        yield found
    finally:
        await found.spending.close()
        await asyncio.to_thread(plugin_loops.close)

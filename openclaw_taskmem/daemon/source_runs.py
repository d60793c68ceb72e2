"""Run the background work of the sources of `memory_recall`, each on its plug-in's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from openclaw_taskmem.daemon.plugin_loops import PluginLoops
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import BackgroundSource, Clock, RecallSource

FIRST_PAUSE: Final = 1.0
"""Seconds before work that failed is started again; doubled after each further failure."""
_LONGEST_PAUSE: Final = 300.0


async def run_sources(
    sources: Sequence[RecallSource],
    plugin_host: PluginHost,
    plugin_loops: PluginLoops,
    clock: Clock,
) -> None:
    """Run the work of all sources until it returns or this is cancelled."""
    async with asyncio.TaskGroup() as group:
        for source in sources:
            if isinstance(source, BackgroundSource):
                group.create_task(_keep_running(source, plugin_host, plugin_loops, clock))


async def _keep_running(
    source: BackgroundSource, plugin_host: PluginHost, plugin_loops: PluginLoops, clock: Clock
) -> None:
    """Run a source's work until it returns; record its failures, and pause after each."""
    pause = FIRST_PAUSE
    while True:
        began = clock.monotonic()
        try:
            return await plugin_loops.get_loop(source).call(source.run)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            plugin_host.record_failure(source, f"{type(source).__name__}.run", error)
        if clock.monotonic() - began > _LONGEST_PAUSE:
            pause = FIRST_PAUSE
        await clock.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)

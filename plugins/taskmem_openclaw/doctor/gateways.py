"""Find the gateways connected to the daemon; wait for one that is about to connect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from taskmem_hookspecs import Checkup, TaskmemError
from taskmem_openclaw import plugin_socket
from taskmem_openclaw.setup.edits import to_object

Gateways = Sequence[Mapping[str, Any]]


def read_gateways(status: Mapping[str, object] | None) -> Gateways:
    """Return the gateways in the daemon's status."""
    found = (status or {}).get("gateways")
    listed = cast("list[object]", found) if isinstance(found, list) else []
    return [to_object(each) for each in listed]


async def await_gateways(checkup: Checkup, environ: Mapping[str, str], seconds: float) -> Gateways:
    """Return the connected gateways; if there is none, wait up to `seconds` for one.

    A gateway is expected if its plug-in listens but is not connected: the daemon was started after
    it, and the plug-in reconnects by itself.
    """
    found = read_gateways(checkup.status)
    if found or checkup.status is None:
        return found
    if not await plugin_socket.wait_for_listener(
        plugin_socket.find_socket(environ), plugin_socket.GLANCE
    ):
        return found
    try:
        async with asyncio.timeout(seconds):
            while True:
                if found := read_gateways(await _fetch_status(checkup)):
                    return found
                await asyncio.sleep(plugin_socket.GLANCE)
    except TimeoutError:
        return ()


async def _fetch_status(checkup: Checkup) -> Mapping[str, object] | None:
    try:
        status = await checkup.ask("status", {})
    except TaskmemError:
        return None
    return cast("dict[str, object]", status) if isinstance(status, dict) else None

"""`task_update(message)` against the echo as a host in Python sees it.

The same two servers as in `update_over_mcp`, called through the SDK's own client,
whose cost is in both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack

import anyio
from figures import Figure, millis, ratio
from homes import COMMAND, build_environment, fill_home, make_home, serve_home
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from updates import ECHO, MANY, SAID

SAMPLES = 1500
WARM = 100


def update_by_sdk_client() -> Iterator[Figure]:
    """Measure one agent behind the SDK's client, in turns with the echo."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        ids = fill_home(home, MANY)
        stack.enter_context(serve_home(home))
        echo, ours = anyio.run(_measure, build_environment(home), ids)
    yield millis("echo tool, through the SDK's client", echo)
    yield millis("task_update, 20,000 tasks, through the SDK's client", ours)
    yield ratio("the two through the SDK's client", ours, echo, 2.0)


async def _measure(env: Mapping[str, str], ids: Sequence[str]) -> tuple[list[float], list[float]]:
    async with AsyncExitStack() as stack:
        echo = await _open_session(stack, ECHO, env)
        ours = await _open_session(stack, (COMMAND, "mcp"), env)
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(WARM + SAMPLES):
            given = {"task_id": ids[number * 7919 % len(ids)], "message": SAID.format(number)}
            turn = [(echo, "echo", times[0]), (ours, "task_update", times[1])]
            for session, tool, took in turn if number % 2 else reversed(turn):
                start = time.perf_counter()
                await session.call_tool(tool, given)
                took.append(time.perf_counter() - start)
    return times[0][WARM:], times[1][WARM:]


async def _open_session(
    stack: AsyncExitStack, command: Sequence[str], env: Mapping[str, str]
) -> ClientSession:
    server = StdioServerParameters(command=command[0], args=[*command[1:]], env=dict(env))
    streams = await stack.enter_async_context(stdio_client(server))
    session = await stack.enter_async_context(ClientSession(*streams))
    await session.initialize()
    return session

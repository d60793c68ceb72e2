"""Serve the tools over MCP on a Unix socket, with the official SDK.

The relay copies lines between a host and this socket, so the socket carries MCP as on stdio: one
JSON document a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue

from openclaw_taskmem import __version__
from openclaw_taskmem.mcp_lines import (
    Id,
    LineRefused,
    TruncatedLine,
    build_refusal,
    find_request_id,
    fit_for_parser,
)
from openclaw_taskmem.plugin_host.plugin_host import format_error
from openclaw_taskmem.tools.tool import Answer, Tool
from taskmem_hookspecs import TaskmemError

MOST_BYTES: Final = 1024 * 1024
"""Maximum size of a line; relays and a gateway's plug-in refuse longer ones themselves. The parsed
line may take fifty times its size in memory."""
_MOST_COMMAS: Final = 100_000
"""Maximum number of commas in a line; parsing a million values would block all other calls."""
TOO_LONG: Final = (
    f"The call is more than {MOST_BYTES >> 20} MiB or {_MOST_COMMAS:,} values; shorten it."
)
_LONG_LINE_BYTES: Final = 256 * 1024
"""Size in bytes from which a line is checked off the event loop."""


async def read_line(reader: asyncio.StreamReader, most: int = MOST_BYTES) -> bytes:
    """Return the next line; empty at the end; a `TruncatedLine` if it exceeds the limits.

    `most`: maximum size in bytes. Of a line that is too long the middle is discarded.
    """
    head = b""
    while True:
        try:
            line = await reader.readuntil()
        except asyncio.LimitOverrunError as error:
            piece = await reader.readexactly(error.consumed)
            head = head or piece
            continue
        except asyncio.IncompleteReadError as error:
            line = error.partial
        is_long = head or len(line) > most or line.count(b",") > _MOST_COMMAS
        return TruncatedLine(head + line) if is_long else line


class _LinesIn:
    """Lines that a socket receives, as the SDK reads them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read from `reader`, and refuse what is no request on `writer`."""
        self._reader = reader
        self._writer = writer

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield lines until the other end closes or is killed."""
        with contextlib.suppress(ConnectionError):
            async for line in self._read_lines():
                yield line

    async def _read_lines(self) -> AsyncIterator[str]:
        while line := await read_line(self._reader):
            try:
                if isinstance(line, TruncatedLine):
                    await self._refuse(find_request_id(line), TOO_LONG)
                    continue
                if len(line) > _LONG_LINE_BYTES:
                    fitted = await asyncio.to_thread(fit_for_parser, line)
                else:
                    fitted = fit_for_parser(line)
                if fitted:
                    yield fitted
            except LineRefused as refusal:
                await self._refuse(refusal.to, str(refusal))

    async def _refuse(self, to: Id | None, sentence: str) -> None:
        """Write a refusal; until the other end reads, no further line is read."""
        self._writer.write(build_refusal(to, "invalid_arguments", sentence))
        await self._writer.drain()


class _LinesOut:
    """Lines that the SDK writes into a socket."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        """Write a line."""
        self._writer.write(text.encode(errors="replace"))

    async def flush(self) -> None:
        """Wait until the socket has room; return at once if the other end has disconnected."""
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()


# --- the server ----------------------------------------------------------------------------


if TYPE_CHECKING:
    import anyio
    from mcp.server import Server, ServerRequestContext

_INSTRUCTIONS: Final = (
    "Memory for work that takes many steps. Register such work with task_register, "
    "narrate every step with task_update, revise with task_plan_update; where you lost "
    "track, ask task_update with a query. Never poll for what takes long: start it "
    "under `taskmem run --name NAME -- CMD` in the background, hand the waiting over "
    "with smart_wait, and do as it answers: that says how you learn of the end. A "
    "text that starts with [task_stuck_resume] or [task_resume] is from here: it "
    "holds your own task as JSON; go on with its suggested_next_action and report "
    "with task_update. Do not do again what do_not_redo names, look first at what "
    "unknown_outcome names, and leave what do_not_revive names."
)
"""Instructions for every host, whether or not a wake can reach its agent."""

_CallTool = Callable[[str, dict[str, Any], str | None, Mapping[str, JsonValue]], Awaitable[Answer]]
"""Calls a tool with arguments for an MCP client, whose name is None if it gives none, with the
metadata of the request."""


SDK: Final = ("mcp.server.stdio", "mcp.server", "mcp_types")
"""Modules of the SDK that are imported."""
_SERVER_ERROR: Final = -32000


class SdkUnavailable(TaskmemError):
    """The MCP SDK could not be loaded."""

    def __init__(self, why: Exception) -> None:
        """Build the sentence from the error that the import raised."""
        super().__init__(
            f"The daemon cannot speak MCP, for its SDK did not load ({format_error(why)}). "
            "Install taskmem anew, then run taskmem daemon restart and call again."
        )


def load_sdk() -> None:
    """Import the SDK, which takes most of a second; call it off the event loop."""
    for module in SDK:
        importlib.import_module(module)


async def refuse_host(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, why: TaskmemError
) -> None:
    """Answer each request of a host with an error, until it disconnects."""
    async for line in _LinesIn(reader, writer):
        call = json.loads(line)
        if {"id", "method"} <= call.keys():
            writer.write(build_refusal(call["id"], why.name, str(why)))
            await writer.drain()


async def serve_host(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    call_tool: _CallTool,
    tools: Sequence[Tool],
) -> None:
    """Serve one host with the given tools, until it disconnects."""
    from mcp.server.stdio import stdio_server

    server = _build_server(call_tool, tools)
    lines_in = cast("anyio.AsyncFile[str]", _LinesIn(reader, writer))
    lines_out = cast("anyio.AsyncFile[str]", _LinesOut(writer))
    async with stdio_server(stdin=lines_in, stdout=lines_out) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _build_server(call_tool: _CallTool, tools: Sequence[Tool]) -> Server[dict[str, Any]]:
    import mcp_types as types
    from mcp.server import Server

    listed = types.ListToolsResult(
        tools=[
            types.Tool(name=tool.name, description=tool.description, input_schema=tool.input_schema)
            for tool in tools
        ]
    )

    async def on_list_tools(_ctx: object, _params: object) -> types.ListToolsResult:
        return listed

    async def on_call_tool(
        ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        asking = ctx.session.client_params
        client = asking.client_info.name if asking else None
        given = dict(params.arguments or {})
        meta = cast("Mapping[str, JsonValue]", params.meta or {})
        try:
            answer: object = await call_tool(params.name, given, client, meta)
            failed = False
        except TaskmemError as error:
            answer = error.to_json()
            failed = True
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        content = [types.TextContent(type="text", text=text)]
        return types.CallToolResult(content=list(content), is_error=failed)

    server = Server(
        "taskmem",
        version=__version__,
        title="Task memory",
        instructions=_INSTRUCTIONS,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )
    server.middleware = []  # the SDK's own builds a span for each message, which nobody collects
    return server

"""Serve the tools over MCP on a Unix socket, with the official SDK.

The relay copies lines between a host and this socket, so the socket carries MCP as on stdio: one
JSON document a line. The SDK drops a line that its parser rejects, and the sender then waits for
ever. So each line of JSON is changed, if needed, into one that gets an answer, even if only a
refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from openclaw_taskmem import __version__
from openclaw_taskmem.plugin_host.plugin_host import format_error
from openclaw_taskmem.tools.tool import Answer, Tool
from taskmem_hookspecs import TaskmemError

_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_ODD_ARGUMENTS: Final = re.compile(r'"arguments"\s*:\s*[^\s{n]')
"""Finds a line whose arguments may be neither an object nor null."""
_TEXT_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
"""Also matches a string without an end, so that its quotes do not begin other strings."""
MOST_BYTES: Final = 1024 * 1024
"""Maximum size of a line; relays and a gateway's plug-in refuse longer ones themselves. The parsed
line may take fifty times its size in memory."""
_MOST_COMMAS: Final = 100_000
"""Maximum number of commas in a line; parsing a million values would block all other calls."""
TOO_LONG: Final = (
    f"The call is more than {MOST_BYTES >> 20} MiB or {_MOST_COMMAS:,} values; shorten it."
)
_INVALID_REQUEST: Final = -32600
_LONG_LINE_BYTES: Final = 256 * 1024
"""Size in bytes from which a line is checked off the event loop."""
_MOST_LEVELS: Final = 100
"""Maximum nesting: more than a call may have, and less than the SDK's parser accepts."""


async def read_line(reader: asyncio.StreamReader, most: int = MOST_BYTES) -> bytes | None:
    """Return the next line; empty at the end; None if it exceeds the limits.

    `most`: maximum size in bytes. A line that is too long is read to its end and discarded.
    """
    is_long = False
    while True:
        try:
            line = await reader.readuntil()
        except asyncio.LimitOverrunError as error:
            is_long = True
            await reader.readexactly(error.consumed)
            continue
        except asyncio.IncompleteReadError as error:
            line = error.partial
        is_long = is_long or len(line) > most
        return None if is_long or line.count(b",") > _MOST_COMMAS else line


class _LinesIn:
    """Lines that a socket receives, as the SDK reads them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read from `reader`, and refuse lines that are too long on `writer`."""
        self._reader = reader
        self._writer = writer

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield lines until the other end closes or is killed.

        A line that is longer than a call may be gets a refusal.
        """
        with contextlib.suppress(ConnectionError):
            async for line in self._read_lines():
                yield line

    async def _read_lines(self) -> AsyncIterator[str]:
        while (line := await read_line(self._reader)) != b"":
            if line is None:
                self._refuse()
            elif len(line) > _LONG_LINE_BYTES:
                yield await asyncio.to_thread(_fit_for_parser, line)
            else:
                yield _fit_for_parser(line)

    def _refuse(self) -> None:
        error = {"code": _INVALID_REQUEST, "message": TOO_LONG}
        refusal = {"jsonrpc": "2.0", "id": None, "error": error}
        self._writer.write(json.dumps(refusal).encode() + b"\n")


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


def _fit_for_parser(line: bytes) -> str:
    text = _replace_surrogates(_cut_deep_nesting(line.decode(errors="replace")))
    return _wrap_odd_arguments(text) if _ODD_ARGUMENTS.search(text) else text


def _wrap_odd_arguments(line: str) -> str:
    """Put arguments that are no object into one, as the SDK refuses the call without a word.

    Source: https://github.com/PrefectHQ/fastmcp/issues/932
    """
    try:
        call = json.loads(line)
        given = call["params"]["arguments"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return line
    if given is None or isinstance(given, dict):
        return line
    call["params"]["arguments"] = {"arguments": given}
    return json.dumps(call) + "\n"


def _replace_surrogates(line: str) -> str:
    """Replace lone surrogates, because the SDK's parser rejects the whole line for one."""
    if not _ESCAPED_SURROGATE.search(line):
        return line
    try:
        document = json.loads(line)
    except ValueError:
        return line
    text = json.dumps(document, ensure_ascii=False)
    return _SURROGATE.sub("\ufffd", text) + "\n"


def _cut_deep_nesting(line: str) -> str:
    """Replace values nested deeper than `_MOST_LEVELS` by 0, so that the SDK answers.

    The rest is still too deep for a call, which is then refused.
    """
    if line.count("[") + line.count("{") <= _MOST_LEVELS:
        return line
    parts: list[str] = []
    depth = start = 0
    for found in _TEXT_OR_BRACKET.finditer(line):
        if found[0] in "[{":
            depth += 1
            if depth == _MOST_LEVELS + 1:
                parts.append(line[start : found.start()] + "0")
        elif found[0] in "]}":
            depth -= 1
            if depth == _MOST_LEVELS:
                start = found.end()
    parts.append(line[start:] if depth <= _MOST_LEVELS else "\n")
    return "".join(parts)


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

_CallTool = Callable[[str, dict[str, Any], str | None], Awaitable[Answer]]
"""Calls a tool with arguments for an MCP client; its name is None if it gives none."""


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
        try:
            call: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(call, dict) and {"id", "method"} <= call.keys():
            data = why.to_json()
            error = {"code": _SERVER_ERROR, "message": str(why), "data": data}
            number: object = cast("dict[str, Any]", call)["id"]
            answer = {"jsonrpc": "2.0", "id": number, "error": error}
            writer.write(json.dumps(answer).encode() + b"\n")
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
        try:
            answer: object = await call_tool(params.name, given, client)
            failed = False
        except TaskmemError as error:
            answer = error.to_json()
            failed = True
        text = json.dumps(answer, ensure_ascii=False)
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

"""Serve the tools over MCP on a Unix socket, with the official SDK.

The relay copies lines between a host's stdio and this socket, so the socket carries MCP as on
stdio: one JSON document a line.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from openclaw_taskmem import __version__
from openclaw_taskmem.daemon.mcp_lines import LinesIn, LinesOut
from openclaw_taskmem.plugin_host.manager import format_error
from openclaw_taskmem.tools.tool import Answer, Tool
from taskmem_hookspecs import TaskmemError

if TYPE_CHECKING:
    import anyio
    from mcp.server import Server, ServerRequestContext

INSTRUCTIONS: Final = (
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

CallTool = Callable[[str, dict[str, Any], str | None], Awaitable[Answer]]
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
    async for line in LinesIn(reader, writer):
        try:
            asked: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(asked, dict) and {"id", "method"} <= asked.keys():
            data = why.to_json()
            error = {"code": _SERVER_ERROR, "message": str(why), "data": data}
            number: object = cast("dict[str, Any]", asked)["id"]
            answer = {"jsonrpc": "2.0", "id": number, "error": error}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()


async def serve_host(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    call_tool: CallTool,
    tools: Sequence[Tool],
) -> None:
    """Serve one host with the given tools, until it disconnects."""
    from mcp.server.stdio import stdio_server

    server = _build_server(call_tool, tools)
    lines_in = cast("anyio.AsyncFile[str]", LinesIn(reader, writer))
    lines_out = cast("anyio.AsyncFile[str]", LinesOut(writer))
    async with stdio_server(stdin=lines_in, stdout=lines_out) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _build_server(call_tool: CallTool, tools: Sequence[Tool]) -> Server[dict[str, Any]]:
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
        instructions=INSTRUCTIONS,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )
    server.middleware = []  # the SDK's own builds a span for each message, which nobody collects
    return server

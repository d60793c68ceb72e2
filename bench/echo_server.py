"""What `task_update` is held against: the official SDK's own stdio server.

Its one tool takes the same arguments, does nothing, and answers in the same
shape and size.
"""

from __future__ import annotations

import json

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

SCHEMA = {
    "type": "object",
    "properties": {"task_id": {"type": "string"}, "message": {"type": "string"}},
}
TOOLS = types.ListToolsResult(
    tools=[types.Tool(name="echo", description="Echo.", input_schema=SCHEMA)]
)


async def list_tools(_ctx: object, _params: object) -> types.ListToolsResult:
    return TOOLS


async def call_tool(_ctx: object, params: types.CallToolRequestParams) -> types.CallToolResult:
    given = dict(params.arguments or {})
    answer = {
        "task_id": given["task_id"],
        "message_count": 12,
        "status": "active",
        "acknowledged": True,
        "plan_progress": {"completed": [], "current": 1, "remaining": [1, 2, 3, 4, 5], "pct": 0},
        "message": f'Noted. Next is step 1, "{given["message"]:.16}".',
    }
    text = json.dumps(answer, ensure_ascii=False)
    content = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=list(content), is_error=False)


async def main() -> None:
    server = Server("echo", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)

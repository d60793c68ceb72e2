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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pydantic import JsonValue

from openclaw_taskmem import __version__
from openclaw_taskmem.daemon.dispatcher import Dispatcher, RelayHost
from openclaw_taskmem.domain.changes.waits import PolledState
from openclaw_taskmem.domain.text.texts import (
    format_iso_millis,
    has_visible_text,
    quote_line,
    to_plain_line,
)
from openclaw_taskmem.mcp_answers import (
    CAPABILITIES,
    INSTRUCTIONS,
    NEWER_PROTOCOLS,
    SERVER_NAME,
    SERVER_TITLE,
    TASKS,
)
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
from taskmem_hookspecs import TaskmemError, UserQuestion, Wait

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

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        take_answer: Callable[[bytes], bool],
    ) -> None:
        """Read from `reader`, and refuse what is no request on `writer`.

        `take_answer`: as for `serve_host`.
        """
        self._reader = reader
        self._writer = writer
        self._take_answer = take_answer

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
                if self._take_answer(line):
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
    import mcp_types as types
    from mcp.server import Server, ServerRequestContext


class HostCalls(NamedTuple):
    """Answers what the client of one relay asks for."""

    call_tool: Callable[[str, dict[str, Any], RelayHost], Awaitable[Answer]]
    """Calls a tool with arguments."""
    dispatcher: Dispatcher
    """Finds questions to the user that agents ask, and polls their waits."""
    host: RelayHost

    def find_caller(self, ctx: ServerRequestContext[Any]) -> RelayHost:
        """Return the relay with the name that its client gives, and with the request's metadata."""
        asking = ctx.session.client_params
        client = asking.client_info.name if asking else None
        return self.host._replace(client=client, meta=_read_meta(ctx))


_OPEN_WAIT: Final = "smart_wait"
"""The tool that is answered as a task."""
_ASK: Final = "task_update"
"""The tool by which an agent asks the user."""
_POLL_MILLIS: Final = 250
"""How soon after an answer a client is asked to ask for a wait again; an answer comes when it ends,
or after seconds."""


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
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    why: TaskmemError,
    *,
    take_answer: Callable[[bytes], bool],
) -> None:
    """Answer each request of a host with an error, until it disconnects.

    `take_answer`: as for `serve_host`.
    """
    async for line in _LinesIn(reader, writer, take_answer):
        call = json.loads(line)
        if {"id", "method"} <= call.keys():
            writer.write(build_refusal(call["id"], why.name, str(why)))
            await writer.drain()


async def serve_host(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    calls: HostCalls,
    tools: Sequence[Tool],
    *,
    take_answer: Callable[[bytes], bool],
) -> None:
    """Serve one host with the given tools, until it disconnects.

    `take_answer` takes a line by which the relay answers the daemon, and returns whether it is.
    """
    from mcp.server.stdio import stdio_server

    server = _build_server(calls, tools)
    lines_in = cast("anyio.AsyncFile[str]", _LinesIn(reader, writer, take_answer))
    lines_out = cast("anyio.AsyncFile[str]", _LinesOut(writer))
    async with stdio_server(stdin=lines_in, stdout=lines_out) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _build_server(calls: HostCalls, tools: Sequence[Tool]) -> Server[dict[str, Any]]:
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
    ) -> types.CallToolResult | dict[str, Any]:
        given = dict(params.arguments or {})
        if params.name == _ASK and params.request_state is not None:
            return await _take_form(calls, ctx, params)
        takes_tasks = params.name == _OPEN_WAIT and _offers_tasks(ctx)
        try:
            caller = calls.find_caller(ctx)._replace(takes_tasks=takes_tasks)
            answer = await calls.call_tool(params.name, given, caller)
        except TaskmemError as error:
            return _build_result(_format_json(error.to_json()), failed=True)
        if takes_tasks:
            wait = await calls.dispatcher.read_wait(str(answer["wait_id"]))
            seed = {"status": PolledState.WORKING, "statusMessage": answer["message"]}
            return {"resultType": "task", **_build_task(wait), **seed}
        if params.name == _ASK and given.get("ask") and _offers_forms(ctx):
            question = await calls.dispatcher.find_question(str(answer["task_id"]))
            return _build_form(question, answer) if question else _build_answer(answer)
        return _build_answer(answer)

    server = Server(
        SERVER_NAME,
        version=__version__,
        title=SERVER_TITLE,
        instructions=INSTRUCTIONS,
        on_list_tools=on_list_tools,
    )
    server.add_request_handler("tools/call", types.CallToolRequestParams, on_call_tool)
    _add_tasks(server, calls)
    server.middleware = []  # the SDK's own builds a span for each message, which nobody collects
    return server


# --- questions to the user ----------------------------------------------------------------


_FORM: Final = "answer"
"""Key of the form among what a call requires."""
_CHOICE: Final = "choice"
_WORDS: Final = "words"
_WORDS_BYTES: Final = 1_000
"""Longest excerpt of the answer in the message to the agent; the packet has more of it."""


def _build_form(question: UserQuestion, answer: Answer) -> dict[str, Any]:
    """Build the result by which a client shows its user a question; the call is then repeated.

    `answer`: what the agent is told if the user does not answer.
    """
    words = {"type": "string", "title": "Your answer"}
    form: dict[str, Any] = {"type": "object", "properties": {_WORDS: words}, "required": [_WORDS]}
    if question.options:
        choice = {"type": "string", "title": "Choose", "enum": [*question.options]}
        words["title"] = "Or say it in your own words"
        form = {"type": "object", "properties": {_CHOICE: choice, _WORDS: words}}
    asked = {"mode": "form", "message": question.text, "requestedSchema": form}
    return {
        "resultType": "input_required",
        "inputRequests": {_FORM: {"method": "elicitation/create", "params": asked}},
        "requestState": _format_json({"question": question.key, "answer": answer}),
    }


async def _take_form(
    calls: HostCalls, ctx: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Take what the user made of a form: an answer takes the task up again for its agent."""
    key, answer = _read_form_state(params.request_state or "")
    words = _read_form_words((params.input_responses or {}).get(_FORM))
    if not words:
        told = "A form for the user brought no answer."
        return _build_answer({**answer, "message": f"{told} {answer['message']}"})
    try:
        task = {"task_id": answer["task_id"]}
        caller = calls.find_caller(ctx)._replace(form=(key, words))
        resumed = await calls.call_tool("task_resume", task, caller)
    except TaskmemError as error:
        return _build_result(_format_json(error.to_json()), failed=True)
    told = f"The user answered: {quote_line(to_plain_line(words), _WORDS_BYTES)}"
    return _build_answer({**answer, **resumed, "message": f"{told} {resumed['message']}"})


def _read_form_state(state: str) -> tuple[str, Answer]:
    """Return the key of the question that a form was about, and the agent's answer without one.

    Raises:
        MCPError: The state came with no form.
    """
    import mcp_types as types
    from mcp import MCPError

    with contextlib.suppress(ValueError, RecursionError):
        match json.loads(state):
            case {"question": str(key), "answer": {"task_id": str(), "message": str()} as answer}:
                return key, cast("Answer", answer)
            case _:
                pass
    raise MCPError(types.INVALID_PARAMS, "requestState is not what came with the form.")


def _read_form_words(form: object) -> str:
    """Return what the user answered in a form; empty: nothing, or they declined it."""
    import mcp_types as types

    if not isinstance(form, types.ElicitResult) or form.action != "accept":
        return ""
    fields = form.content or {}
    words = "\n".join(str(fields[name]) for name in (_CHOICE, _WORDS) if fields.get(name)).strip()
    return words if has_visible_text(words) else ""


# --- tasks of MCP -------------------------------------------------------------------------


def _add_tasks(server: Server[dict[str, Any]], calls: HostCalls) -> None:
    """Let a server answer for the waits that are tasks."""
    import mcp_types as types
    from mcp import MCPError

    class TaskParams(types.RequestParams):
        task_id: str

    async def on_get(ctx: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        try:
            polled = await calls.dispatcher.poll_wait(params.task_id, calls.find_caller(ctx))
        except TaskmemError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        task = {**_build_task(polled.wait), "status": polled.state}
        if polled.state is PolledState.COMPLETED:
            result = _build_result(polled.text or "")
            return {**task, "result": result.model_dump(by_alias=True, exclude_none=True)}
        return {**task, "statusMessage": polled.text} if polled.text else task

    async def on_cancel(ctx: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        try:
            given = {"wait_id": params.task_id}
            await calls.call_tool("wait_cancel", given, calls.find_caller(ctx))
        except TaskmemError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        return {}

    server.extensions = {TASKS: {}}
    server.add_request_handler("tasks/get", TaskParams, on_get)
    server.add_request_handler("tasks/cancel", TaskParams, on_cancel)


def _read_meta(ctx: ServerRequestContext[Any]) -> Mapping[str, JsonValue]:
    return cast("Mapping[str, JsonValue]", ctx.meta or {})


def _offers_tasks(ctx: ServerRequestContext[Any]) -> bool:
    """Tell whether a request of the newer protocol may be answered as a task."""
    return _find_capability(ctx, "extensions", TASKS) is not None


def _offers_forms(ctx: ServerRequestContext[Any]) -> bool:
    """Tell whether a request of the newer protocol may be answered with a form for the user."""
    shown = _find_capability(ctx, "elicitation")
    return shown is not None and (not shown or "form" in shown)


def _find_capability(ctx: ServerRequestContext[Any], *path: str) -> Mapping[str, object] | None:
    found: object = _read_meta(ctx) if ctx.protocol_version in NEWER_PROTOCOLS else None
    for name in (CAPABILITIES, *path):
        found = cast("Mapping[str, object]", found).get(name) if isinstance(found, dict) else None
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else None


def _build_task(wait: Wait) -> dict[str, JsonValue]:
    """Return the fields of a task that a wait is, but for its state."""
    return {
        "taskId": wait.wait_id,
        "createdAt": format_iso_millis(wait.created_at),
        "lastUpdatedAt": format_iso_millis(wait.changed_at),
        "ttlMs": None,
        "pollIntervalMs": _POLL_MILLIS,
    }


def _build_answer(answer: Answer) -> types.CallToolResult:
    return _build_result(_format_json(answer))


def _build_result(text: str, *, failed: bool = False) -> types.CallToolResult:
    import mcp_types as types

    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=failed
    )


def _format_json(answer: object) -> str:
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))

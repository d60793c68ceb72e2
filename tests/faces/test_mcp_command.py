"""`taskmem mcp` as hosts start it: a process of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress

import mcp_types as types
import pytest
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from tests.faces.fake_daemon import PATIENCE

COMMAND = [sys.executable, "-m", "openclaw_taskmem", "mcp"]
NOT_FOR_THE_RELAY = {
    "alembic",
    "anyio",
    "argparse",
    "asyncio",
    "click",
    "dataclasses",
    "inspect",
    "logging",
    "mcp",
    "pluggy",
    "pydantic",
    "sqlalchemy",
    "sqlmodel",
    "subprocess",
    "tempfile",
    "threading",
}


@pytest.fixture
def process(home):
    """The relay, with pipes; what it leaves on stderr is part of the test."""
    started = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TASKMEM_HOME": str(home.folder)},
    )
    yield started
    started.kill()
    started.wait()
    for end in (started.stdin, started.stdout, started.stderr):
        with suppress(BrokenPipeError):
            end.close()


def ask(process, number):
    process.stdin.write(json.dumps({"id": number, "method": "ping"}).encode() + b"\n")
    process.stdin.flush()


def end_of(process):
    """Its exit status and what it complained about."""
    complaint = process.stderr.read()
    return process.wait(PATIENCE), complaint


def test_it_answers_and_ends_with_its_stdin(process, daemon):
    daemon()
    ask(process, 1)
    assert json.loads(process.stdout.readline())["id"] == 1
    process.stdin.close()
    assert end_of(process) == (0, b"")


def test_it_ends_quietly_when_nobody_reads_it(process, daemon):
    daemon()
    process.stdout.close()
    ask(process, 1)
    assert end_of(process) == (0, b"")


@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)]
)
def test_a_signal_ends_it_quietly(process, daemon, sent, status):
    daemon()
    ask(process, 1)
    assert process.stdout.readline()
    process.send_signal(sent)
    assert end_of(process) == (status, b"")


def test_it_imports_nothing_heavy(home, daemon):
    daemon()
    code = (
        "import sys; sys.argv = ['taskmem', 'mcp']\n"
        "from openclaw_taskmem.faces.main import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input=b'{"id":1,"method":"ping"}\n',
        env={**os.environ, "TASKMEM_HOME": str(home.folder)},
        capture_output=True,
        check=True,
    )
    assert json.loads(ran.stdout)["id"] == 1
    loaded = {name.partition(".")[0] for name in ran.stderr.decode().split()}
    assert "openclaw_taskmem" in loaded
    assert "taskmem_hookspecs" not in loaded
    assert loaded & NOT_FOR_THE_RELAY == set()


# With the official SDK at both ends.


class Reading:
    """A socket's stream as the SDK reads its lines."""

    def __init__(self, reader):
        self._reader = reader

    async def __aiter__(self):
        async for line in self._reader:
            yield line.decode()


class Writing:
    """A socket's stream as the SDK writes its lines."""

    def __init__(self, writer):
        self._writer = writer

    async def write(self, text):
        self._writer.write(text.encode())

    async def flush(self):
        await self._writer.drain()


class SdkDaemon:
    """A daemon with one tool, on which the official SDK serves."""

    def __init__(self):
        self.hang = False
        self.called = asyncio.Event()
        self._visits = {}

    @asynccontextmanager
    async def listening(self, home):
        home.prepare()
        home.socket.unlink(missing_ok=True)
        path = os.fspath(home.socket)
        server = await asyncio.start_unix_server(self._visit, path, limit=1 << 24)
        try:
            yield self
        finally:
            server.close()
            for visit, writer in self._visits.items():
                # Cut off first, as by a kill: else the SDK answers what is open.
                writer.transport.abort()
                visit.cancel()
            await asyncio.gather(*self._visits, return_exceptions=True)

    async def _visit(self, reader, writer):
        self._visits[asyncio.current_task()] = writer
        try:
            opening = json.loads(await reader.readline())
            assert (opening["taskmem"], opening["face"]) == (1, "mcp")
            writer.write(b'{"taskmem": 1, "pid": 1, "version": "0.1.0"}\n')
            server = Server(
                "fake", on_list_tools=self._list_tools, on_call_tool=self._call_tool
            )
            async with stdio_server(Reading(reader), Writing(writer)) as streams:
                await server.run(*streams, server.create_initialization_options())
        except asyncio.CancelledError:
            pass
        finally:
            writer.close()

    async def _list_tools(self, _context, _params):
        tool = types.Tool(name="echo", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[tool])

    async def _call_tool(self, _context, params):
        self.called.set()
        if self.hang:
            await asyncio.Event().wait()
        text = json.dumps(params.arguments, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


@asynccontextmanager
async def session(home):
    """The SDK's own client, which starts the relay."""
    parameters = StdioServerParameters(
        command=COMMAND[0],
        args=COMMAND[1:],
        env={**os.environ, "TASKMEM_HOME": str(home.folder)},
    )
    async with stdio_client(parameters) as streams, ClientSession(*streams) as client:
        yield client


async def echo(client, text):
    result = await client.call_tool("echo", {"text": text})
    return json.loads(result.content[0].text)["text"]


async def test_the_sdks_client_works_through_it(home):
    async with SdkDaemon().listening(home), session(home) as client:
        await client.initialize()
        assert client.server_info.name == "fake"
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
        texts = ["ä", "x" * 100_000, *map(str, range(50))]
        said = await asyncio.gather(*(echo(client, text) for text in texts))
        assert said == texts


async def test_the_sdks_client_outlives_a_daemon(home):
    async with session(home) as client:
        async with SdkDaemon().listening(home):
            await client.initialize()
            assert await echo(client, "one") == "one"
        async with SdkDaemon().listening(home):
            assert await echo(client, "two") == "two"


async def test_the_sdks_client_without_hello_outlives_a_daemon(home):
    """As since 2026-07-28: each request brings what the hello used to say."""
    async with session(home) as client:
        async with SdkDaemon().listening(home):
            await client.discover()
            assert await echo(client, "one") == "one"
        async with SdkDaemon().listening(home):
            assert await echo(client, "two") == "two"


async def test_the_sdks_client_hears_of_a_call_that_was_cut_off(home):
    async with session(home) as client:
        async with SdkDaemon().listening(home) as daemon:
            await client.initialize()
            daemon.hang = True
            call = asyncio.create_task(echo(client, "lost"))
            await asyncio.wait_for(daemon.called.wait(), PATIENCE)
        with pytest.raises(MCPError, match="may or may not have been done"):
            await call

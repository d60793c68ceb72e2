"""Accept connections on the home's socket, and serve clients, gateways and relays.

The runs of a relay's process are requeued as soon as it has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from openclaw_taskmem import __version__
from openclaw_taskmem.daemon import mcp, processes
from openclaw_taskmem.daemon.dispatcher import Dispatcher, RelayHost
from openclaw_taskmem.daemon.lock import read_file_identity
from openclaw_taskmem.daemon.mcp import MOST_BYTES, TOO_LONG, read_line
from openclaw_taskmem.daemon.relay_posts import RelayPosts
from openclaw_taskmem.daemon.thread_pool import OffLoopCaller
from openclaw_taskmem.engine import run_recovery
from openclaw_taskmem.engine.context import Context
from openclaw_taskmem.mcp_lines import TruncatedLine
from openclaw_taskmem.tools.tool import Answer
from taskmem_hookspecs import TaskmemError

log = logging.getLogger(__name__)

RESTS: Final = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Delays before each check, in seconds; a process may end shortly after its socket."""


class RelayExits:
    """Checks whether disconnected relays have ended."""

    def __init__(self, context: Context, run_in_thread: OffLoopCaller) -> None:
        self._context = context
        self._run_in_thread = run_in_thread
        self._looks: set[asyncio.Task[None]] = set()

    def watch_process(self, process: str | None) -> None:
        """Check for some seconds whether a disconnected process has ended; None: it is unknown."""
        if process is None or self._context.stopping.is_set():
            return
        look = asyncio.create_task(self._requeue_when_ended(process))
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    async def close(self) -> None:
        """Stop all checks; leases then decide about the runs."""
        for look in self._looks:
            look.cancel()
        await asyncio.gather(*self._looks, return_exceptions=True)

    async def _requeue_when_ended(self, process: str) -> None:
        requeue = partial(run_recovery.requeue_abandoned, self._context, process=process)
        for rest in RESTS:
            await self._context.clock.sleep(rest)
            try:
                if await self._run_in_thread(self._context.is_alive, process) is False:
                    await self._run_in_thread(requeue)
                    return
            except Exception:
                log.exception("could not requeue the runs of process %s", process)


# --- the socket ----------------------------------------------------------------------------


_AnswerCall = Callable[[str, dict[str, object]], Awaitable[object]]
"""Answers a call by its method and parameters."""
PROTOCOL: Final = 1
LARGE_BYTES: Final = 16 * 1024
"""Size in bytes above which calls are parsed and started one at a time, in the whole daemon."""
LARGE_SECONDS: Final = 10.0
"""How long such a call delays the next one at most."""
_WAITING_METHODS: Final = ("wait", "follow", "changes")
"""Methods that are answered only when something happens; such a call has at most `LARGE_BYTES`,
since a longer one would delay others."""
_OPENING_SECONDS: Final = 10.0
"""Time limit for the first line of a connection."""
MOST_CONNECTIONS: Final = 512
"""Maximum number of connections."""
RESERVED_CONNECTIONS: Final = 16
"""Connections of these that are reserved for commands, so that a person can inspect and stop the
daemon."""
_MOST_CONCURRENT_CALLS: Final = 64
"""Maximum number of calls of one client that run or wait; the rest is not read yet."""
_SOL_LOCAL: Final = 0
_LOCAL_PEERPID: Final = 2
"""Option name on macOS, for which Python has no constant."""


class SocketServer:
    """Accepts connections and serves each until it closes."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        on_relay_exit: Callable[[str | None], None],
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        """Create a server.

        `on_relay_exit` is called with the process of a relay that has disconnected.
        `most_connections`: how many may be open at once.
        """
        self._dispatcher = dispatcher
        self._most_connections = most_connections
        self._on_relay_exit = on_relay_exit
        self._large = asyncio.Semaphore(1)
        self._visits: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._path = Path()
        self._bound: tuple[int, int] | None = None
        self.wants_mcp = asyncio.Event()
        """Set when the first relay connects; the SDK is loaded from then on."""
        self.speaks_mcp = asyncio.Event()
        """Set once the MCP SDK was loaded or failed to load; relays wait until then."""
        self.lacks_mcp: TaskmemError | None = None
        """Why the SDK could not be loaded; the answer to each request of a relay. None: no
        failure."""
        self.emptied = asyncio.Event()
        """Set when the last connection closes; the check for idleness clears it."""

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return len(self._visits)

    async def open(self, path: Path) -> None:
        """Listen at a path, accessible to our own user only, in place of any socket there."""
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - once, at start
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        except OSError as error:
            listener.close()
            error.filename = os.fspath(path)
            raise
        finally:
            os.umask(before)
        self._path, self._bound = path, read_file_identity(path)
        self._servers.append(
            await asyncio.start_unix_server(
                self._accept_connection, sock=listener, limit=MOST_BYTES
            )
        )

    @property
    def is_in_place(self) -> bool:
        """True if the listening socket is still at its path."""
        return self._bound is not None and read_file_identity(self._path) == self._bound

    async def close(self, seconds: float) -> None:
        """Accept no connections, let running calls end, and close all connections.

        `seconds`: time limit for the running calls; if one exceeds it, no answer is written any
        more.
        """
        self._dispatcher.release_followers()
        if self.is_in_place:
            self._path.unlink(missing_ok=True)
        for server in self._servers:
            server.close()
        late: set[asyncio.Task[None]] = set()
        if self._calls:
            _, late = await asyncio.wait([*self._calls], timeout=seconds)
        for visit, writer in [*self._visits.items()]:
            if late:
                # An error answer would say that the call failed, which is not known
                # yet; a closed connection tells the relay just that.
                writer.transport.abort()
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def _accept_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        visit = asyncio.current_task()
        assert visit is not None  # noqa: S101 - a coroutine runs in a task
        if len(self._visits) >= self._most_connections:
            # Refuse before reading the first line: silent ones use a descriptor too.
            _send_document(writer, self._build_full_refusal())
            writer.close()
            return
        self._visits[visit] = writer
        try:
            await self._serve_connection(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        except Exception:
            # The SDK may turn the cancellation of `close` into an error of its own.
            if not visit.cancelling():
                log.exception("a connection failed")
        finally:
            del self._visits[visit]
            if not self._visits:
                self.emptied.set()
            writer.close()

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if not _is_own_user(writer.get_extra_info("socket")):
            return
        try:
            async with asyncio.timeout(_OPENING_SECONDS):
                opening = json.loads(await reader.readline())
            client_kind = opening["face"] if opening["taskmem"] == PROTOCOL else None
        except (ValueError, TypeError, KeyError, RecursionError, TimeoutError):
            client_kind, opening = None, dict[str, object]()
        if client_kind not in ("mcp", "client", "gateway"):
            _send_document(writer, _build_refusal("protocol", _OTHER_VERSION))
            return
        if (
            client_kind != "client"
            and len(self._visits) > self._most_connections - RESERVED_CONNECTIONS
        ):
            _send_document(writer, self._build_full_refusal())
            return
        greeting = {"taskmem": PROTOCOL, "pid": os.getpid(), "version": __version__}
        if client_kind == "mcp":
            await self._serve_relay(reader, writer, opening, greeting)
            return
        _send_document(writer, greeting)
        if client_kind == "client":
            process = await _identify_peer(writer.get_extra_info("socket"))
            answer = partial(self._dispatcher.answer, process=process)
            await self._serve_calls(reader, writer, answer)
        else:
            connection = object()
            process = await _identify_peer(writer.get_extra_info("socket"))
            try:
                answer = partial(self._dispatcher.answer_gateway, connection, process=process)
                await self._serve_calls(reader, writer, answer)
            finally:
                self._dispatcher.forget_gateway(connection)

    async def _serve_relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        opening: Mapping[str, object],
        greeting: Mapping[str, object],
    ) -> None:
        self.wants_mcp.set()
        names = self._dispatcher.session_variables
        _send_document(writer, {**greeting, "variables": names})
        tells_variables = opening.get("tells_variables") is True
        variables = await _read_variables(reader, names) if tells_variables else {}
        process = await _identify_peer(writer.get_extra_info("socket"))
        tools = await self._dispatcher.list_tools(opening.get("tools"))
        folder = opening.get("folder")
        host = RelayHost(
            process,
            folder if isinstance(folder, str) else None,
            tools=frozenset(tool.name for tool in tools),
            connection=object(),
            variables=variables,
        )
        posts = RelayPosts(writer, self.speaks_mcp)
        take = posts.take_answer
        self._dispatcher.add_relay(host, posts.post if opening.get("posts") is True else None)
        noting = asyncio.create_task(self._dispatcher.note_session(host))
        try:
            await self.speaks_mcp.wait()
            if self.lacks_mcp is not None:
                await mcp.refuse_host(reader, writer, self.lacks_mcp, take_answer=take)
                return
            calls = mcp.HostCalls(self._dispatch_tool_call, self._dispatcher, host)
            await mcp.serve_host(reader, writer, calls, tools, take_answer=take)
        finally:
            noting.cancel()
            posts.close()
            self._dispatcher.forget_relay(host)
            self._on_relay_exit(process)

    def _build_full_refusal(self) -> dict[str, object]:
        """Return the refusal of a connection beyond the maximum number."""
        return _build_refusal(
            "too_many_connections",
            f"The daemon has {len(self._visits)} connections and takes no more; end "
            "hosts that nobody uses any more, then try again.",
        )

    async def _dispatch_tool_call(
        self, name: str, given: dict[str, Any], host: RelayHost
    ) -> Answer:
        call = asyncio.current_task()
        assert call is not None  # noqa: S101 - a coroutine runs in a task
        self._calls.add(call)
        try:
            return await self._dispatcher.call_tool(name, given, host)
        except TaskmemError:
            raise
        except Exception as error:
            raise _log_unexpected_error(name) from error
        finally:
            self._calls.discard(call)

    async def _serve_calls(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: _AnswerCall
    ) -> None:
        slots, large = asyncio.Semaphore(_MOST_CONCURRENT_CALLS), asyncio.Semaphore(1)
        running: set[asyncio.Task[None]] = set()
        while True:
            await slots.acquire()
            line = await read_line(reader)
            if isinstance(line, TruncatedLine):
                refusal = _build_refusal("invalid_arguments", TOO_LONG)
                _send_document(writer, {"id": None, "error": refusal})
                slots.release()
                continue
            if not line:
                # Calls sent before it disconnected count, and are handled first.
                if running:
                    await asyncio.wait(running)
                return
            places = (large, self._large) if len(line) > LARGE_BYTES else ()
            answer = asyncio.create_task(self._answer_line(line, writer, answers, places))
            del line
            running.add(answer)
            answer.add_done_callback(running.discard)
            self._calls.add(answer)
            answer.add_done_callback(self._calls.discard)
            answer.add_done_callback(lambda _: slots.release())

    async def _answer_line(
        self,
        line: bytes,
        writer: asyncio.StreamWriter,
        answers: _AnswerCall,
        places: Sequence[asyncio.Semaphore],
    ) -> None:
        async with contextlib.AsyncExitStack() as held:
            for place in places:
                await held.enter_async_context(place)
            making = asyncio.create_task(self._make_answer(line, answers))
            # Parsing a large line is quick, but a call may take a minute to check a claim.
            await asyncio.wait({making}, timeout=LARGE_SECONDS if places else None)
        text = await making
        # Write it outside the places: a client that never reads it delays no other call.
        writer.write(text)
        try:
            await writer.drain()
        except ConnectionError:
            log.debug("a client hung up before it had its answer")

    async def _make_answer(self, line: bytes, answers: _AnswerCall) -> bytes:
        number: object = None
        try:
            call: dict[str, Any] = json.loads(line)
            number, method = call["id"], call["method"]
            if not isinstance(method, str):
                raise TypeError("a method is a text")  # noqa: TRY301 - refused below
            method.encode()  # half a character names nothing
            params: dict[str, object] = dict(call.get("params") or {})
            if method in _WAITING_METHODS and len(line) > LARGE_BYTES:
                raise ValueError(f"a {method} that is long")  # noqa: TRY301 - likewise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            log.debug("a malformed call", exc_info=True)
            return _encode_document({"id": number, "error": _MALFORMED_CALL_ERROR})
        try:
            result = await answers(method, params)
            document = {"id": number, "result": result}
            if not result:
                return _encode_document(document)
            # It may be long, so encode it off the event loop.
            return await self._dispatcher.call_threads(_encode_document, document)
        except TaskmemError as error:
            return _encode_document({"id": number, "error": error.to_json()})
        except Exception:  # noqa: BLE001 - told, and logged
            return _encode_document(
                {"id": number, "error": _log_unexpected_error(method).to_json()}
            )


async def _read_variables(reader: asyncio.StreamReader, names: Sequence[str]) -> dict[str, str]:
    """Read the line in which a relay tells the variables that were named to it.

    Raises:
        ConnectionError: The relay tells something else, or nothing in time.
    """
    try:
        async with asyncio.timeout(_OPENING_SECONDS):
            told = json.loads(await reader.readline())["variables"]
        return {name: told[name] for name in names if isinstance(told.get(name), str)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, TimeoutError):
        raise ConnectionAbortedError("a relay that tells no variables") from None


_MALFORMED_CALL_ERROR: Final = {
    "error": "invalid_arguments",
    "message": "A call is one JSON object a line, with id, method and params; correct it "
    "or, if it is nested too deeply, flatten it.",
}
_OTHER_VERSION: Final = (
    "This daemon speaks another protocol than the command that called it; run: "
    "taskmem daemon restart."
)


class _Unforeseen(TaskmemError):
    """An unexpected error inside the daemon."""


def _log_unexpected_error(call: str) -> _Unforeseen:
    """Log the error being handled, and return the answer to the call of that tool or method."""
    log.exception("%s failed", call)  # noqa: LOG004 - callers handle one
    return _Unforeseen(
        f"{call} failed inside the daemon, and its log says how; look whether it "
        "was done (task_list) before calling again."
    )


def _build_refusal(name: str, sentence: str) -> dict[str, object]:
    return {"error": name, "message": sentence}


def _send_document(writer: asyncio.StreamWriter, document: object) -> None:
    writer.write(_encode_document(document))


def _encode_document(document: object) -> bytes:
    text = json.dumps(document, ensure_ascii=False)
    return text.encode(errors="replace") + b"\n"


async def _identify_peer(peer: socket.socket) -> str | None:
    """Return the connecting process as `identify_process` does; None if it cannot be identified."""
    if sys.platform == "linux":
        return processes.identify_process(_read_peer_credentials(peer)[0])
    if sys.platform == "darwin":
        # This asks the system about a process, so call it off the event loop.
        return await asyncio.to_thread(processes.identify_process, read_peer_pid(peer))
    return None


def read_peer_pid(peer: socket.socket) -> int:
    """Return the pid of the connecting process on macOS."""
    raw = peer.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, struct.calcsize("i"))
    (number,) = struct.unpack("i", raw)
    return int(number)


def _read_peer_credentials(peer: socket.socket) -> tuple[int, int, int]:
    """Return the pid, user id and group id of the connecting process on Linux."""
    size = struct.calcsize("3i")
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    process, user, group = struct.unpack("3i", raw)
    return process, user, group


def _is_own_user(peer: socket.socket) -> bool:
    """Return True if the peer runs as our own user.

    Elsewhere than on Linux, always True: only the socket's mode 0600 keeps others out there.
    """
    if sys.platform != "linux":
        return True
    return _read_peer_credentials(peer)[1] == os.geteuid()

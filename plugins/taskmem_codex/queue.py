"""Transport `codex-queue`: the queue in which Codex keeps messages for a thread.

A thread that is open takes a message at the end of its turn, a closed one when it is resumed. It
arrives as a message of the user. `codex queue` would take the text as an argument, which every user
of the machine can read. So this asks the app-server that serves the open threads, over its control
socket: an idle thread takes the message at once. Where none runs, it asks a `codex app-server` of
its own; an open thread then finds the message within 10 seconds (measured with Codex 0.171.0).
Source: https://developers.openai.com/codex/app-server
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from taskmem_codex import FOLDER_VARIABLE
from taskmem_hookspecs import LiveSessions, Wake, WakeReceipt, WakeUndelivered
from taskmem_program.files import require_own_socket
from taskmem_program.process_groups import start_in_group

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

Sender = Callable[[str], Awaitable[None]]
Receiver = Callable[[], Awaitable[str | bytes]]
_CLIENT_PREFIX: Final = "codex"
"""Begins the name that its MCP client gives."""
_TIMEOUT: Final = 30.0
"""Time limit of a delivery in seconds; it takes 0.1."""
_GREETING_SECONDS: Final = 5.0
"""Seconds in which an app-server that runs must greet."""
_CLOSE_SECONDS: Final = 1.0
"""Seconds that it has to close the connection."""
_NO_ANSWER_NOTE: Final = "Codex was sent it, and did not confirm it."
_LINE_BYTES: Final = 8 * 1024 * 1024
"""Longest answer: the list of a thread's messages."""
_TOO_LONG: Final = (
    f"What the thread has yet to read in Codex is longer than {_LINE_BYTES // 1024**2} MiB; "
    "let Codex work it off, or remove some of it there."
)
_CLIENT: Final[Mapping[str, Any]] = {
    "clientInfo": {"name": "taskmem", "version": "1"},
    "capabilities": {"experimentalApi": True},
}


def is_codex(client: str | None) -> bool:
    """Return whether an MCP client is Codex."""
    return client is not None and client.startswith(_CLIENT_PREFIX)


def find_command(environ: Mapping[str, str]) -> str:
    """Return the command that starts Codex."""
    return environ.get("TASKMEM_CODEX_BIN") or "codex"


def find_control_socket(environ: Mapping[str, str]) -> Path:
    """Return where the app-server that serves the open threads of this user listens.

    Codex 0.171.0 starts it with its first session, and leaves a link to its socket here.
    """
    return (_find_home(environ) / "app-server-control" / "app-server-control.sock").resolve()


def _find_home(environ: Mapping[str, str]) -> Path:
    usual = Path(environ.get("HOME", "~")).expanduser() / ".codex"
    return Path(environ.get(FOLDER_VARIABLE) or usual)


class QueueTransport:
    """Delivers wakes to the threads of Codex."""

    name = "codex-queue"

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        seconds: float = _TIMEOUT,
        sessions: LiveSessions | None = None,
    ) -> None:
        """Set the environment, the time limit of a delivery in seconds, and the sessions."""
        self._environ = environ
        self._sessions = sessions
        self._binary = find_command(environ)
        self._seconds = seconds
        self._is_found = False

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return whether the agent runs in a known thread of Codex, which can be asked here."""
        if session_key is None or not is_codex((host or "").partition(":")[2]):
            return False
        search = self._environ.get("PATH")
        self._is_found = self._is_found or shutil.which(self._binary, path=search) is not None
        socket = find_control_socket(self._find_environ(session_key))
        return self._is_found or socket.exists()

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Put a wake into its thread's queue, unless it is in it already.

        Raises:
            WakeUndelivered: The command is missing, failed or timed out, or refused the message.
        """
        from websockets.exceptions import ConnectionClosed  # as in _connect

        environ = self._find_environ(wake.session_key)
        delivery = _Delivery(wake)
        try:
            async with asyncio.timeout(self._seconds), self._open_server(environ) as server:
                await delivery.run(server)
        except _Refused as refusal:
            raise WakeUndelivered(
                f"{refusal} Its home was {_find_home(environ)}; if the thread has another "
                "CODEX_HOME, run there: taskmem setup codex, and start Codex anew."
            ) from refusal
        except (KeyError, TypeError, AttributeError) as error:
            raise WakeUndelivered(f"Codex answered in another form ({error!r}).") from error
        except (TimeoutError, EOFError, ConnectionError, ConnectionClosed, _AnswerTooLong) as error:
            if delivery.is_sent:  # an idle thread may have taken it from its queue by now
                return WakeReceipt(delivered_at=datetime.now(UTC), note=_NO_ANSWER_NOTE)
            if isinstance(error, TimeoutError):
                raise WakeUndelivered(f"Codex gave no answer within {self._seconds:g} s.") from None
            if isinstance(error, _AnswerTooLong) or _is_too_long(error):
                raise WakeUndelivered(_TOO_LONG) from None
            raise WakeUndelivered(
                "Codex ended before it had the message; see `codex doctor`."
            ) from None
        except OSError as error:
            raise WakeUndelivered(
                f"{self._binary} cannot be started ({error.strerror}); install Codex, or set "
                "TASKMEM_CODEX_BIN to its command."
            ) from error
        return WakeReceipt(delivered_at=datetime.now(UTC))

    def _find_environ(self, session_key: str | None) -> Mapping[str, str]:
        """Return the environment for a thread, whose home may be another than the daemon's."""
        told = self._sessions.find_variables(session_key) if self._sessions else None
        home = (told or {}).get(FOLDER_VARIABLE)
        return {**self._environ, FOLDER_VARIABLE: home} if home else self._environ

    @asynccontextmanager
    async def _open_server(self, environ: Mapping[str, str]) -> AsyncGenerator[_AppServer]:
        """Connect to the app-server that runs, or else start one for this delivery."""
        connection = await _connect(find_control_socket(environ))
        if connection is not None:
            async with connection:
                yield _AppServer(connection.send, connection.recv)
            return
        command = (self._binary, "app-server")
        async with start_in_group(command, environ, stdin=PIPE, stdout=PIPE, limit=_LINE_BYTES) as (
            process,
            _,
        ):
            yield _AppServer(*_wrap_pipes(process))


async def _connect(path: Path) -> ClientConnection | None:
    """Connect to the app-server at a control socket; None: none runs, or it does not greet."""
    from websockets.asyncio.client import unix_connect  # 25 ms, which each start would pay
    from websockets.exceptions import WebSocketException

    try:
        require_own_socket(path)
        return await unix_connect(
            str(path),
            "ws://localhost/",
            max_size=_LINE_BYTES,
            open_timeout=_GREETING_SECONDS,
            close_timeout=_CLOSE_SECONDS,
            proxy=None,
        )
    except (OSError, EOFError, ValueError, WebSocketException):
        return None


def _wrap_pipes(process: Process) -> tuple[Sender, Receiver]:
    """Return how a document is sent to a process, and the next is received from it."""
    writer, reader = process.stdin, process.stdout
    assert writer is not None  # noqa: S101 - both are pipes
    assert reader is not None  # noqa: S101

    async def send(document: str) -> None:
        writer.write(document.encode() + b"\n")  # no drain: what it answered counts, if it ended

    async def receive() -> str:
        try:
            line = await reader.readline()
        except ValueError:
            raise _AnswerTooLong from None
        if not line:
            raise EOFError
        return line.decode()

    return send, receive


def _is_too_long(error: Exception) -> bool:
    """Tell whether a connection was closed because an answer was too long."""
    from websockets.exceptions import ConnectionClosed  # as in _connect
    from websockets.frames import CloseCode

    closed = error.sent if isinstance(error, ConnectionClosed) else None
    return closed is not None and closed.code == CloseCode.MESSAGE_TOO_BIG


class _AnswerTooLong(Exception):
    """An answer of a process is longer than is read."""


class _Delivery:
    """Puts one wake into its thread's queue."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self.is_sent = False
        """True once the server was sent the message, whether or not it has answered."""

    async def run(self, server: _AppServer) -> None:
        """Add the message by a server, unless the queue has it."""
        thread, key = {"threadId": self._wake.session_key}, self._wake.key
        await server.call("initialize", _CLIENT)
        await server.send({"method": "initialized"})
        # The daemon may have been killed after it had delivered this, and before it knew.
        queued = await server.call("thread/queue/list", thread)
        if any(each.get("clientUserMessageId") == key for each in queued["data"]):
            return
        text = {"type": "text", "text": self._wake.text}
        self.is_sent = True
        message = {**thread, "clientUserMessageId": key, "input": [text]}
        await server.call("thread/queue/add", message)


class _Refused(WakeUndelivered):
    """A server refused a call."""


class _AppServer:
    """An app-server of Codex: JSON-RPC, a document a message."""

    def __init__(self, send: Sender, receive: Receiver) -> None:
        self._send, self._receive = send, receive
        self._calls = 0

    async def send(self, document: Mapping[str, Any]) -> None:
        """Send a document."""
        await self._send(json.dumps(document))

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """Call a method and return its result.

        Raises:
            WakeUndelivered: It was refused, or the server answered something else.
            EOFError: The server, a process of ours, has ended.
            ConnectionClosed: The server that runs has.
        """
        self._calls += 1
        try:
            await self.send({"id": self._calls, "method": method, "params": params})
            while True:
                answer = json.loads(await self._receive())
                if answer.get("id") != self._calls or "method" in answer:
                    continue  # a notice, or a question to a person
                if "error" in answer:
                    raise _Refused(f"Codex refused {method}: {answer['error']['message']}.")
                return answer["result"]
        except (ValueError, RecursionError) as error:
            raise WakeUndelivered(f"Codex answered {method} in another form ({error}).") from error

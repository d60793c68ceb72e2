"""Transport `codex-queue`: the queue in which Codex keeps messages for a thread.

A thread that is open takes a message at the end of its turn, a closed one when it is resumed. It
arrives as a message of the user. `codex queue` would take the text as an argument, which every user
of the machine can read; so this asks `codex app-server`, over its standard input and output, as
that command does. Source: https://developers.openai.com/codex/app-server
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from taskmem_hookspecs import Wake, WakeReceipt, WakeUndelivered
from taskmem_program.process_groups import start_in_group

_CLIENT_PREFIX: Final = "codex"
"""Begins the name that its MCP client gives."""
_TIMEOUT: Final = 30.0
"""Time limit of a delivery in seconds; it takes 0.1."""
_LINE_BYTES: Final = 8 * 1024 * 1024
"""Longest answer: the list of a thread's messages."""
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


class QueueTransport:
    """Delivers wakes to the threads of Codex."""

    name = "codex-queue"

    def __init__(self, environ: Mapping[str, str] = os.environ, seconds: float = _TIMEOUT) -> None:
        """Set the environment, and the time limit of a delivery in seconds."""
        self._environ = environ
        self._binary = find_command(environ)
        self._seconds = seconds
        self._is_found = False

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return whether the agent runs in a known thread of Codex, and its command is there."""
        if session_key is None or not is_codex((host or "").partition(":")[2]):
            return False
        search = self._environ.get("PATH")
        self._is_found = self._is_found or shutil.which(self._binary, path=search) is not None
        return self._is_found

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Put a wake into its thread's queue, unless it is in it already.

        Raises:
            WakeUndelivered: The command is missing, failed or timed out, or refused the message.
        """
        command = (self._binary, "app-server")
        try:
            async with (
                asyncio.timeout(self._seconds),
                start_in_group(
                    command, self._environ, stdin=PIPE, stdout=PIPE, limit=_LINE_BYTES
                ) as (process, _),
            ):
                await _add_message(_AppServer(process), wake)
        except (KeyError, TypeError, AttributeError) as error:
            raise WakeUndelivered(f"Codex answered in another form ({error!r}).") from error
        except TimeoutError:
            raise WakeUndelivered(
                f"{self._binary} gave no answer within {self._seconds:g} s and was ended."
            ) from None
        except OSError as error:
            raise WakeUndelivered(
                f"{self._binary} cannot be started ({error.strerror}); install Codex, or set "
                "TASKMEM_CODEX_BIN to its command."
            ) from error
        return WakeReceipt(delivered_at=datetime.now(UTC))


async def _add_message(server: _AppServer, wake: Wake) -> None:
    thread = {"threadId": wake.session_key}
    await server.call("initialize", _CLIENT)
    server.send({"method": "initialized"})
    # The daemon may have been killed after it had delivered this, and before it knew.
    queued = await server.call("thread/queue/list", thread)
    if any(each.get("clientUserMessageId") == wake.key for each in queued["data"]):
        return
    message = {"clientUserMessageId": wake.key, "input": [{"type": "text", "text": wake.text}]}
    await server.call("thread/queue/add", {**thread, **message})


class _AppServer:
    """A running `codex app-server`: JSON-RPC, a document a line."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        self._writer, self._reader = process.stdin, process.stdout
        self._calls = 0

    def send(self, document: Mapping[str, Any]) -> None:
        """Send a document."""
        self._writer.write(json.dumps(document).encode() + b"\n")

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        """Call a method and return its result.

        Raises:
            WakeUndelivered: It was refused, or the process ended or answered something else.
        """
        self._calls += 1
        self.send({"id": self._calls, "method": method, "params": params})
        try:
            while line := await self._reader.readline():
                answer = json.loads(line)
                if answer.get("id") != self._calls or "method" in answer:
                    continue  # a notice, or a question to a person
                if "error" in answer:
                    raise WakeUndelivered(f"Codex refused {method}: {answer['error']['message']}")
                return answer["result"]
        except ValueError as error:
            raise WakeUndelivered(f"Codex answered {method} in another form ({error}).") from error
        raise WakeUndelivered(f"Codex ended before it answered {method}; see `codex doctor`.")

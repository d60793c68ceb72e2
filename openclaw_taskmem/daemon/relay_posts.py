"""Have a relay write into a socket: it is a child of its host, which may trust only its own."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any, Final

from openclaw_taskmem.mcp_lines import POST

_PREFIX: Final = f"{POST}/"
"""Begins the id of each request to a relay."""
_GOOD_SECONDS: Final = 12.0
"""Seconds for which a request is good; a relay refuses it later, as it may be repeated then."""
_ANSWER_SECONDS: Final = 15.0
"""Seconds in which a relay must answer."""


class RelayPosts:
    """The requests to one relay, on the event loop of its connection."""

    def __init__(self, writer: asyncio.StreamWriter, is_read: asyncio.Event) -> None:
        """Write the requests to `writer`, once `is_read` says that answers are read."""
        self._writer = writer
        self._is_read = is_read
        self._loop = asyncio.get_running_loop()
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def post(self, path: str, text: str, seconds: float) -> bool:
        """Have a text written, from any event loop; return as `LiveSessions.post` does.

        Raises:
            OSError: It was not written, or the relay did not answer.
        """
        call = asyncio.run_coroutine_threadsafe(self._post(path, text, seconds), self._loop)
        return await asyncio.wrap_future(call)

    async def _post(self, path: str, text: str, seconds: float) -> bool:
        number = f"{_PREFIX}{secrets.token_hex(8)}"  # no other connection has it
        answer = self._answers[number] = self._loop.create_future()
        until = self._loop.time() + _GOOD_SECONDS  # the relay has the same clock
        params = {"path": path, "text": text, "seconds": seconds, "until": until}
        asked = {"jsonrpc": "2.0", "id": number, "method": POST, "params": params}
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._is_read.wait()
                self._writer.write(json.dumps(asked).encode() + b"\n")
                told = await answer
        finally:
            del self._answers[number]
        if "error" in told:
            raise OSError(None, str(told["error"]["message"]))
        return told["result"]["closed"] is True

    def take_answer(self, line: bytes) -> bool:
        """Take a relay's line if it answers a request; return whether it does."""
        if _PREFIX.encode() not in line[:80]:
            return False
        try:
            told = json.loads(line)
            number = told["id"]
            if "method" in told or not number.startswith(_PREFIX):
                return False
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return False
        answer = self._answers.get(number)
        if answer is not None and not answer.done():
            answer.set_result(told)
        return True

    def close(self) -> None:
        """Fail the requests that are open, as the relay has disconnected."""
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError(None, "its relay has ended"))

"""Transport `claude-inbox`: the inbox socket of a session of Claude Code.

Lines of JSON: the token, then the message. Claude Code answers nothing, and closes the connection
once it has read the message. The session reads it as a message of another session, never as the
user's words. A session that asks for no permissions asks its user before it reads one, unless a
child of its own sends it; so the relay does. Source: https://code.claude.com/docs/en/cross-session-messaging
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from taskmem_claude import CLIENT, HOST, SESSION, SOCKET, TOKEN
from taskmem_claude.inbound_setting import find_restraint
from taskmem_hookspecs import LiveSessions, Wake, WakeReceipt, WakeUndelivered
from taskmem_program.files import require_own_socket

CLOSE_SECONDS: Final = 2.0
"""Seconds in which Claude Code usually closes the connection."""
_TIMEOUT: Final = 20.0
"""Seconds in which it must accept the connection and the message."""


class InboxTransport:
    """Delivers wakes to the sessions of Claude Code that are connected."""

    name = "claude-inbox"
    is_volatile: Literal[True] = True

    def __init__(self, sessions: LiveSessions) -> None:
        """Take the sessions, among them those of other hosts."""
        self._sessions = sessions

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return whether the session is one of Claude Code, and has an inbox that is read."""
        own = host is None or host.partition(":")[2] == CLIENT
        if not own or self._find_inbox(session_key) is None:
            return False
        return find_restraint(self._find_variables(session_key)) is None

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Write a wake into its session's inbox.

        Raises:
            WakeUndelivered: The session has ended, or does not take the message.
        """
        inbox = self._find_inbox(wake.session_key)
        if inbox is None:
            raise WakeUndelivered("The session is not open in Claude Code; it is told once it is.")
        if restraint := find_restraint(self._find_variables(wake.session_key)):
            raise WakeUndelivered(restraint)
        path, token = inbox
        try:
            require_own_socket(Path(path))
            async with asyncio.timeout(_TIMEOUT):
                text = _build_lines(token, wake.text)
                read = await self._sessions.post(wake.session_key, path, text, CLOSE_SECONDS, HOST)
                if read is None:
                    read = await _send(path, text)
        except OSError as error:
            silent = isinstance(error, TimeoutError)
            why = "it does not answer" if silent else error.strerror or error
            raise WakeUndelivered(
                f"The session's inbox took no message ({why}); is Claude Code still open?"
            ) from error
        note = None if read else "Claude Code has not read it yet."
        return WakeReceipt(delivered_at=datetime.now(UTC), note=note)

    def _find_inbox(self, session_key: str | None) -> tuple[str, str] | None:
        variables = self._find_variables(session_key)
        if variables.get(SESSION) != session_key:
            return None  # a host that was started in a shell of Claude Code has its variables
        path, token = variables.get(SOCKET), variables.get(TOKEN)
        return (path, token) if path and token else None

    def _find_variables(self, session_key: str | None) -> Mapping[str, str]:
        return self._sessions.find_variables(session_key, HOST) or {}


def _build_lines(token: str, text: str) -> str:
    auth = {"type": "auth", "token": token}
    message = {"type": "user", "message": {"role": "user", "content": text}}
    return f"{json.dumps(auth)}\n{json.dumps(message)}\n"


async def _send(path: str, text: str) -> bool:
    """Write a text; return whether Claude Code shows that it has read it."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(text.encode())
        await writer.drain()
        writer.write_eof()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await reader.read()
        except TimeoutError:
            return False
        return True
    finally:
        writer.close()

"""Agent host for OpenClaw: notify users, show cards and stop turns through the plug-in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from taskmem_hookspecs import Notice, SessionNames, SessionView, WakeRefused, WakeUndelivered
from taskmem_openclaw import configuration, plugin_socket

_OWN_FILES: Final = "AGENTS BOOTSTRAP HEARTBEAT IDENTITY MEMORY SOUL TOOLS USER"
"""Files that OpenClaw puts into an agent's workspace before its first turn, without `.md`."""
SESSIONS: Final = SessionNames(
    prefix="agent:",
    background=":taskmem:",
    lower_case=True,
    own_files=frozenset(f"{name}.md" for name in _OWN_FILES.split()),
)
"""The keys of OpenClaw's sessions are `agent:NAME:…`, and no other host names one so."""


class OpenClawHost:
    """`SelectiveHost` and `NamingHost` through the plug-in's socket.

    What it is asked to do raises `WakeUndelivered` if the gateway is not running or could not do
    it, and `WakeRefused` if there is no plug-in or no such session.
    """

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        seconds: float = plugin_socket.REQUEST_SECONDS,
    ) -> None:
        """Set the environment and the time limit of one request. Seconds."""
        self._environ = environ
        self._seconds = seconds

    def describe_sessions(self) -> SessionNames:
        """Return how OpenClaw names the sessions of its agents."""
        return SESSIONS

    def reaches(self, host: str | None, session_key: str | None) -> bool:
        """Return whether a session is one of OpenClaw's agents, as its key alone shows."""
        del host
        return session_key is None or session_key.startswith(SESSIONS.prefix)

    async def say(self, notice: Notice) -> None:
        """Show a notice to the user of a session: on their channel, else in the session's chat."""
        await self._ask_plugin("say", **notice.model_dump())

    async def show(self, view: SessionView) -> None:
        """Show the user of a session its card and its buttons."""
        await self._ask_plugin("show", **view.model_dump(mode="json"))

    async def stop(self, session_key: str, age: float) -> None:
        """Stop the running turn of a session if it is at least `age` seconds old."""
        answer = await self._ask_plugin("stop", session_key=session_key, age=age * 1000)
        if answer.get("stopped") is False:
            raise WakeUndelivered(f"The turn of {session_key} could not be stopped.")

    async def _ask_plugin(self, request: str, **given: object) -> Mapping[str, object]:
        try:
            answer: Mapping[str, object] = await plugin_socket.ask_session_gateway(
                self._environ, request, self._seconds, **given
            )
        except plugin_socket.PluginNotListening as error:
            if configuration.may_want_plugin(self._environ):
                raise WakeUndelivered(f"The gateway is away: {error}.") from error
            raise WakeRefused(f"There is no plug-in to tell: {error}.") from error
        except plugin_socket.PluginRequestFailed as error:
            raise WakeUndelivered(f"The plug-in could not: {error}.") from error
        if "refused" in answer:
            raise WakeRefused(f"Nobody can be told: {answer['refused']}")
        return answer

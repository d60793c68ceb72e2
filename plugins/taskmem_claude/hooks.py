"""Hooks of the Claude Code plug-in: which session calls, and the transport into its inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taskmem_claude import CLIENT, CONFIG, PROJECT, SESSION, SOCKET, TOKEN
from taskmem_hookspecs import DoctorCheck, LiveSessions, WakeTransport, hookimpl


@hookimpl(trylast=True)
def session_variables() -> Sequence[str]:
    """Name the variables of Claude Code that tell of a session."""
    return CONFIG, PROJECT, SESSION, SOCKET, TOKEN


@hookimpl(trylast=True)
def calling_session(client: str | None, variables: Mapping[str, str]) -> str | None:
    """Return the session of Claude Code that started the relay.

    Another host that was started within Claude Code has these variables, too.
    """
    return variables.get(SESSION) if client in (None, CLIENT) else None


@hookimpl(trylast=True)
def wake_transport(name: str, sessions: LiveSessions) -> WakeTransport | None:
    """Return the transport into the sessions' inboxes."""
    from taskmem_claude.inbox import InboxTransport

    return InboxTransport(sessions) if name in ("auto", InboxTransport.name) else None


@hookimpl
def health_checks() -> Sequence[DoctorCheck]:
    """Return the check of the connected sessions."""
    from taskmem_claude.doctor import InboxCheck

    return [InboxCheck()]

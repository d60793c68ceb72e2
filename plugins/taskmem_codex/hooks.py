"""Hooks of the Codex plug-in: which thread calls, and the transport into its queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from taskmem_codex import FOLDER_VARIABLE
from taskmem_hookspecs import DoctorCheck, LiveSessions, WakeTransport, hookimpl


@hookimpl(trylast=True)
def session_variables() -> Sequence[str]:
    """Name the variable that says where Codex keeps a thread."""
    return (FOLDER_VARIABLE,)


@hookimpl(trylast=True)
def calling_session(client: str | None, meta: Mapping[str, JsonValue]) -> str | None:
    """Return the thread of Codex that calls, which stands in each call."""
    from taskmem_codex.queue import is_codex

    thread = meta.get("threadId")
    return thread if is_codex(client) and isinstance(thread, str) and thread else None


@hookimpl(trylast=True)
def wake_transport(name: str, sessions: LiveSessions) -> WakeTransport | None:
    """Return the transport into the queues of threads."""
    from taskmem_codex.queue import QueueTransport

    taken = name in ("auto", QueueTransport.name)
    return QueueTransport(sessions=sessions) if taken else None


@hookimpl
def health_checks() -> Sequence[DoctorCheck]:
    """Return the check of Codex's command."""
    from taskmem_codex.doctor import QueueCheck

    return [QueueCheck()]

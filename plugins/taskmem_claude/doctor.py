"""Check for `taskmem doctor` which sessions of Claude Code can be woken."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

from taskmem_claude import HOST, PROJECT
from taskmem_claude.inbound_setting import SETTING, find_restraint
from taskmem_claude.inbox import InboxTransport
from taskmem_hookspecs import Checkup, DoctorRow, DoctorState


class InboxCheck:
    """`DoctorCheck` of the transport into inboxes."""

    name = "claude.inbox"
    costs = False

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """Set the environment, which may move the user's settings."""
        self._environ = environ

    async def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        """Yield a row on the connected sessions, if the daemon has the transport."""
        if checkup.status is None or InboxTransport.name not in checkup.transports:
            return
        if restraint := find_restraint({**self._environ, PROJECT: str(Path.cwd())}):
            yield DoctorRow(
                id=self.name,
                state=DoctorState.WARN,
                detail=restraint,
                effect="Its agents are told only of waits whose end it asks for itself.",
                cure='Set it to "accept" there, or remove it.',
            )
            return
        sessions = cast("list[dict[str, Any]]", checkup.status.get("sessions") or [])
        reached = sum(each["transport"] == InboxTransport.name for each in sessions)
        lost = [
            str(each["who"])
            for each in sessions
            if each["transport"] is None and each["host"] == HOST
        ]
        if lost:
            more = f", and {len(lost) - 1} more" if lost[1:] else ""
            yield DoctorRow(
                id=self.name,
                state=DoctorState.WARN,
                detail=f"{lost[0]}{more}: it tells no inbox, or its folder keeps messages back.",
                effect="It is not woken; its agent reads what it missed with its next query.",
                cure="Update Claude Code to 2.1.224 or later, and open the session again. See also "
                f"{SETTING} in the session's folder (.claude/settings.json).",
            )
            return
        detail = f"{reached} sessions of Claude Code are connected, and can be woken."
        if reached < 2:  # noqa: PLR2004
            one = "One session of Claude Code is connected, and can be woken."
            detail = one if reached else "No session of Claude Code is connected now."
        yield DoctorRow(id=self.name, state=DoctorState.OK, detail=detail)

"""Check for `taskmem doctor` whether Codex can be told to wake its threads."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, cast

from taskmem_codex.queue import QueueTransport, find_command, is_codex
from taskmem_hookspecs import Checkup, DoctorRow, DoctorState
from taskmem_program.process_groups import start_in_group

OLDEST_VERSION: Final = (0, 150)
"""Oldest version that is known to have a queue.
Source: https://github.com/openai/codex/issues/41060"""
_TIMEOUT: Final = 10.0
"""Seconds in which it must tell its version."""
_EFFECT: Final = "Threads of Codex are not woken."


class QueueCheck:
    """`DoctorCheck` of the transport into queues."""

    name = "codex.queue"
    costs = False

    def __init__(self, environ: Mapping[str, str] = os.environ, seconds: float = _TIMEOUT) -> None:
        """Set the environment, and the time limit for the version in seconds."""
        self._environ, self._seconds = environ, seconds

    async def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        """Yield a row on the command; none if Codex is neither here nor connected."""
        if QueueTransport.name not in checkup.transports:
            return
        command = find_command(self._environ)
        connected = cast("list[dict[str, Any]]", (checkup.status or {}).get("sessions") or [])
        threads = [each for each in connected if is_codex(str(each["host"]).partition(":")[2])]
        if shutil.which(command, path=self._environ.get("PATH")) is None:
            if threads or "TASKMEM_CODEX_BIN" in self._environ:
                cure = "Install Codex, or set TASKMEM_CODEX_BIN to its command. Then run: taskmem "
                yield self._warn(f"There is no command {command}.", f"{cure}daemon restart")
        elif not all(each["transport"] for each in threads):
            sentence = f"The daemon does not find the command {command}, which this terminal finds."
            yield self._warn(sentence, "taskmem daemon restart")
        else:
            yield await self._check_version(command)

    async def _check_version(self, command: str) -> DoctorRow:
        """Return the row on a command that is there."""
        try:
            output = await self._read_version(command)
        except TimeoutError:
            return self._warn(
                f"{command} --version gave no answer within {self._seconds:g} s and was ended.",
                f"See what holds it up: {command} doctor",
            )
        except OSError as error:
            return self._warn(f"{command} cannot be started ({error.strerror}).", _INSTALL)
        found = re.search(r"(\d+)\.(\d+)\.\d+", output)
        if found is None:
            return self._warn(f"{command} --version names no version; is it Codex?", _INSTALL)
        if tuple(map(int, found.groups())) < OLDEST_VERSION:
            oldest_text = ".".join(map(str, OLDEST_VERSION))
            return self._warn(
                f"{command} is Codex {found[0]}, which may have no queue for messages.",
                f"Update it to {oldest_text} or later.",
            )
        return DoctorRow(
            id=self.name,
            state=DoctorState.OK,
            detail=f"Threads of Codex are woken by {command}, version {found[0]}.",
        )

    async def _read_version(self, command: str) -> str:
        async with (
            asyncio.timeout(self._seconds),
            start_in_group((command, "--version"), self._environ, stdout=PIPE) as (process, _),
        ):
            return (await process.communicate())[0].decode(errors="replace")

    def _warn(self, detail: str, cure: str) -> DoctorRow:
        return DoctorRow(
            id=self.name, state=DoctorState.WARN, detail=detail, effect=_EFFECT, cure=cure
        )


_INSTALL: Final = "Reinstall Codex, or set TASKMEM_CODEX_BIN to its command."

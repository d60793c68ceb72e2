"""Run a command from time to time: how it ends, and what it prints."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shlex
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from taskmem_hookspecs import Frame, InvalidArguments, Target, TargetNotFound
from taskmem_hookspecs.file_access import start_in_own_thread
from taskmem_program.process_groups import OutputTail, start_in_group
from taskmem_targets.facts import describe_content
from taskmem_targets.paced import PacedWatch

_SHORTEST_REST: Final = 5.0
"""Seconds between two runs for a new wait."""
_RUN_SECONDS: Final = 60.0
"""Time limit of a run."""
_KEPT_BYTES: Final = 64 * 1024
"""Bytes of the output that are kept, its end."""
_MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of output after which a run is ended."""
_FLOOD_SECONDS: Final = 0.2
"""Period of the looks at how much was printed."""
_MOST_RUNS: Final = 4
"""How many commands run at the same time."""
_RUN_NAME: Final = "_TASKMEM_RUN"
"""The variable by which the processes of a run are found."""
_MOST_ROUNDS: Final = 5
"""Looks for the processes of a run, which may start others meanwhile."""
_SHELL_SIGNS: Final = frozenset(("|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>&1"))
"""Signs that only a shell understands."""


class CommandSensor:
    """Plays Sensor for `command:PROGRAM ARGUMENT …`."""

    def __init__(
        self, shortest_rest: float = _SHORTEST_REST, run_seconds: float = _RUN_SECONDS
    ) -> None:
        """Take the seconds between two runs for a new wait, and those that a run may take."""
        self._shortest_rest, self._run_seconds = shortest_rest, run_seconds
        self._runs = asyncio.Semaphore(_MOST_RUNS)

    async def watch(self, target: Target) -> PacedWatch:
        """Start to run a command, in the first folder of `target.within`, else in the user's home.

        The core has checked that its caller may.

        Raises:
            InvalidArguments: It is no command, or one for a shell.
            TargetNotFound: There is no such program or folder.
        """
        command = _split_command(target.name)
        folder = (target.within or (str(Path.home()),))[0]
        if shutil.which(command[0]) is None and shutil.which(f"{folder}/{command[0]}") is None:
            raise TargetNotFound(
                f"The daemon finds no program {command[0][:80]}; name it with its folder."
            )

        async def find_result() -> Frame:
            async with self._runs:
                return await self._run(command, folder)

        return PacedWatch(find_result, self._shortest_rest)

    async def _run(self, command: Sequence[str], folder: str) -> Frame:
        """Run a command once; its frame tells its output, and how it ended, if it did."""
        status, fault, mark = None, "", secrets.token_hex(8)
        environ = {**os.environ, _RUN_NAME: mark}
        with OutputTail(_KEPT_BYTES) as tail:
            try:
                async with (
                    asyncio.timeout(self._run_seconds),
                    start_in_group(
                        command, environ, folder=folder, stdout=tail.sink, stderr=tail.sink
                    ) as (process, _),
                ):
                    ending = asyncio.create_task(process.wait())
                    while not ending.done() and tail.count <= _MOST_BYTES:
                        await asyncio.wait((ending,), timeout=_FLOOD_SECONDS)
                    status = await ending if ending.done() else None
                    fault = f"printed more than {_MOST_BYTES // 1024**2} MiB, and was ended"
            except TimeoutError:
                fault = f"did not end within {self._run_seconds:g} s, and was ended"
            except OSError as error:
                mark, fault = "", f"could not be run ({error.strerror})"
            finally:
                if status is None and mark:
                    start_in_own_thread(partial(_kill_marked, mark))
            output = tail.read_end()
        text = output.decode(errors="replace")
        content = describe_content(text) or "nothing"
        found = f"ended with {status}" if status is not None else fault
        return Frame(
            seen_at=datetime.now(UTC),
            place=f"{status}.{hashlib.sha256(output).hexdigest()[:16]}",
            note=f"{Path(command[0]).name} {found}; it printed {content}.",
            text=text,
            exit_status=status,
        )


def _kill_marked(mark: str) -> None:
    """Kill what a run has started and has left its process group, as by setsid.

    A process that clears its environment is not found.
    """
    for _ in range(_MOST_ROUNDS):
        found = 0
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.environ().get(_RUN_NAME) == mark:
                    process.kill()
                    found += 1
        if not found:
            return


def _split_command(text: str) -> Sequence[str]:
    """Split a command into its program and arguments, as a shell does.

    Raises:
        InvalidArguments: It is none, or needs a shell.
    """
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise InvalidArguments(f"{text[:80]!r} is no command ({error}).") from error
    if not parts or not parts[0]:
        raise InvalidArguments("Write the program and its arguments: command:gh run view 7.")
    if not _SHELL_SIGNS.isdisjoint(parts):
        raise InvalidArguments(
            "No shell runs the command, so it has no pipes and redirections; write "
            "command:sh -c '…' if you need them."
        )
    return parts

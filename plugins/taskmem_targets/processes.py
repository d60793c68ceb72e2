"""Watch a process until it ends."""

from __future__ import annotations

import asyncio
import os
import select
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil

from taskmem_hookspecs import Frame, InvalidArguments, Target, TargetGone

_REST_SECONDS: Final = 60.0
"""Period of the looks where the kernel tells of the end."""
_MOST_NUMBER: Final = 2**31


class ProcessSensor:
    """Plays Sensor for `process:PID` and `process:NAME`."""

    async def watch(self, target: Target) -> ProcessWatch:
        """Start to watch for the processes of a number or name.

        Raises:
            InvalidArguments: The number is none of a process.
        """
        if target.name.isdecimal() and not 0 < int(target.name[:20]) < _MOST_NUMBER:
            raise InvalidArguments(f"{target.name[:20]} is no number of a process.")
        return ProcessWatch(target.name)


def _find_process(name: str) -> int:
    """Return the number of the only process of this user with a name, or the number itself.

    Raises:
        TargetGone: There is none, or there are several.
    """
    if name.isdecimal():
        return int(name)
    own = os.geteuid()
    found = [
        each.pid
        for each in psutil.process_iter(["name", "uids"])
        if each.info["name"] == name and each.info["uids"].effective == own
    ]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(map(str, found[:10]))
        raise TargetGone(
            f"{len(found)} processes are called {name} ({listed}); name one by its number."
        )
    raise TargetGone(f"No process of yours is called {name}; name it by its number.")


def _identify(number: int) -> str | None:
    """Return the place of a process: its number, and when it started; None: it does not run.

    The start is counted from that of the machine, so setting the clock does not move it.
    """
    try:
        boot_time = psutil.boot_time()
        start = psutil.Process(number).create_time() - boot_time
    except psutil.Error:
        return None
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")[:8]
    except OSError:
        boot = str(round(boot_time / 60))
    return f"{number}.{round(start * 100)}.{boot}"


def _is_zombie(number: int) -> bool:
    """Tell whether a process has ended whose parent has not asked how, or does not exist."""
    try:
        return psutil.Process(number).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class ProcessWatch:
    """Plays Watch; a place is the process that a wait waits for, as numbers are used again."""

    def __init__(self, name: str) -> None:
        """Watch for processes of a name or number."""
        self._name = name
        self._ended = asyncio.Event()
        self._handles: dict[str, int] = {}
        """By place, the kernel's handle of a process that runs."""

    @property
    def rest_seconds(self) -> float:
        """Return for how long it need not be looked at."""
        return _REST_SECONDS if self._handles else 0.0

    async def here(self) -> Frame:
        """Return the process with which a wait begins.

        Raises:
            TargetGone: There is none, or there are several.
        """
        number = _find_process(self._name)
        place = _identify(number)
        if place is None or self._has_ended(place):
            raise TargetGone(f"Process {number} does not run; has it ended already?")
        return Frame(seen_at=datetime.now(UTC), place=place, tail=f"Process {number} runs.")

    async def end(self) -> str:
        """Return the place of the process; raises as `here` does."""
        return (await self.here()).place

    async def look(self, place: str, start: str) -> Frame:  # noqa: ARG002 - it has one place
        """Return whether the process with which a wait began runs."""
        now, label = datetime.now(UTC), f"Process {place.partition('.')[0]}"
        if self._has_ended(place):
            note = f"{label} ended."
            return Frame(seen_at=now, place=place, note=note, gone=note)
        return Frame(seen_at=now, place=place, note=f"{label} runs.")

    async def wait_for_change(self) -> None:
        """Return when a process has ended."""
        await self._ended.wait()
        self._ended.clear()

    async def close(self) -> None:
        """Watch for none any more."""
        for place in [*self._handles]:
            self._drop_handle(place)

    def _has_ended(self, place: str) -> bool:
        """Tell whether the process of a place has ended; have the kernel tell of it if not."""
        number = int(place.partition(".")[0])
        if place not in self._handles:
            if hasattr(os, "pidfd_open"):
                try:
                    self._handles[place] = os.pidfd_open(number)
                except ProcessLookupError:
                    return True
                except OSError:
                    pass  # too many are open: it is looked at
            if _identify(number) != place:
                self._drop_handle(place)
                return True
            if place not in self._handles:
                return _is_zombie(number)
            asyncio.get_running_loop().add_reader(self._handles[place], self._note_end, place)
        ready = select.poll()
        ready.register(self._handles[place], select.POLLIN)
        return bool(ready.poll(0))

    def _note_end(self, place: str) -> None:
        asyncio.get_running_loop().remove_reader(self._handles[place])
        self._ended.set()

    def _drop_handle(self, place: str) -> None:
        handle = self._handles.pop(place, None)
        if handle is not None:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)

"""Run a command in a process group that ends with this process, however this process ends."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import termios
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self, cast

_PIPE_BYTES: Final = 65_536
"""Bytes that a pipe holds."""
_LEADER: Final = ("/bin/sh", "-c", "read -r _; kill -s KILL 0")
"""Kills its own group at the end of its input."""


def leave_terminal() -> None:
    """Give up this process's terminal, so that a command in a group finds none to read from.

    One that reads /dev/tty from a group in the background would be stopped. Ctrl-C and Ctrl-Z still
    reach this process. The leader of a session, which would end it, keeps its terminal.
    """
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        try:
            if os.getsid(0) != os.getpid():
                fcntl.ioctl(terminal, termios.TIOCNOTTY)
        finally:
            os.close(terminal)


class ProcessGroup:
    """A group of processes that are killed when this process ends, also by SIGKILL.

    Its leader is a shell at a pipe that only this process holds open. `PR_SET_PDEATHSIG` would do
    less: it reaches one process, none that this one has started, and macOS has nothing like it.
    """

    def __init__(self) -> None:
        """Start the leader.

        Raises:
            OSError: No process can be started.
        """
        self._leader = subprocess.Popen(  # noqa: S603 - a constant
            _LEADER,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            process_group=0,
        )
        self.id = self._leader.pid
        """The `process_group` of a process that is to be in it."""

    def __enter__(self) -> Self:
        """Return it; leaving the block kills what is left in it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what is left in it."""
        self.kill()
        assert self._leader.stdin is not None  # noqa: S101 - it is a pipe
        self._leader.stdin.close()
        self._leader.wait()

    def kill(self) -> None:
        """Kill all processes in it; nothing can join it any more."""
        # Until the leader was waited for, no other group can have its number.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.id, signal.SIGKILL)


@asynccontextmanager
async def start_in_group(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    folder: str | None = None,
    stdin: int = DEVNULL,
    stdout: int = DEVNULL,
    stderr: int = DEVNULL,
    limit: int = 65_536,
) -> AsyncGenerator[tuple[Process, ProcessGroup]]:
    """Start a command in a group of its own; once the block is left, all of the group has ended.

    That holds also if it is cancelled while the command is being started. `folder`: where it runs;
    None: in that of this process. `limit`: bytes of the longest line that is read from it.

    Raises:
        OSError: It cannot be started.
        ValueError: An argument has a zero byte.
    """
    with ProcessGroup() as group:
        starting = asyncio.create_task(
            asyncio.create_subprocess_exec(
                *command,
                env=environ,
                cwd=folder,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                process_group=group.id,
                limit=limit,
            )
        )
        try:
            yield await asyncio.shield(starting), group
        finally:
            with suppress(OSError, ValueError):
                process = await starting
                group.kill()
                _close_pipes(process)
                await process.wait()


def _close_pipes(process: Process) -> None:
    """Close the pipes of a process, which others may hold open: its end is waited for with them."""
    # Nothing public closes the pipes of what it prints.
    transport: asyncio.SubprocessTransport = cast("Any", process)._transport  # noqa: SLF001
    for number in range(3):
        match transport.get_pipe_transport(number):
            case asyncio.WriteTransport() as pipe:
                if pipe.get_write_buffer_size() or not pipe.is_closing():
                    pipe.abort()
            case asyncio.ReadTransport() as pipe:
                pipe.close()
            case _:
                pass


class OutputTail:
    """The last bytes of a command's output, read while it runs.

    It does not wait for the end of the output: a child process may keep it open for ever.
    """

    def __init__(self, most_bytes: int) -> None:
        """Take how many bytes are kept."""
        self._most_bytes = most_bytes
        self._source, self.sink = os.pipe()
        """`sink` is the end that the command writes to."""
        self._kept = b""
        self.count = 0
        """Bytes that were read."""
        os.set_blocking(self._source, False)

    def __enter__(self) -> Self:
        """Start to read."""
        asyncio.get_running_loop().add_reader(self._source, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        """Close both ends."""
        asyncio.get_running_loop().remove_reader(self._source)
        os.close(self._source)
        os.close(self.sink)

    def read_end(self) -> bytes:
        """Return the last output so far."""
        self._take()
        return self._kept

    def _take(self) -> None:
        with suppress(BlockingIOError):
            fresh = os.read(self._source, _PIPE_BYTES)
            self._kept = (self._kept + fresh)[-self._most_bytes :]
            self.count += len(fresh)

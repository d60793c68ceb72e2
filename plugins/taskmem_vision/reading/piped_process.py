"""Run a program on some input, keep what it prints, and count its time on a processor.

asyncio's own processes do not tell what each has taken: only what all that ended took together.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final, NamedTuple

_SAID_BYTES: Final = 4_096
_PIECE: Final = 1 << 16
_FAREWELL_SECONDS: Final = 2.0
"""How long a killed process may take to end. Seconds."""


class Printed(NamedTuple):
    """What a program that has ended has printed."""

    status: int
    output: bytes
    said: bytes
    """The beginning of its error output."""


class PipedProcess:
    """A program in a process group of its own."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start the program; `end` must be called.

        Raises:
            OSError: It cannot be started.
        """
        self.cpu_seconds = 0.0
        """Time on a processor, of it and of what it waited for; known once it has ended."""
        self._is_over = False
        self._transports: list[asyncio.ReadTransport | asyncio.WriteTransport] = []
        self._process = subprocess.Popen(  # noqa: S603 - without a shell
            *(command, 0),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            start_new_session=True,
        )
        self._ending = asyncio.ensure_future(asyncio.to_thread(self._wait))

    async def exchange_data(self, data: bytes, most_bytes: int) -> Printed:
        """Write the input and return what the program has printed when it has ended.

        Of an output above `most_bytes`, one byte more than that is kept, and the program is killed.
        """
        process = self._process
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_input(process.stdin, data))
            printing = tasks.create_task(self._read_output(process.stdout, most_bytes))
            saying = tasks.create_task(self._read_beginning(process.stderr))
        status = await asyncio.shield(self._ending)
        self._is_over = True
        return Printed(status, printing.result(), saying.result())

    async def end(self) -> None:
        """Make sure that the program and what it left running have ended."""
        if not self._is_over:
            self._kill()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FAREWELL_SECONDS):
                    await asyncio.shield(self._ending)
        for transport in self._transports:
            transport.close() if isinstance(transport, asyncio.ReadTransport) else transport.abort()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _wait(self) -> int:
        _, status, used = os.wait4(self._process.pid, 0)
        self.cpu_seconds = used.ru_utime + used.ru_stime
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return self._process.returncode

    async def _write_input(self, pipe: IO[bytes] | None, data: bytes) -> None:
        # It may end before it has read everything; its status says why.
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, pipe)
        self._transports.append(transport)
        transport.write(data)
        transport.write_eof()

    async def _read_output(self, pipe: IO[bytes] | None, most_bytes: int) -> bytes:
        reader = await self._open_reader(pipe)
        kept = bytearray()
        while piece := await reader.read(_PIECE):
            kept += piece[: most_bytes + 1 - len(kept)]
            if len(kept) > most_bytes:
                self._kill()
        return bytes(kept)

    async def _read_beginning(self, pipe: IO[bytes] | None) -> bytes:
        reader = await self._open_reader(pipe)
        kept = bytearray()
        while piece := await reader.read(_PIECE):
            kept += piece[: _SAID_BYTES - len(kept)]
        return bytes(kept)

    async def _open_reader(self, pipe: IO[bytes] | None) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)
        return reader

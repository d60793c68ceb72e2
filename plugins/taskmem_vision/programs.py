"""Run a program that reads pictures or makes them, and keep what it prints."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

from taskmem_program.process_groups import ProcessGroup, start_in_group

_ERROR_BYTES: Final = 4_096
_PIECE: Final = 1 << 16


class ProgramOutput(NamedTuple):
    """Output of a program that has ended."""

    status: int
    output: bytes
    errors: bytes
    """The beginning of its error output."""


async def run_program(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    most_bytes: int,
    data: bytes = b"",
    stdin: int = PIPE,
) -> ProgramOutput:
    """Run a program in a process group of its own; whatever happens, all of the group has ended.

    `data` is its input, unless `stdin` is a descriptor that it reads itself.

    Of an output above `most_bytes`, one byte more than that is kept, and the program is killed.

    Raises:
        OSError: It cannot be started.
    """

    async def write_input(pipe: asyncio.StreamWriter) -> None:
        # It may end before it has read everything; its status says why.
        with suppress(ConnectionError):
            pipe.write(data)
            await pipe.drain()
        pipe.close()

    async def read_output(pipe: asyncio.StreamReader, most: int, group: ProcessGroup) -> bytes:
        kept = bytearray()
        while piece := await pipe.read(_PIECE):
            kept += piece[: max(0, most - len(kept))]
            if len(kept) > most_bytes:
                group.kill()
        return bytes(kept)

    async with start_in_group(command, environ, stdin=stdin, stdout=PIPE, stderr=PIPE) as (
        process,
        group,
    ):
        pipes = cast("tuple[Any, Any, Any]", (process.stdin, process.stdout, process.stderr))
        async with asyncio.TaskGroup() as tasks:
            if stdin == PIPE:
                tasks.create_task(write_input(pipes[0]))
            output = tasks.create_task(read_output(pipes[1], most_bytes + 1, group))
            errors = tasks.create_task(read_output(pipes[2], _ERROR_BYTES, group))
        return ProgramOutput(await process.wait(), output.result(), errors.result())

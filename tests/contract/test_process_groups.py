"""Commands in groups of their own, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE

from taskmem_program.process_groups import OutputTail, start_in_group

SHELL = "/bin/sh"
LEADER = """
import os, subprocess, sys
os.open(os.ttyname(0), os.O_RDWR)
sys.exit(subprocess.run([sys.executable, "-c", sys.argv[1]]).returncode)
"""
"""Gives a session the terminal at its input, and runs in it what it is told to."""
IN_A_TERMINAL = """
import asyncio, os, sys
from taskmem_program.process_groups import OutputTail, leave_terminal, start_in_group

async def run():
    reading = ("/bin/sh", "-c", "read -r line < /dev/tty")
    async with start_in_group(reading, os.environ) as (process, _), asyncio.timeout(5):
        print("status", await process.wait())

os.close(os.open("/dev/tty", os.O_RDWR))
leave_terminal()
asyncio.run(run())
"""


def test_what_has_left_the_group_holds_its_end_up_no_longer() -> None:
    left: list[int] = []

    async def run() -> None:
        command = (SHELL, "-c", "setsid sleep 60 & echo $!; exec sleep 60")
        async with (
            asyncio.timeout(5),
            start_in_group(command, os.environ, stdin=PIPE, stdout=PIPE) as (process, _),
        ):
            assert process.stdout is not None
            left.append(int(await process.stdout.readline()))

    try:
        asyncio.run(run())
    finally:
        for number in left:
            os.kill(number, signal.SIGKILL)


def test_a_command_that_reads_the_terminal_is_not_stopped() -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", LEADER, IN_A_TERMINAL],
            stdin=theirs,
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout.startswith("status "), done.stderr
    assert done.stdout != "status 0\n"


async def test_what_was_printed_last_is_read_even_at_the_very_end():
    with OutputTail(3) as output:
        os.write(output.sink, b"the end")
        assert (output.read_end(), output.count) == (b"end", 7)

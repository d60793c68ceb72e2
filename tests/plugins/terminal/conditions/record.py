"""Records what a command writes to a terminal, byte by byte.

    python record.py outputs/make_ok.out -- make all
    python record.py --cut-after 6 outputs/server.out -- python -m http.server
    python record.py --type 'cd /tmp' --type exit outputs/bash.out -- bash -i

The command runs in a pseudo-terminal of its own.  Each `--type` is a line that is
typed once the terminal has been quiet for a moment.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

CHUNK = 65536
TICK = 0.1


def record(
    command: Sequence[str],
    *,
    columns: int = 120,
    rows: int = 30,
    typed: Sequence[str] = (),
    quiet: float = 1.0,
    cut_after: float | None = None,
) -> tuple[bytes, int | None]:
    """Returns the bytes and the exit status; no status if it was cut short."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.execvp(command[0], list(command))  # noqa: S606
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    output = bytearray()
    waiting = deque(typed)
    started = last_heard = time.monotonic()
    while cut_after is None or time.monotonic() - started < cut_after:
        if select.select([terminal], [], [], TICK)[0]:
            try:
                output += os.read(terminal, CHUNK)
            except OSError:  # Linux says so when the last writer has gone
                break
            last_heard = time.monotonic()
        elif waiting and time.monotonic() - last_heard > quiet:
            os.write(terminal, waiting.popleft().encode() + b"\n")
            last_heard = time.monotonic()
    else:
        os.close(terminal)  # hangs up
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return bytes(output), None
    os.close(terminal)
    return bytes(output), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--type", action="append", default=[], dest="typed")
    parser.add_argument("--quiet", type=float, default=1.0, help="seconds")
    parser.add_argument("--cut-after", type=float, help="seconds")
    parser.add_argument("into", type=Path)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    output, exit_status = record(
        given.command,
        columns=given.columns,
        rows=given.rows,
        typed=given.typed,
        quiet=given.quiet,
        cut_after=given.cut_after,
    )
    given.into.write_bytes(output)
    sys.stderr.write(f"{given.into}: {len(output)} bytes, exit {exit_status}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

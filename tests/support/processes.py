"""Programs that end when whoever started them does."""

from __future__ import annotations

import subprocess

GRACE = 5.0
"""Seconds in which a program that was told to end does so."""


def bind_command(*command: str) -> list[str]:
    """Return a command whose process dies with the thread that starts it."""
    # Told to end, and not killed: a server then removes its socket.
    return ["setpriv", "--pdeathsig", "TERM", *command]


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and wait until it has ended."""
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(GRACE)

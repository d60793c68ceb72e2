"""Run a host's own command; its output is ignored."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

SECONDS: Final = 30.0
"""Time limit of one call, which takes one or two. Seconds."""
_QUIET: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "NO_COLOR": "1",
}


def run_command(arguments: Sequence[str], folder: Path | None, environ: Mapping[str, str]) -> str:
    """Run a command in a folder; return why it failed, or "" if it reports success."""
    kept = {k: v for k, v in environ.items() if k != "TASKMEM_DATABASE_URL"}
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's own command
            arguments,
            cwd=folder,
            env={**kept, **_QUIET},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    try:
        status = process.wait(SECONDS)
    except BaseException as error:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            return f"it gave no answer within {SECONDS:g} s"
        raise
    return f"status {status}" if status else ""

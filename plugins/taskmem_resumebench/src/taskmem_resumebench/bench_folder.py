"""Make the folder of a benchmark."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_REMOVAL: Final = 'read -r _; rm -rf -- "$1" 2>&- || { sleep 5; rm -rf -- "$1"; }'
"""Waits for the end of its input. What runs in the folder may still write into it meanwhile."""


@contextmanager
def make_bench_folder() -> Generator[Path]:
    """Make a temporary folder, and have a shell remove it when the block or this process ends.

    A daemon whose home is removed ends. (`PR_SET_PDEATHSIG` would not do: a daemon that is started
    by a thread would be killed when that thread ends.)
    """
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    with subprocess.Popen(  # noqa: S603 - a constant and the folder
        ["/bin/sh", "-c", _REMOVAL, "sh", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    ):
        yield folder

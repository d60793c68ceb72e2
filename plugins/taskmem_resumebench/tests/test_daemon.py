"""The folder of a benchmark and the daemon in it go with the benchmark."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from taskmem_resumebench.daemon import make_bench_folder

PATIENCE = 60.0
"""Seconds, at most, for what another process does."""
GLANCE = 0.02

BENCHMARK = """
import signal
from taskmem_resumebench.daemon import make_bench_folder
from taskmem_resumebench.daemon import DaemonProcess
with make_bench_folder() as root, DaemonProcess(root / "h", root) as daemon:
    daemon.connect().close()
    print(root, flush=True)
    signal.pause()
"""


def is_held(lock: IO[str]) -> bool:
    """Whether a daemon runs that holds the lock of its home."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(lock, fcntl.LOCK_UN)
    return False


def wait_until(condition: Callable[[], bool], what: str) -> None:
    never = threading.Event()
    for _ in range(int(PATIENCE / GLANCE)):
        if condition():
            return
        never.wait(GLANCE)
    raise AssertionError(f"waited in vain: {what}")


def test_a_killed_benchmark_leaves_no_daemon_and_no_folder() -> None:
    with subprocess.Popen([sys.executable, "-c", BENCHMARK], stdout=subprocess.PIPE) as bench:
        assert bench.stdout is not None
        root = Path(bench.stdout.readline().decode().strip())
        with (root / "h" / "daemon.lock").open() as lock:
            assert is_held(lock)
            bench.kill()
            wait_until(lambda: not is_held(lock), "the daemon's end")

    wait_until(lambda: not root.exists(), "the folder's removal")


def test_a_benchmark_that_ends_leaves_no_folder() -> None:
    with make_bench_folder() as folder:
        (folder / "h").mkdir()

    assert not folder.exists()

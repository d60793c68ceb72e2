"""The folder of a benchmark and the daemon in it go with the benchmark."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

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


def test_what_is_written_late_goes_with_the_folder() -> None:
    with make_bench_folder() as folder:
        pass
    (folder / "h").mkdir(parents=True)

    wait_until(lambda: not folder.exists(), "the removal of what came late")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_ended_leaves_nothing_behind(number: signal.Signals) -> None:
    words = (sys.executable, "-m", "openclaw_taskmem", "bench", "--quick")
    with tempfile.TemporaryDirectory(prefix="tm", ignore_cleanup_errors=True) as folder:
        environ = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen(words, env=environ, stderr=subprocess.PIPE) as run:
            assert run.stderr is not None
            assert b"wakes" in run.stderr.readline()
            run.send_signal(number)

        assert run.returncode == 128 + number
        wait_until(lambda: not [*Path(folder).iterdir()], "the removal of what it made")

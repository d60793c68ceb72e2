"""The folder of a benchmark and the daemon in it go with the benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.daemon.processes import is_alive
from taskmem_resumebench.bench_folder import make_bench_folder
from tests.support.waiting import until

BENCHMARK = """
import signal
from taskmem_resumebench.bench_folder import make_bench_folder
from taskmem_resumebench.daemon_process import DaemonProcess
with make_bench_folder() as root, DaemonProcess(root / "h", root) as daemon:
    daemon.connect().close()
    print(root, flush=True)
    signal.pause()
"""


def test_a_killed_benchmark_leaves_no_daemon_and_no_folder() -> None:
    with subprocess.Popen([sys.executable, "-c", BENCHMARK], stdout=subprocess.PIPE) as bench:
        assert bench.stdout is not None
        root = Path(bench.stdout.readline().decode().strip())
        held = find_holder(root / "h" / "daemon.lock")
        assert held is not None
        assert held.process is not None
        process = held.process
        bench.kill()

    until(lambda: not is_alive(process), "the daemon's end")
    until(lambda: not root.exists(), "the folder's removal")


def test_a_benchmark_that_ends_leaves_no_folder() -> None:
    with make_bench_folder() as folder:
        (folder / "h").mkdir()

    assert not folder.exists()

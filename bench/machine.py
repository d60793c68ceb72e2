"""The machine that a run is measured on, and what its processes use."""

from __future__ import annotations

import os
import platform
import resource
import sqlite3
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

MIB = 1024 * 1024
PACKAGES = ("mcp", "pydantic", "sqlalchemy", "sqlmodel")


def describe_machine(folder: Path) -> str:
    """Return what a reader of the figures must know, as a list in Markdown."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    python = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    nice = os.nice(0)
    return "\n".join(
        (
            (
                f"- CPU: {_find_cpu_model()}, {os.cpu_count()} cores; "
                f"{_total_memory():.0f} GiB of memory"
            ),
            f"- {platform.system()} {platform.release()}, {find_filesystem(folder)}",
            f"- {python}, {packages}",
            f"- load average at the start: {load}; niceness {nice}",
        )
    )


def find_filesystem(folder: Path) -> str:
    """Return the kind of file system that a folder is on, as `ext4`."""
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except FileNotFoundError:
        return "unknown file system"
    kinds = {Path(line.split()[1]): line.split()[2] for line in mounts}
    folder = folder.resolve()
    return next(kinds[one] for one in (folder, *folder.parents) if one in kinds)


def measure_memory(pid: int) -> tuple[float, float]:
    """Return a process's resident and proportional memory, in MB."""
    sizes = {"Rss": 0.0, "Pss": 0.0}
    for line in _read_proc(pid, "smaps_rollup").splitlines():
        name, _, rest = line.partition(":")
        if name in sizes:
            sizes[name] = int(rest.split()[0]) * 1024 / 1e6
    return sizes["Rss"], sizes["Pss"]


def measure_cpu_seconds(pid: int) -> float:
    """Return the CPU time that the threads of a process have used, to the µs."""
    nanos = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        nanos += int((thread / "schedstat").read_text().split()[0])
    return nanos / 1e9


def measure_children_cpu(call: Callable[[], object], count: int) -> list[float]:
    """Return the CPU time, in seconds, of the processes that a call starts and ends.

    On a machine that others use it says more than the time on the wall.
    """
    used = []
    for _ in range(count):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        call()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        user = after.ru_utime - before.ru_utime
        used.append(user + after.ru_stime - before.ru_stime)
    return used


def count_wakeups(pid: int) -> int:
    """Return how often the threads of a process have gone to sleep by themselves."""
    count = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for line in (thread / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                count += int(line.split()[1])
    return count


def drop_caches() -> bool:
    """Make the system forget what it read; False: we may not."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return False
    return True


def _read_proc(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except FileNotFoundError:
        raise SystemExit("This figure is read from /proc, so on Linux only.") from None


def _find_cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except FileNotFoundError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def _total_memory() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / MIB / 1024

"""What the daemon's process takes of the system's files and memory."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from collections.abc import Mapping

import pytest

from openclaw_taskmem.daemon import main


@pytest.mark.parametrize(
    ("soft", "hard", "allowed"),
    [
        (256, resource.RLIM_INFINITY, main.MOST_DESCRIPTORS),
        (1024, 2048, 2048),
        (128, 128, 128),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, main.MOST_DESCRIPTORS),
    ],
)
def test_as_many_descriptors_are_asked_for_as_the_system_gives(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, allowed: int
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: asked.append(both))

    assert main.raise_descriptor_limit() == allowed
    raised = soft not in (allowed, resource.RLIM_INFINITY)
    assert asked == [(allowed, hard)] * raised


ALLOCATE = """
import ctypes, os, threading
from openclaw_taskmem.daemon import main

main.limit_malloc_arenas(os.environ)
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
together = threading.Barrier(8)

def allocate():
    together.wait()
    libc.malloc(50_000)
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
libc.malloc_info(0, output := ctypes.c_void_p(libc.fdopen(1, b"w")))
libc.fflush(output)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="has no such arenas")
@pytest.mark.parametrize(
    ("environ", "arenas"),
    [
        ({}, main.MOST_ARENAS),
        ({"MALLOC_ARENA_MAX": "3"}, 3),
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=3"}, 3),
    ],
)
def test_threads_share_arenas_unless_their_number_is_set(
    environ: Mapping[str, str], arenas: int
) -> None:
    told = subprocess.run(
        [sys.executable, "-c", ALLOCATE],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, **environ},
    )

    assert told.stdout.count("<heap nr=") == arenas

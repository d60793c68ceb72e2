"""Set how many files and how much memory the daemon's process may take.

Nothing here knows of a home.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

MOST_DESCRIPTORS: Final = 4096
"""Number of open files that the daemon requests from the system."""
MOST_ARENAS: Final = 2
"""Pools in which glibc's threads allocate; by default each thread of the daemon has its own."""
_ARENA_MAX: Final = -8
"""Number of that limit in `mallopt(3)`."""


def raise_descriptor_limit() -> int:
    """Raise this process's limit of open files; return the limit, at most `MOST_DESCRIPTORS`.

    Hosts may leak relays, and macOS's default of 256 is soon used up.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS
    wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def limit_malloc_arenas(environ: Mapping[str, str]) -> None:
    """Let all threads share a few of glibc's arenas, unless the environment sets their number.

    Other C libraries have no arenas.
    """
    tunables = environ.get("GLIBC_TUNABLES", "")
    if environ.get("MALLOC_ARENA_MAX") or "glibc.malloc.arena_max=" in tunables:
        return
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, MOST_ARENAS)

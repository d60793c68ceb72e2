"""Find out which user listens on a loopback port, so that no token goes to another user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TABLES: Final = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
"""Linux's tables of TCP sockets. Source: proc_net_tcp(5)."""
_LISTENS: Final = "0A"
_REACHED: Final = frozenset(
    {
        "0100007F",
        "00000000",
        "0" * 32,
        "0000000000000000FFFF00000100007F",
        "0000000000000000FFFF000000000000",
    }
)
"""Listening addresses that receive connections to 127.0.0.1, as little-endian hex."""


def find_stranger(port: int) -> int | None:
    """Return the id of a user, other than us and root, who listens on 127.0.0.1:port.

    None: there is none, or the system does not say (no `/proc`, as on macOS). A listener that
    starts after this check is not seen.
    """
    try:
        owners = _list_owners(port)
    except (OSError, ValueError, IndexError):
        return None
    return min(owners - {0, os.geteuid()}, default=None)


def _list_owners(port: int) -> set[int]:
    """Return the user ids whose sockets receive connections to 127.0.0.1:port."""
    first, *rest = TABLES
    text = first.read_text("ascii")
    for table in rest:
        if table.exists():
            text += table.read_text("ascii")
    owners: set[int] = set()
    for line in text.splitlines():
        fields = line.split()
        address, _, number = fields[1].partition(":")
        if fields[3] == _LISTENS and int(number, 16) == port and address in _REACHED:
            owners.add(int(fields[7]))
    return owners

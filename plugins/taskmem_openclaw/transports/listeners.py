"""Whose socket listens at a port of loopback: a token goes to nobody else's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TABLES: Final = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
"""What Linux tells of every TCP socket. Source: proc_net_tcp(5)."""
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
"""The addresses at which a listener gets what is sent to 127.0.0.1, as a machine
writes them whose lowest byte comes first."""


def find_stranger(port: int) -> int | None:
    """Return the user other than us and root who listens at a port of 127.0.0.1.

    None: there is none, or the system does not tell (no `/proc`, as on macOS). Whoever
    begins to listen after this look is not seen.
    """
    try:
        owners = _list_owners(port)
    except (OSError, ValueError, IndexError):
        return None
    return min(owners - {0, os.geteuid()}, default=None)


def _list_owners(port: int) -> set[int]:
    """Return the users whose sockets listen where 127.0.0.1:port is answered."""
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

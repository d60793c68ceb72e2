"""What tells one home from every other: what is made in a home belongs to it."""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from pathlib import Path

_MACHINE = Path("/etc/machine-id")


def identity(mark: Path) -> str:
    """Return the identity that a file holds; it is made when there is none.

    It follows a home that is moved. A home that is removed and made anew in the same
    place, on the same machine, is the same again: on a database that several share,
    nobody else would look after what it has left there.

    Raises:
        OSError: It can be neither read nor made.
    """
    try:
        known = mark.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        known = ""
    if known.isalnum():
        return known
    fresh = _of_place(mark)
    new = mark.with_name(f"{mark.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(fresh)
        file.flush()
        os.fsync(file.fileno())
    new.replace(mark)
    return fresh


def _of_place(mark: Path) -> str:
    machine = b""
    with suppress(OSError):
        machine = _MACHINE.read_bytes()
    place = (platform.node().encode(), machine, os.fsencode(mark.resolve()))
    return hashlib.sha256(b"\0".join(place)).hexdigest()[:16]

"""What tells one home from every other: what is made in a home belongs to it."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shlex
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from taskmem_hookspecs.errors import SettingsInvalid

_MACHINE = Path("/etc/machine-id")


class _HomeIdentity(NamedTuple):
    known: str
    """The identity; empty: there is none."""
    place: Path | None
    """The folder of the home that it was written for; None: nobody knows."""


def ensure_identity(mark: Path, *, shares: bool) -> str:
    """Return the identity that a file in a home holds; it is made when there is none.

    It follows a home that is moved. A home that is removed and made anew in the same
    place, on the same machine, is the same again: on a database that several share,
    nobody else would look after what it has left there.

    Args:
        mark: The file.
        shares: Whether the home is given a database that others may have, too. A copy
            of a home has a copy of the database that is in it, and needs no other name.

    Raises:
        OSError: It can be neither read nor made.
        SettingsInvalid: The home is a copy of one that is still there, and shares.
    """
    known, place = _read_identity(mark)
    here = mark.parent.resolve()
    if known and place == here:
        return known
    if known and place is not None and _is_twin(place / mark.name, mark, known):
        if not shares:
            return known
        raise SettingsInvalid(
            f"{here} is a copy of {place}, and as one home the two cannot share a "
            f"database; remove {place} if this one takes its place, or give this one "
            f"an identity of its own (echo {secrets.token_hex(8)} > "
            f"{shlex.quote(str(mark))}), then start again."
        )
    fresh = known or _derive_identity(mark)
    _write_identity(mark, f"{fresh}\n".encode() + os.fsencode(here) + b"\n")
    return fresh


def _read_identity(mark: Path) -> _HomeIdentity:
    try:
        # A pipe in its place is empty, not waited for.
        descriptor = os.open(mark, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return _HomeIdentity("", None)
    with os.fdopen(descriptor, "rb") as file:
        content = file.read()
    first, _, rest = content.partition(b"\n")
    word = first.decode("ascii", "replace").strip()
    place = os.fsdecode(rest.removesuffix(b"\n"))
    return _HomeIdentity(word if word.isalnum() else "", Path(place) if place else None)


def _is_twin(other: Path, mark: Path, known: str) -> bool:
    """Whether another home has this identity, and not this one by another path."""
    with suppress(OSError):
        return _read_identity(other).known == known and not other.parent.samefile(mark.parent)
    return False


def _write_identity(mark: Path, content: bytes) -> None:
    new = mark.with_name(f"{mark.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(new, flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(mark)


def _derive_identity(mark: Path) -> str:
    machine = b""
    with suppress(OSError):
        machine = _MACHINE.read_bytes()
    place = (platform.node().encode(), machine, os.fsencode(mark.resolve()))
    return hashlib.sha256(b"\0".join(place)).hexdigest()[:16]

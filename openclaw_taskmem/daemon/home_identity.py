"""Create and check the identity of a home, which marks all rows that belong to it."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from taskmem_hookspecs.errors import SettingsInvalid
from taskmem_program.files import sync_folder

_MACHINE: Final = Path("/etc/machine-id")
"""File with the machine's id."""


class _HomeIdentity(NamedTuple):
    known: str
    """The identity; empty: none."""
    place: Path | None
    """Folder of the home it was written for; None: unknown."""


def ensure_identity(mark: Path, *, shares: bool) -> str:
    """Return the identity in a home's file; create it if there is none.

    The identity moves with the home. A home that is removed and created again in the same place on
    the same machine gets the same identity, so that it finds its rows in a shared database.

    `shares`: True if the database may be shared with other homes. A copied home with its own copy
    of the database keeps the identity.

    Raises:
        OSError: The file can be neither read nor created.
        SettingsInvalid: The home is a copy of one that still exists, and shares its database.
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
        # Do not block if it is a named pipe.
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
    """Return True if the other file has this identity and belongs to a different home."""
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
    sync_folder(mark.parent)


def _derive_identity(mark: Path) -> str:
    machine = b""
    with suppress(OSError):
        machine = _MACHINE.read_bytes()
    place = (platform.node().encode(), machine, os.fsencode(mark.resolve()))
    return hashlib.sha256(b"\0".join(place)).hexdigest()[:16]

"""What tells one home from every other: a wait belongs to the home of its target."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def identity(mark: Path) -> str:
    """Return the identity that a file holds; it is made when there is none.

    Raises:
        OSError: It can be neither read nor made.
    """
    try:
        known = mark.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        known = ""
    if known.isalnum():
        return known
    fresh = secrets.token_hex(8)
    new = mark.with_name(f"{mark.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(fresh)
        file.flush()
        os.fsync(file.fileno())
    new.replace(mark)
    return fresh

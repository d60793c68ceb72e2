"""Ids: short, sortable by time, and of a kind: `task_06dq3z8v1h2k9f`."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Final

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME: Final = 9
_CHANCE: Final = 7


def new_id(kind: str, now: datetime) -> str:
    """Return a fresh id; those of one kind sort by the millisecond they were made."""
    millis = int(now.timestamp() * 1000)
    chance = secrets.randbits(5 * _CHANCE)
    return f"{kind}_{_encode_digits(millis, _TIME)}{_encode_digits(chance, _CHANCE)}"


def _encode_digits(number: int, width: int) -> str:
    digits = [_ALPHABET[(number >> (5 * i)) & 31] for i in range(width)]
    return "".join(reversed(digits))

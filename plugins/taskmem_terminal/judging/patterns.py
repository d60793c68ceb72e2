"""Patterns made of many ways to say a thing, quick to search for.

A pattern of forty alternatives that is tried at each character is slow. Those that
begin a line (`^`) are tried once for each line instead, and those that begin a word
where one begins.
"""

from __future__ import annotations

import re
from typing import Final

_NEAR: Final = 160


class Ways:
    """Ways to say something in one line, which is in lower case."""

    __slots__ = ("_begins", "_holds")

    def __init__(self, *ways: str) -> None:
        begins, holds = _sorted(ways)
        self._begins = re.compile(begins) if begins else None
        self._holds = re.compile(holds) if holds else None

    def said(self, line: str) -> bool:
        """Whether a line says it."""
        if self._begins and self._begins.match(line):
            return True
        return bool(self._holds and self._holds.search(line))


def lines(*ways: str) -> re.Pattern[str]:
    """Return a pattern for the lines of a whole text that say something."""
    begins, holds = _sorted(ways)
    inside = rf".{{0,{_NEAR}}}?(?:{holds})" if holds else ""
    either = "|".join(part for part in (begins, inside) if part)
    return re.compile(f"^(?:{either})", re.MULTILINE)


def _sorted(ways: tuple[str, ...]) -> tuple[str, str]:
    """Return what begins a line, and what stands anywhere in it."""
    begins = [way[1:] for way in ways if way.startswith("^")]
    words = [way[2:] for way in ways if way.startswith(r"\b")]
    holds = [way for way in ways if not way.startswith(("^", r"\b"))]
    if words:
        holds.append(rf"\b(?:{'|'.join(words)})")
    return "|".join(begins), "|".join(holds)

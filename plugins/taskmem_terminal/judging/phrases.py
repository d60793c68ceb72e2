"""Finds a quoted phrase, also where a terminal broke it into two lines."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

from taskmem_terminal.judging.conditions import Where
from taskmem_terminal.judging.seen import lowered

# Narrower terminals are rare, and words that happen to end and begin a line are not.
_NARROWEST: Final = 20
_GAP: Final = r"(?:[^\S\n]{1,200}\n?[^\S\n]{0,200}|\n[^\S\n]{0,200})"


class Phrase:
    """One quoted phrase; case counts when it has a capital."""

    __slots__ = ("_cased", "_pattern", "_plain", "_squeezed", "_where")

    def __init__(self, text: str, where: Where = Where.ANYWHERE) -> None:
        self._where = where
        self._cased = text != text.lower()
        self._plain = text if self._cased else lowered(text)
        self._squeezed = "".join(self._plain.split())
        self._pattern: re.Pattern[str] | None = None

    def find(self, text: str, lower: str) -> str | None:
        """Return the line in which the phrase stands; None: it is not there.

        Args:
            text: Lines, as they are shown.
            lower: The same in lower case.
        """
        plain = text if self._cased else lower
        if self._plain not in plain and self._squeezed not in _squeezed(plain):
            return None
        place = 0
        while found := self._compiled().search(plain, place):
            start = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", found.end())
            end = len(text) if end < 0 else end
            if self._stands(plain, found, start, end):
                return text[start:end]
            place = found.start() + 1
        return None

    def _compiled(self) -> re.Pattern[str]:
        if self._pattern is None:
            words = ["\n?".join(map(re.escape, word)) for word in self._plain.split()]
            self._pattern = re.compile(_GAP.join(words))
        return self._pattern

    def _stands(self, plain: str, found: re.Match[str], start: int, end: int) -> bool:
        line, where = plain[start:end], self._where
        if where is Where.START and plain[start : found.start()].strip():
            return False
        if where is Where.END and plain[found.end() : end].strip():
            return False
        if where is Where.ALONE and line.strip() != found[0].strip():
            return False
        if "\n" not in found[0]:
            return True
        between = {0, *accumulate(map(len, self._plain.split()))}
        return all(
            _wrapped(plain, found.start() + at)
            for at, char in enumerate(found[0])
            if char == "\n" and len("".join(found[0][:at].split())) not in between
        )


def _squeezed(text: str) -> str:
    return text.replace(" ", "").replace("\n", "").replace("\t", "")


def _wrapped(text: str, at: int) -> bool:
    """Whether the line that ends there was broken because it was full."""
    start = text.rfind("\n", 0, at) + 1
    width = at - start
    following = text.find("\n", at + 1)
    following = len(text) if following < 0 else following
    return width >= _NARROWEST and following - at - 1 <= width

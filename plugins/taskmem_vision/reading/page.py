"""Arrange words that were read from a picture in lines. Pure.

Engines find words or phrases with their boxes; rows are assembled here. Most misread numbers have
low confidence, or a colon or letter in place of a point or zero; none of 342 correctly read
percentages had.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

SAME_ROW: Final = 0.5
"""Words are in one row if their middles differ by less than this part of their height."""
GAP: Final = 3.0
"""Words in a row with a larger gap are on separate lines. Line heights."""
SURE: Final = 0.6
"""Minimum confidence of a number."""

_DIGIT: Final = re.compile(r"\d")
_MISREAD: Final = re.compile(r"\d:\d|\b[OolIx][.,]?\d|\d[OolIx]\d")
"""A misread point or zero, or a time of day; in either case not a number."""


class Word(NamedTuple):
    """A word or phrase with its box, in picture pixels."""

    text: str
    left: float
    right: float
    top: float
    bottom: float
    confidence: float
    """The engine's confidence, from 0 to 1."""

    def shrink(self, times: float) -> Word:
        """Return the word as in a picture that is so many times smaller."""
        left, right, top, bottom = (each / times for each in self[1:5])
        return self._replace(left=left, right=right, top=top, bottom=bottom)

    @property
    def middle(self) -> float:
        """Vertical middle of the word."""
        return (self.top + self.bottom) / 2

    @property
    def height(self) -> float:
        """Height of its line."""
        return self.bottom - self.top

    @property
    def is_sure(self) -> bool:
        """Whether it contains no possibly misread number."""
        clear = self.confidence >= SURE and not _MISREAD.search(self.text)
        return clear or not _DIGIT.search(self.text)


class OcrPage(NamedTuple):
    """Text that was read from a picture."""

    text: str
    """All lines."""
    sure: str
    """The lines without a possibly misread number."""


def arrange_words(words: Iterable[Word]) -> OcrPage:
    """Arrange words in lines, from top to bottom."""
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.middle, word.left)):
        if rows and word.middle - rows[-1][0].middle < SAME_ROW * word.height:
            rows[-1].append(word)
        else:
            rows.append([word])
    lines = [line for row in rows for line in _split_row(row)]
    return OcrPage(
        "\n".join(map(_format_line, lines)),
        "\n".join(_format_line(line) for line in lines if all(word.is_sure for word in line)),
    )


def join_pages(pages: Sequence[OcrPage]) -> OcrPage:
    """Join pages to one."""
    return OcrPage("\n".join(p.text for p in pages), "\n".join(p.sure for p in pages))


def _split_row(row: list[Word]) -> Iterator[list[Word]]:
    """Yield the lines of a row, from left to right."""
    line: list[Word] = []
    for word in sorted(row, key=lambda word: word.left):
        if line and word.left - line[-1].right > GAP * word.height:
            yield line
            line = []
        line.append(word)
    yield line


def _format_line(line: list[Word]) -> str:
    return " ".join(word.text for word in line)

"""Find in one line what a condition names; text and screen judges share it.

Regular expressions run in RE2, so that no pattern and no line can hang a daemon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Protocol, cast

MAX_PATTERN_CHARS: Final = 1000
MAX_PATTERN_BYTES: Final = 1 << 20
"""Memory that RE2 may use for one pattern."""

_PERCENT: Final = re.compile(r"(?<![\d.,])(\d{1,3}(?:[.,]\d+)?)\s?%")
_COUNT: Final = re.compile(r"(?<![\w/.,:-])(\d[\d,]*)/(\d[\d,]*)(?![\w/:-]|[.,]\d)")
_NUMBER: Final = r"[-+]?\d(?:[\d,]*\d)?(?:\.\d+)?(?:[eE][-+]?\d+)?"


class BadPattern(ValueError):
    """RE2 does not take a pattern; the sentence says why."""


class Pattern(Protocol):
    """A compiled regular expression."""

    def search(self, line: str) -> Any:  # noqa: ANN401 - RE2 has no types
        """Return the first match in a line; None: there is none."""
        ...


@lru_cache(512)
def compile_regex(pattern: str) -> Pattern:
    """Compile a regular expression for RE2.

    Raises:
        BadPattern: It is malformed or too large.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise BadPattern(f"it has more than {MAX_PATTERN_CHARS} characters")
    engine: Any = import_module("re2")  # it has no types
    options = engine.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_BYTES
    options.never_nl = True
    try:
        return cast("Pattern", engine.compile(pattern, options))
    except engine.error as error:
        (why,) = error.args
        said = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise BadPattern(said) from None


def find_text(line: str, text: str) -> bool:
    """Find a text in a line; case counts when the text has a capital letter."""
    if text != text.lower():
        return text in line
    return text in line.lower()


def read_percentages(line: str) -> Iterator[float]:
    """Yield the percentages of a line; a count such as `42/120` is one, too.

    A count has a total above 0 that it does not exceed, and no third number.
    """
    for found in _PERCENT.finditer(line):
        yield float(found[1].replace(",", "."))
    for found in _COUNT.finditer(line):
        done, total = (int(part.replace(",", "") or 0) for part in found.groups())
        if 0 < total >= done:
            yield 100 * done / total


def read_numbers(line: str, name: str) -> Iterator[float]:
    """Yield the numbers that stand with a name: `loss: 0.05`, `epoch 10`, `3 failed`.

    The number directly behind the name counts, and where there is none, the one
    directly before it.
    """
    words = r"\s+".join(map(re.escape, name.split()))
    sought = re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)
    for found in sought.finditer(line):
        behind = re.match(
            rf"[\"'\])]?\s*(?:[:=|~≈>]+|is|of)?\s*({_NUMBER})", line[found.end() :]
        )
        before = re.search(rf"(?<![\w.])({_NUMBER})\s+$", line[: found.start()])
        number = behind or before
        if number:
            yield float(number[1].replace(",", ""))

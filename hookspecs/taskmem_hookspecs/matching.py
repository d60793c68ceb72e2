"""Find quotes, patterns and named numbers in lines of text; `amounts` finds percentages.

Judges of terminals and of screens share these functions, so a form means the same on every target;
`docs/conditions.md` says what counts as one. Each function takes a text of one or many lines and
reads each line alone. A pattern has the syntax of RE2, whose time grows linearly with the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from taskmem_hookspecs.conditions import Comparison

_MAX_PATTERN_CHARS: Final = 1000
_MAX_PATTERN_BYTES: Final = 512 << 10
"""Memory that RE2 may use for one pattern, in bytes."""
_NUMBER_DISTANCE: Final = 120
"""Characters to search on either side of a name for its number."""
_TEXT_ENDS: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[Az]")


class BadPattern(ValueError):
    """RE2 rejects a pattern; `str()` gives the reason."""


class Pattern:
    """A compiled regular expression, which matches within one line and has `find` alone."""

    __slots__ = ("_regex",)

    def __init__(self, regex: Any) -> None:  # noqa: ANN401 - RE2 has no types
        self._regex = regex

    def find(self, text: str) -> str | None:
        """Return the first line that matches; None if no line does."""
        data = text.encode(errors="replace")
        found = self._regex.search(data)
        if found is None:
            return None
        start = data.rfind(b"\n", 0, found.start()) + 1
        end = data.find(b"\n", found.start())
        return data[start : end if end >= 0 else len(data)].decode(errors="replace")


@lru_cache(512)
def compile_regex(pattern: str) -> Pattern:
    """Compile a regular expression for RE2.

    Raises:
        BadPattern: It is malformed or too large.
    """
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise BadPattern(f"it has more than {_MAX_PATTERN_CHARS} characters")
    if _TEXT_ENDS.search(pattern):
        raise BadPattern(r"write ^ and $ for the ends of a line, not \A and \z")
    engine: Any = import_module("re2")  # it has no types
    options = engine.Options()
    options.log_errors = False
    options.max_mem = _MAX_PATTERN_BYTES
    options.never_nl = True
    try:
        # Compile it alone first, or `a)(b` would be valid within the group below.
        engine.compile(pattern, options)
        return Pattern(engine.compile(f"(?m:{pattern})", options))
    except engine.error as error:
        (why,) = error.args
        reason = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise BadPattern(reason) from None


def find_text(text: str, quote: str) -> str | None:
    """Return the first line that contains a quote; None if no line does.

    The quote is case-sensitive if it contains a capital letter.
    """
    searched = text if quote != quote.lower() else text.replace("İ", "I").lower()
    at = searched.find(quote)
    return _find_line_at(text, at) if at >= 0 else None


def find_number(text: str, name: str, op: Comparison, bound: float) -> str | None:
    """Return the first line whose named number meets the bound; None if there is none."""
    found = (at for value, at in _iterate_numbers(text, name) if op.holds(value, bound))
    return _find_first_line(text, found)


def _find_first_line(text: str, places: Iterator[int]) -> str | None:
    at = next(places, None)
    return None if at is None else _find_line_at(text, at)


def _find_line_at(text: str, at: int) -> str:
    """Return the line that contains the offset."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start : end if end >= 0 else len(text)]


# --- named numbers --------------------------------------------------------------

_DIGITS: Final = (
    r"[-+−]?(?:(?:\d{1,3}(?:,\d{3})+|\d{1,30})(?:\.\d{1,30})?|\.\d{1,30})"
    r"(?:[eE][-+]?\d{1,3})?"
)
_UNITS: Final = r"(?: ?%|[A-Za-zµ°]{1,5}(?:/[A-Za-z]{1,3})?)?"
_MORE_TIME: Final = r" ?(?:d|h|m|min|s)\b ?\d{1,3} ?(?:h|m|min|s|sec|ms)\b"
"""Behind the first number of a time such as `1 m 2 s`."""
_NUMBER: Final = rf"({_DIGITS})(?!{_MORE_TIME}){_UNITS}(?![\w%]|[.,:-]\d|/\d+/)"
_LINK_BEHIND: Final = re.compile(
    r"[\"'`)\]}]?[ \t]{0,40}"
    r"(?:(?P<bound>[:=](?!>))|(?P<joined>[#~≈→]|=>|->|\.{2,40}|(?:is|at|was)\b)"
    r"|(?P<parted>\||of\b))?"
    r"[ \t]{0,40}(?:[\"'#$€£]|[(\[](?![ \d.]{1,20}%))?[ \t]{0,8}"
    rf"(?:{_NUMBER}|(?P<nothing>(?:nan|inf|null|none)\b))?",
    re.IGNORECASE,
)
_OPEN_BRACKET: Final = re.compile(r"[ \t]{1,40}[(\[][ \t]{0,8}[\d.,+-]{1,40} [A-Za-z]")
"""Behind a counted name: what the number is made of, as in `12 errors (5 fixed, 7 remaining)`."""
_LEADING_NUMBER: Final = re.compile(
    rf"(?<![\w.,:/$-])({_DIGITS})(?:(?: (?:out )?of | ?/ ?){_DIGITS})?"
    r"(?:%| ?[KMGTP]?i?B)?[ \t]{1,40}[\"'`(\[]?$",
    re.IGNORECASE,
)
_NUMERIC_WORD: Final = re.compile(rf"{_NUMBER}(?:/{_DIGITS})?")
_NO_ROW: Final = re.compile(r"[,;|:=()\[\]{}]")


@lru_cache(maxsize=1024)
def _compile_name(name: str) -> re.Pattern[str]:
    words = r"[ \t]+".join(map(re.escape, name.split()))
    return re.compile(rf"(?<![\w./-]){words}(?!\w)", re.IGNORECASE)


def _iterate_numbers(text: str, name: str) -> Iterator[tuple[float, int]]:
    """Yield each number of the name and the name's offset."""
    for found in _compile_name(name).finditer(text):
        before = text[max(0, found.start() - _NUMBER_DISTANCE) : found.start()]
        behind = text[found.end() : found.end() + _NUMBER_DISTANCE]
        before = before[before.rfind("\n") + 1 :]
        value = _find_number_between(before, behind.partition("\n")[0])
        if value is not None:
            yield value, found.start()


def _find_number_between(before: str, behind: str) -> float | None:
    """Return the number of the name between two texts; None if it has none."""
    follows = _LINK_BEHIND.match(behind)
    assert follows is not None  # noqa: S101 - all of its parts may be missing
    number: str | None = follows[4]
    if follows["bound"] and (number or behind[follows.end() :].strip() or follows["nothing"]):
        return _read_number(number)
    last = before.rstrip(" \t\"'`([")[-1:]
    leads = _LEADING_NUMBER.search(before) if last.isdigit() or last in "%Bb" else None
    if leads is None or follows["joined"]:
        return _read_number(number)
    if number is None or follows["parted"] or _OPEN_BRACKET.match(behind):
        return None if follows["nothing"] else _read_number(leads[1])
    leads_first = _is_number_last(_NO_ROW.split(before)[-1].split()[::-1])
    leads_last = _is_number_last(_NO_ROW.split(behind)[0].split())
    if leads_first == leads_last:
        return None
    return _read_number(leads[1] if leads_first else number)


def _is_number_last(words: list[str]) -> bool:
    """Return True if the row of alternating numbers and names ends with a number."""
    is_number = False
    for word in words:
        if (_NUMERIC_WORD.fullmatch(word) is not None) is is_number:
            break
        is_number = not is_number
    return is_number


def _read_number(digits: str | None) -> float | None:
    return float(digits.replace(",", "").replace("−", "-")) if digits else None

"""Finds how far something is in what programs print."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Final

from taskmem_terminal.judging.conditions import Amount
from taskmem_terminal.judging.subjects import domains, stem

_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}
_PERCENT: Final = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,4})?)\s?%")
_RATIO: Final = re.compile(
    r"(?<![\d/.])(\d{1,7})\s?(?:/|out of|of)\s?(\d{1,7})(?![\d/.]\d|\d|%)"
)
_CURL: Final = re.compile(
    r"^\s*(\d{1,3})\s+[\d.]+[kMGTP]?\s+\d{1,3}\s+[\d.]+[kMGTP]?\s+\d"
)
_PASSED: Final = re.compile(
    r"(?<![\d.])(\d{1,7}) (?:tests? )?pass(?:ed|ing)\b|\bpass(?:ed)?:\s+(\d{1,7})"
    r"|(?:ℹ|#) pass (\d{1,7})"
)
_FAILED: Final = re.compile(
    r"(?<![\d.])([1-9]\d{0,6}) (?:failed|failing|errors?)\b|\bfailed:\s+([1-9]\d*)"
)
_NUMBER: Final = r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,12}(?:\.\d{1,4})?)"
_BYTES: Final = {"b": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SIZE: Final = re.compile(
    (
        r"(?<![\w.:/-])(\d{1,9}(?:\.\d{1,4})?)\s?(?:/\s?\d{1,9}(?:\.\d{1,4})?\s?)?"
        r"([kmgt])?i?b(?:ytes)?\b(?!/s|ps)"
    ),
    re.IGNORECASE,
)
_SIZED: Final = re.compile(
    (
        r"\d\s?/\s?\d|%|\b(?:copied|transferred|received|sent|written|downloaded"
        r"|uploaded|read)\b"
    ),
    re.IGNORECASE,
)
_PART_OF: Final = re.compile(
    r"(?<![\w.])(\d{1,9}(?:\.\d{1,3})?)\s?/\s?(\d{1,9}(?:\.\d{1,3})?)\s?[kmgt]i?b\b",
    re.IGNORECASE,
)
# pytest and make count all of their work.
_TOTAL: Final = re.compile(r"\[\s{0,2}\d{1,3}%\]$|^\[\s{0,2}\d{1,3}%\] ")
# What stands beside a bar and names nothing: sizes, speeds, times, files.
_UNITS: Final = re.compile(
    r"\S*\d\S*|\S+[./]\S+|\b(?:eta|left|remaining|elapsed|total|progress|complete[d]?"
    r"|done|of|in"
    r"|bytes|xfr|to-chk|it|avg|speed|time|and|at)\b"
)
# Sizes and speeds are of something that is moved, not of something that is made.
_MOVED: Final = re.compile(r"\d ?[kmgt]i?b/s|^\s*\d{1,3} +[\d.]+[kmg]? ", re.IGNORECASE)
_MOVING: Final = frozenset({"download", "upload", "clone", "transfer", "image"})
_GIT: Final = re.compile(
    r"\s*(?:remote:\s*)?(?:enumerating|counting|compressing|resolving|receiving"
    r"|writing)\b"
)
_ALL: Final = frozenset({"test", "build", "compile", "check"})
_WORD: Final = re.compile(r"[^\W\d_]{3}")
_OTHER_WORK: Final = re.compile(
    r"^\s*(?:remote:\s*)?(?:counting|compressing|resolving|verifying|unpacking"
    r"|extracting"
    r"|checking|reading|building|preparing|updating|enumerating|installing|deleting)\b",
    re.IGNORECASE,
)
_TRIGGERS: Final = {
    "%": re.compile(
        r"%|/\d+(?:\.\d+)? ?[kmg]|^ {0,3}\d{1,3} +[\d.]+[kmg]? +\d", re.MULTILINE
    ),
    "/": re.compile(r"\d ?/ ?\d|\d (?:out )?of \d"),
    "passed": re.compile(r"pass"),
}


def trigger(amount: Amount) -> re.Pattern[str]:
    """Return what lines with such a number hold, in lower case."""
    if amount.unit in _TRIGGERS:
        return _TRIGGERS[amount.unit]
    if amount.unit in ("#", "="):
        return re.compile(re.escape(amount.words[0]))
    if amount.unit == "b":
        return re.compile(r"\d ?(?:[kmgt]?i?b|/)")
    return re.compile(rf"{re.escape(stem(amount.unit))}|xfr#")


def reached(amount: Amount, line: str) -> bool | None:
    """Whether a line says that it is far enough; None: it may be about another."""
    values = list(_values(amount, line))
    if not any(_COMPARE[amount.compare](value, amount.value) for value in values):
        return False
    return True if _is_its(amount, line) else None


def elsewhere(amount: Amount, line: str, about: frozenset[str]) -> bool:
    """Whether a bar without a name may be of other work than was asked for.

    Args:
        amount: What is asked for.
        line: The line with the bar.
        about: What the text as a whole is known to be about.
    """
    if amount.unit != "%" or amount.about & domains(line):
        return False
    if _TOTAL.search(line):
        return not amount.about & _ALL and bool(amount.words)
    if not amount.about:
        return bool(amount.words) and not any(stem(w) in line for w in amount.words)
    if _MOVED.search(line):
        about |= {"download"} if not about else frozenset()
        return not amount.about & _MOVING or not amount.about & (about - {"install"})
    return bool(about) and not amount.about & about


def speaks(amount: Amount, line: str) -> bool:
    """Whether a line holds such a number of this very thing."""
    return any(True for _ in _values(amount, line)) and _is_its(amount, line)


def _is_its(amount: Amount, line: str) -> bool:
    lower = line.lower()
    if amount.unit in ("passed", "="):
        return True
    if amount.unit in ("#", "/"):
        named = all(stem(word) in lower for word in amount.words[1:])
        return named and not _GIT.match(lower)
    if amount.unit == "%":
        return _is_its_bar(amount, lower)
    roots = [stem(word) for word in amount.words]
    if other := _OTHER_WORK.match(lower):
        return all(root in lower for root in roots) and any(
            root in other[0] for root in roots
        )
    return not roots or any(root in lower for root in roots)


def _is_its_bar(amount: Amount, line: str) -> bool:
    if len(_PERCENT.findall(line)) > 1:
        return False
    if amount.words:
        other = _OTHER_WORK.match(line)
        roots = [stem(word) for word in amount.words]
        return all(root in line for root in roots) and not (
            other and not any(root in other[0] for root in roots)
        )
    if _TOTAL.search(line):
        return not amount.about or bool(amount.about & _ALL)
    label = _UNITS.sub(" ", line)
    return not _WORD.search(label) or bool(amount.about & domains(label))


def _values(amount: Amount, line: str) -> Iterator[float]:
    reader = _READERS.get(amount.unit)
    return reader(amount, line) if reader else _named(amount.unit, line)


def _percents(amount: Amount, line: str) -> Iterator[float]:
    del amount
    yield from (float(found[1]) for found in _PERCENT.finditer(line))
    if found := _CURL.match(line):
        yield float(found[1])
    for found in _PART_OF.finditer(line):
        yield 100 * float(found[1]) / (float(found[2]) or 1)


def _ratios(amount: Amount, line: str) -> Iterator[float]:
    for found in _RATIO.finditer(line):
        if int(found[1]) <= int(found[2]) == amount.total:
            yield float(found[1])


def _passes(amount: Amount, line: str) -> Iterator[float]:
    if amount.total is not None and _FAILED.search(line):
        return
    for found in _PASSED.finditer(line):
        yield float(next(group for group in found.groups() if group))


def _numbered(amount: Amount, line: str) -> Iterator[float]:
    word = re.escape(amount.words[0])
    pattern = rf"(?<![a-z]){word}s?\s?[:#\[(]?\s?0{{0,6}}(\d{{1,7}})(?![\d.])"
    yield from (float(found[1]) for found in re.finditer(pattern, line.lower()))


def _measured(amount: Amount, line: str) -> Iterator[float]:
    word = re.escape(amount.words[0])
    pattern = rf"(?<!\w){word}(?:\s?[=:]\s{{0,4}}|\s)(-?\d{{1,12}}(?:\.\d{{1,8}})?)"
    yield from (float(found[1]) for found in re.finditer(pattern, line.lower()))


def _sizes(amount: Amount, line: str) -> Iterator[float]:
    del amount
    if _SIZED.search(line):
        for found in _SIZE.finditer(line):
            yield float(found[1]) * _BYTES[(found[2] or "b").lower()]


_READERS: Final[dict[str, Callable[[Amount, str], Iterator[float]]]] = {
    "%": _percents,
    "/": _ratios,
    "passed": _passes,
    "#": _numbered,
    "=": _measured,
    "b": _sizes,
}


def _named(noun: str, line: str) -> Iterator[float]:
    root = re.escape(noun)
    if noun == "file" and (found := re.search(r"\bxfr#(\d{1,9})", line)):
        yield float(found[1])
    pattern = (
        rf"(?<![\w.,:/-]){_NUMBER}\s(?:[a-z]+\s){{0,2}}{root}(?:s|es|ies)?\b"
        rf"|\b{root}(?:s|es)?\b\s?[:=]\s{{0,4}}{_NUMBER}"
    )
    for found in re.finditer(pattern, line, re.IGNORECASE):
        yield float((found[1] or found[2]).replace(",", ""))

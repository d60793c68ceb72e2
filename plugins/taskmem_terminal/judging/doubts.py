"""Why a line that seems to settle a condition may not: it asks, it is of another.

Looked at last, whichever rule found the line; a doubt turns a yes into unsure.
"""

from __future__ import annotations

import re
from typing import Final

_QUESTION: Final = re.compile(r"\?(?=\s|\Z)")
_ANSWERED: Final = re.compile(
    r"\?\s*(?:\[[^\]]{1,8}\]|\([^)]{1,8}\))?:?\s+\w{1,8}\s*\Z"
)
_MEANT: Final = re.compile(
    r"\A\W*(?:to (?:check|see|verify|make sure|ensure|confirm)|please|make sure|bring"
    r"|wait(?:ing)? (?:for|until|till)|waiting:|once|if|when|until|unless|before"
    r"|check (?:that|if|whether)|verify (?:that|whether)|ensure)\b"
    r"|\b(?:if|unless|until|whether) (?:the|it|all|any|this|your)\b",
    re.IGNORECASE,
)
_CHECKING: Final = re.compile(
    r"\A\W*(?:checking|looking|testing|scanning|searching|probing)\b", re.IGNORECASE
)
_OUTCOME: Final = re.compile(
    r"(?:done|ok|okay|yes|no|passed|failed|success\w*|found|error\w*|complete\w*)\W*\Z",
    re.IGNORECASE,
)
_NONE: Final = re.compile(
    r"\b(?:rate|errors?|failures?|failed|conflicts?|warnings?|exceptions?|problems?"
    r"|refused|denied|crash\w*)\s{0,3}[:=]\s{0,3}0(?:\.0{1,6})?%?(?![\d.])",
    re.IGNORECASE,
)
_TROUBLE: Final = re.compile(
    r"\b(?:error|fail|conflict|refus|den(?:y|ied)|exception|crash|abort|problem|warn"
    r"|wrong|panic|time[sd]? ?out)",
    re.IGNORECASE,
)
_BEGUN: Final = re.compile(r"\b(?:start|begin|began|begun|at least)", re.IGNORECASE)
_DENIED: Final = re.compile(r"\b(?:no|without|zero|0|free of|not)\b", re.IGNORECASE)
_PART: Final = re.compile(
    r"(?<![\w./])(\d[\d,]{0,12})(%?)\s?(?:of|out of|/)\s?(\d[\d,]{0,12})(?![\w./])",
    re.IGNORECASE,
)
_KINDS: Final = (
    r"batch|build|check|container|epoch|host|image|instance|job|layer|migration|module"
    r"|node|package|partition|pod|process|queue|region|replica|run|server|service|shard"
    r"|stage|step|suite|table|target|task|test|thread|topic|unit|worker"
)
_NAMED: Final = re.compile(rf"\b({_KINDS})\s+[#'\"]?([\w.-]{{1,60}})", re.IGNORECASE)
_TOWARDS: Final = re.compile(r"\bto (?:the |a |an )?([a-z][\w-]{2,40})", re.IGNORECASE)
_NO_NAME: Final = frozenset(
    re.findall(
        r"\w+",
        """
        a all an and any appears are as at be been by can comes completes done down ends
        every exits fails failed finished finishes for from goes had has have in is it
        its no not of off on or out passed passes ready reaches run running runs says so
        starts started stops succeeded succeeds suite suites that the then there to up
        was were when which will with worker workers
        """,
    )
)
"""Words that follow a kind without naming one of it."""


def quoted(wake_when: str, phrase: str) -> bool:
    """Whether a phrase stands in quotes, and so is looked for as it is."""
    at = wake_when.find(phrase)
    return at < 0 or (at > 0 and wake_when[at - 1] in "\"'`“‘«„")


def whole(phrase: str, line: str) -> bool:
    """Whether a phrase stands in a line as words of its own."""
    found = rf"(?<!\w){re.escape(phrase)}(?!\w)"
    return re.search(found, line, re.IGNORECASE) is not None


def answered(line: str) -> bool:
    """Whether a question was answered on its own line."""
    return _ANSWERED.search(line.rstrip()) is not None


def doubtful(wake_when: str, line: str) -> bool:
    """Whether a line that seems to settle a condition rather does not."""
    return (
        _only_meant(line)
        or _none_of_it(wake_when, line)
        or _only_part(wake_when, line)
        or _of_another(wake_when, line)
    )


def _only_meant(line: str) -> bool:
    """Whether it asks, tells what to do, or says what would be."""
    if _QUESTION.search(line) or _MEANT.search(line):
        return True
    return bool(_CHECKING.match(line)) and not _OUTCOME.search(line)


def _none_of_it(wake_when: str, line: str) -> bool:
    wanted = _TROUBLE.search(wake_when) and not _DENIED.search(wake_when)
    return bool(wanted and _NONE.search(line))


def _only_part(wake_when: str, line: str) -> bool:
    """Whether it counts some of a whole, and the condition is not about so many."""
    if _TROUBLE.search(wake_when) or _BEGUN.search(wake_when):
        return False
    numbers = set(re.findall(r"\d[\d,]*", wake_when))
    for some, _, whole in _PART.findall(line):
        if some != whole and some not in numbers:
            return True
    return False


def _of_another(wake_when: str, line: str) -> bool:
    """Whether it says it of another of the same kind, or of another place."""
    ours = {(k.lower(), n.lower()) for k, n in _NAMED.findall(wake_when)}
    names = {name.strip(".") for _, name in ours if name not in _NO_NAME}
    kinds = {kind for kind, name in ours if name not in _NO_NAME}
    for kind, name in _NAMED.findall(line):
        other = name.lower().strip(".")
        same = any(other.startswith(n) or n.startswith(other) for n in names)
        if kind.lower() in kinds and other not in _NO_NAME and not same:
            return True
    wanted, there = _TOWARDS.search(wake_when), _TOWARDS.search(line)
    return bool(
        wanted
        and there
        and wanted[1].lower() != there[1].lower()
        and wanted[1].lower() not in line.lower()
    )

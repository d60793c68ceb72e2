"""Percentages and counters: what a condition asks for, and what lines say."""

from __future__ import annotations

import re
from typing import Final

from taskmem_terminal.judging.conditions import Amount, Clause, Puzzling
from taskmem_terminal.judging.subjects import domains, names

_OPERATORS: Final = (
    (
        ">=",
        re.compile(r"\b(?:at least|or more|minimum|no less than|not less than)\b|>=|≥"),
    ),
    (
        ">",
        re.compile(
            r"\b(?:more than|over|above|exceeds?|exceeding|greater than|past|beyond"
            r"|higher than|tops|passes)\b|(?<!-)>(?!=)"
        ),
    ),
    ("<=", re.compile(r"\b(?:at most|no more than|or less|maximum)\b|<=|≤")),
    (
        "<",
        re.compile(
            r"\b(?:below|under|less than|fewer than|lower than|drops?(?: to)?"
            r"|falls?(?: to)?|down to)\b|<(?!=)"
        ),
    ),
    ("==", re.compile(r"\b(?:exactly|equals|precisely)\b")),
)
_PERCENT: Final = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,4})?)\s?(?:%|per ?cent\b)")
_RATIO: Final = re.compile(
    r"(?<![\d/.])(\d{1,7})\s*(?:/|\bout of\b|\bof(?: the)?\b)\s*(\d{1,7})(?![\d/.%])"
)
_TESTS: Final = re.compile(
    r"\b(\d{1,7}) (?:\w+ ){0,2}?(?:tests?|specs?|examples?|cases?|checks?)\b(?: \w+){"
    r"0,2} pass"
    r"|\b(\d{1,7}) (?:pass(?:ed|ing)?)\b"
)
_NUMBERED: Final = re.compile(
    r"\b(epoch|step|iteration|batch|round|page|chunk|layer|stage|phase|part|attempt"
    r"|generation|frame|cycle|iter|tick|item|file|task|pass|run|worker|shard|block"
    r"|test)"
    r"s?(?: (?:number|no\.?))? ?#?(\d{1,7})(?![\d.:%])"
)
_COUNTED: Final = re.compile(
    r"(?<![\w.:/-])(\d{1,3}(?:[,_]\d{3}){1,4}|\d{1,9}(?:\.\d{1,3})?)\s?(k|m|million"
    r"|thousand)?\+?"
    r" ((?:[a-z][\w-]* ){0,2}?)(rows?|records?|files?|items?|lines?|packages?|objects?"
    r"|requests?|messages?|events?|documents?|entries|users?|images?|pages?|samples?"
    r"|steps?"
    r"|iterations?|epochs?|tasks?|jobs?|commits?|pods?|nodes?|workers?|connections?"
    r"|bytes"
    r"|errors?|warnings?|failures?|vulnerabilit(?:y|ies)|urls?|frames?|modules?|tests?"
    r"|tokens?|matches|results?|[kmgt]i?b)\b(?!/s)"
)
_MEASURED: Final = re.compile(
    r"\b([a-z][\w-]{1,30}) (?:(?:is|gets|goes|drops|falls|rises|climbs|sinks|has"
    r"|value)\s+){0,2}"
    r"(below|under|above|over|at least|less than|more than|greater than|<=?|>=?) "
    r"(-?\d{1,9}(?:\.\d{1,6})?)(?![\w.]|\s?%|\s?[a-z])"
)
_IDLE_WORDS: Final = """
    data copied downloaded transferred received done written processed read size
    amount marked way mark gone through far
"""
_IDLE: Final = frozenset(_IDLE_WORDS.split())
_DOUBT: Final = re.compile(
    r"\b(?:unless|except|but|twice|again|before|while|instead|stuck|stays?|remains?"
    r"|keeps?|each"
    r"|every|between|not|never|without|other|stalls?|in a row|within|per|average"
    r"|total of both"
    r"|both|starts?|begins?|if|after|ago|another|version|minutes?|seconds?|hours?"
    r"|attempts?|tries)\b|n't\b"
)
_OVER: Final = re.compile(
    r"\b(?:finish\w*|done|ends?|ended|is over|succeeds?|fail\w*)\b"
)
_COMPLETE: Final = re.compile(r"\bcomplet\w*\b")
_BYTES: Final = {"b": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_PARTS: Final = (
    (re.compile(r"\b(?:half|the middle)\b(?: of\b)?"), "50%"),
    (re.compile(r"\b(?:a|one) third\b(?: of\b)?"), "33%"),
    (re.compile(r"\b(?:a|one) quarter\b(?: of\b)?"), "25%"),
    (re.compile(r"\b(?:two thirds)\b(?: of\b)?"), "66%"),
    (re.compile(r"\bthree quarters\b(?: of\b)?"), "75%"),
)
_NUMBERS: Final = {
    word: number
    for number, word in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
        1,
    )
}
_SPELLED: Final = re.compile(
    rf"\b(at least|more than|exactly|fewer than|less than) ({'|'.join(_NUMBERS)})"
    rf"\b(?! of)"
)
_SCALE: Final = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6}


def read(clause: str) -> Clause | None:
    """Read a clause about how far something is; None: it is about something else."""
    clause = _SPELLED.sub(lambda found: f"{found[1]} {_NUMBERS[found[2]]}", clause)
    for words, percent in _PARTS:
        clause = words.sub(percent, clause)
    readers = (_percent, _passed, _ratio, _numbered, _counted, _measured)
    return next((found for reader in readers if (found := reader(clause))), None)


def _percent(clause: str) -> Clause | None:
    if not (found := _PERCENT.search(clause)):
        return None
    rest = _PERCENT.sub(" ", clause)
    if _DOUBT.search(rest) or "fail" in rest:
        return Puzzling()
    compare, about = _operator(clause), domains(clause)
    return Amount(compare, float(found[1]), "%", None, _words(rest), about)


def _passed(clause: str) -> Clause | None:
    if not (found := _TESTS.search(clause)):
        return None
    rest = _TESTS.sub(" ", clause)
    if _DOUBT.search(rest) or "fail" in rest:
        return Puzzling()
    whole = "all" in clause.split()
    count = int(found[1] or found[2])
    compare = "==" if whole else _operator(clause)
    return Amount(compare, count, "passed", count if whole else None)


def _ratio(clause: str) -> Clause | None:
    if not (found := _RATIO.search(clause)):
        return None
    rest = _RATIO.sub(" ", clause)
    count, total = int(found[1]), int(found[2])
    begun = _COMPLETE.search(rest) and re.search(r"step|epoch", rest)
    if _DOUBT.search(rest) or _OVER.search(rest) or begun or not count <= total > 0:
        return Puzzling()
    return Amount(">=", count, "/", total, _words(rest))


def _measured(clause: str) -> Clause | None:
    if not (found := _MEASURED.search(clause)):
        return None
    if _DOUBT.search(clause.replace(found[0], " ")):
        return Puzzling()
    return Amount(_operator(found[2]), float(found[3]), "=", words=(found[1],))


def _numbered(clause: str) -> Clause | None:
    if not (found := _NUMBERED.search(clause)):
        return None
    rest = clause.replace(found[0], " ")
    if _DOUBT.search(rest) or _OVER.search(rest) or _COMPLETE.search(rest):
        return Puzzling()
    words = (found[1], *(word for word in _words(rest) if word != found[1]))
    return Amount(_operator(clause), int(found[2]), "#", words=words)


def _counted(clause: str) -> Clause | None:
    if not (found := _COUNTED.search(clause)):
        return None
    rest = clause.replace(found[0], " ")
    if _DOUBT.search(rest) or "fail" in rest:
        return (
            Puzzling()
            if not re.search(r"\b(?:minutes?|seconds?|hours?)\b", rest)
            else None
        )
    value = float(found[1].replace(",", "").replace("_", ""))
    if found[2]:
        value *= _SCALE[found[2]]
    noun = found[4]
    vague = not any(words.search(clause) for _, words in _OPERATORS)
    if value == 0 and vague and re.match(r"error|fail|warn|vuln", noun):
        return None
    if noun.endswith("b"):
        value *= _BYTES[noun[0]]
        return Amount(_operator(clause), value, "b")
    noun = re.sub(r"ies$", "y", noun).removesuffix("s")
    words = tuple(dict.fromkeys((*names(found[3]), *names(rest))))
    return Amount(_operator(clause), value, noun, words=words, exact=vague)


def _operator(clause: str, usual: str = ">=") -> str:
    return next((sign for sign, words in _OPERATORS if words.search(clause)), usual)


def _words(text: str) -> tuple[str, ...]:
    return tuple(
        word for word in names(text) if not word[0].isdigit() and word not in _IDLE
    )

"""Tells lines that speak of trouble from those that only hold its words.

`0 errors`, `error-prone-1.2.jar` and `test_login_fails PASSED` are no trouble.
"""

from __future__ import annotations

import re
from typing import Final

from taskmem_terminal.judging.families import Family

_TROUBLE: Final = re.compile(
    r"error|fail|exception|panic|crash|fatal|denied|timeout|warn|conflict|abort|errno"
)
# Files, crates, tests and functions that are named for trouble.
_COMPOUND: Final = re.compile(
    r"[\w@/\\](?:[./@_\\-]|::)\w*(?:error|fail|exception|panic|crash|fatal|denied"
    r"|timeout|warn)"
    r"|(?:error|fail|exception|panic|crash|fatal|denied|timeout|warn)\w*(?:[./@_\\-]"
    r"|::)\w"
    r"|fail2ban|failsafe|failover|thiserror|stderr|errno|onerror|strerror"
)
_KINDS: Final = (
    r"(?:errors?|failures?|failed|failing|fail|exceptions?|warnings?|panics?|conflicts?"
    r"|crashes)"
)
_BENIGN: Final = re.compile(
    r"\b(?:0|no|zero|without(?: any)?|free of|never|not an?|any)\s+(?:\w+\s+){0,2}?"
    rf"{_KINDS}\b"
    rf"|\b{_KINDS}\s*[:=]\s*0+\b(?!\.)"
    r"|[=:]\s*(?:error|fail\w*|fatal)\s*$"
    r"|\b(?:on|if|when|until|unless|in case of)[ -](?:an? )?"
    r"(?:error|failure|fail\w*|timeout)s?\b"
    r"|\b(?:should panic|expected (?:failure|error)|xfailed|xfail)\b"
    r"|\berror (?:handling|handlers?|pages?|messages?|codes?|types?|reporting|checking"
    r"|logs?)\b"
)
_HEDGED: Final = re.compile(
    r"\b(?:retry\w*|retries|attempt \d+|try again|trying again|ignor\w+|optional"
    r"|skipp\w+"
    r"|recover\w*|warn(?:ing)?|deprecat\w+|debug|info|note|handled|fallback"
    r"|falling back|continu\w+|passed|ok|might|may|could be|possible|previous\w*"
    r"|last (?:attempt|try|error|run)"
    r"|was|will)\b|\.\.\. ?ok\b|✓|✔"
)
_WORDS: Final = re.compile(
    r"(?<!\w)(?:errors?|fail(?:ed|s|ure|ures|ing)?|exceptions?|fatal|crash\w*|panick?\w*"
    r"|abort\w*"
    r"|refused|denied|timed out|unable|cannot|could not)(?![\w/@-]|\.\w)"
)


def relevant(line: str) -> str:
    """Return a line, in lower case, without what only looks like trouble."""
    if not _TROUBLE.search(line):
        return line
    kept = [
        token
        for token in line.split()
        if not (_TROUBLE.search(token) and _COMPOUND.search(token))
    ]
    return _BENIGN.sub(" ", " ".join(kept))


def plainly(family: Family, line: str) -> bool:
    """Whether a line says plainly what its family is about."""
    line = line.lower()
    if not family.plain.said(line):
        return False
    if not family.trouble:
        return not (family.denied and family.denied.said(line))
    if _HEDGED.search(line):
        return False
    left = relevant(line)
    return len(left) == len(line) or family.plain.said(left)


def perhaps(family: Family, line: str) -> bool:
    """Whether a line may be about what its family is about."""
    if not family.trouble:
        return plainly(family, line)
    line = line.lower()
    return bool(_WORDS.search(line)) and bool(_WORDS.search(relevant(line)))


def http(code: str, line: str) -> bool:
    """Whether a line tells of an answer with this status."""
    return bool(
        re.search(
            rf"\b(?:get|head|post|put|patch|delete) /\S*\"? (?:http\S+ )?{code}\b"
            rf"|http/\d(?:\.\d)?\"? {code}\b|\bstatus(?:[ _-]?code)?\"?[=: ]+{code}\b"
            rf"|response\.{{0,3}} {code}\b|\bhttp(?: status)?[: ]+{code}\b"
            rf"|\b{code} (?:ok|not found|internal|forbidden|unauthorized|bad|created"
            rf"|service|found|moved)\b|\breturned(?: error)?:? {code}\b|\be{code}\b"
            rf"|\berror:? {code}\b",
            line.lower(),
        )
    )

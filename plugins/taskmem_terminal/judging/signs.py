"""Decides whether a line of a family was shown, and about the right thing."""

from __future__ import annotations

import re
from typing import Final

from taskmem_terminal.judging import endings
from taskmem_terminal.judging.conditions import Sign
from taskmem_terminal.judging.families import FAMILIES
from taskmem_terminal.judging.findings import Finding, Memory
from taskmem_terminal.judging.seen import Seen
from taskmem_terminal.judging.subjects import VARIANTS, groups, stem
from taskmem_terminal.judging.trouble import http, perhaps, plainly

_MANY: Final = 4_000
DENIED: Final = re.compile(
    r"\b(?:not|no|never|0(?![.\w%/])|zero|without|fail\w*|error|cannot|can't|could ?"
    r"n[o']t|unable|skip\w*|retry\w*"
    r"|waiting|wait|until|will|would|before|if|when|todo|still|pending)\b|n't\b"
)
"""What makes a line say the opposite, or that it is still to come."""
_OWNER: Final = re.compile(
    r"^(?:[\w.-]{1,40}\s{0,20}\|\s|\[(?!info|warn|error|debug|notice|\d)"
    r"[a-z][\w.-]{1,30}\]\s"
    r"|[\d:. ]{0,20}[\w-]{1,30}\.\d{1,3}\s+\|)",
    re.IGNORECASE,
)
_COMPILER: Final = re.compile(
    r"\.\w+:\d+|:\d+:\d+|\(\d+,\d+\): |^error\[|could not compile|^\[error\] /"
)
_SUBJECT: Final = re.compile(
    r"\s{0,8}(?:[\W\d]{1,40}\s)?(?P<what>[a-z][\w-]*(?: [a-z][\w-]*){0,3}?)[: ]+"
    r"(?:(?:is|are|now|has|successfully|been)\s+){0,3}"
    r"(?:ready|listening|running|started|online|up|available|live)\b"
)
_HOSTS: Final = frozenset(
    [
        "server",
        "service",
        "app",
        "application",
        "api",
        "it",
        "system",
        "we",
        "now",
        "info",
        "log",
        "daemon",
        "uvicorn",
        "flask",
        "gunicorn",
        "vite",
        "nginx",
        "node",
        "express",
        "next",
        "site",
        "website",
        "http",
        "everything",
        "dev",
        "web",
        "development",
    ]
)
_LONGEST: Final = 3
_TITLES: Final = {"ready": "It is ready", "error": "An error appeared"}
_TROUBLED: Final = frozenset({"error", "test_failure"})


def sign(clause: Sign, memory: Memory, seen: Seen) -> Finding:
    """Return whether a line of the family was shown, about what the clause names."""
    if clause.family == "http":
        return _http(clause, seen)
    if clause.family.startswith("state:"):
        return _state(clause, memory, seen)
    family = FAMILIES[clause.family]
    doubt = ""
    for line in seen.hits(family.trigger):
        if plainly(family, line):
            if not _has(clause.numbers, line):
                continue
            if _belongs(clause, line, seen) and _theirs(clause, line, seen):
                return Finding.yes(_TITLES.get(clause.family, "It appeared"), line)
            doubt = line
        elif clause.family == "error" and perhaps(family, line):
            doubt = line if memory.doubts(line) else doubt
    if seen.frame.exit_status is not None and clause.family in _TROUBLED:
        return _over(clause, seen, doubt)
    return Finding.unsure("This may be it", doubt) if doubt else Finding.no()


def _http(clause: Sign, seen: Seen) -> Finding:
    code = clause.numbers[0]
    for line in seen.hits(re.compile(code)):
        if http(code, line):
            lower = line.lower()
            if clause.words and not any(stem(word) in lower for word in clause.words):
                return Finding.unsure("This may be another answer", line)
            return Finding.yes(f"Status {code}", line)
    return Finding.no()


def _over(clause: Sign, seen: Seen, doubt: str) -> Finding:
    because = endings.how(seen)
    if not seen.frame.exit_status:
        return Finding.no(because)
    if clause.words or not _theirs(clause, "", seen):
        return Finding.unsure(f"{because}; why is not clear", seen.last_said)
    if clause.family == "error":
        return Finding.yes(f"{because}, which is an error", seen.last_said)
    return Finding.unsure("This may be it", doubt) if doubt else Finding.no()


def _state(clause: Sign, memory: Memory, seen: Seen) -> Finding:
    state = clause.family.partition(":")[2]
    pattern = re.compile(rf"(?<![\w-]){state}(?![\w-])")
    doubt = ""
    for line in seen.hits(pattern):
        lower = line.lower()
        if not any(word.lower() in lower for word in clause.words):
            continue
        if DENIED.search(lower) or re.search(r"\b0/\d", lower):
            doubt = line if memory.doubts(line) else doubt
        else:
            return Finding.yes(f"It is {state}", line)
    return Finding.unsure("This may be it", doubt) if doubt else Finding.no()


def _has(numbers: tuple[str, ...], line: str) -> bool:
    return all(re.search(rf"(?<!\d){number}(?!\d)", line) for number in numbers)


def _belongs(clause: Sign, line: str, seen: Seen) -> bool:
    """Whether a line is about what a clause names."""
    words, lower = clause.words, line.lower()
    if clause.family == "error":
        return not words or any(_of_kind(word, lower) for word in words)
    mine, its = clause.groups, groups(lower)
    if mine and its and not mine & its and not any(stem(w) in lower for w in words):
        return False
    starts = clause.family in ("ready", "listening")
    if (starts and not _same(clause, lower)) or any(
        word not in lower for word in VARIANTS.intersection(words)
    ):
        return False
    if not words or any(stem(word) in lower for word in words):
        return True
    short = "database" in words and bool(re.search(r"\bdb\b", lower))
    return short or (not _OWNER.match(line) and visible(words, seen))


def _same(clause: Sign, line: str) -> bool:
    """Whether what a line says to be ready may be what was asked for."""
    if any(stem(word) in line for word in clause.words):
        return True
    owner = _OWNER.match(line)
    if owner and not (clause.numbers or clause.groups & groups(owner[0])):
        return False
    subject = _SUBJECT.match(line)
    if not subject or clause.numbers or groups(line) & clause.groups:
        return True
    what = subject["what"].split()
    return bool(_HOSTS.intersection(what)) or len(what) > _LONGEST


def _theirs(clause: Sign, line: str, seen: Seen) -> bool:
    """Whether a line may come from the program that a clause names."""
    if not clause.programs:
        return True
    programs, lower = set(clause.programs), line.lower()
    return bool(programs & seen.spoken.names) or any(
        program in lower or visible((program,), seen) for program in programs
    )


def _of_kind(word: str, line: str) -> bool:
    if stem(word) in line:
        return True
    return word.startswith("compil") and bool(_COMPILER.search(line))


def visible(words: tuple[str, ...], seen: Seen, *, typed: bool = True) -> bool:
    """Whether one of some names is shown at all."""
    echoes = seen.echoes if typed else ()
    shown = "\n".join((*echoes, seen.tail, seen.text[:_MANY])).lower()
    return any(word.lower() in shown for word in words)

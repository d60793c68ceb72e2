"""Reads how something goes: it ends, well or badly; it starts up; trouble is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass

from taskmem_terminal.judging import vocabulary as said
from taskmem_terminal.judging.conditions import (
    Clause,
    Ended,
    Outcome,
    Puzzling,
    Shown,
    Sign,
)
from taskmem_terminal.judging.programs import is_program
from taskmem_terminal.judging.subjects import domains, groups, names

_GONE = re.compile(r"\b(?:no longer|not|isn't) (?:running|active|alive|up)\b")


@dataclass(frozen=True, slots=True)
class _Speech:
    """A clause, and what it is about."""

    plain: str
    about: frozenset[str]
    words: tuple[str, ...]
    quoted: tuple[str, ...]
    flawless: bool


def happened(
    plain: str, before: str, quoted: tuple[str, ...], *, flawless: bool
) -> Clause | None:
    """Read a clause about how something goes; None: it is about nothing known.

    Args:
        plain: The clause, in lower case.
        before: The clause before it, which names what "it" is.
        quoted: Names that stood in quotes.
        flawless: Whether it has to go without errors.
    """
    own = domains(plain)
    alone = bool(own or names(plain) or quoted)
    speech = _Speech(
        plain,
        own or (frozenset() if alone else domains(before)),
        names(plain, quoted) or (() if own else names(before)),
        quoted,
        flawless,
    )
    if not flawless and (clause := _trouble(speech) or _badly(speech)):
        return clause
    gone = bool(_GONE.search(plain))
    if not gone and said.DOUBT.search(plain):
        return Puzzling()
    if said.CONNECTED.search(plain):
        return Sign("connected", speech.words)
    return (None if gone else _state(speech)) or _over(speech, gone=gone)


def _trouble(speech: _Speech) -> Clause | None:
    plain = speech.plain
    doubtful = said.DOUBT.search(plain)
    if (found := said.ERROR_NAME.search(plain)) and not doubtful:
        return Shown(found[0])
    if said.SOME_TEST.search(plain):
        return Puzzling() if doubtful else Sign("test_failure")
    for family, words in said.TROUBLES:
        if not words.search(plain):
            continue
        left = words.sub(" ", plain)
        ends = family == "error" and said.END.search(left)
        if not ends and not said.DOUBT.search(left):
            kind = said.ERROR_KIND.search(plain) if family == "error" else None
            named = (*speech.quoted, *([kind[1]] if kind else ()))
            programs = tuple(word for word in speech.words if is_program(word))
            return Sign(family, named, programs=programs)
    return None


def _badly(speech: _Speech) -> Clause | None:
    if not said.BADLY.search(speech.plain):
        return None
    left = said.NEGATED.sub(" ", said.BADLY.sub(" ", speech.plain))
    if said.DOUBT.search(left) or _is_part(speech.words):
        return Puzzling()
    process = bool(said.PROCESS.search(speech.plain))
    return Ended(Outcome.FAILURE, speech.about, speech.words, process=process)


def _state(speech: _Speech) -> Clause | None:
    words = tuple(dict.fromkeys(name.lower() for name in speech.quoted)) or speech.words
    named = bool(speech.quoted) or any(re.search(r"[-_\d./]", word) for word in words)
    state = said.STATE.search(speech.plain)
    if not state or not named:
        return None
    return Sign(f"state:{state[1]}", tuple(word for word in words if word != state[1]))


def _over(speech: _Speech, *, gone: bool) -> Clause | None:
    plain = speech.plain
    if re.search(r"\bsummary\b", plain) and speech.about:
        return Ended(Outcome.ANY, speech.about, speech.words)
    well = speech.flawless or bool(said.WELL.search(plain))
    ends = gone or bool(said.END.search(plain))
    if said.READY.search(plain) and not gone and (not ends or "start" in plain):
        return _ready(speech)
    part = _is_part(speech.words) and not speech.quoted
    if part or not (ends or well or said.DID.search(plain)):
        return None
    outcome = Outcome.SUCCESS if well or not ends else Outcome.ANY
    strict = bool(said.STRICT.search(plain)) and not said.ANYHOW.search(plain)
    strict = strict or bool(said.WHOLLY.search(plain))
    process = gone or bool(said.PROCESS.search(plain))
    return Ended(outcome, speech.about, speech.words, strict=strict, process=process)


def _ready(speech: _Speech) -> Clause | None:
    plain = speech.plain
    begins = said.BEGINS_TO.search(plain)
    if begins or not (said.SERVING.search(plain) or speech.quoted):
        return None
    numbers = tuple(found[1] or found[2] for found in said.PORT.finditer(plain))
    words = tuple(
        word for word in speech.words if not any(number in word for number in numbers)
    )
    family = "listening" if re.search(r"\blisten", plain) else "ready"
    return Sign(family, words, groups(plain), numbers)


def _is_part(words: tuple[str, ...]) -> bool:
    """Whether a clause is about one numbered part of what a command does."""
    return any(re.search(r"[\d_]|::|\w/\w", word) for word in words)

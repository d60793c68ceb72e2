"""Reads an agent's free-form English condition.

What is not understood is a puzzle, never a guess: a wait that is resolved falsely
costs more than one that another judge has to settle.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from taskmem_terminal.judging import amounts, wording
from taskmem_terminal.judging import vocabulary as said
from taskmem_terminal.judging.conditions import (
    Alternative,
    AnyOutput,
    Asks,
    AtPrompt,
    Clause,
    Condition,
    Ended,
    Flawless,
    Outcome,
    Puzzling,
    Quiet,
    Shown,
    Sign,
)
from taskmem_terminal.judging.happenings import happened
from taskmem_terminal.judging.quoting import quoted
from taskmem_terminal.judging.subjects import domains, names
from taskmem_terminal.judging.telling import told
from taskmem_terminal.judging.wording import BRACKET, QUOTE, Wording

_UNIT: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}
_SPELLED: Final = {
    "a": 1.0,
    "an": 1.0,
    "half a": 0.5,
    "half an": 0.5,
    "two": 2.0,
    "three": 3.0,
    "five": 5.0,
    "ten": 10.0,
    "thirty": 30.0,
    "sixty": 60.0,
}
_USUAL_SECONDS: Final = 30.0
_ARTICLES: Final = re.compile(r"\b(?:the|an?|my|all|any)\b", re.IGNORECASE)
_PHRASE: Final = 1
"""A noun and what describes it; what is longer has a verb of its own."""
_MOST_SIDES: Final = 12
_WITHOUT: Final = (Puzzling(),)


def read(condition: str) -> Condition:
    """Return what a condition asks for."""
    if len(condition) > wording.LONGEST:
        return Condition(((Puzzling(hopeless=True),),))
    whole = wording.fall_apart(condition)
    sides: list[Alternative] = []
    before = ""
    for text in whole.sides:
        for item in _unlisted(whole, text):
            sides += _side(whole, item, before)
            before = item if not before or _subject(item) else before
    if whole.remarks:
        sides = [(*side, Puzzling()) for side in sides]
    return Condition(tuple(dict.fromkeys(sides))[:_MOST_SIDES] or (_WITHOUT,))


def _unlisted(whole: Wording, text: str) -> list[str]:
    """Part a list at its commas, unless a comma parts no alternatives."""
    found = wording.items(text) if whole.listed else [text]
    quotes = all(re.fullmatch(QUOTE, item) for item in found[:-1])
    if len(found) == 1 or (len(whole.sides) == 1 and not quotes):
        return [text]
    merged: list[str] = []
    for item in found:
        if merged and not _stands_alone(whole, item):
            merged[-1] += " " + item
        else:
            merged.append(wording.bare(item))
    return merged


def _stands_alone(whole: Wording, item: str) -> bool:
    """Whether a part says something by itself."""
    return bool(re.search(QUOTE, item)) or bool(_known(whole, item, ""))


def _side(whole: Wording, text: str, before: str) -> list[Alternative]:
    head = re.sub(BRACKET, " ", text)
    instead: list[Alternative] = []
    beside: list[Alternative] = []
    puzzling = False
    for char in re.findall(BRACKET, text):
        inner = whole.bracket(char)
        plain = inner.lower()
        if re.search(QUOTE, inner) and not re.search(QUOTE, head):
            example = said.EXAMPLE.match(plain)
            inner = said.SAME.sub("", said.EXAMPLE.sub("", inner))
            found = [
                side for one in wording.sides(inner) for side in _side(whole, one, "")
            ]
            alike = all(isinstance(one, Shown) for side in found for one in side)
            known = [side for side in found if side != (Puzzling(hopeless=True),)]
            (instead if alike and not example else beside).extend(known)
        elif any(
            words.search(plain) for words in (said.CODE, said.WELL, said.FLAWLESS)
        ):
            head += " " + inner
        elif said.DOUBT.search(plain):
            puzzling = True
    clauses = _clauses(whole, " ".join(head.split()), before)
    if puzzling:
        return [(*clauses, Puzzling())]
    return instead or [clauses, *beside]


def _clauses(whole: Wording, text: str, before: str) -> Alternative:
    merged: list[str] = []
    for part in wording.parts(text):
        short = len(re.findall(r"\w\S*", _ARTICLES.sub(" ", part))) <= _PHRASE
        if merged and not (
            _stands_alone(whole, merged[-1])
            and (_stands_alone(whole, part) or not short)
        ):
            merged[-1] += " and " + part
        else:
            merged.append(part)
    clauses: list[Clause] = []
    for part in merged:
        about = merged[0] if clauses else before
        clauses.append(_known(whole, part, about) or told(_plain(part)))
    if clauses == [Flawless()]:
        clauses = [Ended(Outcome.SUCCESS)]
    return tuple(dict.fromkeys(clauses)) or _WITHOUT


def _subject(text: str) -> bool:
    plain = text.lower()
    return bool(domains(plain) or names(plain))


def _plain(text: str) -> str:
    text = said.ASIDE.sub("", text)
    return " ".join(text.replace(wording.JOINED, " or ").lower().split())


def _known(whole: Wording, text: str, before: str) -> Clause | None:
    """Read a clause of a known kind; None: it is free speech."""
    if re.search(QUOTE, text):
        clause, rest, extra = quoted(whole, _spaced(text))
        return clause or _worded(rest.lower(), before.lower(), extra)
    literal = said.LITERAL.fullmatch(_spaced(text))
    if literal and not said.SENTENCE.search(literal["said"]):
        phrase = literal["said"]
        return Shown(phrase if phrase.isupper() else phrase.lower())
    return _worded(_plain(text), before.lower(), ())


def _spaced(text: str) -> str:
    return " ".join(text.replace(wording.JOINED, " or ").split())


def _worded(plain: str, before: str, extra: tuple[str, ...]) -> Clause | None:
    if (asked := said.THING_ASKED.fullmatch(plain)) and said.ASKS.search(before):
        plain = f"asks for {asked[1]}"
    readers = (_quiet, _waiting, _coded, _hopeless, amounts.read)
    found = next((clause for reader in readers if (clause := reader(plain))), None)
    return found or _goes(plain, before, extra) or _any_output(plain)


def _hopeless(plain: str) -> Clause | None:
    return Puzzling(hopeless=True) if said.HOPELESS.search(plain) else None


def _any_output(plain: str) -> Clause | None:
    vague = said.ANY_OUTPUT.search(plain) and not said.DOUBT.search(plain)
    return AnyOutput() if vague else None


def _goes(plain: str, before: str, extra: tuple[str, ...]) -> Clause | None:
    """Read how something goes, and whether it has to go without a flaw."""
    rest = said.SPOTLESS.sub(" ", plain)
    spotless = rest != plain
    flawless = spotless or bool(said.FLAWLESS.search(rest))
    if flawless:
        rest = said.FLAWLESS.sub(" ", rest)
    if flawless and not spotless and not _says_anything(rest):
        return Flawless()
    clause = happened(rest, before, extra, flawless=flawless)
    if spotless:
        if isinstance(clause, Ended):
            return replace(clause, spotless=True)
        return Puzzling()
    if clause is None and flawless and not said.DOUBT.search(rest):
        return Flawless()
    return clause


def _says_anything(plain: str) -> bool:
    ends = said.END.search(plain) or said.WELL.search(plain) or said.READY.search(plain)
    return bool(ends or _subject(plain))


def _quiet(plain: str) -> Clause | None:
    if not said.QUIET.search(plain) or said.FLAWLESS.search(plain):
        return None
    span = said.SPAN.search(plain)
    if not span:
        return Quiet(_USUAL_SECONDS)
    number = _SPELLED.get(span[1])
    return Quiet((float(span[1]) if number is None else number) * _UNIT[span[2][0]])


def _waiting(plain: str) -> Clause | None:
    if said.ASKS.search(plain) and "connection" not in plain.replace(
        "continue connection", ""
    ):
        what = next((name for name, words in said.ASKED if words.search(plain)), None)
        if what:
            doubt = said.DOUBT.search(said.AFTER.sub("", plain).replace("if", ""))
            return Puzzling() if doubt else Asks(what)
        if (found := said.ASKS_FOR.search(plain)) and (words := names(found[1])):
            return Puzzling() if said.DOUBT.search(found[1]) else Asks("input", words)
    if said.PROMPT.search(plain) or re.search(r"\bprompt$", plain):
        if re.search(r"\bpass", plain):
            return Asks("password")
        if said.DOUBT.search(said.AFTER.sub("", plain).replace("again", "")):
            return Puzzling()
        late = said.AFTER.search(plain)
        return AtPrompt(_program(plain), names(late[0]) if late else ())
    return None


def _program(plain: str) -> str:
    found = (name for name, words in said.PROGRAMS if words.search(plain))
    return next(found, "shell")


def _coded(plain: str) -> Clause | None:
    if (found := said.CODE.search(plain)) and "http" not in plain:
        code, rest = found["code"], said.CODE.sub(" ", plain)
        if code.startswith("no") or re.search(r"greater|above|other|less", rest):
            return Ended(Outcome.FAILURE, domains(rest), names(rest), process=True)
        number = 0 if code == "zero" else int(code)
        if number < 256:  # noqa: PLR2004 - statuses have eight bits
            if said.DOUBT.search(rest) and not said.FLAWLESS.search(rest):
                return Puzzling()
            outcome = Outcome.FAILURE if number else Outcome.SUCCESS
            return Ended(
                outcome, domains(rest), names(rest), status=number, process=True
            )
    if (found := said.HTTP.search(plain)) and not said.DOUBT.search(plain):
        return Sign("http", names(said.HTTP.sub(" ", plain)), numbers=(found[1],))
    return None

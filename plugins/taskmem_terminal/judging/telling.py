"""Conditions in free speech: which words a line would have to hold to say the same."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from taskmem_terminal.judging.conditions import Clause, Puzzling, Told
from taskmem_terminal.judging.subjects import stem
from taskmem_terminal.judging.vocabulary import DOUBT

# Words that say how something is said, or what sort of thing it is.
_IDLE_WORDS: Final = """
    a an the this that these those it its they their i me my we our you he she of in
    on at to from by for with within into onto over as via about out up down and or
    both is are was were be been being has have had do does did will would can could
    should may might must gets get got gotten become becomes became turns go goes
    going comes come any some all one ones first next then now just once when until
    finally already also so yes last latest new old whole own shows show shown showing
    prints print printed printing displays displayed appears appear appeared says say
    said reports report reported mentions listed outputs output logs logged log
    logging reads tells told sees see seen visible reached reach reaches reaching hits
    hit there here found find finds line lines text message messages notice terminal
    screen console step stage phase crate crates package packages resource resources
    folder directory file files layer layers pod pods container containers module
    commit entry row command process program value us good where which what who how
    whose starts start started starting begins begin began beginning
"""
_IDLE: Final = frozenset(_IDLE_WORDS.split())
_BEGINS: Final = re.compile(r"\b(?:starts?|begins?|started|began|starting|beginning)\b")
_TOKEN: Final = re.compile(r"[\w@+~$-][\w.@/:+~\[\]-]*")
_COMPARED: Final = re.compile(
    r"\b(?:below|above|under|over|than|at least|at most|falls?|drops?|rises?|exceeds?"
    r"|increases?|decreases?|more|fewer|less|most|past)\b"
)
_PARTICIPLE: Final = re.compile(
    r"[a-z]{2,}ed$|^(?:built|done|sent|written|run|made|set|read)$"
)
# Who says it need not be named in what is said.
_TELLER: Final = re.compile(
    r"^(?:the |an? |my )?[\w-]+ (?:(?:tells?|prints?|shows?|reports?|says?|lists?"
    r"|writes"
    r"|outputs?|logs?|complains?)(?: me| us)?(?: about| that| of| how| where| when)?"
    r"|has|have|(?:starts?|begins?)(?= (?:to )?\w+(?:ing)? \w))\b"
)
_TRYING: Final = re.compile(
    r"\W{0,8}(?:[\w-]+: )?(?:still )?(?:connect|wait|try|prepar|check|verify|load"
    r"|resolv|start|request|attempt)\w*ing\b"
)
_FEWEST: Final = 2
_MOST: Final = 8


def told(clause: str) -> Clause:
    """Return what a line would have to say; a puzzle where words are not enough."""
    if DOUBT.search(clause) or (
        _COMPARED.search(clause) and re.search(r"\d|\bthan\b", clause)
    ):
        return Puzzling()
    begun = bool(_BEGINS.search(clause))
    clause = _TELLER.sub("", clause)
    tokens = [token.rstrip(".:/!?") for token in _TOKEN.findall(clause)]
    kept = dict.fromkeys(t.removesuffix("'s") for t in tokens if t not in _IDLE and t)
    done = tuple(token for token in kept if _PARTICIPLE.search(token))
    words = tuple(token for token in kept if token not in done)
    if len(words) > _MOST or not words or len(words) + len(done) + begun < _FEWEST:
        return Puzzling()
    return Told(words, done, begun)


def says(clause: Told, line: str) -> bool:
    """Whether a line, in lower case, says it."""
    return (
        all(_stands(word, line) for word in clause.words)
        and _counted(clause.words, line)
        and all(_over(word, line) for word in clause.done)
        and (not clause.begun or _begins(clause, line))
    )


def goes_on(clause: Told, line: str) -> bool:
    """Whether a line only says that it is being tried, though more is asked for."""
    if clause.begun or any(word.endswith("ing") for word in clause.words):
        return False
    return bool(_TRYING.match(line))


def _counted(words: tuple[str, ...], line: str) -> bool:
    """Whether each number stands beside what it is the number of."""
    for number, noun in pairwise(words):
        if number.isdigit() and noun.endswith("s"):
            root = re.escape(stem(noun))
            beside = (
                rf"{number}\s(?:[a-z]+\s){{0,2}}{root}|{root}\w*\W{{1,3}}{number}\b"
            )
            if not re.search(rf"(?<![\d.,])(?:{beside})", line):
                return False
    return True


def near(clause: Told, line: str) -> bool:
    """Whether a line has to do with it."""
    hits = sum(_stands(word, line) for word in (*clause.words, *clause.done))
    return hits * 2 >= len(clause.words) + len(clause.done)


def _stands(word: str, line: str) -> bool:
    root = stem(word)
    if root not in line:
        return False
    if word.isdigit():
        return bool(re.search(rf"(?<![\d.]){word}(?!\d|\.\d)", line))
    if len(root) < 4:  # noqa: PLR2004 - ends decide in short words
        return bool(re.search(rf"(?<!\w){re.escape(word)}(?![\w])", line))
    return bool(re.search(rf"(?<![^\W_]){re.escape(root)}", line))


def _over(word: str, line: str) -> bool:
    if re.search(rf"(?<!\w){re.escape(word)}\b", line):
        return True
    root = re.escape(stem(word))
    return bool(
        re.search(
            rf"(?<!\w){root}\w*(?:[: ]+(?:is )?|.{{0,80}}\.\.\.\s?)"
            r"(?:complete|done|finished|ok\b|successful)",
            line,
        )
    )


def _begins(clause: Told, line: str) -> bool:
    if _BEGINS.search(line):
        return True
    return any(
        re.search(rf"(?<!\w){re.escape(stem(word))}\w*ing\b", line)
        for word in clause.words
        if len(stem(word)) > 2  # noqa: PLR2004 - "is" is no word for an action
    )

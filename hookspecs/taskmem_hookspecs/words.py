"""Take the words to search for out of a question, and find them in a text.

A word is a run of letters and digits. A *pattern* is a word as texts are searched for it: `ssh`
stands for the whole word, `renew*` also for the beginning of longer ones, `ssh renew*` for both in
one text, and `*設定*` for any part of a text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Sequence
from itertools import pairwise
from typing import Final

MOST_WORDS: Final = 32
"""How many words of a question are searched for, the first."""

_ENGLISH_GRAMMAR: Final = """
a an the this that these those there here it its is are was were be been being am do does did done
doing have has had having can could may might must shall should will would i me my mine we us our
you your he him his she her they them their who whom whose which what when where why how and or but
nor not no if then than so as of at by for from in into on onto to up out off over under with
without about again s t d ll re ve m just also any some
"""
_OTHER_GRAMMAR: Final = """
der die das den dem des ein eine einen einem einer und oder aber nicht ich du er sie es wir ihr mein
meine meinen war waren ist sind habe hat haben hatte wie wo was wann warum wer zu zum zur im am auf
für mit von vom bei nach aus
le la les un une des du de et ou mais je tu il elle nous vous ils elles mon ma mes est sont était ai
as avoir fait comment où quand pourquoi que qui quoi dans sur pour avec par en au aux
el los las una unos unas del y o pero yo mi mis tu su sus es son era fue he ha hay hice cómo como
dónde donde cuándo cuando qué quién por para con sin sobre lo se
"""
_TASK_WORDS: Final = """
all already currently earlier far find found get give go going happen happened last latest left let
many more much need next now number please recent remaining remains remind right said say show
stand state status step steps still summarize summary task tell things thing use used while yet
"""
GRAMMAR_WORDS: Final = frozenset((_ENGLISH_GRAMMAR + _OTHER_GRAMMAR).split())
"""Words that say nothing of what is searched for: English, German, French and Spanish grammar."""
ENGLISH_COMMON_WORDS: Final = frozenset((_ENGLISH_GRAMMAR + _TASK_WORDS).split())
"""Grammar in English, and the words that questions about a task have in common."""
COMMON_WORDS: Final = GRAMMAR_WORDS | ENGLISH_COMMON_WORDS
"""Grammar in all four languages, and the words that questions about a task have in common."""
_ENDINGS: Final = re.compile(
    r"(?<=[a-z]{4})(?:i?ations?|ments?|ings?|edly|ers?|e[ds]|ly|e)$|(?<=[a-z]{3})(?:ies|s)$"
)
"""Endings of English words, which are cut off; other languages are searched for as they are."""
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_LEAST_STEM: Final = 3
"""Letters from which on a word is also looked for as the beginning of others."""
_UNSPACED_LETTER: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff]"
)
"""Letters of writing that has no spaces between words."""


def extract_words(query: str, common: Container[str] = COMMON_WORDS) -> list[str]:
    """Return the words of a question in order, each once, in lower case, without common ones.

    There are at most `MOST_WORDS`. A question of nothing but common words has none, nor has one
    without a letter or digit.
    """
    words = dict.fromkeys(word for word in split_words(query) if word not in common)
    return [*words][:MOST_WORDS]


def split_words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in lower case."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    composed = unicodedata.normalize("NFC", text).lower()
    return "".join(letter if letter.isalnum() else " " for letter in composed).split()


def join_neighbours(words: Sequence[str]) -> list[str]:
    """Return neighbouring words written as one, such as `webhook` for `web hook`."""
    return [one + other for one, other in pairwise(words)]


def build_pattern(word: str) -> str:
    """Return the pattern of a word: `renew*` for `renewing`.

    A short word, and one with a digit, stay as they are.
    """
    return f"{_ENDINGS.sub('', word)}*" if word.isalpha() and len(word) >= _LEAST_STEM else word


def build_part_patterns(word: str) -> list[str]:
    """Return the patterns by which a word in writing without spaces is found within a text.

    They are its pairs of letters; any other word has none.
    """
    if not _UNSPACED_LETTER.search(word):
        return []
    return [f"*{pair}*" for pair in dict.fromkeys(map("".join, pairwise(word)))] or [f"*{word}*"]


def find_patterns(text: str, patterns: Sequence[str]) -> frozenset[str]:
    """Return those of some patterns that a text has; accents do not matter."""
    plain = _remove_accents(text)
    lowered = plain.lower()
    tokens: list[str] = []

    def has_word(word: str) -> bool:
        letters = _remove_accents(word.strip("*"))
        if word.startswith("*") or letters not in lowered:
            return letters in lowered
        if not tokens:
            tokens.extend(split_words(plain))
        if word.endswith("*"):
            return any(token.startswith(letters) for token in tokens)
        return letters in tokens

    return frozenset(pattern for pattern in patterns if all(map(has_word, pattern.split())))


def has_phrase(text: str, pattern: str) -> bool:
    """True if a text has the words of a pattern side by side, in their order.

    Signs and spaces between them do not matter.
    """
    tokens = split_words(_remove_accents(text))
    *first, last = _remove_accents(pattern).split()
    letters = last.strip("*")
    return any(
        tokens[end - len(first) : end] == first
        and (token.startswith(letters) if last.endswith("*") else token == letters)
        for end, token in enumerate(tokens)
        if end >= len(first)
    )


def _remove_accents(text: str) -> str:
    if text.isascii():
        return text
    parts = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(c for c in parts if not unicodedata.combining(c)))

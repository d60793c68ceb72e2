"""Take the words to search for out of a question."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

MOST: Final = 32
"""How many words of a question are searched for, the first."""

_GRAMMAR: Final = """
a an the this that these those there here it its is are was were be been being am do does did done
doing have has had having can could may might must shall should will would i me my mine we us our
you your he him his she her they them their who whom whose which what when where why how and or but
nor not no if then than so as of at by for from in into on onto to up out off over under with
without about again s t d ll re ve m just also any some
der die das den dem des ein eine einen einem einer und oder aber nicht ich du er sie es wir ihr mein
meine meinen war waren ist sind habe hat haben hatte wie wo was wann warum wer zu zum zur im am auf
für mit von vom bei nach aus
le la les un une des du de et ou mais je tu il elle nous vous ils elles mon ma mes est sont était ai
as avoir fait comment où quand pourquoi que qui quoi dans sur pour avec par en au aux
el los las una unos unas del y o pero yo mi mis tu su sus es son era fue he ha hay hice cómo como
dónde donde cuándo cuando qué quién por para con sin sobre lo se
"""
GRAMMAR: Final = frozenset(_GRAMMAR.split())
"""Words that say nothing about what is searched for, in English, German, French and Spanish."""


def extract_words(query: str) -> Sequence[str]:
    """Return the words of a question in order, each once, in lower case, without grammar.

    A question of nothing but grammar keeps it. There are at most `MOST`; a question without a
    letter or digit has none.
    """
    words = split_words(query)
    return (list(dict.fromkeys(word for word in words if word not in GRAMMAR)) or words)[:MOST]


def split_words(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, in lower case."""
    composed = unicodedata.normalize("NFC", text).casefold()
    return "".join(letter if letter.isalnum() else " " for letter in composed).split()


def join_neighbours(words: Sequence[str]) -> list[str]:
    """Return neighbouring words written as one, such as `webhook` for `web hook`."""
    return [one + other for one, other in pairwise(words)]

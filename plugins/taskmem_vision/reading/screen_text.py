"""Text of a screen or a title, in a form in which what looks alike compares alike."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

_ALIKE: Final = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»″", '"'),
        **dict.fromkeys("‘’‚‛‹›′`´ʼ", "'"),
        **dict.fromkeys("‐‑‒–−", "-"),
        **dict.fromkeys("—―", " - "),
    }
)
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_DOTS: Final = re.compile(r"\.{2,}")
_PERCENT: Final = re.compile(r"(?<=\d) +%")

_CUT: Final = " \0 "
"""Stands where something was taken out: no phrase reaches across it."""
_BETWEEN: Final = r"[^\w\0]+"
_NEIGHBOURS: Final = 2
_TELLING_WORDS: Final = """
    appear appears appeared becomes close closed closes contain containing contains
    disappear disappears disappeared display displayed displays goes gone includes
    longer present reach reaches read reads say saying says see show showing shown
    shows vanishes visible
"""
_TELLING: Final = frozenset(_TELLING_WORDS.split())
"""Words that stand beside a phrase in a condition, and hardly in what it is about."""
_SPOKEN: Final = frozenset(("say", "saying", "says"))
"""Those that do: browsers begin a dialog with "example.com says". With the word before
them they do not."""


def plain(text: str) -> str:
    """Return a text casefolded, on one line, with plain quotes, dashes and dots."""
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", text.translate(_ALIKE)))
    text = unicodedata.normalize("NFKC", text).casefold()
    text = unicodedata.normalize("NFKC", text).translate(_ALIKE)
    return _PERCENT.sub("%", " ".join(_DOTS.sub("...", text).split()))


def words(text: str) -> list[str]:
    """Return the words and numbers of a text."""
    return re.findall(r"\w+", plain(text))


@lru_cache(256)
def whole(phrase: str) -> re.Pattern[str]:
    """Return what finds a phrase in plain text, where no word runs on at its ends.

    A word also runs on across a hyphen, an apostrophe or a dot, a number across a
    comma or a colon, too.
    """
    sought = plain(phrase)
    before = after = ""
    if re.match(r"\w", sought):
        before = r"(?<!\w)(?<!\w[-'.])"
    if re.match(r"\d", sought):
        before += r"(?<!\d[,:])"
    if re.search(r"\w\Z", sought):
        after = r"(?!\w|[-'.]\w)"
    if re.search(r"\d\Z", sought):
        after += r"(?![,:]\d)"
    return re.compile(f"{before}{re.escape(sought)}{after}")


class Echoes:
    """Places where a text repeats a condition, as an agent's own chat does."""

    def __init__(self, condition: str, phrases: Iterable[str]) -> None:
        """Take the condition and the phrases that it looks for."""
        self._pattern = _echo(condition, [words(phrase) for phrase in phrases])

    def without(self, text: str) -> str:
        """Return plain text in which no phrase is found that the condition says.

        Also without its quotes, also where it is cut off or misread, as long as a
        word such as "shows" next to the phrase is not.
        """
        return self._pattern.sub(_CUT, text) if self._pattern else text


def _echo(condition: str, phrases: Sequence[list[str]]) -> re.Pattern[str] | None:
    said = words(condition)
    own = {word for phrase in phrases for word in phrase}
    if own.issuperset(said):
        # Without its quotes it would be the phrase itself.
        exact = plain(condition)
        bare = exact[:1].isalnum()
        return None if bare else re.compile(re.escape(exact))
    runs = [said]
    for phrase in phrases:
        runs += _beside(said, phrase)
    sides = (_BETWEEN.join(map(re.escape, run)) for run in runs)
    return re.compile(rf"(?<!\w)(?:{'|'.join(sides)})(?!\w)")


def _beside(said: list[str], phrase: list[str]) -> Iterator[list[str]]:
    """Yield a phrase with what is said before it, and with what is said after it."""
    size = len(phrase)
    for start in range(len(said) - size + 1):
        end = start + size
        if said[start:end] != phrase:
            continue
        before = range(start - 1, max(-1, start - 1 - _NEIGHBOURS), -1)
        after = range(end, min(len(said), end + _NEIGHBOURS))
        if (first := _telling(said, before)) is not None:
            spoken = said[first] in _SPOKEN
            yield said[max(0, first - spoken) : end]
        if (last := _telling(said, after)) is not None:
            yield said[start : last + 1]


def _telling(said: Sequence[str], places: Iterable[int]) -> int | None:
    """Return the first of these places where such a word stands; None: nowhere."""
    return next((place for place in places if said[place] in _TELLING), None)

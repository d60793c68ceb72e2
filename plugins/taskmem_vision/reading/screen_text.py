"""Normalise text of screens and titles, so that similar characters compare equal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from taskmem_hookspecs.conditions import Condition, Form, PercentForm, RegexForm, TextForm

_STRAIGHT: Final = {
    **dict.fromkeys("“”„‟«»″", '"'),
    **dict.fromkeys("‘’‚‛‹›′`´ʼ", "'"),
    **dict.fromkeys("‐‑‒–−", "-"),
}
_ALIKE: Final = str.maketrans({**_STRAIGHT, **dict.fromkeys("—―", " - ")})
_IN_PATTERN: Final = str.maketrans({**_STRAIGHT, **dict.fromkeys("—―", "-"), "…": r"\.\.\."})
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_DOTS: Final = re.compile(r"\.{2,}")
_PERCENT: Final = re.compile(r"(?<=\d) +%")

_CUT: Final = "\ue000"
"""Marks on its own line where an echo was removed: no match crosses it."""
_TOKEN: Final = re.compile(r"\w+|[<>=≤≥]+")
_BETWEEN: Final = rf"[^\w<>=≤≥{_CUT}]*"
_KEY: Final = rf"(?:wake_when[^\w{_CUT}]+|(?:side|form|text|regex)[\"']\s*:[^\w{_CUT}]*)"
"""What precedes a condition, or a part of it, in tool calls and answers."""
_NEIGHBOURS: Final = 2
_TELLING_WORDS: Final = """
    appear appears appeared becomes close closed closes contain containing contains
    disappear disappears disappeared display displayed displays goes gone includes
    longer present reach reaches read reads say saying says see show showing shown
    shows vanishes visible
"""
_TELLING: Final = frozenset(_TELLING_WORDS.split())
"""Words that are next to a text in a condition, but rarely in what it describes."""
_SPOKEN: Final = frozenset(("say", "saying", "says"))
"""Exceptions: browsers start a dialog with "example.com says".

Together with the preceding word they count as an echo.
"""


def straighten_text(text: str) -> str:
    """Return the lines that are not blank, with plain quotes and dashes."""
    return "\n".join(filter(None, map(_normalize_text, text.splitlines())))


def straighten_pattern(regex: str) -> str:
    """Adapt a regular expression to straightened lines."""
    return regex.translate(_IN_PATTERN)


def to_plain_text(text: str) -> str:
    """Return a text straightened, casefolded, on one line, with plain dots."""
    folded = _normalize_text(_normalize_text(text).casefold())
    return _PERCENT.sub("%", _DOTS.sub("...", folded))


def split_words(text: str) -> list[str]:
    """Return the words, numbers and comparison signs of a text, in lower case."""
    return _TOKEN.findall(_normalize_text(text).lower())


@lru_cache(256)
def compile_phrase(phrase: str) -> re.Pattern[str]:
    """Return a pattern that finds a phrase in plain text, as whole words.

    A word also continues across a hyphen, apostrophe or dot; a number also across a comma or colon.
    """
    sought = to_plain_text(phrase)
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


class EchoRemover:
    """Removes text that repeats a condition, as an agent's own chat does."""

    def __init__(self, condition: Condition) -> None:
        """Set the condition whose echoes do not count."""
        any_of = "|".join(dict.fromkeys(_build_echo_patterns(condition)))
        self._pattern = re.compile(rf"(?<!\w)(?:{any_of})(?!\w)", re.IGNORECASE)

    def remove_echoes(self, text: str) -> str:
        """Return the straightened lines without echoes of the condition.

        An echo is also found without its quotes, truncated or misread, if a word such as "shows" is
        next to the text.
        """
        return self._pattern.sub(f"\n{_CUT}\n", straighten_text(text))


def drop_cuts(text: str) -> str:
    """Return a text without the marks of removed echoes."""
    kept = (line for line in text.split("\n") if line.strip() not in ("", _CUT))
    return "\n".join(kept)


def _normalize_text(text: str) -> str:
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", text.translate(_ALIKE)))
    return " ".join(unicodedata.normalize("NFKC", text).translate(_ALIKE).split())


def _build_echo_patterns(condition: Condition) -> Iterator[str]:
    """Yield patterns that match echoes of a condition or a part of it."""
    sentence, forms = condition.sentence, [f for s in condition.sides for f in s.forms]
    said = split_words(sentence)
    sought = [split_words(text) for form in forms if (text := _get_sought_text(form))]
    if not {word for each in sought for word in each}.issuperset(said):
        yield _build_words_pattern(said)
    elif not sentence[:1].isalnum():
        # Only with its quotes: without them it would be the text itself.
        yield re.escape(_normalize_text(sentence)).replace(r"\ ", r"\s+")
    for each in sought:
        yield from map(_build_words_pattern, _extend_phrase(said, each))
    written = [sentence, *(side.words for side in condition.sides)]
    written += [text for form in forms for text in (str(form), _get_sought_text(form)) if text]
    values = dict.fromkeys(_build_words_pattern(split_words(each)) for each in written)
    yield f"{_KEY}(?:{'|'.join(values)})"


def _get_sought_text(form: Form) -> str | None:
    """Return the text that a form looks for, as written; None: it looks for none."""
    match form:
        case TextForm():
            return form.text
        case RegexForm():
            return form.regex.removeprefix("(?i)")
        case PercentForm():
            return str(form)
        case _:
            return None


def _build_words_pattern(said: Sequence[str]) -> str:
    return _BETWEEN.join(map(re.escape, said))


def _extend_phrase(said: list[str], phrase: list[str]) -> Iterator[list[str]]:
    """Yield a phrase together with the telling words before it, and after it."""
    size = len(phrase)
    for start in range(len(said) - size + 1):
        end = start + size
        if not phrase or said[start:end] != phrase:
            continue
        before = range(start - 1, max(-1, start - 1 - _NEIGHBOURS), -1)
        after = range(end, min(len(said), end + _NEIGHBOURS))
        if (first := _find_telling_word(said, before)) is not None:
            spoken = said[first] in _SPOKEN
            yield said[max(0, first - spoken) : end]
        if (last := _find_telling_word(said, after)) is not None:
            yield said[start : last + 1]


def _find_telling_word(said: Sequence[str], places: Iterable[int]) -> int | None:
    """Return the first of these places with a telling word; None: there is none."""
    return next((place for place in places if said[place] in _TELLING), None)

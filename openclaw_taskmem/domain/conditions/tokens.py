"""Cut a condition into words, quoted texts, regular expressions and signs.

A `Cursor` reads the words of one part from the left.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import Final, NamedTuple

from openclaw_taskmem.domain.conditions.phrases import ARTICLES, COMPARED, Phrases
from taskmem_hookspecs.conditions import EMPTY_WORDS, QUOTES, unescape_slashes

_NUMBER: Final = re.compile(
    r"[+-]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII
)


class Token(NamedTuple):
    """A part of a condition.

    Its `kind` is one of:
    - `word`: a word, an operator such as `>=`, or `%`
    - `quote`: a quoted text, without its quotation marks
    - `regex`: a regular expression, without its slashes
    - `comma`: a comma or semicolon
    - `stop`: punctuation at the end of a word, which `scan_words` leaves out
    """

    kind: str
    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        """Return the text in lower case."""
        return self.text.lower()

    @property
    def is_article(self) -> bool:
        """True if it is an article, such as `the`."""
        return self.kind == "word" and self.lower in ARTICLES


def scan_words(sentence: str) -> list[Token]:
    """Split a sentence into tokens. An unpaired quotation mark is part of a word."""
    tokens: list[Token] = []
    at = 0
    while at < len(sentence):
        char = sentence[at]
        if char.isspace():
            at += 1
            continue
        token = (
            _scan_quote(sentence, at)
            or _scan_regex(sentence, at)
            or _scan_sign(sentence, at)
            or _scan_word(sentence, at)
        )
        if token.kind != "stop":
            tokens.append(token)
        at = token.end
    return _join_choices(tokens)


def _scan_quote(sentence: str, at: int) -> Token | None:
    closing = QUOTES.get(sentence[at])
    if closing is None:
        return None
    end = sentence.find(closing, at + 1)
    while closing in "'’" and 0 <= end < len(sentence) - 1 and sentence[end + 1].isalnum():
        end = sentence.find(closing, end + 1)
    text = sentence[at + 1 : end]
    if end < 0 or not text.strip() or "\n" in text:
        return None
    return Token("quote", text, at, end + 1)


def _scan_regex(sentence: str, at: int) -> Token | None:
    """Read `/…/` or `/…/i`; it ends at a slash before a blank, a comma or the end."""
    if sentence[at] != "/":
        return None
    place = at + 1
    while place < len(sentence):
        if sentence[place] == "\\":
            place += 2
            continue
        if sentence[place] == "/":
            flagged = sentence[place + 1 : place + 2] == "i"
            end = place + 1 + flagged
            rest = sentence[end : end + 2]
            if not rest or rest[0].isspace() or rest[0] in ",;" or rest.strip() == ".":
                pattern = unescape_slashes(sentence[at + 1 : place])
                text = f"(?i){pattern}" if flagged else pattern
                found = pattern.strip() and "\n" not in pattern
                return Token("regex", text, at, end) if found else None
        place += 1
    return None


def _scan_sign(sentence: str, at: int) -> Token | None:
    for sign in ("<=", ">=", "==", "<", ">", "=", "≤", "≥"):
        if sentence.startswith(sign, at):
            return Token("word", sign, at, at + len(sign))
    if sentence[at] == "%":
        return Token("word", "%", at, at + 1)
    if sentence[at] in ",;":
        return Token("comma", ",", at, at + 1)
    if sentence[at] in ".!?:" and not sentence[at + 1 : at + 2].strip():
        return Token("stop", sentence[at], at, at + 1)
    return None


def _scan_word(sentence: str, at: int) -> Token:
    end = at + 1
    while end < len(sentence) and not sentence[end].isspace():
        inside = sentence[end - 1].isdigit() and sentence[end + 1 : end + 2].isdigit()
        if (sentence[end] in ",;%<>=≤≥" and not (sentence[end] == "," and inside)) or (
            sentence[end] in ".!?:" and not sentence[end + 1 : end + 2].strip()
        ):
            break
        end += 1
    return Token("word", sentence[at:end], at, end)


def _join_choices(tokens: list[Token]) -> list[Token]:
    """Join "yes or no" and "y or n" into one word."""
    joined: list[Token] = []
    for token in tokens:
        three = (*joined[-2:], token)
        said = [each.lower for each in three if each.kind == "word"]
        if said in (["yes", "or", "no"], ["y", "or", "n"]):
            first = joined[-2]
            choice = f"{said[0]}/{said[2]}"
            joined[-2:] = [Token("word", choice, first.start, token.end)]
        else:
            joined.append(token)
    return joined


class Cursor:
    """Reads the tokens of one part from the left."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        """True if every token was read."""
        return self._at == len(self._tokens)

    def take(self, table: Phrases) -> bool:
        """Take the longest phrase of a table that comes next, ignoring articles; False: none."""
        best = max((self._measure_phrase(phrase) for phrase in table), default=0)
        self._at += best
        return best > 0

    def take_kind(self, kind: str) -> str | None:
        """Take a token of a kind and return its text; None: another kind comes next."""
        if self.is_at_end or self._tokens[self._at].kind != kind:
            return None
        self._at += 1
        return self._tokens[self._at - 1].text

    def take_number(self) -> float | None:
        """Take a number, such as `0.1` or `1,000`; None: none comes next."""
        if self.is_at_end or self._tokens[self._at].kind != "word":
            return None
        number = parse_number(self._tokens[self._at].text)
        self._at += number is not None
        return number

    def skip_empty(self) -> None:
        """Skip words without meaning before or after a form."""
        self._skip_words(EMPTY_WORDS)

    def skip_articles(self) -> None:
        """Skip articles."""
        self._skip_words(ARTICLES)

    def take_words(self) -> tuple[str, ...]:
        """Take the words before a comparison, the name of a number."""
        start = self._at
        while not self.is_at_end and self._tokens[self._at].kind == "word":
            if any(self._measure_phrase(p) for table in COMPARED.values() for p in table):
                break
            self._at += 1
        return tuple(token.text for token in self._tokens[start : self._at])

    def _skip_words(self, words: frozenset[str]) -> None:
        while not self.is_at_end and self._tokens[self._at].kind == "word":
            if self._tokens[self._at].lower not in words:
                break
            self._at += 1

    def _measure_phrase(self, phrase: tuple[str, ...]) -> int:
        """Return how many tokens a phrase takes here; 0: another comes next."""
        at = self._at
        for word in phrase:
            while at < len(self._tokens) and self._tokens[at].is_article:
                at += 1
            if at == len(self._tokens) or self._tokens[at].kind != "word":
                return 0
            if self._tokens[at].lower != word:
                return 0
            at += 1
        return at - self._at


def parse_number(text: str) -> float | None:
    """Parse a number such as `0.1`, `-3` or `1,000`; None: not a number, such as `0,1`."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text.replace(",", ""))
    return number if isfinite(number) else None

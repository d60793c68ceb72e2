"""Split the sentence of a condition into words, quotes, regular expressions and signs."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from taskmem_hookspecs.conditions import QUOTES

ARTICLES: Final = frozenset(("a", "an", "the", "its", "any"))


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


_DENIED_SIGN: Final = re.compile("[!~≠][<>=]*(?<=[<>=≠])")
"""A comparison that no form has: `!=`, `!<`, `≠`."""


def _scan_quote(sentence: str, at: int) -> Token | None:
    closing = QUOTES.get(sentence[at])
    if closing is None:
        return None
    end = sentence.find(closing, at + 1)
    while 0 <= end < len(sentence) - 1 and not _is_closing(sentence, end, closing):
        end = sentence.find(closing, end + 1)
    text = sentence[at + 1 : end].replace(f"\\{closing}", closing)
    if end < 0 or not text.strip() or "\n" in text:
        return None
    return Token("quote", text, at, end + 1)


def _is_closing(sentence: str, at: int, closing: str) -> bool:
    """Return whether a quotation mark ends its text: apostrophes and escaped ones do not.

    A text may end with a backslash itself: then the next mark without one opens another text.
    """
    if closing in "'’" and sentence[at + 1].isalnum():
        return False
    if sentence[at - 1] != "\\":
        return True
    following = re.compile(rf"(?<!\\){re.escape(closing)}").search(sentence, at + 1)
    if following is None:
        return True
    before, after = sentence[following.start() - 1], sentence[following.end() :][:1]
    return before.isspace() or after.isalnum()


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
                pattern = _unescape_slashes(sentence[at + 1 : place])
                text = f"(?i){pattern}" if flagged else pattern
                is_line = pattern.strip() and "\n" not in pattern
                return Token("regex", text, at, end) if is_line else None
        place += 1
    return None


def _unescape_slashes(pattern: str) -> str:
    """Turn each escaped slash into a slash; leave other escapes as they are."""
    return re.sub(r"\\(.)", lambda found: "/" if found[1] == "/" else found[0], pattern)


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
    if denied := _DENIED_SIGN.match(sentence, at):
        return Token("word", denied[0], at, denied.end())
    end = at + 1
    while end < len(sentence) and not sentence[end].isspace():
        if _DENIED_SIGN.match(sentence, end):
            break
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
        words = [each.lower for each in three if each.kind == "word"]
        if words in (["yes", "or", "no"], ["y", "or", "n"]):
            first = joined[-2]
            choice = f"{words[0]}/{words[2]}"
            joined[-2:] = [Token("word", choice, first.start, token.end)]
        else:
            joined.append(token)
    return joined


def read_pattern(text: str) -> str:
    """Return a regular expression without its slashes, if it has any."""
    whole = _scan_regex(text, 0) if text else None
    return whole.text if whole and whole.end == len(text) else _unescape_slashes(text)

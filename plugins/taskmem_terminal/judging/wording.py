"""How the sentence of a condition falls apart: quotes, brackets, "or" and "and".

Quoted phrases and brackets become one private character each, so that what reads
the rest need not know how they are written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

LONGEST: Final = 4_096
"""How much of a condition is read; what is longer is no condition but a document."""

_BASE: Final = 0xF0000
_BRACKET: Final = 0xF8000
JOINED: Final = "\U000efffe"
"""An "or" that is no choice."""
QUOTE: Final = "[\U000f0000-\U000f7fff]"
"""One quoted phrase, in a pattern."""
BRACKET: Final = "[\U000f8000-\U000fffff]"
"""One pair of brackets, in a pattern."""

_PRIVATE: Final = re.compile("[\U000f0000-\U000fffff]")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_CURLY: Final = str.maketrans("“”„«»‟‘’‚‹›", '""""""\'\'\'\'\'')
_QUOTED: Final = re.compile(
    r"```([^`]{1,2000})```|``([^`]{1,2000})``|`([^`]{1,2000})`"
    r'|"([^"]{1,2000})"'
    r"|(?<!\w)'((?:[^']|(?<=\w)'(?=\w)){1,2000}?)'(?!\w)"
)
_BRACKETS: Final = re.compile(r"\(([^()]{1,1000})\)")
_EITHER_WAY: Final = re.compile(
    r"[,(]?\s*\b(?:(?:whether|no matter (?:if|whether)|regardless of whether|either)"
    r"\s+)?"
    r"(?:(?:it|they|the \w+|that) )?(?:was |is |were |are |has |have |had )?"
    r"(?:with )?(?:a )?"
    r"(?:success\w*|succe\w+|pass\w*|clean\w*|ok|good)\s*(?:/|,?\s+or)\s*"
    r"(?:not|(?:with )?(?:an? )?(?:errors?|failures?)|unsuccessful\w*|fail\w*(?: with "
    r"(?:an )?errors?)?|bad)\b\)?"
    r"(?=\s*(?:[,;.)]|$))"
    r"|,?\s*\b(?:whatever|regardless of|no matter) (?:the |its )?"
    r"(?:outcome|result|exit (?:code|status)|status)(?: is)?\b"
    r"|,?\s*\b(?:either way|in any case|one way or (?:the other|another))\b",
    re.IGNORECASE,
)
_ENDING: Final = re.compile(
    r"\b(?:finish|complet|end|exit|done|terminat|return|stop|over\b|conclude)",
    re.IGNORECASE,
)
_FILLER: Final = re.compile(
    r",?\s*\b(?:whichever (?:comes|happens|is) (?:first|earlier|sooner)"
    r"|(?:for )?(?:any|one|either) of (?:the following|these|those)(?: \w+)?:?"
    r"|(?:and|or) (?:the )?likes?|or (?:so|similar|something similar|equivalent"
    r"|the like|such)|etc\.?|please)(?!\w),?",
    re.IGNORECASE,
)
_PROTECTED: Final = (
    (re.compile(r"\bup and running\b", re.IGNORECASE), "running"),
    (
        re.compile(
            r"\b(finish\w*|complet\w*|succe\w*|pass\w*|done|ready|ok)/"
            r"(fail\w*|error\w*|crash\w*|exit\w*|abort\w*)\b",
            re.IGNORECASE,
        ),
        r"\1 or \2",
    ),
    (
        re.compile(
            r"\b(dialog|message|popup|error)/(?:dialog|message|exception|failure)\b"
        ),
        r"\1",
    ),
    (re.compile(rf"({QUOTE})\s*[/|]{{1,2}}\s*(?={QUOTE})"), r"\1 or "),
    # "without errors or warnings" is no choice.
    (
        re.compile(
            r"\b((?:without|with no|no|any|zero|free of|not)(?: any)? (?:\w+ ){0,2}\w+)"
            r" or (?=(?:\w+ ){0,1}(?:errors?|warnings?|failures?|issues?|problems?)\b)",
            re.IGNORECASE,
        ),
        "\\1\U000efffe",
    ),
    (re.compile(r"\bmore or less\b|\band/or\b", re.IGNORECASE), "or"),
    (re.compile(r"\b(yes|y) or (no|n)\b", re.IGNORECASE), r"\1/\2"),
    (re.compile(r"\b(\w+ (?:or|and)) (more|above|higher|greater|less)\b"), r"\1_\2"),
    (
        re.compile(r"(?<=\d)( ?%?) or (more|above|higher|greater|better)\b"),
        r"\1 at least",
    ),
    (re.compile(r"(?<=\d)( ?%?) or (less|below|lower|fewer)\b"), r"\1 at most"),
)
_LEAD: Final = re.compile(
    r"(?:\s*(?:(?:please\s+)?(?:wake|notify|tell|alert|ping|let|inform|call)\s+"
    r"(?:me|us|up)(?:\s+(?:up|know|again))?|wait|resume|watch|look out"
    r"|when(?:ever)?|until|till|once|as soon as|if|for|either|that|it is the case)"
    r"\b[:,]?\s*){1,6}(?=\S)",
    re.IGNORECASE,
)
_OR: Final = re.compile(
    r"\s*[,;.]?\s*\b(?:or else|or alternatively|alternatively|or)\b[,:]?\s*"
    r"|\s*\|\|\s*|\s+/\s+",
    re.IGNORECASE,
)
_AND: Final = re.compile(
    r"\s*,?\s*\b(?:and then|and also|and|followed by|as well as|then|plus)\b,?\s*"
    r"|\s*&&?\s*",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(r"\s*[,;]\s+(?:and )?")
_BULLET: Final = re.compile(r"\s*\n\s*(?:[-*•+]|\d{1,2}[.)]|\([a-z\d]\))\s+")
_SENTENCE: Final = re.compile(
    r"(?<=[a-z\d)\"'\U000f0000-\U000fffff][.!])\s+(?=[A-Z\U000f0000-\U000fffff])"
)
_CHAT: Final = re.compile(
    r"(?:timeout|thanks|thank|this (?:usually|normally|should|may|might|can|will)"
    r"|it (?:usually|normally|should|may|might|can) take|i )",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Wording:
    """A condition that has fallen apart."""

    phrases: list[str] = field(default_factory=list[str])
    brackets: list[str] = field(default_factory=list[str])
    sides: list[str] = field(default_factory=list[str])
    """What "or" separates."""
    listed: bool = False
    """Whether a comma may stand for "or"."""
    remarks: bool = False
    """Whether sentences follow that say more than these rules can use."""

    def phrase(self, char: str) -> str:
        """Return the quoted phrase that a private character stands for."""
        return self.phrases[ord(char) - _BASE]

    def bracket(self, char: str) -> str:
        """Return what stands in the brackets that a character stands for."""
        return self.brackets[ord(char) - _BRACKET]


def fall_apart(condition: str) -> Wording:
    """Take quotes and brackets out of a condition, and part it at each "or"."""
    wording = Wording()

    # What quotes is alike in all scripts, what is quoted stays as it is written.
    written = _CONTROL.sub(" ", _PRIVATE.sub(" ", condition))

    def kept(match: re.Match[str]) -> str:
        said = written[slice(*match.span(match.lastindex or 0))]
        phrase = " ".join(said.split())
        if not phrase:
            return " "
        wording.phrases.append(phrase)
        return chr(_BASE + len(wording.phrases) - 1)

    def bracketed(match: re.Match[str]) -> str:
        wording.brackets.append(match[1].strip())
        return " " + chr(_BRACKET + len(wording.brackets) - 1)

    text = _QUOTED.sub(kept, written.translate(_CURLY))
    text = _neutral(text)
    for _ in range(2):
        text = _BRACKETS.sub(bracketed, text)
    for pattern, instead in _PROTECTED:
        text = pattern.sub(instead, text)
    _part(wording, text)
    return wording


def parts(side: str) -> list[str]:
    """Return what "and" joins."""
    return [part for part in map(_stripped, _AND.split(side)) if part]


def items(side: str) -> list[str]:
    """Return what commas part."""
    return [part for part in map(_stripped, _ITEM.split(side)) if part]


def bare(clause: str) -> str:
    """Return a clause without what only leads up to it."""
    return _stripped(_LEAD.sub("", clause, count=1)) if _LEAD.match(clause) else clause


def sides(text: str) -> list[str]:
    """Return what "or" joins."""
    return [bare(side) for side in map(_stripped, _OR.split(text)) if side]


def _neutral(text: str) -> str:
    """Drop that the outcome does not matter: that is how an end is read anyway."""

    def dropped(match: re.Match[str]) -> str:
        return " " if _ENDING.search(text[: match.start()]) else match[0]

    return _FILLER.sub(" ", _EITHER_WAY.sub(dropped, text))


def _part(wording: Wording, text: str) -> None:
    bullets = [part for part in map(_stripped, _BULLET.split("\n" + text)) if part]
    if len(bullets) > 1 and (bullets[0].endswith(":") or len(text) > len(bullets[0])):
        if bullets[0].endswith(":"):
            wording.remarks = " all " in f" {bullets[0].lower()}"
            bullets = bullets[1:]
        text = " or ".join(bullets)
    first, *more = _SENTENCE.split(" ".join(text.split()))
    for sentence in more:
        if _OR.match(sentence) or sentence.lower().startswith("also "):
            first += " or " + _OR.sub("", sentence, count=1)
        elif not _CHAT.match(sentence):
            wording.remarks = True
    wording.sides = [side for side in sides(bare(first)) if side]
    wording.listed = len(wording.sides) > 1 or len(items(first)) > 1


def _stripped(text: str) -> str:
    return text.strip(" \t\r\n.,;:!")

"""Lines in which a program waits for somebody to type."""

from __future__ import annotations

import re
from typing import Final

_YES_OR_NO: Final = r"[\[(]y(?:es)?/n(?:o)?(?:/[^\])\n]{1,40})?[\])]"
_ASKING: Final[dict[str, tuple[str, ...]]] = {
    "password": (
        r"\b(?:password|passphrase|pin)\b[^\n]{0,120}[:?]\s?$",
        r"^password:?$",
    ),
    "code": (r"\b(?:code|otp|token)\b[^\n]{0,60}[:?]\s?$",),
    "confirmation": (
        _YES_OR_NO + r"[\s?:>]{0,4}\w{0,3}$",
        (
            r"\b(?:are you sure|do you want to|ok to proceed|proceed|continue"
            r"|overwrite)"
            r"\b[^\n]{0,120}\?(?:\s?[\[(][^\n]{0,40}[\])])?[?\s:]{0,3}\w{0,3}$"
        ),
        r"only 'yes' will be accepted",
        r"press (?:enter|return) to (?:confirm|continue)",
        r"\(y\)\s?$",
    ),
    "user name": (
        r"\b(?:username|user name|login|e-?mail(?: address)?)\b[^\n]{0,80}:\s?$",
    ),
    "key": (
        r"\bpress (?:any key|enter|return|space|q\b|<enter>)",
        r"--more--",
        r"^(?::|\(end\))$",
        r"^lines \d+-\d+",
    ),
    "input": (
        r"\?\s?(?:[\[(][^\n]{0,60}[\])])?[\s:>›]{0,3}$",
        r"^[\w ()./'-]{2,80}(?:\[[^\]\n]{0,60}\])?:\s?(?:\([^)\n]{0,60}\))?\s?$",
        r"\b(?:enter|choose|select|type|input)\b[^\n]{0,120}[:?>]\s?$",
        _YES_OR_NO + r"\s?\S{0,2}$",
    ),
}
_PATTERNS: Final = {what: re.compile("|".join(ways)) for what, ways in _ASKING.items()}
_TRIGGER: Final = re.compile(
    r"passw|passphrase|pin|code|otp|token|y/n|yes|sure|want to|proceed|continue"
    r"|overwrite"
    r"|press|\(y\)|username|user name|login|mail|more--"
)
# A question that scrolled past is only believed where its form leaves no doubt.
_LOOSE: Final = frozenset({"input", "key", "code", "user name"})


def trigger() -> re.Pattern[str]:
    """Return what lines that ask hold, in lower case."""
    return _TRIGGER


def loose(what: str) -> bool:
    """Whether only the line on which the cursor stands can ask for that."""
    return what in _LOOSE


def asks(what: str, line: str, *, newest: bool) -> bool:
    """Whether a line asks for that."""
    line = line.strip().lower()
    if not line or (what in _LOOSE and not newest):
        return False
    if what == "input":
        return any(pattern.search(line) for pattern in _PATTERNS.values())
    return bool(_PATTERNS[what].search(line))

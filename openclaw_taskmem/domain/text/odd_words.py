"""Find passwords that no name precedes directly.

A word is odd if digits or punctuation stand between its letters, unlike in words, file names,
versions and addresses. Odd words are taken for passwords after a name such as `login` in the same
line, after an option such as `-p`, and between a user and a host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MASK: Final = "[secret removed]"

_Span = tuple[int, int]

_LEAST_CHARS: Final = 5
_MOST_CHARS: Final = 200
_PLAIN_WORD: Final = re.compile(
    r"""
    [-./~@$%<\[{(*\\] | 0x                                     # an option, a path, a variable
    | [^/]*(?:/|\\\w|::|\()                                # a path, a call
    | [\d.:,+_TZ-]+[A-Za-z]{0,3}$ | (?:\d+[a-z]{1,3})+$     # a number, a time, an amount
    | \w+![rs]$ | [\w.+-]+@[\w-]+\.[\w.-]+$ | [a-z][\w.-]*=             # an address, a setting
    | (?:[\w-]+\.)*[\w-]+\.[a-z]{2,5}(?:$|\#)                # a host, a file
    """,
    re.VERBOSE,
)
"""The beginning or whole of a word that is no password."""
_TECHNICAL: Final = re.compile(
    r"(?i)(?:sha|md|aes|rsa|dsa|ecdsa|ed|utf|base|argon|pbkdf|oauth|ipv|http|tls|log|win)-?\d+"
    r"|(?<![a-z\d])(?:[bpvx]\d{1,3}|k8s|i18n|l10n|a11y|e2e|b2b|p2p|[\da-f]{4,})(?![a-z\d])"
)
"""Words that have a digit in them."""
_ODD: Final = re.compile(
    r"[A-Za-z]\d+[A-Za-z]|[A-Za-z\d][!$%^&*~?][A-Za-z\d]|\w#[A-Za-z]|[a-z][A-Z][a-z]+\d{2,}$"
    r"|[A-Za-z]{3}\d{2,}[!$%^&*#]"
)
_JOINED_WORDS: Final = re.compile(r"[A-Z\d][a-z]+\d{0,4}[._&+-](?:\w+[._&+-])*[A-Z\d]")
"""Capitalised words that are joined."""


def is_odd(word: str, *, or_joined: bool = False) -> bool:
    """Return whether a word is like a password; `or_joined`: also `Blue-Door`."""
    if not _LEAST_CHARS <= len(word) <= _MOST_CHARS or _PLAIN_WORD.match(word):
        return False
    rest = _TECHNICAL.sub("", word)
    is_joined = _JOINED_WORDS.match(rest) and (or_joined or any(map(str.isdigit, rest)))
    return bool(is_joined or _ODD.search(rest))


_LINE_NAMES: Final = (
    *("passw", "passphrase", "passcode", "rootpw", "login", "logon", "identify", "credential"),
    *("auth ", "auth(", "auth'", 'auth"', "auth plain", 'send "', "http-basic", "createuser"),
)
"""Names of a credential or a login, where odd words of the rest of the line are passwords."""
_REST_CHARS: Final = 160
"""Characters after such a name that are looked at, and then the rest of the last word."""
_ENDS: Final = r"\s\"'`,;()<>|{}\\"
_WORD: Final = re.compile(rf"(?<!\| )\\*(?<![^{_ENDS}])[^{_ENDS}]{{5,240}}")
_REST_OF_WORD: Final = re.compile(rf"[^{_ENDS}]{{0,240}}")
_TARGET: Final = "(?:command|limit|path|process|pty|queue|screen|session|task|time|url|window):"
"""Begins the name of a target, such as `window:Save-As`."""
_WORD_START: Final = r"(?:[ \t\"'=]|\A)"
_SIGN_AHEAD: Final = r"(?=[^\s/]{0,31}[A-Z!$^&])"
_START: Final = rf"{_WORD_START}(?!{_TARGET})[a-z][a-z.@-]{{1,40}}[:/]{_SIGN_AHEAD}"
_VALUE: Final = r"[\s:=]{1,3}[\"']?([^\s\"'`;|]{5,200})"
_VERSION: Final = (
    r"(?:[~^]?(?:v\d{1,4}(?:\.\d{1,5}){0,2}|\d{1,4}(?:\.\d{1,5}){1,2})(?:-[\w.]{1,40})?(?!\.?\w)"
    r"|[\da-f]{40}\b)"
)
"""The version after `@` in the name of a package or action; an address has four numbers."""
_HOST: Final = rf"(?=@(?!{_VERSION}))"
_SPOTS: Final = tuple(
    (hint, re.compile(shape), or_joined)
    for hint, shape, or_joined in (
        # what is written together with an option for a password
        (" -p", r"\s-p(?=[^\s\"']{0,99}[A-Z!$^&])[\"']?([^\s\"'`;|]{5,200})", True),
        # after such an option
        (" ", rf"\s(?:--?|/)(?:p|pw|rp|pass\w{{0,5}}){_VALUE}", True),
        # after an option that takes a password in some programs, and a name in others
        (" ", rf"\s(?:--?|/)[PwWsckN]{_VALUE}", False),
        # between a user and a host
        (
            "@",
            rf"[:/](?<=[\w.$-].)(?<!mailto:)(?<!sip:)[\"']?([^\s\"'`@/:]{{5,200}})[\"']?{_HOST}",
            True,
        ),
        # after a user, at the end of a word
        ("", rf"{_START}(?![^\s@]{{1,80}}@{_VERSION})([^{_ENDS}/:]{{5,32}})(?![^\s\"'])", True),
        ("", rf"{_WORD_START}{_TARGET}{_SIGN_AHEAD}([^{_ENDS}/:]{{5,32}})(?![^\s\"'])", False),
        # what is piped into a program
        (
            "echo ",
            r"\becho\s{1,3}(?:-\w{1,3}\s)?[\"']?([^\s\"'`|$)]{5,200})[\"']?\s{0,3}[|)]",
            True,
        ),
        ("<<<", r"<<<\s?[\"']?([^\s\"'`|$]{5,200})", True),
    )
)
"""Where a password stands: a text that is part of the place, its shape, and whether joined
capitalised words count there."""
_LONG_WORD: Final = re.compile(
    r"(?<![\w+/.:%@-])(?!AAAA|[a-z]+\d*-)\w[\w+/-]{19,58}(?![\w+/.:%-])={0,2}(?![\w+/.:=%-])"
)
_VALUE_START: Final = re.compile(r"""(?:\w\ |["'\w][=:]\ ?|[(\[,]\ ?)["']?$|=$""", re.VERBOSE)
"""The text before a word where an argument or a value begins."""
_CLASS_CHANGE: Final = re.compile(r"[a-z](?=[A-Z\d])|[A-Z](?=[a-z\d])|\d(?=[A-Za-z])")


def mask_odd_words(text: str) -> str:
    """Replace odd words where a password stands."""
    for hint, place, or_joined in _SPOTS:
        if hint in text:
            text = place.sub(_mask_joined if or_joined else _mask_odd, text)
    text = _LONG_WORD.sub(_mask_random, text)
    pieces: list[str] = []
    done = 0
    for start, end in _find_line_parts(text):
        pieces += (text[done:start], _WORD.sub(_mask_word, text[start:end]))
        done = end
    return "".join((*pieces, text[done:]))


def _find_line_parts(text: str) -> Iterator[_Span]:
    """Yield the parts of lines that follow a name of a credential or a login."""
    start = end = 0
    for at in find_roots(text, _LINE_NAMES):
        if at >= end:
            yield start, end
            start = at
        line_end = text.find("\n", at, at + _REST_CHARS)
        rest = _REST_OF_WORD.match(text, min(at + _REST_CHARS, len(text)))
        end = line_end if line_end >= 0 else rest.end() if rest else len(text)
    yield start, end


def find_roots(text: str, roots: tuple[str, ...]) -> list[int]:
    """Return where any of the texts begins in a text, in whatever case."""
    low = text.lower()
    if len(low) != len(text):
        low = "".join(each.lower() if each.isascii() else each for each in text)
    spots: set[int] = set()
    for root in roots:
        at = low.find(root)
        while at >= 0:
            spots.add(at)
            at = low.find(root, at + 1)
    return sorted(spots)


def _mask_word(word: re.Match[str]) -> str:
    user, colon, rest = word[0].rpartition(":")
    return f"{user}{colon}{MASK}" if is_odd(rest.rstrip(".")) else word[0]


def _mask_joined(match: re.Match[str]) -> str:
    return _mask_odd(match, or_joined=True)


def _mask_odd(match: re.Match[str], *, or_joined: bool = False) -> str:
    if not is_odd(match[1].rstrip(".,:"), or_joined=or_joined):
        return match[0]
    begin, end = (each - match.start() for each in match.span(1))
    return match[0][:begin] + MASK + match[0][end:]


def _mask_random(match: re.Match[str]) -> str:
    """Mask a value in which small letters, capitals and digits alternate as in no name."""
    word = match[0]
    is_mixed = not (word.islower() or word.isupper()) and len(re.findall(r"\d+", word)) > 1
    is_random = is_mixed and len(_CLASS_CHANGE.findall(word)) * 5 >= len(word) * 2
    before = match.string[max(0, match.start() - 4) : match.start()]
    return MASK if is_random and _VALUE_START.search(before) else word

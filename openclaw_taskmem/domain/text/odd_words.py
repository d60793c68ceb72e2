"""Tell passwords from words, and find them in lines that speak of one.

A password is odd: it has a digit or a sign between letters, as neither words nor file names,
versions and addresses have. Odd words are credentials where the line named a password or login
before, after an option such as `-p`, and between a user and a host.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

_MOST_CHARS: Final = 200
_PLAIN_WORD: Final = re.compile(
    r"""
    [-./~@$%<\[{(*\\] | 0x                                     # an option, a path, a variable
    | [^/]*(?:/|\\\w|::|\()                                # a path, a call
    | [\d.:,+_TZ-]+[A-Za-z]{0,3}$ | (?:\d+[a-z]{1,3})+$     # a number, a time, an amount
    | [\w.+-]+@[\w-]+\.[\w.-]+$ | [a-z][\w.-]*=             # an address, a setting
    | (?:[\w-]+\.)*[\w-]+\.[a-z]{2,5}$                       # a host, a file
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
_JOINED_WORDS: Final = re.compile(r"[A-Z\d][a-z]+[._&+-](?:\w+[._&+-])*[A-Z\d]")
"""Capitalised words that are joined."""


def is_odd(word: str, *, or_joined: bool = False) -> bool:
    """Return whether a word is like a password; `or_joined`: also `Blue-Door`."""
    least = 5
    is_short = len(word) < least or (word.isalpha() and not or_joined)
    if is_short or len(word) > _MOST_CHARS or _PLAIN_WORD.match(word):
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
_ENDS: Final = r"\s\"'`,;()<>|{}\\"
_WORD: Final = re.compile(rf"\\*[^{_ENDS}]{{5,240}}")
_START: Final = r"(?:[ \t\"'=]|\A)[a-z][a-z.@-]{1,40}[:/](?=[^\s/]{0,31}[A-Z!$^&])"
_OPTION: Final = r"\s(?:--?|/)(?:[pPwWsckN]|pw|rp|pass\w{0,5})[\s:=]{1,3}[\"']?"
_SPOTS: Final = tuple(
    (hint, re.compile(shape))
    for hint, shape in (
        (" -p", r"\s-p(?=[^\s\"']{0,99}[A-Z!$^&])[\"']?([^\s\"'`;|]{5,200})"),
        (" ", rf"{_OPTION}([^\s\"'`;|]{{5,200}})"),
        ("@", r"[:/](?<=[\w.$-].)(?<!mailto:)(?<!sip:)[\"']?([^\s\"'`@/:]{5,200})[\"']?(?=@)"),
        ("", rf"{_START}([^{_ENDS}/:]{{5,32}})(?![^\s\"'])"),
        ("echo ", r"\becho\s{1,3}(?:-\w{1,3}\s)?[\"']?([^\s\"'`|$]{5,200})[\"']?\s{0,3}\|"),
    )
)
"""After an option that takes a password in many programs; between a user and a host; after a
user, at the end of a word; what is piped into a program. Each has a text that is part of it."""
_LONG_WORD: Final = re.compile(
    r"(?<![\w+/.:%@-])(?!AAAA|[a-z]+\d*-)\w[\w+/-]{19,58}(?![\w+/.:%-])={0,2}(?![\w+/.:=%-])"
)
_VALUE_START: Final = re.compile(r"""(?:[a-z]\ |["'\w][=:]\ ?|[(\[,]\ ?)["']?$|=$""", re.VERBOSE)
"""The text before a word where an argument or a value begins."""
_CLASS_CHANGE: Final = re.compile(r"[a-z](?=[A-Z\d])|[A-Z](?=[a-z\d])|\d(?=[A-Za-z])")


def mask_odd_words(text: str, mask: str) -> str:
    """Replace odd words where a password stands."""
    for hint, place in _SPOTS:
        if hint in text:
            text = place.sub(partial(_mask, mask), text)
    text = _LONG_WORD.sub(partial(_mask_random, mask), text)
    pieces: list[str] = []
    done = 0
    for at in find_roots(text, _LINE_NAMES):
        if at >= done:
            end = text.find("\n", at, at + _REST_CHARS)
            end = at + _REST_CHARS if end < 0 else end
            pieces += (text[done:at], _WORD.sub(partial(_mask_word, mask), text[at:end]))
            done = end
    return "".join((*pieces, text[done:]))


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


def _mask_word(mask: str, word: re.Match[str]) -> str:
    user, colon, rest = word[0].rpartition(":")
    return f"{user}{colon}{mask}" if is_odd(rest.rstrip(".")) else word[0]


def _mask(mask: str, match: re.Match[str]) -> str:
    if not is_odd(match[1].rstrip(".,:"), or_joined=True):
        return match[0]
    begin, end = (each - match.start() for each in match.span(1))
    return match[0][:begin] + mask + match[0][end:]


def _mask_random(mask: str, match: re.Match[str]) -> str:
    """Mask a value in which small letters, capitals and digits alternate as in no name."""
    word = match[0]
    is_mixed = not (word.islower() or word.isupper()) and len(re.findall(r"\d+", word)) > 1
    is_random = is_mixed and len(_CLASS_CHANGE.findall(word)) * 5 >= len(word) * 2
    before = match.string[max(0, match.start() - 4) : match.start()]
    return mask if is_random and _VALUE_START.search(before) else word

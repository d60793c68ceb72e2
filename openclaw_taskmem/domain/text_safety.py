"""Characters that deceive: those that hide, and those that forge a wake's marker.

Hidden is what shows nothing or steers what is shown: of categories Cc, Cf, Cn, Co,
Cs, Zl and Zp all, but what honest writing needs: a joiner between letters that have
no case (Persian, Hindi) or within an emoji, one variation selector after a character,
and the Arabic signs that show. Marks of direction are hidden also in Arabic and
Hebrew, whose letters carry their own direction.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from string import ascii_lowercase
from typing import Final
from unicodedata import category, normalize

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that show nothing."""
_SHOWN: Final = frozenset(
    map(chr, (*range(0x600, 0x606), 0x6DD, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD))
)
"""Format characters that show: the Arabic and Kaithi signs around numbers."""
_LAYOUT: Final = "\n\t"
_JOINERS: Final = "\u200c\u200d"
_JOINED: Final = frozenset({"Lo", "Mn", "Mc", "So", "Sk"})
"""What a joiner may stand between: no letter that has cases, as Latin ones have."""
_LARGEST_UNIT: Final = 0xFFFF
"""What one \\u escape holds; JSON writes what is above it as two."""

ALIKE: Final = {
    **{
        chr(first + place): letter
        for first in (0x1F150, 0x1F170, 0x1F1E6)
        for place, letter in enumerate(ascii_lowercase)
    },
    **{
        other: letter
        for letter, others in {
            "a": "аɑαᴀꓮ⍺Ꭺᗅ𖽀𐊠",
            "c": "сϲᴄⲥꓚϹᏟ𐐽🝌𑣲𑣩𐊢𐌂𐐕𐔜",
            "e": "еҽ℮єεꬲꓰⴹᎬ⋿𑢦𑢮𐊆",
            "k": "кĸκᴋꓗⲕᏦᛕ𐔘",
            "m": "мμᴍⲙꓟϻᎷᗰᛖ𐊰𐌑",
            "r": "гᴦꭇꭈⲅꓣʀᎡᏒꮁ𝈖𐒴ᖇ𖼵",
            "s": "ѕƽꜱꓢտ𐑈ᏕᏚ𑣁𖼺𐊖",
            "t": "тᴛτⲧꓔᎢ⊤⟙🝨𖼊𑢼𐊗𐊱𐌕",
            "u": "υʋսᴜꞟꓴꭎꭒ𐓶𑣘∪⋃ሀ𐓎ᑌ𖽂𑢸",
            "y": "уүγɣʏỿყꭚⲩꓬᎩᎽΥᶌ𑣜𖽃𑢤𐊲",
            "_": "ˍ‿⁀﹏",
            "[": "⎡⎢⎣",
        }.items()
        for other in others
    },
}
"""What looks like a letter of a marker in other scripts or in boxes, and which one.

A character is looked for as it is, then case-folded, which makes capitals small, but
those of Cherokee out of small ones. Source: Unicode's confusables (UTS 39).
"""
_MARKER: Final = re.compile(r"\[(?=\s*(?:task_stuck_resume|task_resume|system|taskmem)\b)")


def escape_hidden(text: str) -> str:
    r"""Return a text whose hidden characters are JSON's escapes, such as `\u200b`.

    Line breaks and tabs stay.
    """
    return _replace_hidden(text, _escape_character, _LAYOUT)


def escape_controls(text: str) -> str:
    """Return a text like `escape_hidden`, with line breaks and tabs escaped too."""
    return _replace_hidden(text, _escape_character, "")


def replace_hidden(text: str, instead: str) -> str:
    """Return a text where `instead` stands for each hidden character."""
    return _replace_hidden(text, lambda _: instead, "")


def disarm_markers(text: str, instead: Callable[[str], str]) -> str:
    """Return a text without markers, in whatever letters: their brackets are replaced.

    `instead` is given each bracket.
    """
    folded, places = _fold_text(text)
    pieces: list[str] = []
    done = 0
    for found in _MARKER.finditer(folded):
        place = places[found.start()]
        pieces += [text[done:place], instead(text[place])]
        done = place + 1
    return "".join((*pieces, text[done:]))


def disarm_json(text: str) -> str:
    """Return a text of JSON that means the same and has no marker, nothing hidden."""
    return escape_hidden(disarm_markers(text, _escape_character))


def _replace_hidden(text: str, instead: Callable[[str], str], kept: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        instead(each) if each not in kept and _is_hidden(text, at) else each
        for at, each in enumerate(text)
    )


def _is_hidden(text: str, at: int) -> bool:
    each = text[at]
    before, after = text[max(0, at - 1) : at], text[at + 1 : at + 2]
    if each in _JOINERS:
        return not (before and after and category(before) in _JOINED and _is_joining(text, at))
    if _is_variation_selector(each):
        return (
            not before
            or before.isspace()
            or _is_variation_selector(before)
            or _is_invisible(before)
        )
    return _is_invisible(each)


def _is_joining(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at + 1]
    return (
        category(after) in _JOINED
        and not _is_invisible(before)
        and not _is_invisible(after)
        and not _is_variation_selector(after)
    )


def _is_variation_selector(each: str) -> bool:
    """Whether a character only chooses how the one before it looks."""
    return "\ufe00" <= each <= "\ufe0f" or "\U000e0100" <= each <= "\U000e01ef"


@lru_cache(maxsize=4096)
def _is_invisible(each: str) -> bool:
    return each in _BLANK or (category(each) in _HIDDEN and each not in _SHOWN)


def _escape_character(each: str) -> str:
    # Not by a codec, which is loaded when it is first used: the log needs this also
    # where no file can be opened any more.
    code = ord(each)
    if code <= _LARGEST_UNIT:
        return f"\\u{code:04x}"
    high, low = divmod(code - _LARGEST_UNIT - 1, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _fold_text(text: str) -> tuple[str, range | list[int]]:
    """Return what a text looks like in ASCII letters, and where each of them stands."""
    if text.isascii() and (text.isprintable() or not _CONTROL.search(text)):
        return text.lower(), range(len(text))
    letters: list[str] = []
    places: list[int] = []
    for at, each in enumerate(text):
        for letter in _to_ascii_letters(each):
            letters.append(letter)
            places.append(at)
    return "".join(letters), places


_CONTROL: Final = re.compile(r"[^\s -~]")


@lru_cache(maxsize=4096)
def _to_ascii_letters(each: str) -> str:
    """Return the ASCII letters that a character looks like; empty: it shows nothing."""
    if each.isspace():
        return " "
    if _is_invisible(each):
        return ""
    apart = ALIKE.get(each) or "".join(map(_find_lookalike, normalize("NFKD", each)))
    seen = "".join(c for c in apart if not category(c).startswith("M"))
    if category(each) == "Ps" and seen not in ("(", "{", "\u201a", "\u201e"):
        return "["
    return seen


def _find_lookalike(each: str) -> str:
    """Return what a character looks like as it is, or else case-folded."""
    return ALIKE.get(each) or "".join(ALIKE.get(c, c) for c in each.casefold())

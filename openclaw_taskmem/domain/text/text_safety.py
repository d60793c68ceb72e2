"""Escape hidden characters, and disarm forged markers of wakes.

Hidden characters show nothing or change how others are shown: categories Cc, Cf, Cn, Co, Cs, Zl and
Zp, except what is needed in ordinary text: a joiner between letters without case (Persian, Hindi)
or within an emoji, one variation selector after a character, and visible Arabic signs. Direction
marks are hidden even in Arabic and Hebrew, whose letters have their own direction.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from string import ascii_lowercase
from typing import Final
from unicodedata import category, normalize

_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that show nothing."""
_SHOWN_SIGNS: Final = frozenset(
    map(chr, (*range(0x600, 0x606), 0x6DD, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD))
)
"""Format characters that are visible: the Arabic and Kaithi signs around numbers."""
_LAYOUT: Final = "\n\t"
_JOINERS: Final = "\u200c\u200d"
_JOIN_KINDS: Final = frozenset({"Lo", "Mn", "Mc", "So", "Sk"})
"""Categories that a joiner may stand between: letters without case, marks and symbols."""
_LARGEST_UNIT: Final = 0xFFFF
"""Largest code of one \\u escape; JSON writes larger ones as two."""

LOOKALIKES: Final = {
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
"""Characters that look like a letter of a marker, with that letter.

A character is looked up as it is, then case-folded (which makes capitals small, but small Cherokee
letters capital). Source: UTS 39, "Confusable Detection"."""
_MARKER: Final = re.compile(r"\s*(?:task_stuck_resume|task_resume|system|taskmem)\b")
"""The words after the bracket of a marker."""


def escape_hidden(text: str) -> str:
    r"""Replace hidden characters with JSON escapes, such as `\u200b`.

    Line breaks and tabs stay.
    """
    return _replace_hidden(text, _escape_character, _LAYOUT)


def escape_controls(text: str) -> str:
    """Replace hidden characters, line breaks and tabs with JSON escapes."""
    return _replace_hidden(text, _escape_character, "")


def replace_hidden(text: str, instead: str) -> str:
    """Replace each hidden character with `instead`."""
    return _replace_hidden(text, lambda _: instead, "")


def has_visible_text(text: str) -> bool:
    """Return True if a text has a character that is neither hidden nor white space."""
    if text.isascii() and text.isprintable():
        return bool(text.strip())
    return bool(replace_hidden(text, " ").strip())


def disarm_markers(text: str, instead: Callable[[str], str]) -> str:
    """Replace the opening brackets of markers, in whatever look-alike letters they are written.

    `instead` gives the replacement of a bracket.
    """
    characters = {*text}
    brackets = [each for each in characters if _to_ascii_letters(each) == "["]
    if not brackets:
        return text
    looks = {ord(each): _to_ascii_letters(each) for each in characters}
    pieces = re.split(f"([{re.escape(''.join(sorted(brackets)))}])", text)
    for at, letters in enumerate(text.translate(looks).split("[")[1:]):
        if _MARKER.match(letters):
            pieces[2 * at + 1] = instead(pieces[2 * at + 1])
    return "".join(pieces)


def disarm_json(text: str) -> str:
    """Escape markers and hidden characters in a JSON text, without changing its meaning."""
    return escape_hidden(disarm_markers(text, _escape_character))


def _replace_hidden(text: str, instead: Callable[[str], str], kept: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    hidden = sorted(filter(_may_be_hidden, {*text}.difference(kept)))
    if not hidden:
        return text

    def replace(match: re.Match[str]) -> str:
        return instead(match[0]) if _is_hidden(text, match.start()) else match[0]

    return re.sub(f"[{re.escape(''.join(hidden))}]", replace, text)


@lru_cache(maxsize=4096)
def _may_be_hidden(each: str) -> bool:
    """True if a character is hidden, at least beside some others."""
    return _is_variation_selector(each) or _is_invisible(each)


def _is_hidden(text: str, at: int) -> bool:
    each = text[at]
    before, after = text[max(0, at - 1) : at], text[at + 1 : at + 2]
    if each in _JOINERS:
        return not (before and after and category(before) in _JOIN_KINDS and _is_joining(text, at))
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
        category(after) in _JOIN_KINDS
        and not _is_invisible(before)
        and not _is_invisible(after)
        and not _is_variation_selector(after)
    )


def _is_variation_selector(each: str) -> bool:
    """True if a character only selects how the one before it looks."""
    return "\ufe00" <= each <= "\ufe0f" or "\U000e0100" <= each <= "\U000e01ef"


@lru_cache(maxsize=4096)
def _is_invisible(each: str) -> bool:
    return each in _BLANK or (category(each) in _HIDDEN_CATEGORIES and each not in _SHOWN_SIGNS)


def _escape_character(each: str) -> str:
    # Not by a codec, which is loaded when it is first used: the log needs this also
    # where no file can be opened any more.
    code = ord(each)
    if code <= _LARGEST_UNIT:
        return f"\\u{code:04x}"
    high, low = divmod(code - _LARGEST_UNIT - 1, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


@lru_cache(maxsize=4096)
def _to_ascii_letters(each: str) -> str:
    """Return the ASCII letters that a character looks like; empty: it shows nothing."""
    if each.isspace():
        return " "
    if _is_invisible(each):
        return ""
    apart = LOOKALIKES.get(each) or "".join(map(_find_lookalike, normalize("NFKD", each)))
    seen = "".join(c for c in apart if not category(c).startswith("M"))
    if category(each) == "Ps" and seen not in ("(", "{", "\u201a", "\u201e"):
        return "["
    return seen


def _find_lookalike(each: str) -> str:
    """Return the letter that a character looks like, as it is or case-folded."""
    return LOOKALIKES.get(each) or "".join(LOOKALIKES.get(c, c) for c in each.casefold())

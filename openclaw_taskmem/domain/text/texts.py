"""Format instants, durations, counts and lists; shorten texts and make them safe to show.

Sizes are bytes of a JSON string, as `count_json_bytes` counts them. Hidden characters show nothing
or change how others are shown: categories Cc, Cf, Cn, Co, Cs, Zl and Zp, except what is needed in
ordinary text: a joiner between letters without case (Persian, Hindi) or within an emoji, one
variation selector after a character, and visible Arabic signs. Direction marks are hidden even in
Arabic and Hebrew, whose letters have their own direction.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from string import ascii_lowercase
from typing import Final
from unicodedata import category, normalize

CALLER_WORDS: Final = {"user": "you", "call": "taskmem call", "agent": "its agent"}
"""Words to people for who did something, by the value of its `CallerKind`."""

# --- hidden characters and forged markers ------------------------------------

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


def require_visible_text(text: str) -> str:
    """Return a text; refuse one that is blank.

    Raises:
        ValueError: It has no visible character.
    """
    if not has_visible_text(text):
        raise ValueError("must not be blank")
    return text


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
    letters = LOOKALIKES.get(each) or "".join(map(_find_lookalike, normalize("NFKD", each)))
    seen = "".join(c for c in letters if not category(c).startswith("M"))
    if category(each) == "Ps" and seen not in ("(", "{", "\u201a", "\u201e"):
        return "["
    return seen


def _find_lookalike(each: str) -> str:
    """Return the letter that a character looks like, as it is or case-folded."""
    return LOOKALIKES.get(each) or "".join(LOOKALIKES.get(c, c) for c in each.casefold())


# --- formats --------------------------------------------------------------------


ELLIPSIS: Final = "…"
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_CHECKSUM_CHARS: Final = 12
"""Digits of a checksum that are shown."""
_KILO: Final = 1_000


def format_iso(instant: datetime) -> str:
    """Format an instant as the tools write it: `2026-02-13T17:00:00Z`."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_iso_millis(instant: datetime | None) -> str | None:
    """Format an instant to the millisecond, as in lists for programs; None stays None."""
    if instant is None:
        return None
    text = instant.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def to_epoch(instant: datetime | None) -> int | None:
    """Convert an instant to whole epoch seconds; None stays None.

    Source: docs/origins.md, "Waits".
    """
    return None if instant is None else int(instant.timestamp())


def format_duration(seconds: float) -> str:
    """Format seconds in the largest whole unit, rounded down: `45 seconds`, `2 hours`, `3 days`."""
    whole = max(0, int(seconds))
    for size, unit in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if whole >= size:
            return format_count(whole // size, unit)
    return format_count(whole, "second")


def format_short_duration(seconds: float) -> str:
    """Format seconds briefly in the largest whole unit, rounded down: `45 s`, `9 min`, `3 d`."""
    whole = max(0, int(seconds))
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def format_clock(instant: datetime, now: datetime, *, seconds: bool = False) -> str:
    """Format an instant in the local time zone: the day only if it is not today.

    `14:02`, `26 Nov 14:02`, `26 Nov 2025 14:02`; with `seconds`, `14:02:09`.
    """
    local, here = instant.astimezone(), now.astimezone()
    time = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
    if local.date() == here.date():
        return time
    year = "" if local.year == here.year else f" {local.year}"
    return f"{local.day} {local:%b}{year} {time}"


def format_checksum(sha256: str) -> str:
    """Write a checksum as people are shown it: its first digits."""
    return f"sha256 {sha256[:_CHECKSUM_CHARS]}"


MIB: Final = 1024 * 1024
"""Bytes of a mebibyte."""


def format_size(size: int) -> str:
    """Format a number of bytes briefly: `33 bytes`, `14 KB`, `2.5 MB`."""
    if size < _KILO:
        return format_count(size, "byte")
    amount, unit = size / _KILO, "KB"
    for larger in ("MB", "GB", "TB"):
        if amount < _KILO:
            break
        amount, unit = amount / _KILO, larger
    return f"{amount:.1f} {unit}" if amount < 10 else f"{amount:.0f} {unit}"  # noqa: PLR2004 - two digits


def format_count(number: int, noun: str) -> str:
    """Format a count: `1 step`, `2 steps`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_step_numbers(indices: Iterable[int]) -> str:
    """Format step numbers as a person counts: `1-3, 5` for 0, 1, 2 and 4."""
    runs: list[list[int]] = []
    for number in sorted(index + 1 for index in indices):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


_NUMBERING: Final = re.compile(r"\A(?:step\s+\d{1,3}\s?[.):]|\d{1,3}[.)])\s+(?=\S)", re.IGNORECASE)


def quote_step(step: str, size: int = 120) -> str:
    """Quote a step's text without its own number, cut to `size` bytes."""
    return quote_line(_NUMBERING.sub("", to_one_line(step)), size)


def clip_step(step: str) -> str:
    """Cut a step's text, without its own number, to 80 bytes."""
    return clip(_NUMBERING.sub("", to_one_line(step)), 80)


def to_printable(text: str, instead: str = " ") -> str:
    """Replace what could control a terminal: hidden characters, line breaks and tabs.

    `instead` replaces each of them; any other blank becomes a space.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = replace_hidden(text, instead)
    return "".join(" " if each.isspace() else each for each in shown)


def to_plain_line(text: str) -> str:
    """Write a text on one line that can neither control a terminal nor pass for a wake."""
    return to_one_line(to_printable(disarm_markers(text, lambda _: "(")))


def to_one_line(text: str) -> str:
    """Join the words of a text on one line."""
    return " ".join(text.split())


def clip(text: str, size: int) -> str:
    """Cut a text to at most `size` bytes of JSON, marking the cut with `…`."""
    if count_json_bytes(text) <= size:
        return text
    room = size - count_json_bytes(ELLIPSIS)
    lengths = range(1, min(len(text), max(room, 0)) + 1)
    kept = bisect_right(lengths, room, key=lambda length: count_json_bytes(text[:length]))
    return text[:kept].rstrip() + ELLIPSIS


def end_sentence(text: str) -> str:
    """Put a full stop behind a text, unless it has an end, so that another sentence may follow."""
    return text if text.endswith((*".!?", ELLIPSIS)) else f"{text}."


def clip_start(text: str, size: int) -> str:
    """Cut the beginning of a text, keeping at most `size` bytes of JSON."""
    if count_json_bytes(text) <= size:
        return text
    return ELLIPSIS + clip(text[::-1], size)[:-1][::-1].lstrip()


def count_json_bytes(text: str) -> int:
    """Count the bytes of a text between the quotes of a JSON string."""
    return len(json.dumps(text, ensure_ascii=False).encode(errors="replace")) - 2


def quote_line(text: str, size: int = 120) -> str:
    """Quote a text on one line, cut to `size` bytes."""
    return f'"{clip(to_one_line(text), size)}"'

"""Format instants, durations, counts and lists of steps; shorten texts and make them safe to show.

Sizes are bytes of a JSON string, as `count_json_bytes` counts them.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from openclaw_taskmem.domain.text.text_safety import disarm_markers, replace_hidden

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

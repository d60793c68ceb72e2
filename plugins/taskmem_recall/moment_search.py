"""Search the index of moments: which words to match, and which moments have one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from taskmem_recall.moments import Moment

RANKED: Final = 5_000
"""Maximum number of moments that one search ranks."""


def narrow_search(connection: sqlite3.Connection, matches: list[str]) -> tuple[str | None, int]:
    """Return what to match, and the smallest id to rank; None: no moment has any of the words.

    Ranking costs about a microsecond a moment, and some words are on nearly every screen.
    """
    counts: dict[str, int] = {}
    for match in matches:
        counts[match] = count_matches(connection, match)
    used: list[str] = []
    together = 0
    for match, count in sorted(counts.items(), key=lambda item: item[1]):
        together += count
        if count and (together <= RANKED or not used):
            used.append(match)
    if not used:
        return None, 0
    first = 0
    if counts[used[0]] > RANKED:
        (first,) = connection.execute(
            "SELECT rowid FROM moment_words WHERE moment_words MATCH ?"
            " ORDER BY rowid DESC LIMIT 1 OFFSET ?",
            (used[0], RANKED),
        ).fetchone()
    return " OR ".join(used), first


def find_words(
    connection: sqlite3.Connection, words: Sequence[str], moments: Sequence[Moment]
) -> dict[int, list[str]]:
    """Return which of the words each of the moments has, by their ids; there is at least one."""
    found: dict[int, list[str]] = {moment.id: [] for moment in moments}
    for word in words:
        rows = connection.execute(
            "SELECT rowid FROM moment_words WHERE moment_words MATCH ? AND rowid BETWEEN ? AND ?",
            (quote_word(word), min(found), max(found)),
        )
        for (row,) in rows:
            if row in found:
                found[row].append(word)
    return found


def count_matches(connection: sqlite3.Connection, match: str) -> int:
    """Return how many moments match, `RANKED` + 1 at most."""
    (count,) = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM moment_words WHERE moment_words MATCH ? LIMIT ?)",
        (match, RANKED + 1),
    ).fetchone()
    return int(count)


def quote_word(word: str) -> str:
    """Return a word as a string of FTS5, in which nothing is an operator."""
    return '"' + word.replace('"', '""') + '"'

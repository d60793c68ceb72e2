"""Search the index of moments: which words to match, and which moments have one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from taskmem_recall.moments import Moment

RANKED: Final = 5_000
"""Maximum number of moments that one search ranks."""
LISTED: Final = 1_000
"""Moments that have a word, up to which all of them are listed, rather than group by group."""


def narrow_search(
    connection: sqlite3.Connection, counts: Mapping[str, int]
) -> tuple[str | None, int]:
    """Return what to match, and the smallest id to rank; None: no moment has any of the words.

    Ranking costs about a microsecond a moment, and some words are on nearly every screen.

    Args:
        connection: The database.
        counts: How many moments have each word, as `count_words` counts them.
    """
    used: list[str] = []
    together = 0
    for word, count in sorted(counts.items(), key=lambda item: item[1]):
        together += count
        if count and (together <= RANKED or not used):
            used.append(word)
    if not used:
        return None, 0
    first = 0
    if counts[used[0]] > RANKED:
        (first,) = connection.execute(
            "SELECT rowid FROM moment_words WHERE moment_words MATCH ?"
            " ORDER BY rowid DESC LIMIT 1 OFFSET ?",
            (_quote_word(used[0]), RANKED),
        ).fetchone()
    return " OR ".join(map(_quote_word, used)), first


def find_words(
    connection: sqlite3.Connection, counts: Mapping[str, int], groups: Sequence[Sequence[Moment]]
) -> list[dict[int, list[str]]]:
    """Return for each group of moments, by their ids, which of the counted words each has."""
    found: list[dict[int, list[str]]] = [{moment.id: [] for moment in group} for group in groups]
    for word, count in counts.items():
        every = _list_moments(connection, word) if 0 < count <= LISTED else set[int]()
        for group in filter(None, found):
            if count > LISTED:
                every = _list_moments(connection, word, min(group), max(group))
            for number in every & group.keys():
                group[number].append(word)
    return found


def count_words(connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, int]:
    """Return how many moments have each word, `RANKED` + 1 at most."""
    query = "SELECT count(*) FROM (SELECT 1 FROM moment_words WHERE moment_words MATCH ? LIMIT ?)"
    return {
        word: int(connection.execute(query, (_quote_word(word), RANKED + 1)).fetchone()[0])
        for word in words
    }


def _list_moments(
    connection: sqlite3.Connection, word: str, first: int = 0, last: int = (1 << 63) - 1
) -> set[int]:
    """Return the ids of the moments that have a word, from the first to the last."""
    rows = connection.execute(
        "SELECT rowid FROM moment_words WHERE moment_words MATCH ? AND rowid BETWEEN ? AND ?",
        (_quote_word(word), first, last),
    )
    return {number for (number,) in rows}


def _quote_word(word: str) -> str:
    """Return a word as a string of FTS5, in which nothing is an operator."""
    return '"' + word.replace('"', '""') + '"'

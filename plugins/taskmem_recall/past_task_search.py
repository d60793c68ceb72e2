"""Search the index of past tasks by the words of a question."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from taskmem_recall.match_confidence import weigh_words
from taskmem_recall.past_task_database import NAME, IndexDamaged, name_errors, open_database
from taskmem_recall.past_task_pages import BEGIN, END, Entry, TaskMatch
from taskmem_recall.recording_database import FileIdentity, identify_file

_SCORE: Final = "-bm25(pages, 3.0, 1.0, 1.5, 1.0)"
"""What a word counts in the name, the plan, the thread, and what was made."""
_MARKED: Final = ", ".join(f"highlight(pages, {n}, '{BEGIN}', '{END}')" for n in range(4))
SEARCHED: Final = 60
"""Least number of pages that one question looks at, the best by text."""
COMPARED: Final = 12
"""Least number of tasks whose words are counted, the best by text."""
PAGES_PER_TASK: Final = SEARCHED // COMPARED
COMMON: Final = 0.2
"""Share of pages from which on a word is too common to search by, if there are rarer ones."""
LEAST_PART: Final = 3
"""Letters of a word that is looked for as the beginning of others, or as a part of two."""


class PastTaskSearch:
    """Reads the index in a folder, from any thread.

    All methods may raise what `name_errors` names.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._connection: sqlite3.Connection | None = None
        self._opened: FileIdentity | None = None
        """The file that the connection is of."""
        self._lock = threading.RLock()

    def count_tasks(self) -> int:
        """Return the number of tasks in the index."""
        with self._lock:
            return self._count("SELECT count(*) FROM tasks")

    def find_matches(
        self, words: Sequence[str], joined: Sequence[str], limit: int
    ) -> list[TaskMatch]:
        """Return the best page of each task that has some of the words.

        Args:
            words: The words of the question.
            joined: Neighbouring words written as one, such as `webhook` for `web hook`.
            limit: Number of tasks that are wanted; at least `COMPARED` are compared.
        """
        with self._lock:
            terms = {word: self._find_term(word) for word in words}
            counts = {word: self._count_pages(term) for word, term in terms.items()}
            total = self._count("SELECT count(*) FROM page_entries")
            rare = [word for word in words if 0 < counts[word] <= max(COMMON * total, SEARCHED)]
            used = [terms[word] for word in (rare or words) if counts[word]]
            used += [term for word in joined if self._count_pages(term := _quote(word))]
            if not used:
                return []
            compared = max(COMPARED, limit)
            found = self._fetch_rows(
                f"""SELECT p.page, e.task, p.score FROM (
                    SELECT rowid AS page, {_SCORE} AS score FROM pages
                    WHERE pages MATCH ? ORDER BY score DESC LIMIT {compared * PAGES_PER_TASK}
                ) AS p JOIN page_entries AS e ON e.id = p.page ORDER BY p.score DESC""",  # noqa: S608 (constants)
                " OR ".join(used),
            )
            best: dict[int, tuple[int, float]] = {}
            for page, task, score in found:
                best.setdefault(task, (page, score))
            scores = dict([*best.values()][:compared])
            known = {word: terms[word] for word in words if counts[word]}
            covered = self._measure_coverage(known, weigh_words(counts, total), [*scores])
            return self._read_matches(known, scores, covered)

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _measure_coverage(
        self, terms: Mapping[str, str], weights: Mapping[str, float], found: Sequence[int]
    ) -> dict[int, float]:
        """Return the share of the question's words, by weight, that each page has."""
        covered = dict.fromkeys(found, 0.0)
        every = sum(weights.values()) or 1.0
        query = f"SELECT rowid FROM pages WHERE pages MATCH ? AND rowid IN ({_list(found)})"  # noqa: S608 (numbers)
        for word, term in terms.items():
            for (page,) in self._fetch_rows(query, term):
                covered[page] += weights[word] / every
        return covered

    def _read_matches(
        self, terms: Mapping[str, str], scores: Mapping[int, float], covered: Mapping[int, float]
    ) -> list[TaskMatch]:
        rows = self._fetch_rows(
            f"""SELECT p.rowid, t.task_id, t.steps, t.created_ms, t.updated_ms, e.entries, {_MARKED}
            FROM pages AS p JOIN page_entries AS e ON e.id = p.rowid
            JOIN tasks AS t ON t.id = e.task
            WHERE pages MATCH ? AND p.rowid IN ({_list(scores)})""",  # noqa: S608 (numbers)
            " OR ".join(terms.values()),
        )
        return [
            TaskMatch(
                task_id=task_id,
                steps=tuple(json.loads(steps)),
                created_ms=created,
                updated_ms=updated,
                name=name,
                plan=plan,
                thread=thread,
                made=made,
                entries=tuple(Entry(*each) for each in json.loads(entries)),
                score=scores[page],
                coverage=min(covered[page], 1.0),
            )
            for page, task_id, steps, created, updated, entries, name, plan, thread, made in rows
        ]

    def _find_term(self, word: str) -> str:
        """Return how a word is searched for: as it is, as the beginning of others, or in two."""
        term = _quote(word)
        if len(word) < LEAST_PART or self._count_pages(term):
            return term
        if self._count_pages(f"{term} *"):
            return f"{term} *"
        for place in range(LEAST_PART, len(word) - LEAST_PART + 1):
            both = f"({_quote(word[:place])} AND {_quote(word[place:])})"
            if self._count_pages(both):
                return both
        return term

    def _count_pages(self, term: str) -> int:
        return self._count("SELECT count(*) FROM pages WHERE pages MATCH ?", term)

    def _count(self, query: str, *values: str) -> int:
        return int(self._fetch_rows(query, *values)[0][0])

    def _fetch_rows(self, query: str, *values: str) -> list[Any]:
        with name_errors(self._folder):
            there = identify_file(self._folder / NAME)
            if there is None:
                self.close()
                raise IndexDamaged(f"The index in {self._folder} is gone.")
            if self._connection is None or there != self._opened:
                self.close()
                self._connection, self._opened = open_database(self._folder), there
            return self._connection.execute(query, values).fetchall()


def _quote(word: str) -> str:
    """Return a word of letters and digits as a term, in which nothing is an operator."""
    return f'"{word}"'


def _list(numbers: Mapping[int, object] | Sequence[int]) -> str:
    return ", ".join(map(str, numbers))

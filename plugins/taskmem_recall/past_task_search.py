"""Search the index of past tasks by the words of a question."""

from __future__ import annotations

import functools
import json
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from taskmem_recall.match_confidence import weigh_words
from taskmem_recall.past_task_database import (
    NAME,
    FileIdentity,
    IndexDamaged,
    identify_file,
    name_errors,
    open_database,
)
from taskmem_recall.past_task_pages import BEGIN, END, Entry, PageMatch, TaskMatch

_SCORE: Final = "-bm25(pages, 3.0, 1.0, 1.5, 1.0)"
"""What a word counts in the name, the plan, the thread, and what was made."""
_MARKED: Final = ", ".join(f"highlight(pages, {n}, '{BEGIN}', '{END}')" for n in range(4))
_LISTED: Final = "(SELECT value FROM json_each(?))"
"""Numbers in one value, so that SQLite need not prepare the statement anew for each list."""
SEARCHED: Final = 60
"""Least number of pages that one question looks at, the best by text."""
COMPARED: Final = 12
"""Least number of tasks whose words are counted, the best by text."""
PAGES_PER_TASK: Final = SEARCHED // COMPARED
MORE: Final = 8
"""How many times as many pages are looked at where the best are of too few tasks."""
COMMON: Final = 0.2
"""Share of pages from which on a word is too common to search by, if there are rarer ones."""
LEAST_PART: Final = 3
"""Letters of a word that is looked for as the beginning of others, or as a part of two."""
MOST_LETTERS: Final = 40
"""A word with more letters is looked for only as it is: each is a place to part it."""


class FoundPages(NamedTuple):
    """The pages that answer a question."""

    pages: list[PageMatch]
    terms: str
    """What to match for the words, and joined words, of the question that some page has."""


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

    def find_pages(
        self,
        words: Sequence[str],
        joined: Sequence[str],
        limit: int,
        may_recall: Callable[[str], bool],
    ) -> FoundPages:
        """Return the best page of each task that has some of the words.

        Args:
            words: The words of the question.
            joined: Neighbouring words written as one, such as `webhook` for `web hook`.
            limit: Number of tasks that are wanted; at least `COMPARED` are compared.
            may_recall: Whether the caller may recall a task, by its id; others are passed over.
        """
        with self._lock:
            terms = {word: self._find_term(word) for word in words}
            total = self._count("SELECT count(*) FROM page_entries")
            known = {word: (term, count) for word, (term, count) in terms.items() if count}
            rare = [
                term for term, count in known.values() if count <= max(COMMON * total, SEARCHED)
            ]
            used = rare or [term for term, _ in known.values()]
            whole = [term for word in joined if self._count_pages(term := _quote(word))]
            used += whole
            if not used:
                return FoundPages([], "")
            pages = self._find_best_pages(" OR ".join(used), max(COMPARED, limit), may_recall)
            counts = {word: count for word, (_, count) in terms.items()}
            weights = weigh_words(counts, total)
            shares = {term: weights[word] for word, (term, _) in known.items()}
            covered = self._measure_coverage(shares, sum(weights.values()) or 1.0, pages)
            return FoundPages(covered, " OR ".join((*shares, *whole)))

    def read_matches(self, terms: str, pages: Sequence[PageMatch]) -> Mapping[int, TaskMatch]:
        """Return what is shown of pages that were found by terms, by their numbers."""
        with self._lock:
            rows = self._fetch_rows(
                f"""SELECT p.rowid, t.task_id, t.steps, t.created_ms, t.updated_ms, e.entries,
                    {_MARKED}
                FROM pages AS p JOIN page_entries AS e ON e.id = p.rowid
                JOIN tasks AS t ON t.id = e.task
                WHERE pages MATCH ? AND p.rowid IN {_LISTED}""",  # noqa: S608 (constants)
                *(terms, _list_numbers(pages)),
            )
        return {
            page: TaskMatch(
                task_id=task_id,
                steps=tuple(json.loads(steps)),
                created_ms=created,
                updated_ms=updated,
                name=name,
                plan=plan,
                thread=thread,
                made=made,
                entries=tuple(Entry(*each) for each in json.loads(entries)),
            )
            for page, task_id, steps, created, updated, entries, name, plan, thread, made in rows
        }

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _find_best_pages(
        self, match: str, wanted: int, may_recall: Callable[[str], bool]
    ) -> list[PageMatch]:
        """Return the best page of each task that may be recalled, of `wanted` tasks at most.

        Long tasks, and those that may not be recalled, take up places: then more are looked at.
        """
        allows = functools.cache(may_recall)
        looked_at = wanted * PAGES_PER_TASK
        while True:
            rows = self._fetch_rows(
                f"""SELECT p.page, t.task_id, t.updated_ms, p.score FROM (
                    SELECT rowid AS page, {_SCORE} AS score FROM pages
                    WHERE pages MATCH ? ORDER BY score DESC LIMIT {looked_at}
                ) AS p JOIN page_entries AS e ON e.id = p.page
                JOIN tasks AS t ON t.id = e.task ORDER BY p.score DESC""",  # noqa: S608 (constants)
                match,
            )
            best: dict[str, PageMatch] = {}
            for page, task_id, updated, score in rows:
                if len(best) < wanted and task_id not in best and allows(task_id):
                    best[task_id] = PageMatch(page=page, updated_ms=updated, score=score)
            if len(best) == wanted or len(rows) < looked_at:
                return [*best.values()]
            looked_at *= MORE

    def _measure_coverage(
        self, shares: Mapping[str, float], every: float, found: Sequence[PageMatch]
    ) -> list[PageMatch]:
        """Return pages with the share of the question's words, by weight, that each has."""
        covered = dict.fromkeys((match.page for match in found), 0.0)
        # The plus keeps SQLite from beginning the search of a word anew for each page.
        query = f"SELECT rowid FROM pages WHERE pages MATCH ? AND +rowid IN {_LISTED}"  # noqa: S608 (constant)
        for term, weight in shares.items():
            for (page,) in self._fetch_rows(query, term, _list_numbers(found)):
                covered[page] += weight / every
        return [replace(match, coverage=min(covered[match.page], 1.0)) for match in found]

    def _find_term(self, word: str) -> tuple[str, int]:
        """Return how a word is searched for, and how many pages have it.

        It is searched for as it is, as the beginning of others, or in two.
        """
        term = _quote(word)
        if (count := self._count_pages(term)) or not LEAST_PART <= len(word) <= MOST_LETTERS:
            return term, count
        halves = (
            f"({_quote(word[:place])} AND {_quote(word[place:])})"
            for place in range(LEAST_PART, len(word) - LEAST_PART + 1)
        )
        for other in (f"{term} *", *halves):
            if count := self._count_pages(other):
                return other, count
        return term, 0

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


def _list_numbers(pages: Sequence[PageMatch]) -> str:
    return json.dumps([match.page for match in pages])

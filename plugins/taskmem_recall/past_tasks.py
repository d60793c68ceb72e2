"""The past tasks of a home as a source of `memory_recall`, found in the index of the store.

The index finds where the words of a question stand; what is found is ranked here, by the rarest
words first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Final

from taskmem_hookspecs import Clock, Message, Recollection, Task, TaskHistory, TextPlace, TextQuery
from taskmem_hookspecs.match_confidence import ConfidenceModel, rank_by_strength
from taskmem_hookspecs.words import (
    MOST_WORDS,
    build_part_patterns,
    build_pattern,
    extract_words,
    find_patterns,
    join_neighbours,
    split_words,
)

COMPARED_TASKS: Final = 12
"""Least number of tasks whose texts are read and compared, the best by their words."""
_RARE_COUNT: Final = 1_500
"""Texts with a word up to which it is rare, so that all its places are looked at."""
_PAIRED_WORDS: Final = 2
"""Rare words, the rarest, beside which common words are searched for."""
_USUAL_TEXTS: Final = 20_000
"""Texts by which words are weighed: those of a home after some months."""
_LEAST_PART: Final = 3
"""Letters of a word that is looked for as a part of two."""
_MOST_LETTERS: Final = 40
"""A word with more letters is looked for only as it is: each is a place to part it."""
_READ_MESSAGES: Final = 2
"""Messages of a task that are read, the best by their words."""
_PASSAGE_WEIGHT: Final = 1.0
"""Share that a word counts more in the best passage, or the name, than anywhere in the task."""
_NAME_WEIGHT: Final = 0.5
"""Share that a word counts more in the name."""
_MISSING_SHARE: Final = 0.6
"""Share that a task loses that has none of the words, beside what they are worth in it."""
_HALF_LIFE: Final = timedelta(days=90)
"""Age at which half of what recency counts is left."""
_MOST_RECENCY: Final = 0.6
"""Greatest share that recency counts, at `recency_bias` 1; it grows by the square of that."""
_LONGEST_PASSAGE: Final = 320
"""Characters of a passage in an answer."""
_MOST_RECALLED_STEPS: Final = 20
MODEL: Final = ConfidenceModel(base=-2.1, coverage=4.5, lead=10.9)
"""Taken over from an earlier index of the same texts, and measured anew with 600 questions over
20,000 tasks, a sixth of them without an answer (`bench/recall_tasks.py`)."""


@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """A word of a question, as it is searched for."""

    pattern: str
    count: int
    """Texts that have it; 0: none has."""
    weight: float
    """The worth of the word: great if few texts have it."""


def _build_term(pattern: str, count: int) -> _Term:
    return _Term(pattern, count, math.log1p(_USUAL_TEXTS / (count + 0.5)))


@dataclass(frozen=True, slots=True)
class _TaskMatch:
    """A task that matches, with the passage that has most of the question."""

    task: Task
    passage: str
    """Empty: only its name has words of the question."""
    message: Message | None
    """The message with the passage; None: it is another text."""
    coverage: float
    """Share of the question's words that the task has, by how rare they are; from 0 to 1."""
    strength: float


class PastTasks:
    """A `TaskSource` of everything that is stored about tasks."""

    def __init__(self, history: TaskHistory, clock: Clock) -> None:
        self._history = history
        self._clock = clock

    def recall(self, query: str, limit: int, recency_bias: float) -> Sequence[Recollection]:
        """Return the best passages of at most `limit` tasks, best first; see `RecallSource`."""
        return self.recall_tasks(query, limit, recency_bias, lambda _: True)

    def recall_tasks(
        self, query: str, limit: int, recency_bias: float, may_recall: Callable[[str], bool]
    ) -> Sequence[Recollection]:
        """Return the same of the tasks that the caller may recall; see `TaskSource`."""
        words = extract_words(query) or split_words(query)[:MOST_WORDS]
        index = _Index(self._history)
        terms = _choose_terms(index, words)
        places = _find_places(index, terms)
        tasks = self._read_tasks(_order_tasks(places), max(COMPARED_TASKS, limit), may_recall)
        found = _group_places(places, [task.task_id for task in tasks])
        numbers = {task_id: _choose_messages(each) for task_id, each in found.items()}
        read = self._history.read_messages([*chain.from_iterable(numbers.values())])
        messages = {message.message_id: message for message in read}
        matches = [
            self._measure_match(
                task,
                found[task.task_id],
                [messages[each] for each in numbers[task.task_id] if each in messages],
                terms,
            )
            for task in tasks
        ]
        now = self._clock.now()
        strengths = [
            (each, each.coverage, each.strength * weigh_recency(each.task, now, recency_bias))
            for each in matches
        ]
        ranked = rank_by_strength(strengths, MODEL)
        patterns = [term.pattern for term in terms]
        return [_build_recollection(match, sure, patterns) for match, sure in ranked[:limit]]

    def _read_tasks(
        self, task_ids: Iterable[str], most: int, may_recall: Callable[[str], bool]
    ) -> list[Task]:
        """Return the first of some tasks that the caller may recall, in order."""
        rest, tasks = iter(task_ids), list[Task]()
        while some := [*islice(rest, most - len(tasks))]:
            if allowed := [task_id for task_id in some if may_recall(task_id)]:
                read = {task.task_id: task for task in self._history.read_tasks(allowed)}
                tasks += [read[task_id] for task_id in allowed if task_id in read]
        return tasks

    def _measure_match(
        self,
        task: Task,
        places: Mapping[_Term, set[int | None]],
        messages: Sequence[Message],
        terms: Sequence[_Term],
    ) -> _TaskMatch:
        """Return a task with its best passage; words too common to be searched by count here."""
        in_name = _find_terms(task.name, terms)
        passages: list[tuple[str, Message | None]] = [(each.content, each) for each in messages]
        passages += [(text, None) for text in (*task.plan, task.original_request or "")]
        found = [_find_terms(text, terms) for text, _ in passages]
        elsewhere = {term for term in places if None in places[term]} - in_name.union(*found)
        if elsewhere:
            others = self._history.list_other_texts(task.task_id)
            passages += [(text, None) for text in others]
            found += [_find_terms(text, terms) for text in others]
        best = max(range(len(passages)), key=lambda place: _weigh(found[place]))
        text, message = passages[best] if found[best] else ("", None)
        anywhere = in_name.union(places, *found)
        coverage = _weigh(anywhere) / _weigh(terms)
        strength = (
            _weigh(anywhere)
            + _PASSAGE_WEIGHT * _weigh(in_name | found[best])
            + _NAME_WEIGHT * _weigh(in_name)
        )
        strength *= 1 - _MISSING_SHARE + _MISSING_SHARE * coverage
        return _TaskMatch(task, text, message, coverage, strength)


class _Index:
    """The index of a home's texts, as one question is looked up in it."""

    def __init__(self, history: TaskHistory) -> None:
        self._history = history
        self._places: dict[str, Sequence[TextPlace]] = {}

    def count_texts(self, patterns: Iterable[str]) -> Mapping[str, int]:
        """Return how many texts have each pattern; those of other homes may be counted."""
        matches = self._history.find_texts(TextQuery(patterns=tuple(patterns), limit=0))
        return {pattern: match.total for pattern, match in matches.items()}

    def count_own_texts(self, patterns: Iterable[str]) -> Mapping[str, int]:
        """Return the same, without those of other homes where the pattern is rare."""
        counts = self.count_texts(patterns)
        rare = [pattern for pattern, count in counts.items() if 0 < count <= _RARE_COUNT]
        return {**counts, **{each: len(found) for each, found in self.find_places(rare).items()}}

    def find_places(self, patterns: Iterable[str]) -> dict[str, Sequence[TextPlace]]:
        """Return the texts that have each pattern, the newest first."""
        patterns = tuple(patterns)
        if new := tuple(pattern for pattern in patterns if pattern not in self._places):
            self._places |= self.find_places_beside(new, ())
        return {pattern: self._places[pattern] for pattern in patterns}

    def find_places_beside(
        self, patterns: Iterable[str], words: Iterable[str]
    ) -> dict[str, Sequence[TextPlace]]:
        """Return the texts that have each pattern, and one of some words."""
        query = TextQuery(patterns=tuple(patterns), beside=tuple(words), limit=_RARE_COUNT)
        matches = self._history.find_texts(query).items() if query.patterns else ()
        return {pattern: match.places for pattern, match in matches}


def _choose_terms(index: _Index, words: Sequence[str]) -> list[_Term]:
    """Return how the words of a question are searched for.

    A word that no text has is searched for in two, or by its parts in writing without spaces.
    """
    joined = join_neighbours(words)
    counts = index.count_own_texts(dict.fromkeys((*map(build_pattern, words), *joined)))
    terms = [_build_term(word, counts[word]) for word in joined if counts[word]]
    for word in words:
        pattern = build_pattern(word)
        if counts[pattern]:
            terms.append(_build_term(pattern, counts[pattern]))
        else:
            terms += _find_parts(index, word) or [_build_term(pattern, 0)]
    # Words of one pattern are one term, which counts for each of them.
    by_pattern = {term.pattern: term for term in terms}
    return [by_pattern[term.pattern] for term in terms]


def _find_parts(index: _Index, word: str) -> list[_Term]:
    """Return the parts of a word that no text has; it has none if no text has them either."""
    if parts := build_part_patterns(word):
        places = index.find_places(parts)
        return [_build_term(part, len(places[part])) for part in parts if places[part]]
    if len(word) > _MOST_LETTERS:
        return []
    ends = range(_LEAST_PART, len(word) - _LEAST_PART + 1)
    # The first of two is looked for alone at first: that is fast, and few are words.
    firsts = index.count_texts(word[:end] for end in ends)
    pairs = [f"{first} {word[len(first) :]}*" for first, count in firsts.items() if count]
    counts = index.count_own_texts(pairs)
    return [_build_term(pair, counts[pair]) for pair in pairs if counts[pair]][:1]


def _find_places(index: _Index, terms: Sequence[_Term]) -> dict[_Term, dict[TextPlace, None]]:
    """Return for each word where it stands, the newest texts first.

    Common words are found only beside the rarest ones.
    """
    found = sorted((term for term in terms if term.count), key=lambda term: term.count)
    rare = [term for term in found if term.count <= _RARE_COUNT] or found[:1]
    places = index.find_places(term.pattern for term in rare)
    words = [term.pattern for term in rare if not term.pattern.startswith("*")]
    if words:
        common = [term.pattern for term in found[len(rare) :]]
        places |= index.find_places_beside(common, words[:_PAIRED_WORDS])
    return {term: dict.fromkeys(places[term.pattern]) for term in found if term.pattern in places}


def _order_tasks(places: Mapping[_Term, Iterable[TextPlace]]) -> list[str]:
    """Return the tasks with words of a question, best first, newest of equals first.

    A word counts once in a task, again in its other texts, and again in its best message.
    """
    worth: dict[str, float] = {}
    of_texts: dict[TextPlace, float] = {}
    for term, here in places.items():
        weight = term.weight
        for place in here:
            of_texts[place] = of_texts.get(place, 0.0) + weight
        for task_id in dict.fromkeys(task_id for task_id, _ in here):
            worth[task_id] = worth.get(task_id, 0.0) + weight
    of_messages: dict[str, float] = {}
    for (task_id, number), weight in of_texts.items():
        if number is None:
            worth[task_id] += weight
        elif weight > of_messages.get(task_id, 0.0):
            of_messages[task_id] = weight
    for task_id, weight in of_messages.items():
        worth[task_id] += weight
    return sorted(worth, key=worth.__getitem__, reverse=True)


def _group_places(
    places: Mapping[_Term, Iterable[TextPlace]], tasks: Iterable[str]
) -> dict[str, dict[_Term, set[int | None]]]:
    """Return for each of some tasks where the words stand: the ids of messages.

    None: another text of the task.
    """
    grouped: dict[str, dict[_Term, set[int | None]]] = {task_id: {} for task_id in tasks}
    for term, here in places.items():
        for task_id, number in here:
            if task_id in grouped:
                grouped[task_id].setdefault(term, set()).add(number)
    return grouped


def _find_terms(text: str, terms: Sequence[_Term]) -> frozenset[_Term]:
    """Return the words of a question that a text has."""
    patterns = find_patterns(text, [term.pattern for term in terms])
    return frozenset(term for term in terms if term.pattern in patterns)


def _weigh(terms: Iterable[_Term]) -> float:
    return sum(term.weight for term in terms)


def _choose_messages(places: Mapping[_Term, set[int | None]]) -> list[int]:
    """Return the messages of a task to read, best first, the newest of equals first."""
    worth: dict[int, float] = {}
    for term, found in places.items():
        for number in found:
            if number is not None:
                worth[number] = worth.get(number, 0.0) + term.weight
    ordered = sorted(worth, key=lambda number: (worth[number], number), reverse=True)
    return ordered[:_READ_MESSAGES]


def weigh_recency(task: Task, now: datetime, bias: float) -> float:
    """Return what a match counts by the age of its task: 1 if it is new, less if it is old."""
    age = max((now - task.updated_at) / _HALF_LIFE, 0)
    return 1 - _MOST_RECENCY * bias * bias * (1 - math.exp2(-age))


def _build_recollection(
    match: _TaskMatch, confidence: float, patterns: Sequence[str]
) -> Recollection:
    """Return a match in words: the task's name, and the passage that has most of the question."""
    task, message = match.task, match.message
    passage = cut_around_word(match.passage, patterns)
    return Recollection(
        timestamp=task.updated_at if message is None else message.created_at,
        duration_seconds=max((task.updated_at - task.created_at).total_seconds(), 0),
        confidence=round(confidence, 3),
        summary=f"{task.name}: {passage}" if passage else task.name,
        steps=tuple(step.text for step in task.steps if step.done)[:_MOST_RECALLED_STEPS],
        source="tasks",
        task_id=task.task_id,
        message_id=None if message is None else message.message_id,
    )


def cut_around_word(text: str, patterns: Sequence[str]) -> str:
    """Return a passage on one line, cut to the part that has the first word of a question."""
    line = " ".join(text.split())
    if len(line) <= _LONGEST_PASSAGE:
        return line
    words = re.finditer(r"\w+", line)
    place = next((word.start() for word in words if find_patterns(word[0], patterns)), 0)
    begin = max(min(place - _LONGEST_PASSAGE // 4, len(line) - _LONGEST_PASSAGE), 0)
    end = begin + _LONGEST_PASSAGE
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"

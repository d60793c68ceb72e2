"""Lay a task out as pages to be searched, and put a page that matches into words. Pure.

A page has the name of its task beside a part of its thread, so that a question finds one by words
of both; the first also has the plan, its revisions, and what was made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from taskmem_hookspecs import Message, MessageType, Recollection, Task, TaskRecord
from taskmem_recall.match_confidence import ConfidenceModel, rank_by_strength

PAGE_CHARACTERS: Final = 16_384
"""Characters of the thread on one page; a longer message has a page of its own."""
PASSAGE_END: Final = "\x1e"
"""Stands between the passages of a column of text."""
BEGIN, END = "\x02", "\x03"
"""Stand before and after each word of the question in a page that was found."""
LONGEST_PASSAGE: Final = 320
"""Characters of a passage in an answer."""
MOST_STEPS: Final = 20
HALF_LIFE: Final = timedelta(days=90)
"""Age at which half of what recency counts is left."""
RECENCY: Final = 0.6
"""What recency counts at most, where `recency_bias` is 1; it grows by the square of that."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One passage of a page: a message, or another text about the task."""

    message_id: int | None
    """None: it is no message."""
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPage:
    """A part of a thread."""

    texts: tuple[str, ...]
    entries: tuple[Entry, ...]
    """Those of `texts`, in the same order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageMatch:
    """The best page of a task that matches, as far as it is needed to rank it."""

    page: int
    """Its number."""
    updated_ms: int
    """When its task changed last."""
    score: float
    """By text, above 0."""
    coverage: float = 0.0
    """Share of the question's words that the page has, by how rare they are; from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMatch:
    """The best page of a task that matches, with its texts."""

    task_id: str
    steps: tuple[str, ...]
    """The steps of its plan that are done."""
    created_ms: int
    updated_ms: int
    name: str
    plan: str
    thread: str
    made: str
    """The four columns of the page, with `BEGIN` and `END` round the words of the question."""
    entries: tuple[Entry, ...]


def build_plan_text(record: TaskRecord) -> str:
    """Return the plan of a task and why it was revised, as passages."""
    reasons = (revision.reason for revision in record.revisions)
    dropped = (
        step
        for revision in record.revisions
        for step in revision.old_plan
        if step not in record.task.plan
    )
    request = record.task.original_request
    passages = (*record.task.plan, *reasons, *dropped, *([request] if request else []))
    return join_passages(dict.fromkeys(passages))


def build_made_text(record: TaskRecord) -> str:
    """Return what a task made, as passages."""
    return join_passages(entry.path for entry in record.made)


def join_passages(passages: Iterator[str] | Mapping[str, object] | Sequence[str]) -> str:
    """Return passages as the text of a column."""
    unmarked = str.maketrans(dict.fromkeys((PASSAGE_END, BEGIN, END), " "))
    return PASSAGE_END.join(passage.translate(unmarked) for passage in passages)


def split_into_pages(messages: Sequence[Message]) -> Iterator[ThreadPage]:
    """Yield the pages of messages, oldest first; stuck alerts are left out."""
    texts: list[str] = []
    entries: list[Entry] = []
    size = 0
    for message in messages:
        if message.msg_type is MessageType.STUCK:
            continue
        if texts and size + len(message.content) > PAGE_CHARACTERS:
            yield ThreadPage(texts=tuple(texts), entries=tuple(entries))
            texts, entries, size = [], [], 0
        texts.append(message.content)
        entries.append(Entry(message.message_id, to_millis(message.created_at)))
        size += len(message.content)
    if texts:
        yield ThreadPage(texts=tuple(texts), entries=tuple(entries))


def list_done_steps(task: Task) -> list[str]:
    """Return the steps of a plan that are done, in order."""
    return [step.text for step in task.steps if step.done]


def to_millis(at: datetime) -> int:
    """Return an instant in milliseconds since 1970."""
    return int(at.timestamp() * 1000)


def weigh_recency(at_ms: int, now: datetime, bias: float) -> float:
    """Return what a match counts by its age: 1 if it is new, less if it is old."""
    age = max(to_millis(now) - at_ms, 0) / (HALF_LIFE / timedelta(milliseconds=1))
    return 1 - RECENCY * bias * bias * (1 - math.exp2(-age))


MISSING: Final = 0.6
"""What a page loses of its score that has none of the words, beside what they are worth there."""
MODEL: Final = ConfidenceModel(base=-2.1, coverage=4.5, lead=10.9)
"""Fitted to one half of 600 questions over 20,000 tasks, a sixth of them without an answer
(`bench/recall_tasks.py`); measured on the other half."""


def rank_matches(
    matches: Sequence[PageMatch], now: datetime, recency_bias: float
) -> list[tuple[PageMatch, float]]:
    """Return matches with their confidence, best first."""

    def measure_strength(match: PageMatch) -> float:
        covered = 1 - MISSING + MISSING * match.coverage
        return match.score * covered * weigh_recency(match.updated_ms, now, recency_bias)

    return rank_by_strength(
        ((match, match.coverage, measure_strength(match)) for match in matches), MODEL
    )


def build_recollection(match: TaskMatch, confidence: float) -> Recollection:
    """Return a match in words: the task's name, and the passage that has most of the question."""
    text, entry = _find_best_passage(match)
    at_ms = match.updated_ms if entry is None else entry.at_ms
    name = _remove_marks(match.name)
    return Recollection(
        timestamp=datetime.fromtimestamp(at_ms / 1000, UTC),
        duration_seconds=max(match.updated_ms - match.created_ms, 0) / 1000,
        confidence=round(confidence, 3),
        summary=f"{name}: {_cut_around_mark(text)}" if text else name,
        steps=match.steps[:MOST_STEPS],
        source="tasks",
        task_id=match.task_id,
        message_id=None if entry is None else entry.message_id,
    )


def _find_best_passage(match: TaskMatch) -> tuple[str, Entry | None]:
    """Return the passage with the most different words of the question; messages come first."""
    messages = zip(match.thread.split(PASSAGE_END), match.entries, strict=False)
    others = [*match.plan.split(PASSAGE_END), *match.made.split(PASSAGE_END)]
    passages: list[tuple[str, Entry | None]] = [*messages, *((text, None) for text in others)]
    best = max(passages, key=lambda passage: len(_list_marked(passage[0])), default=("", None))
    return best if _list_marked(best[0]) else ("", None)


def _list_marked(text: str) -> set[str]:
    """Return the words of the question in a passage, by their first letters."""
    return {part.partition(END)[0].casefold()[:5] for part in text.split(BEGIN)[1:]}


def _cut_around_mark(text: str) -> str:
    """Return a passage on one line, cut to the part that has the first word of the question."""
    line = " ".join(text.split())
    place = max(line.find(BEGIN), 0)
    plain = _remove_marks(line)
    if len(plain) <= LONGEST_PASSAGE:
        return plain
    begin = max(min(place - LONGEST_PASSAGE // 4, len(plain) - LONGEST_PASSAGE), 0)
    end = begin + LONGEST_PASSAGE
    return f"{'…' if begin else ''}{plain[begin:end]}{'…' if end < len(plain) else ''}"


def _remove_marks(text: str) -> str:
    return text.replace(BEGIN, "").replace(END, "")

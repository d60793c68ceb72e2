"""Questions with their right answers, and how well a search answers them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from figures import Figure, amount, millis, percentile

from taskmem_hookspecs import Recollection

BINS = 10
LIMIT = 3
"""Answers asked for, as `memory_recall` does where no limit is given."""
BIAS = 0.5
"""`recency_bias` where none is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and what answers it."""

    text: str
    right: frozenset[str]
    """Ids, any one of which is a right answer; empty: nothing is."""
    is_held_out: bool
    """False: constants may be fitted to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How a search answered one question."""

    question: Question
    answers: tuple[tuple[float, bool], ...]
    """Of each answer, best first: the confidence, and whether it is right."""
    seconds: float
    cpu_seconds: float

    def is_found(self, within: int) -> bool:
        """Whether one of the first answers is right."""
        return any(right for _, right in self.answers[:within])


def ask_questions(
    questions: Sequence[Question],
    recall: Callable[[str, int, float], Sequence[Recollection]],
    is_right: Callable[[Recollection, Question], bool],
    bias: float,
) -> list[Score]:
    """Ask every question, and judge the answers."""
    scores: list[Score] = []
    for question in questions:
        began, used = time.perf_counter(), time.thread_time()
        found = recall(question.text, LIMIT, bias)
        seconds, cpu_seconds = time.perf_counter() - began, time.thread_time() - used
        answers = tuple((one.confidence, is_right(one, question)) for one in found)
        score = Score(question=question, answers=answers, seconds=seconds, cpu_seconds=cpu_seconds)
        scores.append(score)
    return scores


def measure_calibration(scores: Sequence[Score], within: int = LIMIT) -> float:
    """Return the expected calibration error of the first answers, in ten bins of equal width.

    It is the mean difference of a bin's confidence and its share of right answers. What has no
    right answer counts as well.
    """
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for score in scores:
        for confidence, right in score.answers[:within]:
            bins[min(int(confidence * BINS), BINS - 1)].append((confidence, right))
    count = sum(map(len, bins))
    wrong = sum(
        abs(sum(confidence for confidence, _ in one) - sum(right for _, right in one))
        for one in bins
    )
    return wrong / count if count else 0.0


def format_scores(
    what: str, scores: Sequence[Score], missed: float, limit: float | None = 20
) -> Iterator[Figure | str]:
    """Yield the figures of a set: `missed` is the share missed, `limit` the ms, at most."""
    first, third = (_share_missed(scores, within) for within in (1, LIMIT))
    yield amount(f"{what}: not the first answer", [100 * first], "%")
    yield amount(f"{what}: not in the first {LIMIT}", [100 * third], "%", 100 * missed)
    for named, within in (("all", LIMIT), ("first", 1)):
        error = measure_calibration(scores, within)
        yield amount(f"{what}: calibration error of {named} answers", [error], "", 0.1)
    times = [score.seconds for score in scores]
    yield millis(f"{what}: a query", times, limit)
    yield millis(f"{what}: CPU of a query", [score.cpu_seconds for score in scores])
    yield (
        f"{what}: {len(scores)} questions, recall@1 {1 - first:.3f}, recall@{LIMIT} "
        f"{1 - third:.3f}, p50 {1000 * percentile(times, 0.5):.1f} ms, "
        f"p95 {1000 * percentile(times, 0.95):.1f} ms"
    )


def _share_missed(scores: Sequence[Score], within: int) -> float:
    asked = [score for score in scores if score.question.right]
    return sum(not score.is_found(within) for score in asked) / len(asked)

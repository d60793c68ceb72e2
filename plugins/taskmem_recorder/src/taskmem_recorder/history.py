"""Search what was recorded of the screen, for `memory_recall`: rank it, and put it into words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, Protocol

from taskmem_hookspecs import Clock, Recollection
from taskmem_hookspecs.match_confidence import ConfidenceModel, rank_by_strength
from taskmem_hookspecs.words import (
    GRAMMAR_WORDS,
    MOST_WORDS,
    extract_words,
    join_neighbours,
    split_words,
)
from taskmem_recorder.store import SEGMENT_GAP, Moment, RecordingStore, ScoredMoment

_HALF_LIFE: Final = timedelta(days=30)
"""Age at which a match counts half, where `recency_bias` is 1."""
_LEAST_RECENCY: Final = 1e-9
"""Least recency of a match, so that the best of old ones is found."""
_LEAST_SHARE_OF_BEST: Final = 0.25
"""Share of the best score of a segment that a moment needs to belong to its match."""
_LEAST_SHARE_AROUND: Final = 0.5
"""Share of a match's words that a moment beside it needs to be shown with it."""
_MILLISECOND: Final = timedelta(milliseconds=1)
_MOST_EPISODE_STEPS: Final = 12
_MOST_LINES: Final = 3
"""Lines of text in one step."""
_LONGEST_LINE: Final = 120
_LEAST_LETTERS: Final = 3
"""Latin letters and digits of a line in a step, or one Chinese; less is mostly a misread icon."""
_TITLE_LETTERS: Final = 12
"""Letters and digits of a title by which it is recognised in a line, such as on a tab."""
_LAST_SHOWN: Final = timedelta(seconds=5)
"""How long the last moment of a segment is taken to have been shown."""

_CONFIDENCE_MODEL: Final = ConfidenceModel(base=-5.0, coverage=6.1, lead=7.6)
"""Fitted to one half of 374 questions about 300 episodes, alone and among 100,000 moments, a fifth
of them about what was never shown (`bench/screen_history.py`); measured on the other half.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Moments of one segment that match together."""

    moments: tuple[Moment, ...]
    """In order of recording."""
    score: float
    """Score of the best moment."""
    coverage: float = 0.0
    """Share of the question's words that it has, by how rare they are; from 0 to 1."""


def group_matches(found: Iterable[ScoredMoment]) -> list[Match]:
    """Group moments into matches, best first: those of a segment without a long gap between them.

    A moment whose score is much worse than the best of its segment belongs to none.
    """
    segments: dict[int, list[ScoredMoment]] = {}
    for each in found:
        segments.setdefault(each.moment.segment, []).append(each)
    matches: list[Match] = []
    for scored in segments.values():
        enough = _LEAST_SHARE_OF_BEST * max(each.score for each in scored)
        kept = [each for each in scored if each.score >= enough]
        kept.sort(key=lambda each: each.moment.id)
        for part in _split_at_gaps(kept):
            moments = tuple(each.moment for each in part)
            matches.append(Match(moments=moments, score=max(each.score for each in part)))
    return sorted(matches, key=lambda match: match.score, reverse=True)


def _split_at_gaps(scored: Sequence[ScoredMoment]) -> list[list[ScoredMoment]]:
    parts: list[list[ScoredMoment]] = []
    for each in scored:
        last = parts[-1][-1].moment if parts else None
        if last is not None and each.moment.place_ms - last.place_ms <= SEGMENT_GAP / _MILLISECOND:
            parts[-1].append(each)
        else:
            parts.append([each])
    return parts


def extend_match(match: Match, segment: Sequence[Moment], shares: Mapping[int, float]) -> Match:
    """Return a match with the moments around it that are about the same.

    They follow one another without a long gap, and each has enough of the question's words.

    Args:
        match: The match.
        segment: All moments of its segment, in order.
        shares: The share of the question's words that each moment has, by its id.
    """
    enough = _LEAST_SHARE_AROUND * match.coverage
    before = [moment for moment in segment if moment.id < match.moments[0].id]
    after = [moment for moment in segment if moment.id > match.moments[-1].id]
    moments = list(match.moments)
    for place, others in ((0, reversed(before)), (-1, after)):
        for moment in others:
            gap = abs(moment.place_ms - moments[place].place_ms)
            if gap > SEGMENT_GAP / _MILLISECOND or shares.get(moment.id, 0) < enough:
                break
            moments.insert(0 if place == 0 else len(moments), moment)
    return replace(match, moments=tuple(moments))


def drop_covered(matches: Sequence[tuple[Match, float]]) -> list[tuple[Match, float]]:
    """Return matches, best first, without those that begin within a better one."""
    kept: list[tuple[Match, float]] = []
    shown: set[int] = set()
    for match, confidence in matches:
        if match.moments[0].id not in shown:
            kept.append((match, confidence))
        shown.update(moment.id for moment in match.moments)
    return kept


def weigh_words(counts: Mapping[str, int], total: int) -> dict[str, float]:
    """Return what each word is worth: much if few of the `total` texts have it."""
    return {word: math.log1p(total / (count + 0.5)) for word, count in counts.items()}


def measure_coverage(words: Mapping[str, float], present: Iterable[str]) -> float:
    """Return the share of the words that are present, by their weights."""
    return sum(words[word] for word in present) / (sum(words.values()) or 1.0)


def weigh_recency(at: datetime, now: datetime, bias: float) -> float:
    """Return what a match counts by its age: 1 if it is new, 1 - `bias` if it is very old."""
    age = max(now - at, timedelta(0))
    return max(1 - bias + bias * math.exp2(-(age / _HALF_LIFE)), _LEAST_RECENCY)


def rank_matches(
    matches: Sequence[Match], now: datetime, recency_bias: float
) -> list[tuple[Match, float]]:
    """Return matches with their confidence, best first.

    The share of the words counts by its square: else one rare word that a page has often outweighs
    a page that has all of them.
    """

    def measure_strength(match: Match) -> float:
        recency = weigh_recency(match.moments[-1].at, now, recency_bias)
        return match.score * match.coverage**2 * recency

    return rank_by_strength(
        ((match, match.coverage, measure_strength(match)) for match in matches), _CONFIDENCE_MODEL
    )


def build_recollection(
    match: Match, confidence: float, segment: Sequence[Moment], words: Sequence[str] = ()
) -> Recollection:
    """Return a match in words, with its place in the strip of its segment.

    `segment` has all moments of the segment, in order; `words` are those of the question.
    """
    first, last = match.moments[0], match.moments[-1]
    shown = [moment for moment in segment if first.id <= moment.id <= last.id] or match.moments
    after = next((moment for moment in segment if moment.id > last.id), None)
    end = after.place_ms if after else last.place_ms + _LAST_SHOWN // _MILLISECOND
    return Recollection(
        timestamp=first.at,
        duration_seconds=(end - first.place_ms) / 1000,
        confidence=round(confidence, 3),
        summary=summarize_moments(shown),
        steps=list_steps(shown, words),
        video_url=format_moment_url(segment or shown, first),
        video_start_ms=first.place_ms,
        video_end_ms=end,
        source="screen",
        window_titles=tuple(
            dict.fromkeys(
                title for moment in shown for title in (moment.window_title, moment.page) if title
            )
        ),
    )


def format_moment_url(segment: Sequence[Moment], moment: Moment) -> str:
    """Return the address at which `taskmem open` shows a moment in its segment."""
    place = f"{moment.place_ms / 1000:.3f}".rstrip("0").rstrip(".")
    return f"memories://recordings/{segment[0].at:%Y-%m-%d}/segment-{moment.segment}#t={place}"


def summarize_moments(moments: Sequence[Moment]) -> str:
    """Return what was shown, in one sentence: the application and the titles, in order."""
    titles = list(dict.fromkeys(_get_title(moment) for moment in moments))
    quoted = ", then ".join(f"“{title}”" for title in titles[:_MOST_LINES])
    more = f", and {len(titles) - _MOST_LINES} more" if len(titles) > _MOST_LINES else ""
    return f"In {moments[0].application or 'an application'}: {quoted}{more}"


def list_steps(moments: Sequence[Moment], words: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what happened in order: each title that came up, and what was new on the screen.

    Of the lines of one moment those with the question's `words` come first.
    """
    steps: list[str] = []
    asked = set(words)
    title = ""
    for moment in moments:
        news: list[str] = []
        if _get_title(moment) != title:
            title = _get_title(moment)
            news.append(f"“{title}” came up")
        lines = _list_new_lines(moment)
        lines.sort(key=lambda line: asked.isdisjoint(split_words(line)))
        if lines:
            news.append("new text: " + "; ".join(f"“{line}”" for line in lines[:_MOST_LINES]))
            if len(lines) > _MOST_LINES:
                news.append(f"and {len(lines) - _MOST_LINES} more lines")
        if news:
            steps.append(f"{moment.at:%H:%M:%S} " + ", ".join(news))
    if len(steps) > _MOST_EPISODE_STEPS:
        rest = len(steps) - _MOST_EPISODE_STEPS + 1
        steps[_MOST_EPISODE_STEPS - 1 :] = [f"{rest} more steps, which taskmem open shows"]
    return tuple(steps)


def _get_title(moment: Moment) -> str:
    title = moment.page or moment.window_title or "a window without a title"
    return _shorten_line(" ".join(title.split()))


def _list_new_lines(moment: Moment) -> list[str]:
    """Return the lines that were new, without icons read as letters and without the title."""
    title = _keep_letters(_get_title(moment))[:_TITLE_LETTERS]
    lines = (" ".join(line.split()) for line in moment.new_text.splitlines())
    return [
        _shorten_line(line)
        for line in dict.fromkeys(lines)
        if len((letters := _keep_letters(line)).encode()) >= _LEAST_LETTERS
        and not (len(title) == _TITLE_LETTERS and title in letters)
    ]


def _keep_letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _shorten_line(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


_RANKED_MOMENTS: Final = 200
"""Moments that one question looks at, the best by text."""
_COMPARED_MATCHES: Final = 12
"""Matches whose words are counted, the best by text."""


class _RecordingLoop(Protocol):
    """The recorder of the screen."""

    async def run(self) -> None:
        """Record whenever the user has switched that on, until cancelled."""
        ...

    def activity(self) -> str | None:
        """Return in one line what the recorder does; None: it is off."""
        ...


class ScreenHistory:
    """A source of everything recorded of the screen, with the recorder in the background."""

    def __init__(self, store: RecordingStore, clock: Clock, recorder: _RecordingLoop) -> None:
        self._store = store
        self._clock = clock
        self._recorder = recorder

    async def run(self) -> None:
        """Record the screen whenever that is switched on; see `BackgroundSource`."""
        await self._recorder.run()

    def activity(self) -> str | None:
        """Return what the recorder does; see `ActiveSource`."""
        return self._recorder.activity()

    def advice(self) -> str | None:
        """Return how to switch the recording on, and what was lost; see `AdvisingSource`."""
        sentences = list[str]()
        if self._recorder.activity() is None:
            sentences.append(
                "The screen is not recorded; the user can switch that on with: taskmem record on."
            )
        if damaged := self._store.find_damaged():
            sentences.append(
                "What the screen showed before is not found, since its database was damaged and "
                f"set aside as {', '.join(damaged)}."
            )
        return " ".join(sentences) or None

    def recall(self, query: str, limit: int, recency_bias: float) -> Sequence[Recollection]:
        """Return at most `limit` matches, best first; see `RecallSource`."""
        return search_screen(self._store, self._clock.now(), query, limit, recency_bias)


def search_screen(
    store: RecordingStore, now: datetime, query: str, limit: int, recency_bias: float
) -> list[Recollection]:
    """Return at most `limit` matches of a question, best first; `recency_bias` is from 0 to 1."""
    words = extract_words(query, GRAMMAR_WORDS) or split_words(query)[:MOST_WORDS]
    total, counted = store.count_moments([*words, *join_neighbours(words)])
    moments = store.search(counted, _RANKED_MOMENTS)
    if not moments:
        return []
    counts = {word: counted[word] for word in words}
    weights = weigh_words(counts, total)
    matches = group_matches(moments)[: max(_COMPARED_MATCHES, limit)]
    covered = [
        replace(match, coverage=measure_coverage(weights, set(chain(*present.values()))))
        for match, present in zip(
            matches, store.find_present(counts, [match.moments for match in matches]), strict=True
        )
    ]
    best = rank_matches(covered, now, recency_bias)[:limit]
    segments = [store.list_moments(segment=match.moments[0].segment) for match, _ in best]
    whole: list[tuple[Match, float]] = []
    for (match, confidence), segment, present in zip(
        best, segments, store.find_present(counts, segments), strict=True
    ):
        shares = {number: measure_coverage(weights, has) for number, has in present.items()}
        whole.append((extend_match(match, segment, shares), confidence))
    shown = {segment[0].segment: segment for segment in segments if segment}
    return [
        build_recollection(match, confidence, shown.get(match.moments[0].segment, ()), words)
        for match, confidence in drop_covered(whole)
    ]

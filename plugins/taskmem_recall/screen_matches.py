"""Rank what was on the screen, say how sure a match is, and put it into words. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from taskmem_hookspecs import Recollection
from taskmem_recall.match_confidence import ConfidenceModel, rank_by_strength
from taskmem_recall.moments import GAP, Moment, ScoredMoment
from taskmem_recall.query_words import split_words

HALF_LIFE: Final = timedelta(days=30)
"""Age at which a match counts half, where `recency_bias` is 1."""
LEAST: Final = 1e-9
"""What the oldest match counts at least, so that the best of old ones is found."""
GLUE: Final = 0.25
"""Share of the best score of a segment that a moment needs to belong to its match."""
AROUND: Final = 0.5
"""Share of a match's words that a moment beside it needs to be shown with it."""
_MILLISECOND: Final = timedelta(milliseconds=1)
MOST_STEPS: Final = 12
MOST_LINES: Final = 3
"""Lines of text in one step."""
LONGEST_LINE: Final = 120
LEAST_LETTERS: Final = 3
"""Latin letters and digits of a line in a step, or one Chinese; less is mostly a misread icon."""
TITLE_LETTERS: Final = 12
"""Letters and digits of a title by which it is recognised in a line, such as on a tab."""
LAST_SHOWN: Final = timedelta(seconds=5)
"""How long the last moment of a segment is taken to have been shown."""

MODEL: Final = ConfidenceModel(base=-5.0, coverage=6.1, lead=7.6)
"""Fitted to one half of 374 questions about 300 episodes, alone and among 100,000 moments, a fifth
of them about what was never shown (`bench/screen_history.py`); measured on the other half.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Moments of one segment that match together."""

    moments: tuple[Moment, ...]
    """In order of recording."""
    score: float
    """That of the best moment."""
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
        enough = GLUE * max(each.score for each in scored)
        kept = sorted((each for each in scored if each.score >= enough), key=_get_id)
        for part in _split_at_gaps(kept):
            moments = tuple(each.moment for each in part)
            matches.append(Match(moments=moments, score=max(each.score for each in part)))
    return sorted(matches, key=lambda match: match.score, reverse=True)


def _get_id(scored: ScoredMoment) -> int:
    return scored.moment.id


def _split_at_gaps(scored: Sequence[ScoredMoment]) -> list[list[ScoredMoment]]:
    parts: list[list[ScoredMoment]] = []
    for each in scored:
        last = parts[-1][-1].moment if parts else None
        if last is not None and each.moment.place_ms - last.place_ms <= GAP / _MILLISECOND:
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
    enough = AROUND * match.coverage
    before = [moment for moment in segment if moment.id < match.moments[0].id]
    after = [moment for moment in segment if moment.id > match.moments[-1].id]
    moments = list(match.moments)
    for place, others in ((0, reversed(before)), (-1, after)):
        for moment in others:
            gap = abs(moment.place_ms - moments[place].place_ms)
            if gap > GAP / _MILLISECOND or shares.get(moment.id, 0) < enough:
                break
            moments.insert(0 if place == 0 else len(moments), moment)
    return replace(match, moments=tuple(moments))


def drop_covered(matches: Sequence[tuple[Match, float]]) -> list[tuple[Match, float]]:
    """Return matches, best first, without those that begin within a better one."""
    kept: list[tuple[Match, float]] = []
    known: set[int] = set()
    for match, confidence in matches:
        if match.moments[0].id not in known:
            kept.append((match, confidence))
        known.update(moment.id for moment in match.moments)
    return kept


def measure_coverage(words: Mapping[str, float], present: Iterable[str]) -> float:
    """Return the share of the words that are present, by their weights."""
    return sum(words[word] for word in present) / (sum(words.values()) or 1.0)


def weigh_recency(at: datetime, now: datetime, bias: float) -> float:
    """Return what a match counts by its age: 1 if it is new, 1 - `bias` if it is very old."""
    age = max(now - at, timedelta(0))
    return max(1 - bias + bias * math.exp2(-(age / HALF_LIFE)), LEAST)


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
        ((match, match.coverage, measure_strength(match)) for match in matches), MODEL
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
    end = after.place_ms if after else last.place_ms + LAST_SHOWN // _MILLISECOND
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
    quoted = ", then ".join(f"“{title}”" for title in titles[:MOST_LINES])
    more = f", and {len(titles) - MOST_LINES} more" if len(titles) > MOST_LINES else ""
    return f"In {moments[0].application or 'an application'}: {quoted}{more}"


def list_steps(moments: Sequence[Moment], words: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what happened in order: each title that came up, and what was new on the screen.

    Of the lines of one moment those with the question's `words` come first.
    """
    steps: list[str] = []
    asked = set(words)
    title = ""
    for moment in moments:
        said: list[str] = []
        if _get_title(moment) != title:
            title = _get_title(moment)
            said.append(f"“{title}” came up")
        lines = _list_new_lines(moment)
        lines.sort(key=lambda line: asked.isdisjoint(split_words(line)))
        if lines:
            said.append("new text: " + "; ".join(f"“{line}”" for line in lines[:MOST_LINES]))
            if len(lines) > MOST_LINES:
                said.append(f"and {len(lines) - MOST_LINES} more lines")
        if said:
            steps.append(f"{moment.at:%H:%M:%S} " + ", ".join(said))
    if len(steps) > MOST_STEPS:
        left = len(steps) - MOST_STEPS + 1
        steps[MOST_STEPS - 1 :] = [f"{left} more steps, which taskmem open shows"]
    return tuple(steps)


def _get_title(moment: Moment) -> str:
    title = moment.page or moment.window_title or "a window without a title"
    return _shorten_line(" ".join(title.split()))


def _list_new_lines(moment: Moment) -> list[str]:
    """Return the lines that were new, without icons read as letters and without the title."""
    title = _keep_letters(_get_title(moment))[:TITLE_LETTERS]
    lines = (" ".join(line.split()) for line in moment.new_text.splitlines())
    return [
        _shorten_line(line)
        for line in dict.fromkeys(lines)
        if len((letters := _keep_letters(line)).encode()) >= LEAST_LETTERS
        and not (len(title) == TITLE_LETTERS and title in letters)
    ]


def _keep_letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _shorten_line(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"

"""Search what was recorded of the screen, for `memory_recall`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Final, Protocol

from taskmem_hookspecs import Clock, Recollection
from taskmem_recall.match_confidence import weigh_words
from taskmem_recall.query_words import extract_words, join_neighbours
from taskmem_recall.recording_store import RecordingStore
from taskmem_recall.screen_matches import (
    Match,
    build_recollection,
    drop_covered,
    extend_match,
    group_matches,
    measure_coverage,
    rank_matches,
)

SEARCHED: Final = 200
"""Moments that one question looks at, the best by text."""
COMPARED: Final = 12
"""Matches whose words are counted, the best by text."""


class RecordingLoop(Protocol):
    """What records the screen."""

    async def run(self) -> None:
        """Record whenever it is switched on, until cancelled."""
        ...

    def activity(self) -> str | None:
        """Return what it does, in one line; None: it is off."""
        ...


class ScreenHistory:
    """A source of everything recorded of the screen, with the recorder in the background."""

    def __init__(self, store: RecordingStore, clock: Clock, recorder: RecordingLoop) -> None:
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
        said = list[str]()
        if self._recorder.activity() is None:
            said.append(
                "The screen is not recorded; the user can switch that on with: taskmem record on."
            )
        if damaged := self._store.find_damaged():
            said.append(
                "What the screen showed before is not found, since its database was damaged and "
                f"set aside as {', '.join(damaged)}."
            )
        return " ".join(said) or None

    def recall(self, query: str, limit: int, recency_bias: float) -> Sequence[Recollection]:
        """Return at most `limit` matches, best first; see `RecallSource`."""
        return search_screen(self._store, self._clock.now(), query, limit, recency_bias)


def search_screen(
    store: RecordingStore, now: datetime, query: str, limit: int, recency_bias: float
) -> list[Recollection]:
    """Return at most `limit` matches of a question, best first; `recency_bias` is from 0 to 1."""
    words = extract_words(query)
    total, counted = store.count_moments([*words, *join_neighbours(words)])
    found = store.search(counted, SEARCHED)
    if not found:
        return []
    counts = {word: counted[word] for word in words}
    weights = weigh_words(counts, total)
    matches = group_matches(found)[: max(COMPARED, limit)]
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

"""Rank matches of a question, and say how sure each is. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

_T = TypeVar("_T")

_MOST_LEAD: Final = 0.5
"""Greatest value of a lead, either way: a strength of 1.65 times the other's."""
_LEAD_ALONE: Final = 0.2
"""Lead of a match where nothing else matches at all."""


@dataclass(frozen=True, slots=True)
class ConfidenceModel:
    """Constants of the confidence, each fitted to labelled questions."""

    base: float
    coverage: float
    lead: float

    def estimate(self, coverage: float, strength: float, best_other: float) -> float:
        """Return how likely a match is what was asked for, from 0 to 1.

        It is high for a match that has most words of the question and is clearly better than all
        others: a logistic function of both.

        Args:
            coverage: Share of the question's words that it has, by how rare they are.
            strength: What it is ranked by; 0: it has no word as the user wrote it.
            best_other: The greatest strength of all others; 0: there is no other.
        """
        lead = _LEAD_ALONE
        if best_other:
            most = math.exp(_MOST_LEAD)
            lead = math.log(min(max(strength / best_other, 1 / most), most))
        return 1 / (1 + math.exp(-(self.base + self.coverage * coverage + self.lead * lead)))


def rank_by_strength(
    matches: Iterable[tuple[_T, float, float]], model: ConfidenceModel
) -> list[tuple[_T, float]]:
    """Return matches with their confidence, strongest first; it never rises from one to the next.

    Args:
        matches: Each with its coverage and its strength, as in `ConfidenceModel.estimate`.
        model: What the confidence is estimated by.
    """
    strongest = sorted(matches, key=lambda item: item[2], reverse=True)
    best, second = ([item[2] for item in strongest] + [0.0, 0.0])[:2]
    ranked: list[tuple[_T, float]] = []
    confidence = 1.0
    for match, coverage, strength in strongest:
        other = best if ranked else second
        confidence = min(confidence, model.estimate(coverage, strength, other))
        ranked.append((match, confidence))
    return ranked

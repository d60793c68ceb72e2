"""Put outcomes together to the figures of a condition, and to the report."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, quantiles
from typing import Final, NamedTuple

from taskmem_resumebench.interrupted_run import Outcome

DECIMALS: Final = 4


class Figures(NamedTuple):
    """The figures of one condition; None: nothing to measure it by."""

    tasks: int
    interruptions: int
    success: float
    """Tasks that were ended, and of which everything was there once, and nothing else."""
    step_accuracy: float
    """Needed effects that were there exactly once."""
    resume_rate: float | None
    """Interruptions after which nothing was made again or revived, until the next or the end."""
    redo_ratio: float
    """Calls that had their effect, for each that was needed."""
    looks: float
    """How often an agent looked whether a call had its effect, in a task."""
    duplicated_effects: int
    revived_steps: int
    false_wakes: int | None
    """None: no daemon had to do with it."""
    daemon_kills: int
    packet_bytes: float | None
    """Of what the agent is told; the 95th percentile."""


def compute_figures(
    outcomes: Sequence[Outcome], false_wakes: int | None, daemon_kills: int
) -> Figures:
    """Return the figures of a condition."""
    judged = [each.judgement for each in outcomes]
    needed = sum(each.needed for each in judged)
    cuts = sum(each.interruptions for each in outcomes)
    sizes = [size for each in outcomes for size in each.memory_bytes]
    return Figures(
        tasks=len(outcomes),
        interruptions=cuts,
        success=round(mean(each.success for each in outcomes), DECIMALS),
        step_accuracy=round(sum(each.right for each in judged) / needed, DECIMALS),
        resume_rate=round(sum(each.resumed for each in outcomes) / cuts, DECIMALS)
        if cuts
        else None,
        redo_ratio=round(sum(each.performed for each in judged) / needed, DECIMALS),
        looks=round(mean(each.looks for each in outcomes), DECIMALS),
        duplicated_effects=sum(each.duplicated for each in judged),
        revived_steps=sum(each.revived for each in judged),
        false_wakes=false_wakes,
        daemon_kills=daemon_kills,
        packet_bytes=find_percentile(sizes, 95),
    )


def find_percentile(values: Sequence[float], percent: int) -> float | None:
    """Return a percentile of some values; None: there are none."""
    if len(values) < 2:  # noqa: PLR2004 - quantiles needs two
        return values[0] if values else None
    return round(quantiles(values, n=100, method="inclusive")[percent - 1], 3)

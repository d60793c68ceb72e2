"""Put outcomes together to the figures of a condition, and to the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median, quantiles
from typing import Final, NamedTuple

from pydantic import JsonValue

from taskmem_resumebench.interrupted_run import Outcome

DECIMALS: Final = 4


class Figures(NamedTuple):
    """The figures of one condition; None: nothing to measure it by."""

    success: float
    """Tasks of which everything was there once at the end, and nothing else."""
    step_accuracy: float
    """Needed effects that were there exactly once."""
    resume_rate: float | None
    """Interruptions after which nothing was made again or revived, until the next."""
    redo_ratio: float
    """Calls that had their effect, for each that was needed."""
    duplicated_effects: int
    revived_steps: int
    false_wakes: int
    recovery_seconds: float | None
    """From the start of a daemon after SIGKILL to what its agent is told; the median."""
    packet_bytes: float | None
    """Of what the agent is told; the 95th percentile."""


class ConditionRun(NamedTuple):
    """Everything that was seen of one condition."""

    outcomes: Sequence[Outcome]
    recovery_seconds: Sequence[float] = ()
    false_wakes: int = 0


def compute_figures(run: ConditionRun) -> Figures:
    """Return the figures of a condition."""
    judged = [each.judgement for each in run.outcomes]
    needed = sum(each.needed for each in judged)
    cuts = sum(each.interruptions for each in run.outcomes)
    sizes = [size for each in run.outcomes for size in each.memory_bytes]
    return Figures(
        success=round(mean(each.success for each in judged), DECIMALS),
        step_accuracy=round(sum(each.right for each in judged) / needed, DECIMALS),
        resume_rate=round(sum(each.resumed for each in run.outcomes) / cuts, DECIMALS)
        if cuts
        else None,
        redo_ratio=round(sum(each.performed for each in judged) / needed, DECIMALS),
        duplicated_effects=sum(each.duplicated for each in judged),
        revived_steps=sum(each.revived for each in judged),
        false_wakes=run.false_wakes,
        recovery_seconds=round(median(run.recovery_seconds), 3) if run.recovery_seconds else None,
        packet_bytes=find_percentile(sizes, 95),
    )


def find_percentile(values: Sequence[float], percent: int) -> float | None:
    """Return a percentile of some values; None: there are none."""
    if len(values) < 2:  # noqa: PLR2004 - quantiles needs two
        return values[0] if values else None
    return round(quantiles(values, n=100, method="inclusive")[percent - 1], 3)


def build_report(
    seed: int, conditions: Mapping[str, Figures], s3: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the report as JSON."""
    return {
        "seed": seed,
        "conditions": {name: dict(found._asdict()) for name, found in conditions.items()},
        "s3": dict(s3),
    }

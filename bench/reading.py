"""Free English, judged by a reader that errs in one question of twenty."""

from __future__ import annotations

from collections.abc import Iterator

from figures import Figure, amount

SEEDS = 3


def read_conditions() -> Iterator[Figure | str]:
    """Judge free English over recorded outputs by a reader that is right in 95 %."""
    from tests.plugins.vision.read_aloud import play

    for name, errors in (("95 % right", 0.05), ("always right", 0.0)):
        found = play(SEEDS, errors)
        right, falsely = found.share("right"), found.share("falsely")
        yield amount(f"a reader {name}: not right", [100 * (1 - right)], "%", 20)
        yield amount(f"a reader {name}: falsely", [100 * falsely], "%", 0.5)
        mean = found.mean_questions
        yield amount(f"a reader {name}: questions a wait, mean", [mean], "", 2.5)
        yield amount(f"a reader {name}: delay after the truth", found.delays, "s")
        yield f"A reader {name}: {found}"

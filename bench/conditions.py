"""How well text is judged without a model, on a labelled list of real output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from figures import Figure, amount

sys.path.insert(0, str(Path(__file__).parent.parent))


def judge_conditions() -> Iterator[Figure | str]:
    """Judge both halves of the list; rules were tuned on the first alone."""
    from tests.plugins.terminal.replay import score

    for half, name in (("tuning", "tuned on"), ("held_out", "held out")):
        found = score(half)
        shares = {
            verdict: 100 * found.share(verdict)
            for verdict in ("right", "falsely", "unsure", "missed")
        }
        yield amount(f"conditions, {name}: not right", [100 - shares["right"]], "%", 25)
        yield amount(f"conditions, {name}: falsely", [shares["falsely"]], "%", 1)
        yield f"Conditions, {name}: {found}"

"""Histories that have broken an invariant, each shortened to the operations that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

FOUND: Final[Mapping[int, Sequence[tuple[str, int]]]] = {
    1_800_082: (
        ("register", 3691466200),
        ("wait", 2261961873),
        ("register", 2997060708),
        ("turn_goes_on", 3771223175),
        ("gateway_changes", 3576572914),
        ("clock_jumps", 3959405956),
        ("update", 2111649550),
        ("refine_wait", 2005950432),
        ("something_is_due", 2307862648),
        ("update", 680324466),
        ("register", 140874857),
        ("dies", 1055750368),
        ("register", 1925967779),
        ("register", 1006952333),
        ("hand_around", 2720271158),
        ("store_fails", 3490757080),
        ("turn_goes_on", 357648965),
        ("something_is_due", 1006167800),
        ("clock_jumps", 3657591191),
    ),
    2_000_070: (
        ("register", 1547173007),
        ("something_is_due", 125264046),
        ("target_shows", 3947214840),
        ("clock_jumps", 3278134841),
        ("refine_wait", 553825772),
        ("something_is_due", 2193082097),
        ("register", 3478847842),
        ("clock_jumps", 1997601809),
    ),
    3_000_359: (
        ("gateway_connects", 1204816130),
        ("dies", 2586002830),
        ("ask_reader", 3956929108),
        ("update", 1206667358),
        ("register", 4242479951),
        ("hand_around", 3822601038),
    ),
}
"""By seed: the operations, each with its own."""

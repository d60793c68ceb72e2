"""Histories that have broken an invariant, each shortened to the operations that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

FOUND: Final[Mapping[int, Sequence[tuple[str, int]]]] = {
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
    3_000_652: (
        ("gateway_connects", 3070728043),
        ("register", 759234097),
        ("register", 1297274127),
        ("something_is_due", 2478294019),
        ("wait", 2911255766),
        ("turn_goes_on", 3728289556),
        ("register", 1494917929),
        ("something_is_due", 1511313819),
        ("register", 2039725178),
        ("gateway_changes", 3573196519),
        ("target_shows", 1429505837),
        ("long_time_passes", 3327773499),
        ("register", 1482887487),
        ("register", 594451685),
        ("refine_wait", 4196342436),
        ("update", 2455199510),
        ("dies", 2896382842),
        ("turn_goes_on", 1061234645),
        ("worker_ends", 644332939),
        ("wait", 2616087841),
        ("clock_jumps", 234486947),
        ("look", 3575775853),
        ("register", 1487034667),
        ("update", 4023046029),
    ),
    13_000_049: (
        ("gateway_connects", 3219736446),
        ("clock_jumps", 583463692),
        ("turn_goes_on", 1605264289),
        ("turn_goes_on", 198690573),
        ("ask_reader", 3059506080),
        ("clock_jumps", 3942633226),
    ),
    13_000_084: (
        ("register", 1496393231),
        ("wait", 3181535859),
        ("something_is_due", 890696963),
        ("clock_jumps", 472930961),
        ("refine_wait", 2478272814),
    ),
    13_001_404: (
        ("gateway_changes", 2346967127),
        ("update", 2538961317),
        ("register", 3376898195),
        ("register", 3520375860),
        ("turn_goes_on", 684255982),
        ("turn_goes_on", 2555168980),
        ("register", 2435696201),
        ("time_passes", 3042505836),
        ("time_passes", 4233491043),
        ("hand_around", 892908204),
        ("clock_jumps", 2082133000),
        ("agent_meets_what_is_due", 3758463554),
    ),
}
"""By seed: the operations, each with its own."""

"""From when what has ended goes, by its age and for want of room."""

from __future__ import annotations

from datetime import timedelta

import pytest

from openclaw_taskmem.domain import retention
from openclaw_taskmem.domain.policies import KeepPolicy
from openclaw_taskmem.domain.retention import KEPT_AT_LEAST
from openclaw_taskmem.domain.text.texts import MIB
from taskmem_hookspecs.testing import DAWN

POLICY = KeepPolicy(days=90, most_bytes=10 * MIB)


def test_what_ended_before_the_days_goes() -> None:
    assert retention.find_age_cutoff(DAWN, POLICY) == DAWN - timedelta(days=90)


def test_nothing_goes_within_an_hour_whatever_the_setting() -> None:
    soon = POLICY.model_copy(update={"days": 0.001})
    assert retention.find_age_cutoff(DAWN, soon) == DAWN - KEPT_AT_LEAST


@pytest.mark.parametrize(("taken", "cut"), [(10 * MIB, None), (10 * MIB + 1, DAWN - KEPT_AT_LEAST)])
def test_room_is_made_only_where_too_much_is_taken(taken: int, cut: object) -> None:
    assert retention.find_size_cutoff(DAWN, taken, POLICY) == cut


def test_what_was_dropped_is_counted_by_kind() -> None:
    said = retention.describe_dropped({"events": 1200, "wakes": 1})
    assert said == "1 wake, 1200 events"

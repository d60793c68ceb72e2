"""Failed tries: the rest that an error asks for."""

from __future__ import annotations

import math

import pytest

from openclaw_taskmem.domain.policies import read_retry_after
from taskmem_hookspecs import JudgeUnavailable, WakeUndelivered


@pytest.mark.parametrize("error", [JudgeUnavailable, WakeUndelivered])
@pytest.mark.parametrize("seconds", [0, 0.5, 60, 1e300])
def test_a_number_of_seconds_is_what_is_asked_for(
    error: type[JudgeUnavailable], seconds: float
) -> None:
    assert read_retry_after(error("later", seconds)) == seconds


@pytest.mark.parametrize(
    "nonsense",
    [None, math.inf, -math.inf, math.nan, -1, 10**400, "60", [60], 1j, object()],
    ids=["None", "inf", "-inf", "nan", "-1", "10**400", "text", "list", "1j", "object"],
)
def test_what_is_no_number_of_seconds_asks_for_nothing(nonsense: float) -> None:
    assert read_retry_after(JudgeUnavailable("later", nonsense)) is None


def test_an_error_that_was_not_made_whole_asks_for_nothing() -> None:
    class Bare(JudgeUnavailable):
        def __init__(self) -> None:
            """Leave out what it is to say."""

    assert read_retry_after(Bare()) is None

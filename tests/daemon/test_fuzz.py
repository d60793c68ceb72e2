"""Whatever is sent is answered, and nothing of it surprises the daemon."""

from __future__ import annotations

from tests.support.fuzz import send_fuzz

CALLS = 2000
"""The long form, by hand: 20,000 calls of each of ten seeds."""
SEED = 3


def test_calls_of_any_shape_are_answered_without_a_traceback(start):
    daemon = start()

    send_fuzz(daemon, SEED, CALLS)

    assert daemon.stop() == 0
    assert "Traceback" not in daemon.log.text

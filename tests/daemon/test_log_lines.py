"""What the daemon's log writes of a text that others chose."""

from __future__ import annotations

import logging
import sys

import pytest

from openclaw_taskmem.daemon.run import LogLines

FORGED = "agent:x\r\n2026-01-01 INFO forged\x1b[2J\x9b\u202e\u2028\x85\x0b\0 \ud800"


def _fail(text: str) -> None:
    raise ValueError(text)


def written(text: str, *, raised: bool = False) -> str:
    """Return what the log says of a text, in a message or in an exception."""
    about = None
    if raised:
        try:
            _fail(text)
        except ValueError:
            about = sys.exc_info()
    record = logging.LogRecord("n", logging.INFO, "p", 1, "%s", (text,), about)
    return LogLines("INFO %(message)s").format(record)


def test_a_message_is_one_line_that_steers_no_terminal() -> None:
    line = written(FORGED)

    assert line.isprintable()
    assert "\\u000d\\u000a2026-01-01 INFO forged\\u001b[2J" in line


def test_only_records_begin_a_line_of_the_log() -> None:
    first, *trace = written(FORGED, raised=True).split("\n")

    assert first.startswith("INFO ")
    assert len(trace) > 2
    assert all(line.startswith("  ") and line.isprintable() for line in trace)


@pytest.mark.parametrize("raised", [True, False])
def test_no_credential_is_written_to_the_log(*, raised: bool) -> None:
    assert "hunter22" not in written("password=hunter22", raised=raised)

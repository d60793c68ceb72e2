"""What the daemon's log writes of a text that others chose, and how long it grows."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest

from openclaw_taskmem.daemon import logfile
from openclaw_taskmem.daemon.logfile import LogLines, RepeatLimit, rotate_log

FORGED = "agent:x\r\n2026-01-01 INFO forged\x1b[2J\x9b\u202e\u2028\x85\x0b\0 \ud800"


def _fail(text: str) -> None:
    raise ValueError(text)


def format_logged(text: str, *, raised: bool = False) -> str:
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
    line = format_logged(FORGED)

    assert line.isprintable()
    assert "\\u000d\\u000a2026-01-01 INFO forged\\u001b[2J" in line


def test_only_records_begin_a_line_of_the_log() -> None:
    first, *trace = format_logged(FORGED, raised=True).split("\n")

    assert first.startswith("INFO ")
    assert len(trace) > 2
    assert all(line.startswith("  ") and line.isprintable() for line in trace)


@pytest.mark.parametrize("raised", [True, False])
def test_no_credential_is_written_to_the_log(*, raised: bool) -> None:
    assert "hunter22" not in format_logged("password=hunter22", raised=raised)


def let_through(limit: RepeatLimit, text: str, at: float) -> str | None:
    """Return what a limit makes of a message at an instant; None: it is left out."""
    record = logging.LogRecord("n", logging.ERROR, "p", 1, "%s", (text,), None)
    record.created = at
    return record.getMessage() if limit.filter(record) else None


def test_what_is_said_over_and_over_is_counted() -> None:
    limit = RepeatLimit()

    within = [let_through(limit, "no descriptor", n / 100) for n in range(1000)]
    later = let_through(limit, "no descriptor", 61.0)

    said = [line for line in within if line]
    assert len(said) == logfile.MOST_REPEATS
    assert "counted only" in said[-1]
    assert later == "no descriptor (and 990 times before)"
    assert let_through(limit, "another thing", 5.0) == "another thing"


def test_the_limit_of_repeats_keeps_few_messages_in_memory() -> None:
    limit = RepeatLimit()

    for n in range(5000):
        assert let_through(limit, f"task {n}", 1.0)

    assert sys.getsizeof(vars(limit)["_repeats"]) < 20_000


@pytest.fixture
def stream(tmp_path: Path):
    """A log of the largest size, and a descriptor that writes to it."""
    path = tmp_path / "daemon.log"
    path.write_bytes(b"x" * logfile.LARGEST_BYTES)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    yield path, descriptor
    os.close(descriptor)


def test_a_log_that_has_grown_large_is_put_aside(stream: tuple[Path, int]) -> None:
    path, descriptor = stream

    rotate_log(path, (descriptor,))
    os.write(descriptor, b"new\n")
    rotate_log(path, (descriptor,))

    assert path.read_bytes() == b"new\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.with_name("daemon.log.1").stat().st_size == logfile.LARGEST_BYTES
    assert len([*path.parent.iterdir()]) == 2


def test_a_log_that_was_removed_is_begun_anew(stream: tuple[Path, int]) -> None:
    path, descriptor = stream
    path.unlink()

    rotate_log(path, (descriptor,))
    os.write(descriptor, b"new\n")

    assert path.read_bytes() == b"new\n"
    assert [*path.parent.iterdir()] == [path]


def test_a_log_that_is_not_the_homes_is_left_alone(stream: tuple[Path, int]) -> None:
    path, descriptor = stream
    other = path.with_name("other.log")

    rotate_log(other, (descriptor,))

    assert [*path.parent.iterdir()] == [path]

"""Who carries a wake, and where anybody reads what is printed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from openclaw_taskmem.daemon.wake_routes import is_output_read
from openclaw_taskmem.domain.callers import choose_transports


@pytest.mark.parametrize(
    ("named", "is_read", "chosen"),
    [
        (["stdout"], True, ["stdout"]),
        (["stdout"], False, ["auto"]),
        (["stdout", "openclaw"], False, ["openclaw"]),
        (["auto"], False, ["auto"]),
        (["openclaw-cli"], False, ["openclaw-cli"]),
    ],
)
def test_wakes_are_printed_only_where_somebody_reads(named, is_read, chosen):
    names, why = choose_transports(named, is_read=is_read)
    assert [*names] == chosen
    assert (why is None) is (chosen == named)


def test_a_terminal_and_a_pipe_are_read():
    ends = (*os.pipe(), *os.openpty())
    try:
        assert is_output_read({}, ends[1])
        assert is_output_read({}, ends[3])
    finally:
        for end in ends:
            os.close(end)


def test_files_logs_and_nothing_are_read_by_nobody(tmp_path):
    with (tmp_path / "daemon.log").open("w") as log:
        assert not is_output_read({}, log.fileno())
        closed = log.fileno()
    assert not is_output_read({}, closed)
    with Path(os.devnull).open("w") as nothing:
        assert not is_output_read({}, nothing.fileno())


def test_the_journal_is_a_log():
    with socket.socket(socket.AF_UNIX) as output:
        found = os.fstat(output.fileno())
        journal = f"{found.st_dev}:{found.st_ino}"
        assert is_output_read({}, output.fileno())
        assert not is_output_read({"JOURNAL_STREAM": journal}, output.fileno())

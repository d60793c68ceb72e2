import os
from datetime import UTC, datetime

import pytest

from taskmem_evidence.files import SECOND, TICK, is_made_since, is_marker, read_stamps

SINCE = datetime(2026, 1, 2, 3, 4, 5, 500_000, UTC)
AT = int(SINCE.timestamp() * 1000) * 1_000_000


def is_made(changed):
    return is_made_since(changed, SINCE)


def test_what_was_changed_since_counts_and_nothing_else():
    assert is_made(AT + 1)
    assert not is_made(AT - 60 * SECOND)


def test_file_stamp_may_lie_one_kernel_tick_before_the_start():
    assert is_made(AT - TICK)
    assert not is_made(AT - TICK - 1)


def test_where_stamps_are_whole_seconds_the_whole_second_counts():
    second = AT - AT % SECOND
    assert is_made(second)
    assert not is_made(second - SECOND)
    assert not is_made(second + 1)


@pytest.mark.parametrize(
    "name", ["__init__.py", "py.typed", ".gitkeep", "_SUCCESS", "done", ".done", "job-7.ok"]
)
def test_files_of_some_names_are_empty_by_convention(name):
    assert is_marker(name)


@pytest.mark.parametrize("name", ["main.py", "notdone", "done.txt", "ok.json", "", "."])
def test_a_file_of_another_name_is_not(name):
    assert not is_marker(name)


def test_another_file_and_another_state_have_other_stamps(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"x")
    two.write_bytes(b"x")
    before = read_stamps(one.stat())
    assert before != read_stamps(two.stat())
    assert before == read_stamps(one.stat())
    os.utime(one, ns=(1, before.written + 1))
    assert before != read_stamps(one.stat())

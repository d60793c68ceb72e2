import os
from datetime import UTC, datetime, timedelta

import pytest

from taskmem_evidence.files import (
    SECOND,
    TICK,
    FileStamps,
    is_made_since,
    read_stamps,
)
from taskmem_hookspecs import birth_times
from taskmem_hookspecs.birth_times import read_birth_time
from tests.plugins.evidence.claims import knows_births

SINCE = datetime(2026, 1, 2, 3, 4, 5, 500_000, UTC)
AT = int(SINCE.timestamp() * 1000) * 1_000_000
OLD = AT - 60 * SECOND
NEW = AT + 60 * SECOND + 1
AHEAD = AT + 7200 * SECOND


def is_made(written, changed, born=None):
    seen = FileStamps(device=1, inode=2, size=3, written=written, changed=changed)
    return is_made_since(seen, born, SINCE)


@pytest.mark.parametrize("birth", [None, OLD, NEW])
def test_what_was_written_since_counts_whatever_its_birth(birth):
    assert is_made(NEW, NEW, birth)
    assert is_made(NEW - 1, NEW, birth)


def test_what_was_born_since_counts_whatever_its_content_says():
    assert is_made(OLD, NEW, NEW)
    assert is_made(AHEAD, NEW, NEW)
    assert is_made(0, NEW, AT)


@pytest.mark.parametrize("birth", [None, OLD])
def test_renaming_or_chmod_of_an_old_file_does_not_make_it_new(birth):
    assert not is_made(OLD, NEW, birth)


@pytest.mark.parametrize("written", [OLD, NEW, AHEAD])
def test_nothing_counts_that_was_not_changed_since(written):
    assert not is_made(written, OLD, None)
    assert not is_made(written, OLD, NEW)


@pytest.mark.parametrize("birth", [None, OLD])
def test_file_time_ahead_of_its_change_time_does_not_count(birth):
    assert not is_made(AHEAD, NEW, birth)


def test_file_stamp_may_lie_one_kernel_tick_before_the_start():
    assert is_made(AT - TICK, AT - TICK)
    assert not is_made(AT - TICK - 1, AT - TICK - 1)
    assert not is_made(AT - TICK - 1, AT, AT - TICK - 1)


def test_where_stamps_are_whole_seconds_the_whole_second_counts():
    second = AT - AT % SECOND
    assert is_made(second, second)
    assert not is_made(second - SECOND, second - SECOND)
    assert not is_made(second - SECOND, second + SECOND)


def test_whole_second_set_by_hand_is_no_coarse_file_system():
    second = AT - AT % SECOND
    assert not is_made(second, NEW)


def test_a_file_was_born_when_it_was_made(tmp_path):
    if not knows_births(tmp_path):
        pytest.skip("the file system here knows no births")
    path = tmp_path / "file"
    before = datetime.now(UTC) - timedelta(seconds=1)
    path.write_bytes(b"x")
    os.utime(path, (1, 1))
    handle = os.open(path, os.O_RDONLY)
    at = read_birth_time(handle)
    os.close(handle)
    assert before.timestamp() <= at / SECOND <= datetime.now(UTC).timestamp()


def test_a_birth_that_nobody_knows_is_none():
    assert read_birth_time(-1) is None


def test_an_overlay_knows_no_births(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    handle = os.open(path, os.O_RDONLY)
    monkeypatch.setattr(birth_times, "_is_overlay", lambda system, handle: True)
    assert read_birth_time(handle) is None
    os.close(handle)


def test_another_file_and_another_state_have_other_stamps(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"x")
    two.write_bytes(b"x")
    before = read_stamps(one.stat())
    assert before != read_stamps(two.stat())
    assert before == read_stamps(one.stat())
    os.utime(one, ns=(1, before.written + 1))
    assert before != read_stamps(one.stat())

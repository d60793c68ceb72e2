import os
from datetime import UTC, datetime, timedelta

import pytest

from taskmem_evidence import stamps as module
from taskmem_evidence.stamps import SECOND, TICK, Stamps, born, made_since, stamps
from tests.plugins.evidence.claims import knows_births

SINCE = datetime(2026, 1, 2, 3, 4, 5, 500_000, UTC)
AT = int(SINCE.timestamp() * 1000) * 1_000_000
OLD = AT - 60 * SECOND
NEW = AT + 60 * SECOND + 1
AHEAD = AT + 7200 * SECOND


def made(written, changed, born=None):
    seen = Stamps(device=1, inode=2, size=3, written=written, changed=changed)
    return made_since(seen, born, SINCE)


@pytest.mark.parametrize("birth", [None, OLD, NEW])
def test_what_was_written_since_counts_whatever_its_birth(birth):
    assert made(NEW, NEW, birth)
    assert made(NEW - 1, NEW, birth)


def test_what_was_born_since_counts_whatever_its_content_says():
    assert made(OLD, NEW, NEW)
    assert made(AHEAD, NEW, NEW)
    assert made(0, NEW, AT)


@pytest.mark.parametrize("birth", [None, OLD])
def test_an_old_file_that_was_only_renamed_or_changed_in_mode_does_not_count(birth):
    assert not made(OLD, NEW, birth)


@pytest.mark.parametrize("written", [OLD, NEW, AHEAD])
def test_nothing_counts_that_was_not_changed_since(written):
    assert not made(written, OLD, None)
    assert not made(written, OLD, NEW)


@pytest.mark.parametrize("birth", [None, OLD])
def test_an_instant_ahead_of_the_change_was_set_by_hand_and_does_not_count(birth):
    assert not made(AHEAD, NEW, birth)


def test_a_stamp_may_lie_one_tick_of_the_kernel_before_its_instant():
    assert made(AT - TICK, AT - TICK)
    assert not made(AT - TICK - 1, AT - TICK - 1)
    assert not made(AT - TICK - 1, AT, AT - TICK - 1)


def test_where_stamps_are_whole_seconds_the_whole_second_counts():
    second = AT - AT % SECOND
    assert made(second, second)
    assert not made(second - SECOND, second - SECOND)
    assert not made(second - SECOND, second + SECOND)


def test_a_whole_second_that_somebody_set_is_no_sign_of_a_coarse_file_system():
    second = AT - AT % SECOND
    assert not made(second, NEW)


def test_a_file_was_born_when_it_was_made(tmp_path):
    if not knows_births(tmp_path):
        pytest.skip("the file system here knows no births")
    path = tmp_path / "file"
    before = datetime.now(UTC) - timedelta(seconds=1)
    path.write_bytes(b"x")
    os.utime(path, (1, 1))
    handle = os.open(path, os.O_RDONLY)
    at = born(handle)
    os.close(handle)
    assert before.timestamp() <= at / SECOND <= datetime.now(UTC).timestamp()


def test_a_birth_that_nobody_knows_is_none():
    assert born(-1) is None


def test_an_overlay_knows_no_births(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    handle = os.open(path, os.O_RDONLY)
    monkeypatch.setattr(module, "_is_overlay", lambda system, handle: True)
    assert born(handle) is None
    os.close(handle)


def test_another_file_and_another_state_have_other_stamps(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"x")
    two.write_bytes(b"x")
    before = stamps(one.stat())
    assert before != stamps(two.stat())
    assert before == stamps(one.stat())
    os.utime(one, ns=(1, before.written + 1))
    assert before != stamps(one.stat())

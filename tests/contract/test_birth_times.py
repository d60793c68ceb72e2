"""When files came to be, as far as a file system knows."""

import os
from datetime import UTC, datetime, timedelta

from taskmem_hookspecs import birth_times
from taskmem_hookspecs.birth_times import read_birth_time
from tests.support.required import do_without


def read_birth(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        return read_birth_time(handle)
    finally:
        os.close(handle)


def test_a_file_was_born_when_it_was_made(tmp_path):
    path = tmp_path / "file"
    before = datetime.now(UTC) - timedelta(seconds=1)
    path.write_bytes(b"x")
    os.utime(path, (1, 1))
    at = read_birth(path)
    if at is None or at < 2_000_000_000:  # an old written time moves a birth on some systems
        do_without("The file system of the temporary folder knows no births.")
    assert before.timestamp() <= at / 1_000_000_000 <= datetime.now(UTC).timestamp()


def test_a_birth_that_nobody_knows_is_none():
    assert read_birth_time(-1) is None


def test_an_overlay_knows_no_births(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    monkeypatch.setattr(birth_times, "_is_overlay", lambda system, handle: True)
    assert read_birth(path) is None

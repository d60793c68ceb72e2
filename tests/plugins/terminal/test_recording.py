import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_terminal import recording
from taskmem_terminal.recording import (
    LAG_SECONDS,
    NameTaken,
    ReadProgress,
    Recorder,
    Recording,
    Segments,
    build_metadata,
    is_recording_name,
    list_recordings,
    prune_recordings,
)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "terminals"


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(recording, "SEGMENT_BYTES", 10)
    monkeypatch.setattr(recording, "KEPT_SEGMENTS", 3)


def record(root, name="job", *, ended=True, data=b""):
    recorder = Recorder.claim(root, name, build_metadata(["make"]))
    recorder.write(data)
    if ended:
        recorder.end(0)
        recorder.close()
    return recorder


@given(st.lists(st.binary(max_size=35), max_size=12), st.integers(0, 400))
def test_what_is_read_is_what_was_written_as_far_as_it_is_kept(tmp_path_factory, pieces, at):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "SEGMENT_BYTES", 10)
        patch.setattr(recording, "KEPT_SEGMENTS", 3)
        root = tmp_path_factory.mktemp("terminals")
        recorder = Recorder.claim(root, "job", build_metadata(["make"]))
        for piece in pieces:
            recorder.write(piece)
        recorder.close()
        whole = b"".join(pieces)
        kept = Segments(root / "job")
        assert kept.end == len(whole)
        assert kept.end - kept.begin <= 30
        assert kept.begin == max(0, -(-len(whole) // 10) * 10 - 30)
        at = max(at % (len(whole) + 1), kept.begin)
        assert kept.read(at, 1000) == whole[at:]
        assert kept.read(at, 7) == whole[at : at + 7]


def test_a_reader_sees_the_recording_as_it_stood(root, small):
    recorder = record(root, ended=False, data=b"0123456789ab")
    kept = Segments(root / "job")
    recorder.write(b"cdef")
    assert kept.read(8, 100) == b"89ab"
    recorder.close()


def test_a_recorder_waits_for_waits_that_still_read(root, small):
    recorder = record(root, ended=False, data=b"x" * 20)
    assert not recorder.is_ahead(0)
    progress = ReadProgress(root / "job")
    assert recorder.is_ahead(1)
    progress.note_places([11], 20, 1)
    assert not recorder.is_ahead(1)
    recorder.write(b"x" * 9)
    assert recorder.is_ahead(2)
    progress.close()
    assert not recorder.is_ahead(2)
    recorder.close()


def test_a_wait_that_reads_too_slowly_is_waited_for_once(root, small):
    recorder = record(root, ended=False, data=b"x" * 20)
    progress = ReadProgress(root / "job")
    assert recorder.is_ahead(1)
    assert not recorder.is_ahead(1 + LAG_SECONDS)
    recorder.write(b"x" * 10)
    progress.note_places([8], 30, 10)
    assert not recorder.is_ahead(10)
    progress.note_places([30], 30, 11)
    assert not recorder.is_ahead(11)
    recorder.write(b"x" * 20)
    assert recorder.is_ahead(11)
    progress.close()
    recorder.close()


def test_a_recorder_that_looks_does_not_hinder_a_watch_to_begin(root, small, monkeypatch):
    recorder = record(root, ended=False, data=b"x" * 20)
    flock = recording.fcntl.flock
    looks = []

    def lock_while_the_recorder_looks(handle, way):
        if way & recording.fcntl.LOCK_EX:
            looks.extend(path.open() for path in (root / "job").glob("reader.*"))
            for look in looks:
                flock(look, recording.fcntl.LOCK_SH)
        flock(handle, way)

    monkeypatch.setattr(recording.fcntl, "flock", lock_while_the_recorder_looks)
    progress = ReadProgress(root / "job")
    for look in looks:
        look.close()
    assert recorder.is_ahead(1)
    progress.close()
    recorder.close()


def test_what_a_killed_daemon_left_is_removed(root, small):
    recorder = record(root, ended=False, data=b"x" * 20)
    left = root / "job" / "reader.killed"
    left.write_text("0")
    assert not recorder.is_ahead(1)
    assert not left.exists()
    left.write_text("0")
    ReadProgress(root / "job").close()
    assert not left.exists()
    recorder.close()


def test_the_slowest_wait_tells_how_far_all_have_read(root, small):
    recorder = record(root, ended=False, data=b"x" * 20)
    progress, others = ReadProgress(root / "job"), ReadProgress(root / "job")
    others.note_places([20], 20, 1)
    progress.note_places([0, 20], 20, 1)
    assert recorder.is_ahead(1)
    progress.note_places([0, 19], 20, 1 + LAG_SECONDS)
    assert not recorder.is_ahead(1), "one is too slow"
    progress.close()
    others.close()
    recorder.close()


@given(
    st.integers(2, 3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 10)), max_size=60),
)
def test_no_wait_loses_what_it_has_not_read(tmp_path_factory, waits, steps):
    """Waits take turns in reading what they can; two of them share a watch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "SEGMENT_BYTES", 10)
        patch.setattr(recording, "KEPT_SEGMENTS", 4)
        root = tmp_path_factory.mktemp("terminals")
        recorder = record(root, ended=False)
        watches = [ReadProgress(root / "job") for _ in range(waits - 1)]
        places = [0] * waits
        for turn, size in steps:
            if not recorder.is_ahead(0):
                recorder.write(b"x" * 10)
            kept = Segments(root / "job")
            assert kept.begin <= min(places)
            wait = turn % waits
            own = [place for each, place in enumerate(places) if (each == 2) is (wait == 2)]
            watches[wait == 2].note_places(own, kept.end, 0)
            places[wait] = min(places[wait] + size, kept.end)
        for each in watches:
            each.close()
        recorder.close()


def test_nobody_else_can_read_a_recording(root):
    record(root, data=b"secret")
    ReadProgress(root / "job").close()
    assert stat.S_IMODE((root / "job").stat().st_mode) == 0o700
    files = list((root / "job").iterdir())
    assert {"about.json", "lock", f"output.{0:020d}"} == {file.name for file in files}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_name_of_a_running_recording_is_taken_until_it_ends(root):
    first = record(root, ended=False, data=b"old")
    with pytest.raises(NameTaken):
        record(root)
    assert Segments(root / "job").read(0, 9) == b"old"
    first.close()
    record(root, data=b"new")
    assert Segments(root / "job").read(0, 9) == b"new"
    assert [name for name, _ in list_recordings(root)] == ["job"]


def test_a_recorder_that_was_killed_is_noticed(root):
    recorder = record(root, ended=False)
    there = Recording(root, "job")
    assert there.is_running()
    recorder.close()  # which is what the system does when a process dies
    assert not there.is_running()
    assert there.read_metadata().ended_at is None


def test_check_for_a_running_recording_does_not_block_a_new_one(root):
    record(root, ended=False).close()
    asked = os.open(root / "job" / "lock", os.O_RDONLY)
    recording.fcntl.flock(asked, recording.fcntl.LOCK_SH)
    record(root, data=b"new")
    os.close(asked)


def test_fed_recording_runs_without_a_recorder_until_it_ends(root):
    recorder = Recorder.claim(root, "fed", build_metadata([], fed=True))
    recorder.write(b"one")
    recorder.close()
    assert Recording(root, "fed").is_running()
    again = Recorder(root / "fed", Recording(root, "fed").read_metadata())
    again.write(b"two")
    again.end(3)
    again.close()
    assert not Recording(root, "fed").is_running()
    assert Segments(root / "fed").read(0, 9) == b"onetwo"


def test_running_recordings_are_named_first(root):
    for name in ("a", "b"):
        record(root, name)
    runs = record(root, "c", ended=False)
    record(root, "d")
    names = [name for name, _ in list_recordings(root)]
    assert names[0] == "c"
    assert set(names) == {"a", "b", "c", "d"}
    runs.close()


def test_prune_removes_excess_and_old_recordings_but_no_live_one(root, monkeypatch):
    monkeypatch.setattr(recording, "KEPT_ENDED", 2)
    runs = record(root, "runs", ended=False, data=b"x")
    for n in range(4):
        record(root, f"ended{n}", data=b"x")
        os.utime(root / f"ended{n}", (n + 1e9, n + 1e9))
    for left in (".new-x", ".old-y"):
        (root / left).mkdir()
    record(root, "ended3", data=b"x")
    os.utime(root / "ended3", (4e9, 4e9))
    names = {name for name, _ in list_recordings(root)}
    assert names == {"runs", "ended2", "ended3"}
    assert not [*root.glob(".new-*"), *root.glob(".old-*")]
    monkeypatch.setattr(recording, "RECORDING_LIFETIME", timedelta(seconds=-5))
    prune_recordings(root)
    assert {name for name, _ in list_recordings(root)} == {"runs"}
    runs.close()


def feed_output(root, name, data, at):
    """Push into a recording of which no end is known, at a second of today."""
    recorder = Recorder.claim(root, name, build_metadata([], fed=True))
    recorder.write(data)
    recorder.close()
    for path in (root / name / f"output.{0:020d}", root / name):
        os.utime(path, (at, at))


@pytest.fixture
def today():
    """An instant of a minute ago, in seconds since 1970."""
    return datetime.now(UTC).timestamp() - 60


def test_of_what_is_pushed_the_oldest_goes_unless_it_is_watched(root, monkeypatch, today):
    monkeypatch.setattr(recording, "KEPT_BYTES", 25)
    for n in range(6):
        feed_output(root, f"fed{n}", b"0123456789", today + n)
    prune_recordings(root)
    assert len(list_recordings(root)) == 6
    prune_recordings(root, {"fed0"})
    assert {name for name, _ in list_recordings(root)} == {"fed0", "fed4", "fed5"}


def test_of_too_many_names_that_are_pushed_the_oldest_go(root, monkeypatch, today):
    monkeypatch.setattr(recording, "KEPT_FED", 2)
    for n in range(4):
        feed_output(root, f"fed{n}", b"x", today + n)
    runs = record(root, "runs", ended=False, data=b"x")
    prune_recordings(root, ())
    assert {name for name, _ in list_recordings(root)} == {"fed2", "fed3", "runs"}
    runs.close()


def test_prune_removes_large_ended_recordings_but_no_live_one(root, monkeypatch, today):
    monkeypatch.setattr(recording, "KEPT_BYTES", 25)
    runs = record(root, "runs", ended=False, data=b"x" * 50)
    for n in range(4):
        record(root, f"ended{n}", data=b"0123456789")
        for path in (root / f"ended{n}" / f"output.{0:020d}", root / f"ended{n}"):
            os.utime(path, (today + n, today + n))
    prune_recordings(root)
    assert {name for name, _ in list_recordings(root)} == {"runs", "ended2", "ended3"}
    runs.close()


def test_stale_fed_recording_ends_when_a_new_recording_begins(root, monkeypatch):
    monkeypatch.setattr(recording, "KEPT_ENDED", 2)
    day = recording.FED_LIFETIME.total_seconds()
    for n in range(6):
        recorder = Recorder.claim(root, f"fed{n}", build_metadata([], fed=True))
        recorder.write(b"x")
        recorder.close()
        if n < 4:
            written = (root / f"fed{n}" / f"output.{0:020d}").stat().st_mtime
            for path in (root / f"fed{n}" / f"output.{0:020d}", root / f"fed{n}"):
                os.utime(path, (written, written - 2 * day + n))
    Recorder.claim(root, "new", build_metadata([], fed=True)).close()
    names = {name for name, _ in list_recordings(root)}
    assert names == {"fed2", "fed3", "fed4", "fed5", "new"}


def test_about_ignores_unknown_fields_and_reports_damage(root):
    record(root)
    about = root / "job" / "about.json"
    said = json.loads(about.read_text())
    about.write_text(json.dumps({**said, "colour": "red"}))
    assert Recording(root, "job").read_metadata().id == said["id"]
    about.write_text("{")
    with pytest.raises(ValueError, match="Expecting"):
        Recording(root, "job").read_metadata()
    assert not Recording(root, "job").is_running()


def test_no_trace_of_the_environment_is_kept(root, monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", "hunter2")
    record(root)
    said = b"".join(p.read_bytes() for p in Path(root).rglob("*") if p.is_file())
    assert b"MY_API_TOKEN" not in said
    assert b"hunter2" not in said


@pytest.mark.parametrize("name", ["a", "build-1.2_x", "A" * 64, "-x"])
def test_a_name_can_be(name):
    assert is_recording_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".doorbell", "a/b", "tmux:a", "A" * 65, "a b", "ä", "a\n"]
)
def test_a_name_cannot_be(name):
    assert not is_recording_name(name)

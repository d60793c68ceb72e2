"""The files of snapshots: who may read them, what replaces them, what removes them."""

from __future__ import annotations

import errno
import io
import os
import stat
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.config import load_settings
from openclaw_taskmem.daemon.snapshots import SnapshotMoment, SnapshotStore
from openclaw_taskmem.home import Home
from taskmem_hookspecs import Wait, WaitStatus
from taskmem_hookspecs.errors import SettingsInvalid
from taskmem_hookspecs.testing import DAWN, a_wait
from tests.support.waiting import until

OLD, NEW = b"\xff\xd8 old", b"\xff\xd8 new"
HOSTILE = ["..", ".", "", "../wait_1", "/etc/wait_1", "a/b", "wait_1\n", "w\0", "é"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pictures"


@pytest.fixture
def snapshot_store(folder: Path) -> SnapshotStore:
    return SnapshotStore(folder, 7)


def an_ended_wait(wait_id: str, ago: timedelta) -> Wait:
    return a_wait(wait_id=wait_id, created_at=DAWN, status=WaitStatus.RESOLVED, ended_at=DAWN - ago)


def read_pictures(snapshot_store: SnapshotStore, wait_id: str) -> dict[str, bytes]:
    found = snapshot_store.find_snapshots(wait_id)
    return {moment.value: each.path.read_bytes() for moment, each in found.items()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- written ------------------------------------------------------------------


def test_a_snapshot_is_where_it_is_said_to_be_and_knows_its_time(
    snapshot_store: SnapshotStore, folder: Path
) -> None:
    taken = DAWN + timedelta(milliseconds=123)
    snapshot_store.write("wait_1", SnapshotMoment.FIRST, OLD, taken)

    (snapshot,) = snapshot_store.find_snapshots("wait_1").values()

    assert snapshot == (folder / "wait_1" / "first.jpg", taken)
    assert snapshot.path.read_bytes() == OLD


def test_nobody_else_can_read_them(snapshot_store: SnapshotStore, folder: Path) -> None:
    before = os.umask(0)
    try:
        snapshot_store.write("wait_1", SnapshotMoment.LAST, OLD, DAWN)
    finally:
        os.umask(before)

    assert mode(folder) == mode(folder / "wait_1") == 0o700
    assert mode(folder / "wait_1" / "last.jpg") == 0o600


def test_an_end_before_it_is_in_place_leaves_the_one_before(
    snapshot_store: SnapshotStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ProcessKilled(BaseException):
        pass

    def die(*_: object) -> None:
        raise ProcessKilled

    snapshot_store.write("wait_1", SnapshotMoment.LAST, OLD, DAWN)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", die)
        with pytest.raises(ProcessKilled):
            snapshot_store.write("wait_1", SnapshotMoment.LAST, NEW, DAWN)
    assert read_pictures(snapshot_store, "wait_1") == {"last": OLD}

    # What a real death leaves half-written is in nobody's way.
    (folder / "wait_1" / ".last.jpg.new").write_bytes(b"half of somethi")
    assert read_pictures(snapshot_store, "wait_1") == {"last": OLD}
    snapshot_store.write("wait_1", SnapshotMoment.LAST, NEW, DAWN)
    assert [path.name for path in (folder / "wait_1").iterdir()] == ["last.jpg"]
    assert read_pictures(snapshot_store, "wait_1") == {"last": NEW}


def test_a_picture_is_on_the_disk_before_it_takes_its_place(
    snapshot_store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    replace = Path.replace

    def note_replace(path: Path, target: Path) -> Path:
        done.append("replaced")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", lambda handle: done.append(os.fstat(handle).st_size))
    monkeypatch.setattr(Path, "replace", note_replace)
    snapshot_store.write("wait_1", SnapshotMoment.LAST, NEW, DAWN)
    assert done == [len(NEW), "replaced"]


def test_full_disk_keeps_old_picture_and_no_partial_file(
    snapshot_store: SnapshotStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            super().write(data[:3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    snapshot_store.write("wait_1", SnapshotMoment.LAST, OLD, DAWN)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", Full)
        with pytest.raises(OSError, match="No space left"):
            snapshot_store.write("wait_1", SnapshotMoment.LAST, NEW, DAWN)

    assert [path.name for path in (folder / "wait_1").iterdir()] == ["last.jpg"]
    assert read_pictures(snapshot_store, "wait_1") == {"last": OLD}


@pytest.mark.parametrize("wait_id", [*HOSTILE, "w" * 101])
def test_an_id_that_could_lead_out_of_the_album_is_refused(tmp_path: Path, wait_id: str) -> None:
    snapshot_store = SnapshotStore(tmp_path / "home" / "pictures", 7)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "first.jpg").write_bytes(OLD)
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(ValueError, match="cannot be the name of a folder"):
        snapshot_store.write(wait_id, SnapshotMoment.FIRST, NEW, DAWN)

    assert snapshot_store.find_snapshots(wait_id) == {}
    assert sorted(tmp_path.rglob("*")) == before


# --- pruned -------------------------------------------------------------------


def test_they_go_when_their_wait_has_ended_long_enough_ago(snapshot_store: SnapshotStore) -> None:
    waits = {
        "wait_old": an_ended_wait("wait_old", timedelta(days=7, seconds=1)),
        "wait_new": an_ended_wait("wait_new", timedelta(days=6, hours=23)),
        "wait_open": a_wait(wait_id="wait_open", created_at=DAWN - timedelta(days=99)),
    }
    for wait_id in (*waits, "wait_gone"):
        snapshot_store.write(wait_id, SnapshotMoment.FIRST, OLD, DAWN - timedelta(days=90))

    snapshot_store.prune(waits.get, DAWN)

    left = [wait_id for wait_id in (*waits, "wait_gone") if snapshot_store.find_snapshots(wait_id)]
    assert left == ["wait_new", "wait_open"]


def test_rearmed_wait_keeps_pictures_of_its_previous_round(snapshot_store: SnapshotStore) -> None:
    again = an_ended_wait("wait_1", timedelta(days=30)).model_copy(
        update={"status": WaitStatus.WATCHING, "ended_at": None, "round": 2}
    )
    snapshot_store.write("wait_1", SnapshotMoment.DECIDING, OLD, DAWN - timedelta(days=30))

    snapshot_store.prune({"wait_1": again}.get, DAWN)

    assert read_pictures(snapshot_store, "wait_1") == {"deciding": OLD}


def test_the_oldest_go_when_all_together_are_too_large(folder: Path) -> None:
    snapshot_store = SnapshotStore(folder, 7, largest=250)
    taken = {"wait_2": 2, "wait_1": 1, "wait_3": 3}
    for wait_id, day in taken.items():
        snapshot_store.write(wait_id, SnapshotMoment.LAST, b"x" * 100, DAWN + timedelta(days=day))

    snapshot_store.prune(lambda wait_id: a_wait(wait_id=wait_id), DAWN)

    assert sorted(path.name for path in folder.iterdir()) == ["wait_2", "wait_3"]


def test_the_largest_album_is_of_256_mib(snapshot_store: SnapshotStore) -> None:
    for number in range(3):
        snapshot_store.write(
            f"wait_{number}", SnapshotMoment.LAST, OLD, DAWN + timedelta(days=number)
        )
        path = snapshot_store.find_snapshots(f"wait_{number}")[SnapshotMoment.LAST].path
        os.truncate(path, 128 * 1024 * 1024)
        os.utime(path, (number, number))

    snapshot_store.prune(lambda wait_id: a_wait(wait_id=wait_id), DAWN)

    assert [n for n in range(3) if snapshot_store.find_snapshots(f"wait_{n}")] == [1, 2]


def test_album_that_keeps_nothing_reads_no_wait_and_is_emptied(
    snapshot_store: SnapshotStore, folder: Path
) -> None:
    def refuse(wait_id: str) -> Wait:
        raise AssertionError(wait_id)

    snapshot_store.write("wait_1", SnapshotMoment.FIRST, OLD, DAWN)
    (folder / "wait_1" / ".last.jpg.new").write_bytes(b"half of somethi")

    SnapshotStore(folder, 0).prune(refuse, DAWN)

    assert list(folder.iterdir()) == []


def test_what_is_not_ours_is_left_alone(snapshot_store: SnapshotStore, folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "first.jpg").write_bytes(OLD)
    snapshot_store.write("wait_1", SnapshotMoment.FIRST, OLD, DAWN)
    (folder / "wait_1" / "mine.jpg").write_bytes(OLD)
    (folder / "wait_2").symlink_to(outside)
    (folder / "first.jpg").write_bytes(OLD)

    snapshot_store.prune(lambda _: None, DAWN)

    left = sorted(str(path.relative_to(folder.parent)) for path in folder.rglob("*.*"))
    assert left == ["pictures/first.jpg", "pictures/wait_1/mine.jpg"]
    assert (outside / "first.jpg").read_bytes() == OLD


def test_an_album_that_is_not_there_is_empty(snapshot_store: SnapshotStore) -> None:
    snapshot_store.prune(lambda _: None, DAWN)
    assert snapshot_store.find_snapshots("wait_1") == {}


def test_a_daemon_prunes_the_album_of_its_home(home: Home, start: Any) -> None:
    home.prepare()
    snapshot_store = SnapshotStore(home.pictures, 7)
    snapshot_store.write("wait_gone", SnapshotMoment.LAST, OLD, DAWN)

    start()

    until(lambda: not (home.pictures / "wait_gone").exists(), "it is removed")


# --- told ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "target", "ago", "why"),
    [
        (7, "pty:build", timedelta(), "A terminal has none."),
        (0, "pty:build", timedelta(), "A terminal has none."),
        (0, "screen", timedelta(), "TASKMEM_PICTURE_DAYS is 0."),
        (0.5, "screen", timedelta(days=1), "They are removed 0.5 days after a wait"),
        (7, "screen", timedelta(), None),
    ],
)
def test_it_is_told_why_there_are_none(
    folder: Path, days: float, target: str, ago: timedelta, why: str | None
) -> None:
    wait = an_ended_wait("wait_1", ago).model_copy(update={"target": target})

    view = SnapshotStore(folder, days).build_view(wait, DAWN)

    assert view["pictures"] == {}
    said = view["pictures_note"]
    assert said is None if why is None else str(said).startswith(why)


def test_what_is_kept_is_told_and_nothing_else(snapshot_store: SnapshotStore, folder: Path) -> None:
    taken: datetime = DAWN + timedelta(milliseconds=5)
    snapshot_store.write("wait_1", SnapshotMoment.LAST, OLD, taken)

    assert snapshot_store.build_view(a_wait(wait_id="wait_1"), DAWN) == {
        "pictures": {
            "last": {
                "path": str(folder / "wait_1" / "last.jpg"),
                "taken_at": "2026-02-16T06:00:00.005Z",
            }
        },
        "pictures_note": None,
    }


# --- the setting --------------------------------------------------------------


@pytest.mark.parametrize(("said", "days"), [("", 7.0), ("0", 0.0), ("0.5", 0.5), ("30", 30.0)])
def test_the_days_are_a_setting(tmp_path: Path, said: str, days: float) -> None:
    environ = {"TASKMEM_HOME": str(tmp_path), "TASKMEM_PICTURE_DAYS": said}
    assert load_settings(environ).picture_days == days


@pytest.mark.parametrize("said", ["-1", "nan", "inf", "a week", "36501"])
def test_days_that_cannot_be_counted_are_refused(tmp_path: Path, said: str) -> None:
    environ = {"TASKMEM_HOME": str(tmp_path), "TASKMEM_PICTURE_DAYS": said}
    with pytest.raises(SettingsInvalid, match="it takes days from 0 to 36,500"):
        load_settings(environ)

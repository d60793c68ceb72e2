"""What a killed back-up left is removed, and never what a running one works in."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from openclaw_taskmem.daemon import startup
from openclaw_taskmem.daemon.home_exchange import RESTORE, open_work_folder, remove_left_folders
from openclaw_taskmem.home import Home


def leave_folder(parent: Path, name: str = "1") -> Path:
    """Make what a process that has ended leaves: a folder that nobody has locked."""
    folder = parent / f"{RESTORE}{name}"
    (folder / "home").mkdir(parents=True)
    (folder / "home" / "taskmem.db").write_text("half")
    return folder


def test_a_work_folder_removes_left_ones_but_no_running_one(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    leave_folder(tmp_path)
    with open_work_folder(tmp_path, RESTORE) as first:
        (first / "copy").write_text("whole")
        with open_work_folder(tmp_path, RESTORE) as second:
            assert {*tmp_path.iterdir()} == {first, second, tmp_path / "mine"}
        assert (first / "copy").read_text() == "whole"
    assert [*tmp_path.iterdir()] == [tmp_path / "mine"]


def test_where_nothing_can_be_locked_left_folders_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    left = leave_folder(tmp_path)
    monkeypatch.setattr(fcntl, "flock", refuse)
    with open_work_folder(tmp_path, RESTORE) as folder:
        assert {*tmp_path.iterdir()} == {left, folder}
    assert [*tmp_path.iterdir()] == [left]


def test_a_work_folder_removed_before_it_is_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, made = fcntl.flock, list[Path]()

    def come_second(handle: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        remove_left_folders(tmp_path, RESTORE)
        made.extend(tmp_path.iterdir())
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", come_second)
    with open_work_folder(tmp_path, RESTORE) as folder:
        assert made == []
        assert [*tmp_path.iterdir()] == [folder]


def test_a_link_in_a_work_folders_place_is_not_followed(tmp_path: Path) -> None:
    kept = leave_folder(tmp_path / "elsewhere")
    (tmp_path / f"{RESTORE}2").symlink_to(kept)
    remove_left_folders(tmp_path, RESTORE)
    assert (kept / "home" / "taskmem.db").exists()


def test_a_daemon_that_starts_removes_what_a_restore_left(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    monkeypatch.setattr("openclaw_taskmem.daemon.main.run_daemon", lambda *_: None)
    with open_work_folder(home.folder, RESTORE) as running:
        leave_folder(home.folder)
        assert startup.main({"TASKMEM_HOME": str(home.folder)}) == 0
        assert [*home.folder.glob("restore-*")] == [running]

"""A home's content is exchanged as a whole, wherever a crash cuts that short."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openclaw_taskmem.daemon.home_exchange import (
    begin_exchange,
    finish_exchange,
    is_unfinished,
    remove_old_files,
)

OLD = {
    "taskmem.db": "old",
    "taskmem.db-wal": "old",
    "config.toml": "old",
    "home.id": "old",
    ".taskmem.db.last": "old",
    "taskmem.db.lost": "old",
    "taskmem.db.lost-wal-2": "old",
    "home.database": "old",
}
NEW = {"taskmem.db": "new", "home.id": "new", "pictures/wait_1/first.png": "new"}
STAYS = {"daemon.lock": "", "terminals/build": "stays"}


class Crash(Exception):
    """The power went."""


def write_files(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def read_files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_two_exchanges_of_one_second_keep_both_contents(tmp_path: Path) -> None:
    home = write_files(tmp_path / "home", {"taskmem.db": "first"})
    for number in (1, 2):
        fresh = write_files(home / "restore", {"taskmem.db": f"back-up {number}"})
        aside = begin_exchange(home, fresh, "now")
    assert aside == home / "replaced-now-2"
    assert read_files(home) == {
        "taskmem.db": "back-up 2",
        "replaced-now/taskmem.db": "first",
        "replaced-now-2/taskmem.db": "back-up 1",
    }


@pytest.mark.parametrize("crash_at", range(15))
def test_whatever_cuts_an_exchange_short_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_at: int
) -> None:
    home = write_files(tmp_path / "home", {**OLD, **STAYS})
    fresh = write_files(home / "restore-1", NEW)
    rename, left = Path.rename, crash_at

    def rename_or_crash(path: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if left < 0:
            raise Crash
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", rename_or_crash)
        try:
            begin_exchange(home, fresh, "now")
        except Crash:
            cut = True
        else:
            cut = False
    left_open = read_files(home)
    if left_open.get("taskmem.db") == "old":
        assert left_open["taskmem.db-wal"] == "old"
    assert is_unfinished(home) is (cut and crash_at > 0)
    finish_exchange(home)
    aside = {f"replaced-now/{name}": text for name, text in OLD.items()}
    waiting = {f"restore-1/{name}": text for name, text in NEW.items()}
    began = crash_at > 0
    expected = {**NEW, **aside} if began else {**OLD, **waiting}
    assert read_files(home) == {**expected, **STAYS}
    assert cut is (crash_at < 13)
    assert not [*home.glob("arriving-*"), *home.glob("entering-*")]


def test_every_folder_is_on_the_disk_before_it_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_files(tmp_path / "home", OLD)
    fresh = write_files(home / "restore-1", NEW)
    folders = {each.stat().st_ino for each in (fresh, *fresh.glob("pictures/**"))}
    synced: set[int] = set()
    rename = Path.rename

    def check_rename(path: Path, target: Path) -> Path:
        assert folders <= synced
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", lambda handle: synced.add(os.fstat(handle).st_ino))
    monkeypatch.setattr(Path, "rename", check_rename)
    begin_exchange(home, fresh, "now")
    assert len(folders) == 3
    assert home.stat().st_ino in synced


def test_what_earlier_builds_kept_is_removed_and_nothing_else(tmp_path: Path) -> None:
    in_use = {"taskmem.db": "tasks", "setup/openclaw-0123.json": "{}", "terminals/a.before": "text"}
    old = ("recall/past_tasks.db", "shells/12-34", "setup/claude-01.before", "setup/claude-01.sum")
    home = write_files(tmp_path, {**in_use, **dict.fromkeys(old, "a secret")})

    remove_old_files(home)

    assert read_files(home) == in_use
    assert {path.name for path in home.iterdir()} == {"taskmem.db", "setup", "terminals"}


def test_a_link_to_a_folder_of_others_is_removed_alone(tmp_path: Path) -> None:
    theirs = write_files(tmp_path / "theirs", {"notes": "theirs"})
    home = tmp_path / "home"
    home.mkdir()
    (home / "recall").symlink_to(theirs)

    remove_old_files(home)

    assert [*home.iterdir()] == []
    assert read_files(theirs) == {"notes": "theirs"}

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from openclaw_taskmem.daemon.home_identity import ensure_identity
from taskmem_hookspecs.errors import SettingsInvalid


def a_home(folder: Path) -> Path:
    """Make the folder of a home; return its mark."""
    folder.mkdir()
    return folder / "home.id"


def copy_home(mark: Path, folder: Path) -> Path:
    """Copy the home of a mark; return the mark of the copy."""
    shutil.copytree(mark.parent, folder)
    return folder / mark.name


def follow(sentence: str) -> None:
    """Do what a refusal says."""
    [cure] = re.findall(r"\((echo .*)\)", sentence)
    subprocess.run(["/bin/sh", "-c", cure], check=True)


def test_a_home_keeps_its_identity_and_no_two_share_one(tmp_path: Path) -> None:
    first = ensure_identity(tmp_path / "a", shares=True)

    assert ensure_identity(tmp_path / "a", shares=True) == first
    assert ensure_identity(tmp_path / "b", shares=True) != first


def test_a_home_that_is_moved_stays_the_same(tmp_path: Path) -> None:
    mark = a_home(tmp_path / "a")
    first = ensure_identity(mark, shares=True)
    for place in ("b", "c"):
        mark = mark.parent.rename(tmp_path / place) / mark.name

        assert ensure_identity(mark, shares=True) == first


def test_copied_home_is_refused_until_it_has_its_own_identity(tmp_path: Path) -> None:
    first = a_home(tmp_path / "a")
    known = ensure_identity(first, shares=True)
    copy = copy_home(first, tmp_path / "the copy")

    for _ in range(2):
        with pytest.raises(SettingsInvalid, match="a copy of") as refused:
            ensure_identity(copy, shares=True)
    assert ensure_identity(first, shares=True) == known

    follow(str(refused.value))
    assert ensure_identity(copy, shares=True) != known
    assert ensure_identity(copy, shares=True) == ensure_identity(copy, shares=True)


def test_a_copy_takes_the_place_of_a_home_that_is_gone(tmp_path: Path) -> None:
    first = a_home(tmp_path / "a")
    known = ensure_identity(first, shares=True)
    copy = copy_home(first, tmp_path / "b")
    shutil.rmtree(first.parent)

    assert ensure_identity(copy, shares=True) == known


def test_a_copy_of_a_copy_that_took_the_place_is_refused(tmp_path: Path) -> None:
    first = a_home(tmp_path / "a")
    ensure_identity(first, shares=True)
    moved = first.parent.rename(tmp_path / "b") / first.name
    ensure_identity(moved, shares=True)
    back = copy_home(moved, tmp_path / "a")

    with pytest.raises(SettingsInvalid) as refused:
        ensure_identity(back, shares=True)
    assert f"a copy of {moved.parent}," in str(refused.value)

    follow(str(refused.value))
    assert ensure_identity(back, shares=True) != ensure_identity(moved, shares=True)


def test_copied_home_is_accepted_once_the_original_is_renamed(tmp_path: Path) -> None:
    first = a_home(tmp_path / "a")
    known = ensure_identity(first, shares=True)
    copy = copy_home(first, tmp_path / "b")
    first.write_text("another")

    assert ensure_identity(copy, shares=True) == known


def test_copied_home_is_refused_only_when_it_shares_a_database(tmp_path: Path) -> None:
    first = a_home(tmp_path / "a")
    known = ensure_identity(first, shares=False)
    copy = copy_home(first, tmp_path / "b")

    assert ensure_identity(copy, shares=False) == known
    with pytest.raises(SettingsInvalid):
        ensure_identity(copy, shares=True)


def test_a_home_that_has_two_paths_is_no_copy(tmp_path: Path) -> None:
    mark = a_home(tmp_path / "a")
    known = ensure_identity(mark, shares=True)
    (tmp_path / "b").symlink_to(mark.parent)
    mark.write_text(f"{known}\n{tmp_path / 'b'}\n")

    assert ensure_identity(mark, shares=True) == known


def test_old_identity_is_kept_and_bound_to_its_home(tmp_path: Path) -> None:
    mark = a_home(tmp_path / "a")
    mark.write_text("0123456789abcdef")

    assert ensure_identity(mark, shares=True) == "0123456789abcdef"
    with pytest.raises(SettingsInvalid):
        ensure_identity(copy_home(mark, tmp_path / "b"), shares=True)


def test_an_identity_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")

    assert ensure_identity(tmp_path / "a", shares=True)


@pytest.mark.timeout(10)
def test_a_pipe_in_the_identitys_place_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")

    assert ensure_identity(tmp_path / "a", shares=True)
    assert (tmp_path / "a").is_file()


def test_an_identity_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    mark = a_home(tmp_path / "a")
    ensure_identity(mark, shares=True)
    before = mark.stat().st_ino
    ensure_identity(mark, shares=True)

    assert mark.stat().st_ino == before


def test_an_identity_outlives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = a_home(tmp_path / "home")
    synced: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append((os.fstat(handle).st_ino, mark.exists()))
    )
    ensure_identity(mark, shares=True)
    assert synced == [(mark.stat().st_ino, False), (mark.parent.stat().st_ino, True)]


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    ensure_identity(tmp_path / "a", shares=True)

    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_home_that_is_made_anew_in_its_place_is_the_same_again(tmp_path: Path) -> None:
    first = ensure_identity(tmp_path / "a", shares=True)
    (tmp_path / "a").unlink()

    assert ensure_identity(tmp_path / "a", shares=True) == first


def test_the_same_place_on_another_machine_is_another_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ensure_identity(tmp_path / "a", shares=True)
    (tmp_path / "a").unlink()
    monkeypatch.setattr("platform.node", lambda: "elsewhere")

    assert ensure_identity(tmp_path / "a", shares=True) != first

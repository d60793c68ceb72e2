from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from openclaw_taskmem.daemon.identity import identity
from taskmem_hookspecs.errors import SettingsInvalid


def a_home(folder: Path) -> Path:
    """Make the folder of a home; return its mark."""
    folder.mkdir()
    return folder / "home.id"


def copied(mark: Path, folder: Path) -> Path:
    """Copy the home of a mark; return the mark of the copy."""
    shutil.copytree(mark.parent, folder)
    return folder / mark.name


def follow(sentence: str) -> None:
    """Do what a refusal says."""
    [cure] = re.findall(r"\((echo .*)\)", sentence)
    subprocess.run(["/bin/sh", "-c", cure], check=True)


def test_a_home_keeps_its_identity_and_no_two_share_one(tmp_path: Path) -> None:
    first = identity(tmp_path / "a", shares=True)

    assert identity(tmp_path / "a", shares=True) == first
    assert identity(tmp_path / "b", shares=True) != first


def test_a_home_that_is_moved_stays_the_same(tmp_path: Path) -> None:
    mark = a_home(tmp_path / "a")
    first = identity(mark, shares=True)
    for place in ("b", "c"):
        mark = mark.parent.rename(tmp_path / place) / mark.name

        assert identity(mark, shares=True) == first


def test_a_copy_of_a_home_that_is_still_there_is_refused_until_it_has_a_name_of_its_own(
    tmp_path: Path,
) -> None:
    first = a_home(tmp_path / "a")
    known = identity(first, shares=True)
    copy = copied(first, tmp_path / "the copy")

    for _ in range(2):
        with pytest.raises(SettingsInvalid, match="a copy of") as refused:
            identity(copy, shares=True)
    assert identity(first, shares=True) == known

    follow(str(refused.value))
    assert identity(copy, shares=True) != known
    assert identity(copy, shares=True) == identity(copy, shares=True)


def test_a_copy_takes_the_place_of_a_home_that_is_gone(tmp_path: Path) -> None:
    first = a_home(tmp_path / "a")
    known = identity(first, shares=True)
    copy = copied(first, tmp_path / "b")
    shutil.rmtree(first.parent)

    assert identity(copy, shares=True) == known


def test_a_copy_of_a_copy_that_took_the_place_is_refused(tmp_path: Path) -> None:
    first = a_home(tmp_path / "a")
    identity(first, shares=True)
    moved = first.parent.rename(tmp_path / "b") / first.name
    identity(moved, shares=True)
    back = copied(moved, tmp_path / "a")

    with pytest.raises(SettingsInvalid) as refused:
        identity(back, shares=True)
    assert f"a copy of {moved.parent}," in str(refused.value)

    follow(str(refused.value))
    assert identity(back, shares=True) != identity(moved, shares=True)


def test_a_copy_whose_first_was_given_another_name_is_no_copy_any_more(
    tmp_path: Path,
) -> None:
    first = a_home(tmp_path / "a")
    known = identity(first, shares=True)
    copy = copied(first, tmp_path / "b")
    first.write_text("another")

    assert identity(copy, shares=True) == known


def test_a_copy_with_a_database_of_its_own_goes_on_and_is_refused_once_it_shares(
    tmp_path: Path,
) -> None:
    first = a_home(tmp_path / "a")
    known = identity(first, shares=False)
    copy = copied(first, tmp_path / "b")

    assert identity(copy, shares=False) == known
    with pytest.raises(SettingsInvalid):
        identity(copy, shares=True)


def test_a_home_that_has_two_paths_is_no_copy(tmp_path: Path) -> None:
    mark = a_home(tmp_path / "a")
    known = identity(mark, shares=True)
    (tmp_path / "b").symlink_to(mark.parent)
    mark.write_text(f"{known}\n{tmp_path / 'b'}\n")

    assert identity(mark, shares=True) == known


def test_an_identity_of_an_older_version_is_kept_and_learns_its_place(
    tmp_path: Path,
) -> None:
    mark = a_home(tmp_path / "a")
    mark.write_text("0123456789abcdef")

    assert identity(mark, shares=True) == "0123456789abcdef"
    with pytest.raises(SettingsInvalid):
        identity(copied(mark, tmp_path / "b"), shares=True)


def test_an_identity_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")

    assert identity(tmp_path / "a", shares=True)


@pytest.mark.timeout(10)
def test_a_pipe_in_the_identitys_place_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")

    assert identity(tmp_path / "a", shares=True)
    assert (tmp_path / "a").is_file()


def test_an_identity_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    mark = a_home(tmp_path / "a")
    identity(mark, shares=True)
    before = mark.stat().st_ino
    identity(mark, shares=True)

    assert mark.stat().st_ino == before


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    identity(tmp_path / "a", shares=True)

    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_home_that_is_made_anew_in_its_place_is_the_same_again(
    tmp_path: Path,
) -> None:
    first = identity(tmp_path / "a", shares=True)
    (tmp_path / "a").unlink()

    assert identity(tmp_path / "a", shares=True) == first


def test_the_same_place_on_another_machine_is_another_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = identity(tmp_path / "a", shares=True)
    (tmp_path / "a").unlink()
    monkeypatch.setattr("platform.node", lambda: "elsewhere")

    assert identity(tmp_path / "a", shares=True) != first

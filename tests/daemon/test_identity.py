from __future__ import annotations

import stat
from pathlib import Path

import pytest

from openclaw_taskmem.daemon.identity import identity


def test_a_home_keeps_its_identity_and_no_two_share_one(tmp_path: Path) -> None:
    first = identity(tmp_path / "a")

    assert identity(tmp_path / "a") == first
    assert identity(tmp_path / "b") != first


def test_a_home_that_is_moved_stays_the_same(tmp_path: Path) -> None:
    first = identity(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")

    assert identity(tmp_path / "b") == first


def test_an_identity_that_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")

    assert identity(tmp_path / "a")


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    identity(tmp_path / "a")

    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_home_that_is_made_anew_in_its_place_is_the_same_again(
    tmp_path: Path,
) -> None:
    first = identity(tmp_path / "a")
    (tmp_path / "a").unlink()

    assert identity(tmp_path / "a") == first


def test_the_same_place_on_another_machine_is_another_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = identity(tmp_path / "a")
    (tmp_path / "a").unlink()
    monkeypatch.setattr("platform.node", lambda: "elsewhere")

    assert identity(tmp_path / "a") != first

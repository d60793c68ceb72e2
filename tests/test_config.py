"""What the settings take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openclaw_taskmem.config import load
from taskmem_hookspecs.errors import SettingsInvalid


@pytest.mark.parametrize(
    ("variable", "said", "least"),
    [
        ("TASKMEM_MAX_ROUNDS", "0", 1),
        ("TASKMEM_STEP_TOOLS", "0", 1),
        ("TASKMEM_STEP_BONUS", "-1", 0),
    ],
)
def test_a_count_below_its_least_is_refused(
    tmp_path: Path, variable: str, said: str, least: int
) -> None:
    with pytest.raises(SettingsInvalid, match=f"{said}'.*whole number from {least},"):
        load({"TASKMEM_HOME": str(tmp_path), variable: said})


def test_nobody_is_tried_again_where_that_is_the_setting(tmp_path: Path) -> None:
    said = {"TASKMEM_HOME": str(tmp_path), "TASKMEM_PROVIDER_RETRIES": "0"}

    assert load(said).provider_retries == 0


def test_the_settings_of_another_users_home_are_not_read(tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text('openclaw_bin = "/evil"')
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    environ = {"TASKMEM_HOME": str(tmp_path)}
    with pytest.raises(SettingsInvalid, match="belongs to user"):
        load(environ)
    assert environ == {"TASKMEM_HOME": str(tmp_path)}

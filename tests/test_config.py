"""What the settings take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openclaw_taskmem.config import load_settings
from openclaw_taskmem.settings_report import list_changed_settings
from taskmem_hookspecs.errors import SettingsInvalid


@pytest.mark.parametrize(
    ("variable", "said", "least"),
    [
        ("TASKMEM_MAX_ROUNDS", "0", 1),
        ("TASKMEM_STEP_TOOLS", "0", 1),
        ("TASKMEM_STEP_BONUS", "-1", 0),
        ("TASKMEM_KEEP_MB", "0", 1),
    ],
)
def test_a_count_below_its_least_is_refused(
    tmp_path: Path, variable: str, said: str, least: int
) -> None:
    with pytest.raises(SettingsInvalid, match=f"{said}'.*whole number from {least} to 999,999,999"):
        load_settings({"TASKMEM_HOME": str(tmp_path), variable: said})


@pytest.mark.parametrize("said", ["0", "-1", "nan", "36501", "a year"])
def test_what_has_ended_is_kept_for_more_than_no_days(tmp_path: Path, said: str) -> None:
    with pytest.raises(SettingsInvalid, match="days greater than 0 and at most 36,500"):
        load_settings({"TASKMEM_HOME": str(tmp_path), "TASKMEM_KEEP_DAYS": said})


def test_nobody_is_tried_again_where_that_is_the_setting(tmp_path: Path) -> None:
    said = {"TASKMEM_HOME": str(tmp_path), "TASKMEM_PROVIDER_RETRIES": "0"}

    assert load_settings(said).runs.provider_retries == 0


def test_the_settings_of_another_users_home_are_not_read(tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text('openclaw_bin = "/evil"')
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    environ = {"TASKMEM_HOME": str(tmp_path)}
    with pytest.raises(SettingsInvalid, match="belongs to user"):
        load_settings(environ)
    assert environ == {"TASKMEM_HOME": str(tmp_path)}


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("\ufeffmax_rounds = 7\r\n", "utf-8"),
        ("# one\r\nmax_rounds = 7", "utf-8"),
        ("max_rounds = 7\r\n", "utf-16"),
    ],
)
def test_a_config_file_may_be_as_a_windows_editor_wrote_it(tmp_path, content, encoding):
    (tmp_path / "config.toml").write_bytes(content.encode(encoding))
    assert load_settings({"TASKMEM_HOME": str(tmp_path)}).runs.max_rounds == 7


def test_a_config_file_in_another_encoding_is_told(tmp_path):
    (tmp_path / "config.toml").write_bytes("# gr\u00fcn".encode("latin-1"))
    with pytest.raises(
        SettingsInvalid, match=r"is no UTF-8 from its byte 5 on\); save it as UTF-8"
    ):
        load_settings({"TASKMEM_HOME": str(tmp_path)})


def test_config_file_beats_the_environment_for_delivery(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text('notify = "off"\nwake_transport = "post"\nmax_rounds = 7')
    environ = {
        "TASKMEM_HOME": str(tmp_path),
        "TASKMEM_WAKE_TRANSPORT": "stdout",
        "TASKMEM_NOTIFY": "off",
        "TASKMEM_MAX_ROUNDS": "8",
    }
    found = load_settings(environ)
    assert (found.wake_transport, found.notify, found.runs.max_rounds) == ("post", "off", 8)
    assert environ["TASKMEM_WAKE_TRANSPORT"] == "post"
    assert found.in_file == {"notify", "wake_transport", "max_rounds"}
    [warning] = found.warnings
    assert warning == f"TASKMEM_WAKE_TRANSPORT=stdout does not count: {file} has one."


def test_listed_settings_are_the_chosen_ones_without_secrets(tmp_path):
    environ = {
        "TASKMEM_HOME": str(tmp_path),
        "TASKMEM_DATABASE_URL": "postgresql://me:hidden-word@host/tasks",
        "TASKMEM_CARRY_ON": "off",
        "TASKMEM_IDLE_PAUSES": "1,2.5",
        "TASKMEM_TOOLS": "all",
        "TASKMEM_HOOK_SECONDS": "2.0",
        "TASKMEM_TMUX_SOCKET": "/t",
        "GEMINI_API_KEY": "hidden-word",
        "OPENCLAW_STATE_DIR": "/o",
    }
    chosen = list_changed_settings(load_settings(environ), environ)
    assert "hidden-word" not in str(chosen)
    assert chosen.pop("TASKMEM_DATABASE_URL") == "postgresql://me@host/tasks"
    assert chosen == {
        "TASKMEM_CARRY_ON": "off",
        "TASKMEM_IDLE_PAUSES": "1,2.5",
        "TASKMEM_TMUX_SOCKET": "/t",
        "GEMINI_API_KEY": "set",
        "OPENCLAW_STATE_DIR": "/o",
    }

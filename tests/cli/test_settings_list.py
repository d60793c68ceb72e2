"""`taskmem settings`: what counts, and where it is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclaw_taskmem.cli.settings_list import print_settings, read_settings_list
from openclaw_taskmem.config import list_variables
from taskmem_hookspecs.errors import SettingsInvalid


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    tmp_path.chmod(0o700)
    return {"TASKMEM_HOME": str(tmp_path)}


def write_config(environ: dict[str, str], text: str) -> Path:
    config = Path(environ["TASKMEM_HOME"]) / "config.toml"
    config.write_text(text)
    return config


def test_each_setting_says_where_it_is_from(environ: dict[str, str]) -> None:
    config = write_config(environ, "keep_days = 9\nmax_rounds = 7\n")
    environ |= {"TASKMEM_MAX_ROUNDS": "8", "GEMINI_API_KEY": "secret-key"}

    found = read_settings_list(environ)

    rows = {row["name"]: (row["value"], row["from"]) for row in found["settings"]}
    assert rows["TASKMEM_KEEP_DAYS"] == ("9", str(config))
    assert rows["TASKMEM_MAX_ROUNDS"] == ("8", "environment")
    assert rows["TASKMEM_LEASE_SECONDS"][1] == "default"
    assert rows["GEMINI_API_KEY"] == ("set", "environment")
    assert found["settings"][0]["from"] != "default"
    assert "secret-key" not in str(found)


@pytest.mark.parametrize(
    ("variable", "value", "source"),
    [
        ("TASKMEM_NOTIFY", "off", "config.toml"),  # a setting of the home: the file comes first
        ("TASKMEM_KEEP_MB", "  ", "config.toml"),
        ("TASKMEM_KEEP_MB", "2048", "environment"),  # as the default is
        ("TASKMEM_TOOLS", "all", "environment"),
        ("TASKMEM_DISPLAY", ":7", "environment"),
        ("TASKMEM_LEASE_SECONDS", "", "default"),
        ("TASKMEM_MAX_ROUNDS", "", "default"),  # the file leaves it empty
    ],
)
def test_what_counts_says_where_it_is_from(
    environ: dict[str, str], variable: str, value: str, source: str
) -> None:
    write_config(environ, 'notify = "important"\nkeep_mb = 9\nmax_rounds = ""\n')
    rows = read_settings_list({**environ, variable: value})["settings"]
    assert [Path(row["from"]).name for row in rows if row["name"] == variable] == [source]


def test_every_setting_is_listed_once(environ: dict[str, str]) -> None:
    callers = {"TASKMEM_HOST", "TASKMEM_SESSION_KEY"}
    names = [row["name"] for row in read_settings_list(environ)["settings"]]
    assert sorted(names) == sorted(list_variables() - callers)


def test_misspelt_names_are_told_with_what_is_meant(environ: dict[str, str]) -> None:
    write_config(environ, "keep_dais = 9\n")
    environ["TASKMEM_STUCK_TRESHOLD_SECONDS"] = "3"

    odd = read_settings_list(environ)["odd"]

    assert any("TASKMEM_STUCK_THRESHOLD_SECONDS is meant" in sentence for sentence in odd)
    assert any("'keep_dais'" in sentence and "keep_days is meant" in sentence for sentence in odd)


def test_a_wrong_value_is_told_by_the_name_in_its_place(environ: dict[str, str]) -> None:
    config = write_config(environ, 'keep_days = "x"\n')
    with pytest.raises(SettingsInvalid, match=r"^keep_days in ") as refused:
        read_settings_list(environ)
    assert str(config) in str(refused.value)
    with pytest.raises(SettingsInvalid, match=r"^TASKMEM_KEEP_DAYS is 'y'"):
        read_settings_list({**environ, "TASKMEM_KEEP_DAYS": "y"})


def test_settings_are_printed_with_what_is_odd(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    environ["TASKMEM_KEEP_DAIS"] = "3"
    print_settings(read_settings_list(environ))
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["setting", "value", "from"]
    assert "TASKMEM_KEEP_DAYS is meant, perhaps." in out

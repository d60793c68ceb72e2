"""`taskmem settings`: what counts, and where it is from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from openclaw_taskmem.cli import daemon_commands
from openclaw_taskmem.cli.command_line import cli
from openclaw_taskmem.config import list_variables, load_settings
from openclaw_taskmem.settings_report import read_settings_list
from taskmem_hookspecs.errors import SettingsInvalid
from taskmem_openclaw import reader
from taskmem_recorder import machine, recorder
from taskmem_vision import gemini


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
    write_config(environ, "keep_dais = 9\nTASKMEM_NOTIFY = 'off'\n")
    environ["TASKMEM_STUCK_TRESHOLD_SECONDS"] = "3"

    odd = read_settings_list(environ)["odd"]

    assert any("TASKMEM_STUCK_THRESHOLD_SECONDS is meant" in sentence for sentence in odd)
    assert any("'TASKMEM_NOTIFY'" in each and " notify is meant" in each for each in odd)
    assert any("'keep_dais'" in sentence and "keep_days is meant" in sentence for sentence in odd)


def test_a_wrong_value_is_told_by_the_name_in_its_place(environ: dict[str, str]) -> None:
    config = write_config(environ, 'keep_days = "x"\n')
    for given, value, begun in (
        ({}, "x", f"keep_days in {config} is 'x';"),
        ({"TASKMEM_KEEP_DAYS": "y"}, "y", "TASKMEM_KEEP_DAYS is 'y';"),
    ):
        found = read_settings_list({**environ, **given})
        assert found["wrong"].keys() == {"TASKMEM_KEEP_DAYS"}
        assert found["wrong"]["TASKMEM_KEEP_DAYS"].startswith(begun)
        rows = {row["name"]: row["value"] for row in found["settings"]}
        assert (rows["TASKMEM_KEEP_DAYS"], len(rows)) == (value, len(list_variables()) - 2)
        with pytest.raises(SettingsInvalid, match=f"^{re.escape(begun)}"):
            load_settings({**environ, **given})


def test_wrong_values_are_marked_in_the_list_and_it_fails(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environ |= {"TASKMEM_KEEP_DAYS": "abc", "TASKMEM_RECORD_MB": "0", "TASKMEM_KEEP_MB": "9"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    done = CliRunner().invoke(cli, ["settings"])
    assert done.exit_code == 1
    rows = [line.split() for line in done.output.splitlines()]
    assert ["TASKMEM_KEEP_DAYS", "abc", "(wrong)", "environment"] in rows
    assert ["TASKMEM_RECORD_MB", "0", "(wrong)", "environment"] in rows
    assert ["TASKMEM_KEEP_MB", "9", "environment"] in rows
    assert "TASKMEM_RECORD_MB is '0'; it takes a whole number" in done.output


def test_defaults_are_those_that_apply(environ: dict[str, str]) -> None:
    rows = {row["name"]: row["value"] for row in read_settings_list(environ)["settings"]}
    assert rows["TASKMEM_GEMINI_CALLS_PER_DAY"] == str(gemini.CALLS_PER_DAY)
    assert rows["TASKMEM_GEMINI_MODEL"] == gemini.MODEL
    assert rows["TASKMEM_HOST_CALLS_PER_DAY"] == str(reader.CALLS_PER_DAY)
    assert rows["TASKMEM_OPENCLAW_BIN"] == "openclaw"
    assert rows["TASKMEM_RECORD_DAYS"] == str(recorder.MOST_DAYS)
    assert rows["TASKMEM_RECORD_LOAD"] == f"{machine.MOST_LOAD:g}"
    assert rows["TASKMEM_RECORD_MB"] == str(recorder.MOST_MB)
    assert str(Path.home()) in rows["TASKMEM_ARTIFACT_ROOTS"].split(",")
    assert rows["TASKMEM_DATABASE_URL"] == f"sqlite:///{environ['TASKMEM_HOME']}/taskmem.db"
    assert rows["TASKMEM_HOLD_BACK"] == "as chosen in set-up"
    chosen = read_settings_list({**environ, "TASKMEM_HOLD_BACK": "yes"})["settings"]
    assert [row["value"] for row in chosen if row["name"] == "TASKMEM_HOLD_BACK"] == ["on"]


def test_settings_are_printed_with_what_is_odd(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    environ["TASKMEM_KEEP_DAIS"] = "3"
    daemon_commands._print_settings(read_settings_list(environ))
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["setting", "value", "from"]
    assert "TASKMEM_KEEP_DAYS is meant, perhaps." in out

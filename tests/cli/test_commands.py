"""Commands that plug-ins add to the command line."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from openclaw_taskmem.cli import command_line
from openclaw_taskmem.cli.command_line import cli
from tests.support.installations import make_installation


def run_taskmem(tmp_path: Path, source: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run taskmem with a plug-in that adds `greet`, `bow low` and its own `list`."""
    folder = tmp_path / "plugin"
    facts = folder / "greeting-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Name: greeting\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[openclaw_taskmem.commands]\n"
        "greet = greeting:command\n"
        "list = greeting:command\n"
        "setup.ours = greeting:command\n"
        "bow.low = greeting:command\n"
    )
    (folder / "greeting.py").write_text(source)
    environ = {
        **{k: v for k, v in os.environ.items() if not k.startswith("TASKMEM_")},
        "TASKMEM_HOME": f"{tmp_path}/x/../home",
    }
    return subprocess.run(
        [make_installation(tmp_path / "installation", folder), "-m", "openclaw_taskmem", *words],
        capture_output=True,
        text=True,
        env=environ,
        check=False,
    )


GREET = """
import click, os
@click.command()
def command():
    "Say hello."
    click.echo("hello from " + os.environ["TASKMEM_HOME"])
"""


def test_a_plugins_command_is_there_and_knows_the_home(tmp_path: Path) -> None:
    done = run_taskmem(tmp_path, GREET, "greet")

    assert (done.stdout, done.returncode) == (f"hello from {tmp_path}/home\n", 0)


def test_help_lists_it(tmp_path: Path) -> None:
    assert "greet Say hello." in " ".join(run_taskmem(tmp_path, GREET, "--help").stdout.split())


def test_it_cannot_replace_one_of_ours(tmp_path: Path) -> None:
    assert "hello" not in run_taskmem(tmp_path, GREET, "list", "--help").stdout


@pytest.mark.parametrize("source", ["raise RuntimeError('broken')", "command = 5"])
def test_one_that_is_broken_is_told_in_a_sentence(tmp_path: Path, source: str) -> None:
    done = run_taskmem(tmp_path, source, "greet")

    assert done.returncode == 1
    assert "greeting:command" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_that_is_broken_takes_nothing_from_the_help(tmp_path: Path) -> None:
    done = run_taskmem(tmp_path, "raise RuntimeError('broken')", "--help")

    assert done.returncode == 0
    assert "greet Cannot be loaded." in " ".join(done.stdout.split())
    assert "status Show whether" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "by", ["pipx inject openclaw-taskmem", f"{shlex.quote(sys.executable)} -m pip install"]
)
@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (("bench", "--quick"), "taskmem_resumebench"),
        (("record", "on"), "taskmem_recorder"),
        (("open", "memories://recordings/2026-02-10/segment-4"), "taskmem_recorder"),
    ],
)
def test_a_command_of_a_missing_package_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], folder: str, by: str
) -> None:
    monkeypatch.setattr(command_line, "_list_entry_points", tuple)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    if by.startswith("pipx"):
        (tmp_path / "pipx_metadata.json").touch()

    done = CliRunner().invoke(cli, words)

    assert done.exit_code == 2
    assert done.stderr.endswith(
        f"Error: `taskmem {words[0]}` is a package of its own; in a checkout of openclaw-taskmem "
        f"run `{by} ./plugins/{folder}`.\n"
    )


def test_a_word_that_is_no_command_is_refused(tmp_path: Path) -> None:
    assert "No such command" in run_taskmem(tmp_path, GREET, "gret").stderr


def test_plugins_share_a_group_by_the_word_before_the_dot(tmp_path: Path) -> None:
    shown = run_taskmem(tmp_path, GREET, "setup", "--help").stdout
    assert [name for name in ("openclaw", "ours") if f"  {name} " in shown] == [
        *("openclaw", "ours")
    ]


def test_a_group_without_a_command_prints_its_help(tmp_path: Path) -> None:
    done = run_taskmem(tmp_path, GREET, "bow")
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: taskmem bow ")
    assert "\n  low " in done.stderr


def test_a_command_of_a_group_is_called_by_two_words(tmp_path: Path) -> None:
    done = run_taskmem(tmp_path, GREET, "bow", "low")

    assert (done.stdout, done.returncode) == (f"hello from {tmp_path}/home\n", 0)


def test_help_lists_a_group_with_its_commands(tmp_path: Path) -> None:
    shown = run_taskmem(tmp_path, GREET, "--help").stdout

    assert "bow Commands of plug-ins: low." in " ".join(shown.split())


def test_a_broken_command_of_a_group_takes_no_other(tmp_path: Path) -> None:
    shown = run_taskmem(tmp_path, "raise RuntimeError('broken')", "setup", "--help").stdout

    assert "ours      Cannot be loaded." in shown
    assert "openclaw  Set up" in shown

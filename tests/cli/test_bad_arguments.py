"""Words that no command expects, in each place where a command takes words."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from openclaw_taskmem.cli.command_line import cli
from openclaw_taskmem.cli.command_output import HOSTS
from tests.support.daemons import COMMAND, Daemon, short_home

MOST_CHARS = 2000
"""Characters of what is said about a bad word."""
BAD = {
    "empty": "",
    "the year 1": "0001-01-01T00:00:00Z",
    "the year 9999": "9999-12-31T23:59:59Z",
    "5,000 digits": "9" * 5000,
    "5,000 digits below 0": "-" + "9" * 5000,
    "30 digits": "9" * 30,
    "an index": "²",
    "digits of Arabic": "٣",
    "control characters": "a\x1b[31m\x07b\r\nc",
    "a lone surrogate": "\udcff",
    "a bidi mark": "a\u202eb",
}
HERE = "WORD"
"""Stands for the bad word."""
PLACES = (
    HERE,
    f"show {HERE}",
    f"show --pictures {HERE}",
    f"events {HERE}",
    f"wait {HERE}",
    *(f"{each} --limit {HERE}" for each in ("list", "ready", "waits", "wakes", "runs", "events")),
    *(
        f"{each} {HERE}"
        for each in ("approve", "resume", "pause", "reset", "cancel", "seen", "accept")
    ),
    *(f"{each} {HERE} word" for each in ("answer", "send-back")),
    f"accept 1 --because {HERE}",
    f"call {HERE}",
    f"call task_list {HERE}",
    f'call task_list {{"limit":{HERE}}}',
    f'call task_register {{"name":"{HERE}"}}',
    f"log -n {HERE}",
    f"daemon {HERE}",
    f"backup /nowhere/at/{HERE}",
    f"restore {HERE}",
    f"setup {HERE}",
    *(f"record {each}" for each in (HERE, f"pause {HERE}", f"exclude {HERE}", f"forget {HERE}")),
    f"open --no-open {HERE}",
    f"open --no-open memories://recordings/{HERE}/segment-1",
    f"run --name {HERE} -- true",
    # The word behind it is one too many, so nothing is measured where the seed is a number.
    f"bench --seed {HERE} word",
)
WORDLESS = {
    "watch",
    "ui",
    "stats",
    "doctor",
    "status",
    "settings",
    "plugins",
    "demo",
    "tools",
    "mcp",
    "hook",
}
"""Commands that take no words."""


@pytest.fixture(scope="module")
def home() -> Iterator[str]:
    with short_home() as home:
        daemon = Daemon(home)
        daemon.wait_until_it_serves()
        yield str(home.folder)
        daemon.close()


def steers(text: str) -> bool:
    """Whether a text could steer a terminal."""
    return any(not each.isprintable() and each not in "\n\t" for each in text)


@pytest.mark.parametrize("place", PLACES)
def test_bad_words_get_a_short_answer(
    place: str, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKMEM_HOME", home)
    for host in HOSTS:
        monkeypatch.delenv(host, raising=False)
    wrong: dict[str, str] = {}
    for kind, bad in BAD.items():
        run = CliRunner().invoke(cli, [part.replace(HERE, bad) for part in place.split()])
        is_clean = run.exception is None or isinstance(run.exception, SystemExit)
        told = run.output
        if not is_clean or steers(told) or len(told) > MOST_CHARS or (run.exit_code and not told):
            wrong[kind] = f"{run.exception!r}, status {run.exit_code}: {told[:200]}"
    assert wrong == {}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_program_with_a_bad_name_is_told(bad: str, home: str) -> None:
    run = subprocess.run(
        [COMMAND, "run", "--", bad],
        env={**os.environ, "TASKMEM_HOME": home},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    assert run.returncode in (126, 127)
    assert "cannot be started" in run.stderr
    assert "Traceback" not in run.stderr
    assert len(run.stderr) < MOST_CHARS
    assert not steers(run.stderr)


@pytest.mark.usefixtures("own_commands")
def test_each_command_that_takes_words_is_tried() -> None:
    tried = {place.split()[0] for place in PLACES}
    assert {*cli.list_commands(click.Context(cli))} - WORDLESS - tried == set()

"""`taskmem setup openclaw` when things go wrong: one sentence each, and a way on."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from taskmem_openclaw.setup import openclaw as apply
from taskmem_openclaw.setup import openclaw as its_command
from taskmem_setup import is_running, mark_running
from tests.support.waiting import PATIENCE

BEFORE = {"gateway": {"port": 1}, "plugins": {"allow": ["x"]}}


def entry(config):
    return config["plugins"]["entries"]["taskmem"]


def test_no_openclaw_is_one_sentence(set_up_openclaw, monkeypatch):
    monkeypatch.setenv("TASKMEM_OPENCLAW_BIN", "/nowhere/openclaw")
    assert set_up_openclaw().sentence == (
        "Error: /nowhere/openclaw cannot be started (No such file or directory); "
        "install OpenClaw (npm install -g openclaw), or set TASKMEM_OPENCLAW_BIN to its command."
    )


@pytest.fixture
def leftover(openclaw, set_up_openclaw, monkeypatch):
    """The configuration that an OpenClaw leaves whose command was removed after set-up."""
    openclaw.write(BEFORE)
    set_up_openclaw("--yes")
    openclaw.program.unlink()
    monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(openclaw.folder / "openclaw.json"))
    return openclaw


def test_what_was_set_up_is_taken_out_without_openclaw(leftover, set_up_openclaw):
    assert "entries" in leftover.config["plugins"]
    shown = set_up_openclaw("--remove", "--dry-run")
    assert shown.status == 0, shown.text
    assert '-      "taskmem": {' in shown.text
    assert "would run" not in shown.text
    assert "entries" in leftover.config["plugins"]

    said = set_up_openclaw("--remove")
    assert said.status == 0, said.text
    assert "OpenClaw's command is not here; this is about its configuration" in said.text
    for each in (shown, said):
        assert "run: openclaw plugins uninstall taskmem --force\n" in each.text
        assert "includes" not in each.text
    assert leftover.config == BEFORE


def test_comments_are_not_lost_for_want_of_openclaw(leftover, set_up_openclaw):
    file = leftover.folder / "openclaw.json"
    text = f"// mine\n{file.read_text()}"
    file.write_text(text)
    refused = set_up_openclaw("--remove")
    assert "Take out by hand what the same command shows with --dry-run" in refused.sentence
    assert "run: openclaw plugins uninstall taskmem --force\n" in refused.text
    assert file.read_text() == text


def test_without_openclaw_included_files_are_left_and_named(leftover, set_up_openclaw):
    file = leftover.folder / "openclaw.json"
    include = {"$include": "./agents.json5"}
    file.write_text(json.dumps({**leftover.config, "agents": include}))
    said = set_up_openclaw("--remove")
    assert said.status == 0, said.text
    assert f"note: what {file} includes is read by OpenClaw's command alone" in said.text
    assert leftover.config == {**BEFORE, "agents": include}


def test_where_there_never_was_an_openclaw_nothing_is_left(set_up_openclaw, monkeypatch, tmp_path):
    monkeypatch.setenv("TASKMEM_OPENCLAW_BIN", "/nowhere/openclaw")
    monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(tmp_path / "openclaw.json"))
    assert "no trace of taskmem" in set_up_openclaw("--remove").text
    assert not (tmp_path / "openclaw.json").exists()


@pytest.mark.parametrize(
    ("out", "status", "word"),
    [
        ("OpenClaw 2026.9.5 (abc)", 0, "2026.9.5 is too old; update it to 2026.9.6"),
        ("something else", 0, "told no version"),
        ("node: not found", 127, "(status 127: node: not found)"),
    ],
)
def test_a_version_that_will_not_do_is_one_sentence(openclaw, set_up_openclaw, out, status, word):
    openclaw.fail({"--version": {"out": out, "status": status}})
    assert word in set_up_openclaw().sentence
    assert openclaw.changes == []


READ_ONLY = "Config is externally managed, so OpenClaw treats openclaw.json as immutable."
INVALID = 'OpenClaw config is invalid\nProblem:\n  - <root>: Unrecognized key: "bogus"\n'


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (READ_ONLY, "is read-only here"),
        (INVALID, 'is not valid (<root>: Unrecognized key: "bogus"); run openclaw doctor'),
        ("Error: ENOSPC: words, write", "is full; make room and run"),
        ("Error: EDQUOT: words, write", "is full; make room and run"),
        ("one\n two \x1b[31m three", "ended with status 1: one two"),
        ("", "ended with status 1: no word."),
    ],
)
def test_openclaw_refusal_is_one_sentence_and_leaves_no_record(
    openclaw, set_up_openclaw, home, said, sentence
):
    openclaw.write(BEFORE)
    openclaw.fail({"config patch": {"err": said}})
    answer = set_up_openclaw("--yes")
    assert sentence in answer.sentence
    assert answer.sentence.isprintable()
    assert openclaw.config == BEFORE
    assert "half done" not in answer.text
    assert list((home / "setup").iterdir()) == []


def test_setup_accepts_a_read_only_configuration_that_is_right(openclaw, set_up_openclaw, home):
    set_up_openclaw("--yes")
    shutil.rmtree(home)
    openclaw.fail({"plugins install": {"err": READ_ONLY}})
    for _ in range(2):
        assert set_up_openclaw("--yes").status == 0


@pytest.mark.parametrize("way", ["again", "--remove"])
def test_what_was_left_half_done_is_finished_or_taken_out(openclaw, set_up_openclaw, way):
    openclaw.write(BEFORE)
    openclaw.fail({"plugins install": {"err": "Gateway connection lost"}})
    said = set_up_openclaw("--yes")
    assert "Gateway connection lost" in said.sentence
    assert "It is half done: the same command finishes it, --remove takes it" in said.text
    assert openclaw.config != BEFORE
    openclaw.fail({})
    if way == "again":
        assert set_up_openclaw("--yes").status == 0
        assert openclaw.changes[-1] == "plugins install"
    assert set_up_openclaw("--remove").status == 0
    assert openclaw.config == BEFORE


def test_what_was_killed_between_the_two_is_finished_by_the_next(
    openclaw, set_up_openclaw, home, monkeypatch
):
    openclaw.write(BEFORE)
    openclaw.fail({"plugins install": {"kill": signal.SIGKILL}})
    command = [sys.executable, "-m", "openclaw_taskmem", "setup", "openclaw"]
    with subprocess.Popen(
        [*command, "--yes", "--no-proof"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as killed:
        assert killed.wait(PATIENCE) == -signal.SIGKILL
    assert not is_running(home)
    openclaw.fail({})
    set_up_openclaw("--yes")
    assert openclaw.changes[-1] == "plugins install"
    assert entry(openclaw.config)["hooks"] == {"allowConversationAccess": True}
    set_up_openclaw("--remove")
    assert openclaw.config == BEFORE


class BrokenOff(BaseException):
    """Ends set-up at once, as a kill does: nothing is caught, printed or undone."""


class Breaker:
    """Breaks set-up off after a number of its steps; each of them changes a file or calls."""

    CALLS = ("patch", "install", "uninstall")
    STEPS = (
        (its_command, "_save_record"),
        (its_command.OpenClaw, "patch"),
        (its_command.OpenClaw, "install"),
        (its_command.OpenClaw, "uninstall"),
    )

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        self.left, self.home = 10**6, home
        self.marked: list[bool] = []
        """Whether the home was marked at each call of OpenClaw."""
        for owner, name in self.STEPS:
            monkeypatch.setattr(owner, name, self._count(name, getattr(owner, name)))

    def _count(self, name: str, step: Callable[..., object]) -> Callable[..., object]:
        def run(*args: object, **kwargs: object) -> object:
            if name in self.CALLS:
                self.marked.append(is_running(self.home))
            answer = step(*args, **kwargs)
            self.left -= 1
            if self.left == 0:
                raise BrokenOff
            return answer

        return run


@pytest.mark.parametrize("way", ["--yes", "--remove"])
def test_what_breaks_off_after_any_step_ends_well_next_time(
    openclaw, set_up_openclaw, home, monkeypatch, way
):
    breaker = Breaker(monkeypatch, home)
    openclaw.write(BEFORE)
    set_up_openclaw("--yes")
    wanted = openclaw.config
    for steps in count(1):
        shutil.rmtree(home)
        openclaw.write(BEFORE)
        if way == "--remove":
            set_up_openclaw("--yes")
        installed = openclaw.changes.count("plugins install")
        breaker.left = steps
        try:
            if set_up_openclaw(way).status == 0:
                break
        except BrokenOff:
            assert not is_running(home)
        breaker.left = 10**6
        assert set_up_openclaw(way).status == 0
        assert openclaw.config == (BEFORE if way == "--remove" else wanted)
        again = openclaw.changes.count("plugins install") > installed
        assert again is (way == "--yes")
    assert steps > 3
    assert all(breaker.marked)


def test_only_one_set_up_of_a_home_runs_at_once(openclaw, set_up_openclaw, home):
    set_up_openclaw()
    with mark_running(home):
        said = set_up_openclaw("--yes")
    assert f"Another set-up is at work in {home}; wait for its end" in said.sentence
    assert set_up_openclaw("--yes").status == 0


def test_a_turn_that_holds_the_plugin_is_waited_for(openclaw, set_up_openclaw, monkeypatch):
    monkeypatch.setattr(its_command, "INSTALL_REST_SECONDS", 0.0)
    busy = "Plugin taskmem still has active retained work; retry after the work finishes."
    openclaw.fail({"plugins install": {"err": busy}})
    said = set_up_openclaw("--yes")
    assert openclaw.changes.count("plugins install") == 4
    assert "still has active retained work" in said.sentence


def test_who_stops_it_half_way_is_told_the_ways_on(openclaw, set_up_openclaw, home):
    openclaw.fail({"plugins install": {"kill": signal.SIGINT, "hang": 0.1}})
    done = subprocess.run(
        [sys.executable, "-m", "openclaw_taskmem", "setup", "openclaw", "--no-proof"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "Error: It was stopped half-way; run the same command again to finish it, "
        "--remove to take it out."
    )


def test_a_removal_that_was_cut_off_goes_on_where_it_was(openclaw, set_up_openclaw):
    openclaw.write(BEFORE)
    set_up_openclaw("--yes")
    openclaw.fail({"config patch": {"err": "no"}})
    assert "ended with status 1" in set_up_openclaw("--remove").sentence
    openclaw.fail({})
    assert set_up_openclaw("--remove").status == 0
    assert openclaw.config == BEFORE


def test_a_command_that_hangs_is_ended(openclaw, set_up_openclaw, monkeypatch):
    monkeypatch.setattr(its_command, "CALL_SECONDS", 2.0)
    openclaw.fail({"config patch": {"hang": 600}})
    assert "gave no answer within 2 s and was ended" in set_up_openclaw().sentence


def test_a_broken_configuration_is_one_sentence(openclaw, set_up_openclaw):
    openclaw.file.write_text("{ broken")
    assert "openclaw.json is not valid; run openclaw doctor --fix" in set_up_openclaw().sentence
    assert openclaw.changes == []


def test_a_full_disk_is_one_sentence_before_anything_is_done(
    openclaw, set_up_openclaw, home, monkeypatch
):
    def full(file, *_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))

    monkeypatch.setattr(apply, "write_file", full)
    sentence = set_up_openclaw("--yes").sentence
    assert "cannot be written (No space left on device); make room" in sentence
    assert openclaw.changes == []


def test_a_record_that_is_damaged_counts_as_none(openclaw, set_up_openclaw, home):
    set_up_openclaw("--yes")
    [kept] = (home / "setup").iterdir()
    kept.write_text('{"folder": [7')
    assert set_up_openclaw("--yes").status == 0


def test_included_files_are_read_by_openclaw_itself(openclaw, set_up_openclaw):
    openclaw.write({"$include": "./other.json", "plugins": {"allow": ["x"]}})
    said = set_up_openclaw("--dry-run")
    assert said.status == 0, said.text
    asked = [each[2] for each in openclaw.calls if each[:2] == ["config", "get"]]
    assert asked == ["plugins", "tools", "agents", "mcp"]
    assert '+      "taskmem"' in said.text

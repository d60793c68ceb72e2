"""`taskmem log`, and `taskmem daemon restart`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from openclaw_taskmem.cli.daemon_log import print_log
from tests.support.daemons import COMMAND, command, environment, short_home
from tests.support.waiting import ProcessOutput


def test_the_last_lines_are_printed_and_steer_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "daemon.log"
    log.write_text("one\ntwo \x1b[31m\nthree\n")

    print_log(log, 2, follows=False)

    assert capsys.readouterr().out == "two \ufffd[31m\nthree\n"


def test_a_home_without_a_log_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_log(tmp_path / "daemon.log", 5, follows=False)
    assert "There is no log yet" in capsys.readouterr().err


def test_new_lines_are_followed_also_after_a_rotation() -> None:
    with short_home() as home:
        home.prepare()
        home.log.write_text("x" * 100 + "\n")
        following = subprocess.Popen(
            [COMMAND, "log", "--follow"],
            env=environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert following.stdout is not None
        out = ProcessOutput(following.stdout)
        assert out.wait_for("xxx")
        with home.log.open("a") as log:
            log.write("added\n")
        assert out.wait_for("added")
        home.log.write_text("anew\n")
        assert out.wait_for("anew")
        following.terminate()
        following.wait()
        out.join()


def test_a_restart_puts_another_process_in_the_daemons_place() -> None:
    with short_home() as home:
        _, first, _ = command(home, "daemon", "--detach")
        status, second, _ = command(home, "daemon", "restart")
        assert status == 0
        assert "has stopped" in second
        assert first.split()[-1] not in second.splitlines()[-1]
        assert command(home, "daemon", "stop")[0] == 0

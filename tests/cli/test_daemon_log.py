"""`taskmem log`, and `taskmem daemon restart`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw_taskmem.cli.daemon_commands import LogReader, print_log
from openclaw_taskmem.daemon import logfile
from openclaw_taskmem.daemon.lock import Lock
from openclaw_taskmem.home import Home
from tests.support.daemons import COMMAND, command, environment, short_home
from tests.support.waiting import ProcessOutput


class Log:
    """A log that is written and rotated as the daemon does it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, text: str) -> None:
        os.write(self.file, text.encode())

    def rotate(self) -> None:
        before = self.path.stat().st_ino
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logfile, "LARGEST_BYTES", 0)
            logfile.rotate_log(self.path, [self.file])
        assert self.path.stat().st_ino != before

    def close(self) -> None:
        os.close(self.file)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "daemon.log")
    yield log
    log.close()


def read_new(reader: LogReader) -> list[str]:
    return [line.decode().rstrip("\n") for line in reader.read_lines()]


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


def test_the_log_before_a_rotation_belongs_to_the_end(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write("one\n")
    log.rotate()
    log.write("two\nbegun")
    print_log(log.path, 50, follows=False)
    assert capsys.readouterr().out == "one\ntwo\nbegun\n"


def test_each_line_is_read_once_across_rotations(log: Log) -> None:
    with LogReader(log.path) as reader:
        assert read_new(reader) == []
        log.write("one\n")
        assert read_new(reader) == ["one"]
        for number in range(3):
            log.write(f"before {number}\n")
            log.rotate()
            log.write(f"after {number}\n")
            assert read_new(reader) == [f"before {number}", f"after {number}"]
        assert read_new(reader) == []


def test_what_is_written_while_it_rotates_is_read(log: Log) -> None:
    with LogReader(log.path) as reader:
        log.write("one\n")
        assert read_new(reader) == ["one"]
        with log.path.open("a") as old:
            log.rotate()
            log.write("new\n")
            assert read_new(reader) == ["new"]
            old.write("late\n")
        assert read_new(reader) == ["late"]


def test_a_line_is_read_when_it_is_whole(log: Log) -> None:
    with LogReader(log.path) as reader:
        log.write("one\ntw")
        assert read_new(reader) == ["one"]
        log.write("o\n")
        assert read_new(reader) == ["two"]


def test_a_log_that_was_emptied_is_read_anew(log: Log) -> None:
    with LogReader(log.path) as reader:
        log.write("something long\n")
        assert read_new(reader) == ["something long"]
        os.truncate(log.path, 0)
        log.write("anew\n")
        assert read_new(reader) == ["anew"]


def test_new_lines_are_followed_until_the_end() -> None:
    with short_home() as home:
        home.prepare()
        log = Log(home.log)
        log.write("begun\n")
        following = subprocess.Popen(
            [COMMAND, "log", "--follow"],
            env=environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert following.stdout is not None
        out = ProcessOutput(following.stdout)
        assert out.wait_for("begun")
        log.write("added\n")
        assert out.wait_for("added")
        following.terminate()
        following.wait()
        out.join()
        log.close()


@pytest.mark.parametrize(
    "text", ['keep_days = "x"', "keep_days =", 'wake_transport = "none"', 'readers = "nobody"']
)
def test_a_restart_with_bad_settings_stops_nothing(text: str, home: Home) -> None:
    home.prepare()
    home.config.write_text(text)
    lock = Lock(home.lock, named=False)  # so nobody stops this process
    try:
        status, _, said = command(home, "daemon", "restart")
    finally:
        lock.release()
    assert status == 1
    assert said.strip().endswith("was not stopped; it goes on with its old settings.")
    status, _, said = command(home, "daemon", "restart")
    assert (status, "was not stopped" in said) == (1, False)


def test_a_restart_puts_another_process_in_the_daemons_place() -> None:
    with short_home() as home:
        _, first, _ = command(home, "daemon", "--detach")
        status, second, _ = command(home, "daemon", "restart")
        assert status == 0
        assert "has stopped" in second
        assert first.split()[-1] not in second.splitlines()[-1]
        assert command(home, "daemon", "stop")[0] == 0

"""Who is stopped: the process that holds the home, and nobody else."""

from __future__ import annotations

import os
import subprocess

import pytest

from openclaw_taskmem.cli import daemon_process
from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.daemon.processes import identify_process


@pytest.fixture
def stranger():
    """A process that is none of ours, with a number that one of ours had."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("name", ["{pid}", "{pid}:1", "{pid}:1 ending"])
def test_stop_spares_a_stranger_that_has_the_holders_old_pid(
    home, lock_file, stranger, monkeypatch, name
):
    monkeypatch.setattr(daemon_process, "MOST_CHECKS", 1)
    monkeypatch.setattr(daemon_process, "STEP_SECONDS", 0)
    lock_file.write_text(name.format(pid=stranger.pid))
    sentence, status = daemon_process.stop_daemon(home)
    assert status == 1
    assert f"find the process with `fuser {home.lock}`, and end it" in sentence
    assert stranger.poll() is None


def test_another_users_daemon_is_told_not_stopped(home, lock_file, monkeypatch):
    def kill(pid, number):
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    sentence, status = daemon_process.stop_daemon(home)
    assert status == 1
    assert sentence == (
        f"Process {os.getpid()} is another user's, so it was not stopped; run taskmem "
        "daemon stop as the user who started it."
    )


def test_the_lock_tells_its_holder_from_others_of_its_number(home, lock_file):
    mine = find_holder(lock_file)
    assert (mine.pid, mine.process) == (os.getpid(), identify_process(os.getpid()))


def test_whoever_tidies_up_after_a_daemon_is_not_named_as_one(home, monkeypatch):
    home.prepare()
    home.socket.touch()
    seen = []

    def unlink(path, **_):
        seen.append(find_holder(home.lock))

    monkeypatch.setattr(type(home.socket), "unlink", unlink)
    sentence, status = daemon_process.stop_daemon(home)
    assert (sentence, status) == (f"No daemon runs for {home.folder}.", 0)
    assert [each.pid for each in seen] == [None]

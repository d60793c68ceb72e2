"""What is there in place of an answer, and what is said of it."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from unittest.mock import Mock

import pytest

from openclaw_taskmem.cli import daemon_process
from openclaw_taskmem.cli.daemon_process import (
    STARTING_SECONDS,
    check_presence,
    classify_presence,
    explain_presence,
)
from openclaw_taskmem.daemon import lock as lock_module
from openclaw_taskmem.daemon.lock import Lock, LockHolder, find_holder

YOUNG, OLD = STARTING_SECONDS - 0.5, STARTING_SECONDS
NOW = 1_800_000_000.0
ENDING = LockHolder(7, ending=True, written_at=NOW - YOUNG)


@pytest.mark.parametrize(
    ("held", "age", "state", "pid"),
    [
        (None, None, "absent", None),
        (LockHolder(7), 0.0, "starting", 7),
        (LockHolder(7), YOUNG, "starting", 7),
        (LockHolder(7), OLD, "silent", 7),
        (ENDING, OLD, "ending", 7),
        (ENDING._replace(written_at=NOW - OLD), OLD, "silent", 7),
        # Another has taken the lock, and its name is not written yet, or cannot be.
        (LockHolder(None, written_at=NOW - YOUNG), None, "starting", None),
        (LockHolder(7, written_at=NOW - YOUNG), None, "starting", None),
        (ENDING, None, "starting", None),
        (LockHolder(None, written_at=NOW - OLD), None, "silent", None),
        (ENDING._replace(written_at=NOW - OLD), None, "silent", None),
    ],
)
def test_who_holds_a_home_starts_or_ends_for_15_seconds(held, age, state, pid):
    assert classify_presence(held, age, NOW) == (state, pid, None)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (classify_presence(None, None, NOW), "No daemon runs for"),
        (classify_presence(LockHolder(7), YOUNG, NOW), "is starting, as process 7. Try again"),
        (classify_presence(LockHolder(None, written_at=NOW), None, NOW), "is starting. Try again"),
        (classify_presence(ENDING, OLD, NOW), "is ending, as process 7. Try again"),
        (classify_presence(LockHolder(7), OLD, NOW), "Process 7 holds"),
        (classify_presence(LockHolder(None), None, NOW), "then find it with `fuser"),
        (classify_presence(LockHolder(7, machine="b"), None, NOW), "held by a daemon on b, "),
    ],
)
def test_explain_offers_daemon_stop_only_for_a_silent_process(home, state, said):
    sentence = explain_presence(state, home)
    assert said in sentence
    assert str(home.folder) in sentence
    assert ("daemon stop" in sentence) is (state == ("silent", 7, None))


@pytest.mark.parametrize(
    ("holder", "seen_from", "named"),
    [
        ("node1", "node1", None),
        ("node1", "node10", "node1"),
        ("web-2", "web", "web-2"),
        ("", "web", None),
        ("n" * 90, "n" * 90, None),
    ],
)
def test_the_lock_names_the_machine_of_a_daemon_elsewhere(
    home, monkeypatch, holder, seen_from, named
):
    home.prepare()
    monkeypatch.setattr(lock_module, "_get_machine", lambda: holder)
    lock = Lock(home.lock)
    monkeypatch.setattr(lock_module, "_get_machine", lambda: seen_from)
    assert find_holder(home.lock).machine == named
    lock.release()


def test_a_home_that_nobody_holds_has_no_daemon(home):
    assert check_presence(home).state == "absent"
    home.prepare()
    Lock(home.lock).release()
    assert check_presence(home).state == "absent"


def test_the_lock_and_its_process_tell_what_is_there(home):
    home.prepare()
    lock = Lock(home.lock)
    found = check_presence(home)
    # How old this process is depends on how many tests ran before.
    assert found.state in ("starting", "silent")
    assert found.pid == os.getpid()
    lock.mark_ending()
    assert check_presence(home) == ("ending", os.getpid(), None)
    lock.release()
    next_one = Lock(home.lock)
    assert check_presence(home).state != "ending"
    next_one.release()


@pytest.mark.parametrize("name", ["", "{ended} ending", "{ended}:1 ending", "{here}:1"])
@pytest.mark.parametrize(("since", "state"), [(0.0, "starting"), (OLD, "silent")])
def test_lock_without_a_live_process_is_silent_after_15_seconds(
    lock_file, home, name, since, state
):
    with subprocess.Popen(["/bin/true"]) as ended:
        ended.wait()
    lock_file.write_text(name.format(ended=ended.pid, here=os.getpid()))
    written = time.time() - since
    os.utime(lock_file, (written, written))
    assert check_presence(home) == (state, None, None)


def test_a_name_that_is_written_meanwhile_is_seen(lock_file, home, monkeypatch):
    name = lock_file.read_text()
    lock_file.write_text("")
    os.utime(lock_file, (0.0, 0.0))

    def write_name(_):
        lock_file.write_text(name)

    monkeypatch.setattr(daemon_process.time, "sleep", write_name)
    assert check_presence(home).pid == os.getpid()


def test_lock_without_room_for_a_name_is_aged_from_its_taking(home, monkeypatch):
    home.prepare()
    home.lock.touch()
    os.utime(home.lock, (0.0, 0.0))
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space"))
    monkeypatch.setattr(lock_module.os, "pwrite", full)
    taken = Lock(home.lock)
    assert check_presence(home) == ("starting", None, None)
    taken.release()

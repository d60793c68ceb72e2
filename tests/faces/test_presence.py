"""What is there in place of an answer, and what is said of it."""

from __future__ import annotations

import os
import subprocess

import pytest

from openclaw_taskmem.daemon.lock import Holder, Lock
from openclaw_taskmem.faces.presence import STARTING_SECONDS, explain, judge, look

YOUNG, OLD = STARTING_SECONDS - 0.5, STARTING_SECONDS
NOW = 1_800_000_000.0
ENDING = Holder(7, ending=True, written_at=NOW - YOUNG)


@pytest.mark.parametrize(
    ("held", "age", "state", "pid"),
    [
        (None, None, "absent", None),
        (Holder(7), 0.0, "starting", 7),
        (Holder(7), YOUNG, "starting", 7),
        (Holder(7), OLD, "silent", 7),
        (ENDING, OLD, "ending", 7),
        (ENDING._replace(written_at=NOW - OLD), OLD, "silent", 7),
        # Another has taken the lock, and its name is not written yet.
        (Holder(None), None, "starting", None),
        (Holder(7), None, "starting", None),
        (ENDING, None, "starting", None),
    ],
)
def test_who_holds_a_home_starts_or_ends_for_15_seconds(held, age, state, pid):
    assert judge(held, age, NOW) == (state, pid)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (judge(None, None, NOW), "No daemon runs for"),
        (judge(Holder(7), YOUNG, NOW), "is starting, as process 7. Try again"),
        (judge(Holder(None), None, NOW), "is starting. Try again"),
        (judge(ENDING, OLD, NOW), "is ending, as process 7. Try again"),
        (judge(Holder(7), OLD, NOW), "Process 7 holds"),
    ],
)
def test_only_of_a_silent_process_it_is_said_that_it_may_be_stopped(home, state, said):
    sentence = explain(state, home)
    assert said in sentence
    assert str(home.folder) in sentence
    assert ("daemon stop" in sentence) is (state.state == "silent")


def test_a_home_that_nobody_holds_has_no_daemon(home):
    assert look(home).state == "absent"
    home.prepare()
    Lock(home.lock).release()
    assert look(home).state == "absent"


def test_the_lock_and_its_process_tell_what_is_there(home):
    home.prepare()
    lock = Lock(home.lock)
    found = look(home)
    # How old this process is depends on how many tests ran before.
    assert found.state in ("starting", "silent")
    assert found.pid == os.getpid()
    lock.mark_ending()
    assert look(home) == ("ending", os.getpid())
    lock.release()
    next_one = Lock(home.lock)
    assert look(home).state != "ending"
    next_one.release()


def test_a_lock_that_names_a_process_that_has_ended_was_just_taken(home):
    home.prepare()
    lock = Lock(home.lock)
    with subprocess.Popen(["/bin/true"]) as ended:
        ended.wait()
    home.lock.write_text(f"{ended.pid} ending")
    assert look(home) == ("starting", None)
    lock.release()

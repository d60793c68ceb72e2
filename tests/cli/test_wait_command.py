"""`taskmem wait` while its daemon is killed, or told to stop."""

from __future__ import annotations

import os

import pytest

from openclaw_taskmem.cli import daemon_process, list_commands, wait_command
from openclaw_taskmem.cli.wait_command import run_wait
from openclaw_taskmem.daemon.lock import LockHolder

END = {"ended": True, "status": "resolved", "text": "[system] It ended.", "exit": 0}
NOT_YET = {"ended": False, "stopping": False}
BUSY = {"error": "store_busy", "message": "It is busy."}
STOPPING = {"ended": False, "stopping": True}


def make_script(*answers):
    """Answers one request after the other; None hangs up, as a kill does.

    What is to be called is called before that.
    """
    left = [*answers]

    def behave(connection, document):
        result = left.pop(0)
        if callable(result):
            result()
        if result is None or callable(result):
            connection.drop()
        else:
            kind = "error" if "error" in result else "result"
            connection.say({"id": document["id"], kind: result})

    return behave


def wait_and_note_rests(home):
    rests = []
    return *run_wait(home, {}, "wait_1", rests.append), rests


def test_it_asks_until_the_wait_has_ended(daemon, home):
    one = daemon(behaviour=make_script(NOT_YET, NOT_YET, END))
    assert wait_and_note_rests(home) == ("[system] It ended.", 0, [])
    asked = [one.heard.get_nowait() for _ in range(3)]
    assert {each["params"]["id"] for each in asked} == {"wait_1"}


def test_a_daemon_that_dies_is_asked_again_at_growing_rests(daemon, home):
    daemon(behaviour=make_script(None, None, None, NOT_YET, None, END))
    assert wait_and_note_rests(home) == ("[system] It ended.", 0, [0, 1, 3, 0])


def test_a_store_that_is_busy_is_asked_again(daemon, home):
    daemon(behaviour=make_script(BUSY, END))
    assert wait_and_note_rests(home) == ("[system] It ended.", 0, [0])


def test_a_daemon_that_is_told_to_stop_is_not_started_again(daemon, home):
    daemon(behaviour=make_script(NOT_YET, STOPPING))
    sentence, status, _ = wait_and_note_rests(home)
    assert status == 3
    assert "Call this again to start one" in sentence


def test_a_daemon_that_stops_without_an_answer_is_not_started(daemon, home, monkeypatch):
    monkeypatch.delattr(daemon_process, "DaemonStart")
    daemon(behaviour=make_script(NOT_YET, home.socket.unlink))
    sentence, status, rests = wait_and_note_rests(home)
    assert (status, rests) == (3, [0])
    assert "was told to stop" in sentence


def test_a_daemon_that_is_starting_is_waited_for(daemon, home, monkeypatch):
    def find_starting(_):
        daemon(behaviour=make_script(END))
        return LockHolder(os.getpid())

    monkeypatch.setattr(wait_command, "find_holder", find_starting)
    daemon(behaviour=make_script(home.socket.unlink))
    assert wait_and_note_rests(home) == ("[system] It ended.", 0, [0])


def test_a_wait_that_nobody_knows_is_a_status_of_its_own(daemon, home):
    unknown = {"error": "wait_not_found", "message": "Call smart_wait."}
    daemon(behaviour=make_script(unknown))
    told = "There is no wait wait_1; see what there is with: taskmem waits --all"
    assert wait_and_note_rests(home) == (told, 2, [])


def test_what_else_is_refused_does_not_say_the_target_is_lost(daemon, home):
    daemon(behaviour=make_script({"error": "internal", "message": "It is ill."}))
    said = "It is ill. Then call this again: wait_1 is kept."
    assert wait_and_note_rests(home) == (said, 3, [])


@pytest.mark.parametrize(
    ("words", "target", "condition"),
    [
        (("path:~/out", "appears"), "path:/home/u/out", "appears"),
        (("path:out appears",), "path:/work/out", "appears"),
        (("path:../out/", "is", "gone"), "path:/out", "is gone"),
        (("path:/a/my file", "appears"), "path:/a/my file", "appears"),
        (("pty:file:build.log", '"done" appears'), "pty:file:/work/build.log", '"done" appears'),
        (("pty:build", "exits"), "pty:build", "exits"),
        (("time:tomorrow", "9:00"), "time:tomorrow 9:00", None),
    ],
)
def test_a_path_is_read_from_the_folder_and_home_of_its_person(
    monkeypatch, words, target, condition
):
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setattr(list_commands.os, "getcwd", lambda: "/work")
    read = list_commands._read_awaited(words)
    assert (read["target"], read.get("wake_when")) == (target, condition)

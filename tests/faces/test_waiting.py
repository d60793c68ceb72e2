"""`taskmem wait` while its daemon is killed, or told to stop."""

from __future__ import annotations

import os

from openclaw_taskmem.daemon.lock import Holder
from openclaw_taskmem.faces import start, waiting
from openclaw_taskmem.faces.waiting import run

END = {"ended": True, "status": "resolved", "text": "[system] It ended.", "exit": 0}
NOT_YET = {"ended": False, "stopping": False}
BUSY = {"error": "store_busy", "message": "It is busy."}
STOPPING = {"ended": False, "stopping": True}


def scripted(*answers):
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


def waited(home):
    rests = []
    return *run(home, {}, "wait_1", rests.append), rests


def test_it_asks_until_the_wait_has_ended(daemon, home):
    one = daemon(behaviour=scripted(NOT_YET, NOT_YET, END))
    assert waited(home) == ("[system] It ended.", 0, [])
    asked = [one.heard.get_nowait() for _ in range(3)]
    assert {each["params"]["id"] for each in asked} == {"wait_1"}


def test_a_daemon_that_dies_is_asked_again_at_growing_rests(daemon, home):
    daemon(behaviour=scripted(None, None, None, NOT_YET, None, END))
    assert waited(home) == ("[system] It ended.", 0, [0, 1, 3, 0])


def test_a_store_that_is_busy_is_asked_again(daemon, home):
    daemon(behaviour=scripted(BUSY, END))
    assert waited(home) == ("[system] It ended.", 0, [0])


def test_a_daemon_that_is_told_to_stop_is_not_started_again(daemon, home):
    daemon(behaviour=scripted(NOT_YET, STOPPING))
    sentence, status, _ = waited(home)
    assert status == 3
    assert "Call this again to start one" in sentence


def test_a_daemon_that_stops_without_an_answer_is_not_started(
    daemon, home, monkeypatch
):
    monkeypatch.delattr(start, "Start")
    daemon(behaviour=scripted(NOT_YET, home.socket.unlink))
    sentence, status, rests = waited(home)
    assert (status, rests) == (3, [0])
    assert "was told to stop" in sentence


def test_a_daemon_that_is_starting_is_waited_for(daemon, home, monkeypatch):
    def find_starting(_):
        daemon(behaviour=scripted(END))
        return Holder(os.getpid())

    monkeypatch.setattr(waiting, "find_holder", find_starting)
    daemon(behaviour=scripted(home.socket.unlink))
    assert waited(home) == ("[system] It ended.", 0, [0])


def test_a_wait_that_nobody_knows_is_a_status_of_its_own(daemon, home):
    unknown = {"error": "wait_not_found", "message": "There is no wait wait_1."}
    daemon(behaviour=scripted(unknown))
    assert waited(home) == ("There is no wait wait_1.", 2, [])


def test_what_else_is_refused_does_not_say_the_target_is_lost(daemon, home):
    daemon(behaviour=scripted({"error": "internal", "message": "It is ill."}))
    said = "It is ill. Then call this again: wait_1 is kept."
    assert waited(home) == (said, 3, [])

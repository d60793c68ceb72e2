"""`taskmem wait` while its daemon is killed, or told to stop."""

from __future__ import annotations

import pytest

from openclaw_taskmem.faces.link import LinkError
from openclaw_taskmem.faces.waiting import run

END = {"ended": True, "status": "resolved", "text": "[system] It ended.", "exit": 0}
NOT_YET = {"ended": False, "stopping": False}
STOPPING = {"ended": False, "stopping": True}


class Failed(Exception):
    """What a command ends with."""


def fail(sentence, status):
    raise Failed(sentence, status)


def scripted(*answers):
    """Answers one request after the other; None hangs up, as a kill does."""
    left = [*answers]

    def behave(connection, document):
        result = left.pop(0)
        if result is None:
            connection.drop()
        else:
            kind = "error" if "error" in result else "result"
            connection.say({"id": document["id"], kind: result})

    return behave


def waited(home):
    said = []
    return run(home, {}, "wait_1", said.append, fail), said


def test_it_asks_until_the_wait_has_ended(daemon, home):
    one = daemon(behaviour=scripted(NOT_YET, NOT_YET, END))
    assert waited(home) == (0, ["[system] It ended."])
    asked = [one.heard.get_nowait() for _ in range(3)]
    assert {each["params"]["id"] for each in asked} == {"wait_1"}


def test_a_daemon_that_is_killed_meanwhile_is_asked_again(daemon, home):
    daemon(behaviour=scripted(NOT_YET, None, END))
    assert waited(home) == (0, ["[system] It ended."])


def test_a_daemon_that_is_told_to_stop_is_not_started_again(daemon, home):
    daemon(behaviour=scripted(NOT_YET, STOPPING))
    with pytest.raises(Failed) as raised:
        waited(home)
    sentence, status = raised.value.args
    assert status == 3
    assert "Call this again to start one" in sentence


def test_a_wait_that_nobody_knows_is_a_status_of_its_own(daemon, home):
    unknown = {"error": "wait_not_found", "message": "There is no wait wait_1."}
    daemon(behaviour=scripted(unknown))
    with pytest.raises(Failed) as raised:
        waited(home)
    assert raised.value.args == ("There is no wait wait_1.", 2)


def test_what_the_daemon_refuses_otherwise_is_passed_on(daemon, home):
    daemon(behaviour=scripted({"error": "store_busy", "message": "It is busy."}))
    with pytest.raises(LinkError, match="It is busy"):
        waited(home)

"""Wakes on their way: through real processes, however those fare."""

from __future__ import annotations

import json
import signal

import pytest

from tests.support.daemons import SOON
from tests.support.waiting import until

MARKER = "[task_stuck_resume] "


def packet_of(line):
    assert line.startswith(MARKER)
    return json.loads(line.removeprefix(MARKER))


@pytest.fixture
def start_with_command(start, openclaw):
    """Starts a daemon that sends its wakes through the command."""

    def go(**settings):
        return start(
            **SOON,
            TASKMEM_WAKE_TRANSPORT="openclaw-cli",
            TASKMEM_OPENCLAW_BIN=str(openclaw.binary),
            **settings,
        )

    return go


def wake_in(daemon, state):
    """The wake of the only task, once it is in a state."""

    def look():
        wakes = daemon.wakes()
        assert len(wakes) <= 1
        return [wake for wake in wakes if wake["state"] == state]

    (wake,) = until(look, f"a wake that is {state}")
    return wake


def wait_for_failed_wake(daemon):
    """The wake of the only task, once a delivery has failed."""

    def look():
        return [wake for wake in daemon.wakes() if wake["last_error"]]

    (wake,) = until(look, "a failed delivery")
    return wake


# On the daemon's own output.


def test_a_silent_task_wakes_its_agent_with_one_line(start):
    daemon = start(**SOON, TASKMEM_WAKE_TRANSPORT="stdout")
    task_id = daemon.register(session_key="agent:main:main")
    line = daemon.out.wait_for(task_id)
    packet = packet_of(line)
    assert packet["task_id"] == task_id
    assert packet["plan"] == ["Build", "Push", "Check"]
    wake = wake_in(daemon, "sent")
    assert wake["text"] == line
    assert wake["wake_id"] == packet["wake_id"]
    assert wake["key"] == f"stuck:{task_id}:1"
    assert wake["session_key"] == "agent:main:main"
    assert wake["transport"] == "stdout"
    assert wake["attempts"] == 1
    (told,) = daemon.ask("show", id=task_id)["messages"]
    assert (told["role"], told["msg_type"]) == ("system", "stuck")
    daemon.stop()
    assert daemon.out.lines == [line]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_within_the_cooldown_a_restart_wakes_nobody_again(start, number):
    daemon = start(**SOON)
    first = daemon.register("First", session_key="agent:one:main")
    assert daemon.out.wait_for(first)
    wake_in(daemon, "sent")
    daemon.kill(number)
    for name in ("Second", "Third"):
        daemon.restart()
        # What is due is looked at in order: the first's turn came before.
        later = daemon.register(name, session_key=f"agent:{name}:main")
        assert daemon.out.wait_for(later)
        until(lambda: all(wake["state"] == "sent" for wake in daemon.wakes()), "every wake is sent")
        assert first not in daemon.out.text
        daemon.kill(number)
    daemon.restart()
    of_first = [wake for wake in daemon.wakes() if wake["task_id"] == first]
    assert len(of_first) == 1
    assert of_first[0]["attempts"] == 1
    shown = daemon.ask("show", id=first)
    assert [message["msg_type"] for message in shown["messages"]] == ["stuck"]
    assert shown["stuck_alerts"] == 1


# Through the command.


def test_command_gets_the_wake_as_one_argument_and_its_session(start_with_command, openclaw):
    openclaw.install()
    daemon = start_with_command()
    task_id = daemon.register(session_key="agent:main:main")
    wake = wake_in(daemon, "sent")
    assert openclaw.calls == [
        [
            "system",
            "event",
            "--mode",
            "now",
            "--text",
            wake["text"],
            "--session-key",
            "agent:main:main",
        ]
    ]
    assert packet_of(wake["text"])["task_id"] == task_id
    assert wake["transport"] == "openclaw-cli"


BROKEN = {
    "missing": (None, "cannot be started (No such file or directory)"),
    "failing": (
        "print('gateway not reachable', file=sys.stderr); sys.exit(1)",
        "ended with status 1: gateway not reachable",
    ),
}


@pytest.mark.parametrize(("behaviour", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_wake_stays_due_while_its_command_fails_then_arrives(
    start_with_command, openclaw, behaviour, said
):
    if behaviour is not None:
        openclaw.install(behaviour)
    daemon = start_with_command()
    task_id = daemon.register()
    wake = wait_for_failed_wake(daemon)
    assert wake["state"] == "due"
    assert wake["attempts"] >= 1
    assert wake["sent_at"] is None
    assert said in wake["last_error"]
    assert str(openclaw.binary) in wake["last_error"]
    openclaw.install()
    sent = wake_in(daemon, "sent")
    assert sent["wake_id"] == wake["wake_id"]
    assert sent["attempts"] > wake["attempts"]
    assert sent["last_error"] is None
    assert packet_of(openclaw.calls[-1][5])["task_id"] == task_id
    kinds = [event["kind"] for event in daemon.ask("events", task_id=task_id)]
    assert kinds[:3] == ["task_registered", "stuck", "wake_failed"]
    assert kinds[-1] == "wake_sent"


def test_a_daemon_that_is_stopped_ends_the_command_that_hangs(start_with_command, openclaw):
    with openclaw.hang() as hanging:
        daemon = start_with_command()
        task_id = daemon.register()
        hanging.wait_until_it_hangs()
        assert daemon.stop() == 0
        hanging.wait_until_all_are_dead()
    openclaw.install()
    daemon.restart()
    (owed,) = daemon.wakes()
    assert owed["task_id"] == task_id
    assert owed["attempts"] >= 1
    wake_in(daemon, "sent")


def test_killed_daemons_leave_no_command_and_send_a_wake_once(start_with_command, openclaw):
    sessions = [f"agent:{number}:main" for number in range(5)]
    with openclaw.hang() as hanging:
        daemon = start_with_command()
        for count, session in enumerate(sessions, start=1):
            # Its wake is sent in the pass that finds those of the killed daemons.
            daemon.register(session_key=session)
            until(lambda: len(openclaw.calls) >= count, "it is called")  # noqa: B023
            daemon.kill()
            hanging.wait_until_all_are_dead()
            if session != sessions[-1]:
                daemon.restart()
    assert [call[-1] for call in openclaw.calls] == sessions

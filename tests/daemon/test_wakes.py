"""Wakes on their way: through real processes, however those fare."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime

import pytest

from openclaw_taskmem.domain.outbox import OutboxPolicy
from taskmem_hookspecs import Wake, WakeCause, WakeRefused, WakeUndelivered
from taskmem_openclaw.transports.cli import SECONDS, OpenClawCli
from tests.support.openclaws import FakeOpenClaw
from tests.support.waiting import until

SOON = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "0.05"}
MARKER = "[task_stuck_resume] "


def packet_of(line):
    assert line.startswith(MARKER)
    return json.loads(line.removeprefix(MARKER))


@pytest.fixture
def openclaw(home):
    """The stand-in for the command; not installed yet."""
    return FakeOpenClaw(home.folder.parent / "bin")


@pytest.fixture
def through(start, openclaw):
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


def failed(daemon):
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


def test_an_agent_that_acts_acknowledges_its_wake(start):
    daemon = start(**SOON)
    task_id = daemon.register()
    daemon.out.wait_for(task_id)
    wake_in(daemon, "sent")
    daemon.call("task_update", task_id=task_id, message="Awake.")
    assert wake_in(daemon, "acknowledged")["acknowledged_at"]


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
        until(
            lambda: all(wake["state"] == "sent" for wake in daemon.wakes()),
            "every wake is sent",
        )
        assert first not in daemon.out.text
        daemon.kill(number)
    daemon.restart()
    of_first = [wake for wake in daemon.wakes() if wake["task_id"] == first]
    assert len(of_first) == 1
    assert of_first[0]["attempts"] == 1
    shown = daemon.ask("show", id=first)
    assert [message["msg_type"] for message in shown["messages"]] == ["stuck"]
    assert shown["stuck_alerts"] == 1


def test_after_the_cooldown_the_next_alert_closes_the_one_before(start):
    daemon = start(**SOON, TASKMEM_STUCK_COOLDOWN_SECONDS="0.3")
    task_id = daemon.register()
    assert daemon.out.wait_for(task_id, times=3)
    states = [wake["state"] for wake in daemon.wakes()]
    assert states[:2] == ["unanswered", "unanswered"]
    keys = [wake["key"] for wake in daemon.wakes()]
    assert keys[:3] == [f"stuck:{task_id}:{number}" for number in (1, 2, 3)]


def test_stuck_tasks_of_one_session_share_a_message(start):
    daemon = start()
    session = "agent:main:main"
    tasks = [
        daemon.register(f"Task {number}", session_key=session) for number in range(13)
    ]
    other = daemon.register("Elsewhere", session_key="agent:other:main")
    daemon.restart(**SOON)
    until(
        lambda: len([w for w in daemon.wakes() if w["state"] == "sent"]) == 14,
        "every wake is sent",
    )
    daemon.stop()
    packets = [packet_of(line) for line in daemon.out.lines]
    assert len(packets) == 2
    shared, single = sorted(packets, key=lambda packet: packet["task_id"] == other)
    assert single["task_id"] == other
    assert "also_stuck" not in single
    assert shared["task_id"] == tasks[0]
    assert [other["task_id"] for other in shared["also_stuck"]] == tasks[1:11]
    assert shared["also_stuck"][0]["name"] == "Task 1"
    assert "no updates for" in shared["also_stuck"][0]["reason"]
    assert shared["also_stuck_more"] == 2
    daemon.restart()
    deliveries = [(wake["sent_at"], wake["attempts"]) for wake in daemon.wakes()]
    assert len(deliveries) == 14
    assert {attempts for _, attempts in deliveries} == {1}


# Through the command.


def test_the_command_gets_the_wake_as_one_argument_and_the_session(through, openclaw):
    openclaw.install()
    daemon = through()
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


def test_without_a_session_the_command_gets_none(through, openclaw):
    openclaw.install()
    daemon = through()
    daemon.register()
    wake = wake_in(daemon, "sent")
    assert openclaw.calls == [
        ["system", "event", "--mode", "now", "--text", wake["text"]]
    ]


def test_no_shell_reads_what_is_in_a_wake(through, openclaw):
    openclaw.install()
    daemon = through()
    trick = "$(touch {0}) `touch {0}`; touch {0} | touch {0} & 'x' \"y\" $HOME *"
    task_id = daemon.register(
        trick.format("name"),
        plan=[trick.format("step")],
        session_key=trick.format("session"),
    )
    wake = wake_in(daemon, "sent")
    (call,) = openclaw.calls
    assert call[5:] == [wake["text"], "--session-key", trick.format("session")]
    packet = packet_of(call[5])
    assert packet["task_id"] == task_id
    assert packet["name"] == trick.format("name")
    assert packet["plan"] == [trick.format("step")]
    made = {path.name for path in daemon.cwd.iterdir()}
    assert made == {daemon.home.folder.name, openclaw.folder.name}


BROKEN = {
    "missing": (None, "cannot be started (No such file or directory)"),
    "failing": (
        "print('gateway not reachable', file=sys.stderr); sys.exit(1)",
        "ended with status 1: gateway not reachable",
    ),
    "killed": ("os.kill(os.getpid(), 9)", "ended with status -9"),
}


@pytest.mark.parametrize(("behaviour", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_wake_stays_owed_while_the_command_is_broken_and_arrives_once_it_works(
    through, openclaw, behaviour, said
):
    if behaviour is not None:
        openclaw.install(behaviour)
    daemon = through()
    task_id = daemon.register()
    wake = failed(daemon)
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


def test_a_wake_that_is_owed_outlives_the_daemon(through, openclaw):
    daemon = through()
    task_id = daemon.register()
    wake = failed(daemon)
    daemon.kill(signal.SIGKILL)
    openclaw.install()
    daemon.restart()
    assert wake_in(daemon, "sent")["wake_id"] == wake["wake_id"]
    (call,) = openclaw.calls
    assert packet_of(call[5])["task_id"] == task_id


def test_a_wake_whose_task_moved_on_before_it_could_be_sent_is_superseded(
    through, openclaw
):
    daemon = through()
    task_id = daemon.register()
    failed(daemon)
    daemon.call("task_update", task_id=task_id, status="completed")
    assert wake_in(daemon, "superseded")["sent_at"] is None
    assert openclaw.calls == []


def test_a_wake_that_the_gateway_will_never_take_is_not_tried_again(through, openclaw):
    openclaw.install("print('cannot target a subagent session'); sys.exit(1)")
    daemon = through()
    daemon.register()
    wake = wake_in(daemon, "refused")
    assert "cannot target a subagent session" in wake["last_error"]
    assert wake["due_at"] is None
    assert len(openclaw.calls) == 1


def test_a_daemon_that_is_stopped_ends_the_command_that_hangs(through, openclaw):
    with openclaw.hang() as hanging:
        daemon = through()
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


def test_calls_are_answered_while_the_command_hangs(through, openclaw):
    with openclaw.hang() as hanging:
        daemon = through()
        task_id = daemon.register()
        hanging.wait_until_it_hangs()
        assert daemon.ask("status")["wakes"]["due"] == 1
        other = daemon.register("Another")
        daemon.call("task_update", task_id=other, message="Nobody waits.")
        assert daemon.ask("show", id=task_id)["wakes"][0]["state"] == "due"
        daemon.stop()
        hanging.wait_until_all_are_dead()


# The transport alone.


def wake(text="[task_stuck_resume] {}", session_key=None):
    return Wake(
        wake_id="wake_1",
        key="stuck:task_1:1",
        cause=WakeCause.STUCK,
        task_id="task_1",
        session_key=session_key,
        text=text,
        created_at=datetime(2026, 2, 16, tzinfo=UTC),
    )


async def test_a_command_that_hangs_is_killed_with_all_it_started(openclaw):
    with openclaw.hang() as hanging:
        transport = OpenClawCli(
            {"TASKMEM_OPENCLAW_BIN": str(openclaw.binary)}, seconds=3
        )
        with pytest.raises(
            WakeUndelivered, match=r"no answer within 3 s and was ended"
        ):
            await transport.deliver(wake())
        hanging.wait_until_it_hangs()
        hanging.wait_until_all_are_dead()
    assert len(openclaw.calls) == 1


def test_a_call_of_the_command_ends_before_the_wake_counts_as_lost():
    assert OutboxPolicy().lease_seconds / 2 > SECONDS


async def test_a_command_that_talks_without_end_is_cut_short(openclaw):
    openclaw.install("print('x' * 3_000_000 + ' the end'); sys.exit(2)")
    transport = OpenClawCli({"TASKMEM_OPENCLAW_BIN": str(openclaw.binary)})
    with pytest.raises(WakeUndelivered, match="the end") as refused:
        await transport.deliver(wake())
    assert len(str(refused.value)) < 1000


async def test_a_command_that_may_not_be_started_is_named(openclaw):
    openclaw.install()
    openclaw.binary.chmod(0o644)
    transport = OpenClawCli({"TASKMEM_OPENCLAW_BIN": str(openclaw.binary)})
    with pytest.raises(WakeUndelivered, match="cannot be started"):
        await transport.deliver(wake())


async def test_a_text_beyond_what_an_argument_holds_is_refused(openclaw):
    openclaw.install()
    transport = OpenClawCli({"TASKMEM_OPENCLAW_BIN": str(openclaw.binary)})
    with pytest.raises(WakeRefused, match="more than 120,000 bytes"):
        await transport.deliver(wake("x" * 120_001))
    assert openclaw.calls == []
    receipt = await transport.deliver(wake("x" * 120_000, "agent:main:main"))
    assert receipt.delivered_at.tzinfo is not None
    assert [len(argument) for argument in openclaw.calls[0][5:]] == [120_000, 13, 15]

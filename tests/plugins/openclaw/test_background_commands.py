"""Commands that OpenClaw runs in the background, as targets of waits."""

import asyncio
import json

import pytest

from taskmem_hookspecs import Sensor, Target, TargetNotFound, Watch
from taskmem_openclaw.background_commands import ExecOutput, ExecSensor, _read_exec_end
from taskmem_openclaw.hooks import wait_sensor
from tests.support.waiting import PATIENCE

NAME = "vivid-shoal"
TARGET = Target(scheme="pty", name=NAME)
RESTARTED = "The gateway was restarted, and its commands end with it"


def a_shown_output(text="", status="running", **more):
    return {"shown": {"status": status, "text": text, "size": len(text), **more}}


def row(status, summary=None, error=None):
    return {
        "row": {"status": status, "terminalSummary": summary, "error": error, "startedAt": 1_500}
    }


async def watch(gateway, glance=0.001):
    """Begin to watch the command, and look often."""
    return await ExecSensor(gateway.environ, glance_seconds=glance).watch(TARGET)


async def look(watching):
    here = await watching.here()
    return await watching.look(here.place, here.place)


def test_it_plays_its_parts(gateway):
    gateway.open().commands[NAME] = a_shown_output()
    assert isinstance(ExecSensor(gateway.environ), Sensor)
    assert isinstance(asyncio.run(watch(gateway)), Watch)


@pytest.mark.parametrize("name", ["tmux:main", "file:/var/log/syslog"])
def test_only_plain_names_of_terminals_are_asked_for(name):
    assert wait_sensor(Target(scheme="pty", name=name)) is None
    assert wait_sensor(Target(scheme="window", name="shoal")) is None
    assert isinstance(wait_sensor(TARGET), ExecSensor)


def test_all_that_a_running_command_has_shown_counts(gateway):
    gateway.open().commands[NAME] = a_shown_output("one\ntwo\nthr", lastOutputAt=1_000)
    frame = asyncio.run(look(asyncio.run(watch(gateway))))
    assert (frame.text, frame.tail) == ("one\ntwo\nthr", "one\ntwo\nthr")
    assert (frame.gone, frame.exit_status, frame.note) == (None, None, None)
    assert frame.changed_at is not None
    assert frame.changed_at.timestamp() == 1


def test_what_was_read_comes_again_only_from_its_unfinished_line(gateway):
    gateway.open().commands[NAME] = a_shown_output("one\ntw")

    async def grows():
        watching = await watch(gateway)
        first = await look(watching)
        changed = asyncio.create_task(watching.wait_for_change())
        gateway.commands[NAME] = a_shown_output("one\ntwo\nthree\n")
        await asyncio.wait_for(changed, PATIENCE)
        return await watching.look(first.place, first.place)

    assert asyncio.run(grows()).text == "two\nthree\n"


def test_exec_place_stays_valid_after_a_daemon_restart(gateway):
    gateway.open().commands[NAME] = a_shown_output("one\ntwo\n")
    place = asyncio.run(look(asyncio.run(watch(gateway)))).place
    gateway.commands[NAME] = a_shown_output("one\ntwo\nthree\n")

    async def again():
        watching = await watch(gateway)
        return await watching.look(place, place), await watching.end()

    frame, end = asyncio.run(again())
    assert frame.text == "three\n"
    assert end.endswith(":14")


def test_text_that_is_known_is_not_asked_for_again(gateway):
    gateway.open().commands[NAME] = a_shown_output("one\n")

    async def twice():
        watching = await watch(gateway, glance=0)
        gateway.commands[NAME] = {"shown": {"status": "running", "size": 4}}
        return await look(watching)

    assert asyncio.run(twice()).text == "one\n"
    sizes = [each["size"] for each in gateway.asked]
    assert (sizes[0], {*sizes[1:]}) == (0, {4})


def test_a_text_whose_beginning_was_dropped_is_read_on():
    text = ExecOutput()
    lines = [f"line {n}\n" for n in range(1000)]
    text.add({"text": "".join(lines[:600]), "size": 1})
    place = text.end
    text.add({"text": "".join(lines[400:800]), "size": 1, "cut": True})
    assert text.read_since(place) == "".join(lines[600:800])
    assert text.read_since(0) == "".join(lines[400:800])
    text.add({"text": "".join(lines[900:]), "size": 1, "cut": True})
    assert text.read_since(text.end) == ""
    assert text.read_since(place) == "".join(lines[900:])


def test_a_person_would_read_it_so():
    text = ExecOutput()
    raw = "\x1b[1mdone\x1b[0m\x1b]0;title\x07\r\n 10 %\r 20 %\n"
    text.add({"text": raw, "size": len(raw)})
    assert text.read_since(0) == "done\n 20 %\n"


@pytest.mark.parametrize(
    ("seen", "status", "sentence"),
    [
        (a_shown_output(status="completed", exitCode=0), 0, "ended with status 0"),
        (a_shown_output(status="failed", exitCode=3), 3, "ended with status 3"),
        (a_shown_output(status="failed", exitSignal="SIGKILL"), -9, "ended by SIGKILL"),
        (a_shown_output(status="failed", exitSignal=9), -9, "ended by SIGKILL"),
        (
            a_shown_output(status="failed", exitSignal="SIGTERM", exitReason="overall-timeout"),
            -15,
            "its time was up",
        ),
        (
            a_shown_output(status="completed", exitSignal="SIGTERM", exitReason="manual-cancel"),
            -15,
            "stopped on request, by SIGTERM.",
        ),
        *(
            (a_shown_output(status="failed", exitCode=0, exitReason=reason), None, said)
            for reason, said in {
                "overall-timeout": "OpenClaw ended the command, for its time was up.",
                "no-output-timeout": "its time was up",
                "manual-cancel": "stopped on request.",
            }.items()
        ),
        (a_shown_output(status="failed", exitSignal="SIGNONE"), None, "how is not known"),
        (row("completed", "Command completed"), 0, "ended with status 0"),
        (row("failed", "Command failed", "Command failed (exit code 3)"), 3, "3"),
        (row("failed", "Command failed", "Command failed (signal)"), None, "failed"),
        (row("timed_out", "Command stopped"), None, "its time was up"),
        (row("cancelled", "Command stopped"), None, "stopped on request"),
        (row("cancelled", "Task execution process exited"), None, RESTARTED),
        (row("failed", "Task execution process exited"), None, RESTARTED),
    ],
)
def test_how_a_command_ended_is_read_from_what_is_shown(seen, status, sentence):
    ending = _read_exec_end({**seen, "boot": 1_000}, "1000")
    assert ending is not None
    assert ending.status == status
    assert sentence in ending.sentence


@pytest.mark.parametrize("seen", [a_shown_output("one"), row("running")])
def test_a_command_that_runs_has_not_ended(seen):
    assert _read_exec_end({**seen, "boot": 1_000}, "1000") is None


def test_a_command_without_text_can_be_waited_for_at_its_end(gateway):
    gateway.open().commands[NAME] = row("running")
    frame = asyncio.run(look(asyncio.run(watch(gateway))))
    assert (frame.text, frame.tail) == (None, None)
    assert "only its end can be waited for" in str(frame.note)


def test_an_end_is_noticed(gateway):
    gateway.open().commands[NAME] = a_shown_output("one\n")

    async def ends():
        watching = await watch(gateway)
        place = (await watching.here()).place
        changed = asyncio.create_task(watching.wait_for_change())
        gateway.commands[NAME] = a_shown_output("one\ntwo", "failed", exitCode=2)
        await asyncio.wait_for(changed, PATIENCE)
        return await watching.look(place, place)

    frame = asyncio.run(ends())
    assert (frame.text, frame.exit_status) == ("one\ntwo", 2)
    assert frame.gone == "The command ended with status 2."


def test_one_look_serves_for_as_long_as_it_is_fresh(gateway):
    gateway.open().commands[NAME] = a_shown_output("one\n")

    async def often():
        watching = await watch(gateway, glance=PATIENCE)
        for _ in range(5):
            await look(watching)
            await watching.end()

    asyncio.run(often())
    assert len(gateway.asked) == 1


def test_while_the_gateway_is_away_its_command_may_still_run(gateway):
    gateway.open().commands[NAME] = a_shown_output("one\n")

    async def goes():
        watching = await watch(gateway)
        changed = asyncio.create_task(watching.wait_for_change())
        gateway.close()
        await asyncio.wait_for(changed, PATIENCE)
        away = await look(watching)
        changed = asyncio.create_task(watching.wait_for_change())
        gateway.open()
        await asyncio.wait_for(changed, PATIENCE)
        return away, await look(watching)

    away, back = asyncio.run(goes())
    assert (away.text, away.gone) == ("one\n", None)
    assert "gateway is away" in str(away.note)
    assert back.note is None


@pytest.mark.parametrize(
    "left",
    [
        {},
        row("cancelled", "Task execution process exited before restart."),
        row("failed", "Command failed", "Command failed (signal)"),
        row("running"),
    ],
    ids=["forgotten", "settled", "ended", "left as it was"],
)
def test_a_command_is_gone_with_the_gateway_that_ran_it(gateway, left):
    gateway.open().commands[NAME] = a_shown_output("one\n")

    async def restarts():
        watching = await watch(gateway)
        gateway.commands = {NAME: left} if left else {}
        gateway.boot = 2_000
        await asyncio.wait_for(watching.wait_for_change(), PATIENCE)
        return await look(watching)

    frame = asyncio.run(restarts())
    assert RESTARTED in str(frame.gone)
    assert frame.exit_status is None


def test_an_end_before_a_restart_is_known_after_it():
    seen = {**row("failed", "Command failed", "Command failed (exit code 3)")}
    ending = _read_exec_end({**seen, "boot": 2_000}, "1000")
    assert ending is not None
    assert ending.status == 3


def test_a_command_that_is_recorded_is_watched_by_its_recording(gateway):
    gateway.open().commands[NAME] = {"recording": "make-x7k2"}
    assert asyncio.run(watch(gateway)) == Target(scheme="pty", name="make-x7k2")


def test_who_waits_for_an_unknown_name_is_told_what_runs(gateway):
    gateway.open().commands = {f"calm-cove-{n}": a_shown_output() for n in range(10)}
    with pytest.raises(TargetNotFound) as refused:
        asyncio.run(watch(gateway))
    assert str(refused.value).startswith("OpenClaw runs pty:calm-cove-0, ")
    assert str(refused.value).endswith(" and 2 more in the background.")
    assert refused.value.sure


def test_of_a_gateway_that_is_away_nobody_knows_what_it_runs(gateway, tmp_path):
    environ = {**gateway.environ, "OPENCLAW_CONFIG_PATH": str(tmp_path / "openclaw")}
    sensor = ExecSensor(environ)
    with pytest.raises(TargetNotFound) as refused:
        asyncio.run(sensor.watch(TARGET))
    assert (str(refused.value), refused.value.sure) == ("", True)
    enabled = {"plugins": {"entries": {"taskmem": {"enabled": True}}}}
    (tmp_path / "openclaw").write_text(json.dumps(enabled))
    with pytest.raises(TargetNotFound, match="gateway is away") as refused:
        asyncio.run(sensor.watch(TARGET))
    assert not refused.value.sure


def test_a_plugin_that_shows_no_commands_may_know_of_it(gateway):
    gateway.open().rude = lambda visit: visit.wfile.write(b'{"failed": "too old"}\n')
    with pytest.raises(TargetNotFound, match="cannot be seen") as refused:
        asyncio.run(watch(gateway))
    assert not refused.value.sure


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "ü", "../x"])
def test_a_name_that_no_command_can_have_is_not_asked_for(gateway, name):
    gateway.open()
    with pytest.raises(TargetNotFound):
        asyncio.run(ExecSensor(gateway.environ).watch(Target(scheme="pty", name=name)))
    assert not gateway.asked

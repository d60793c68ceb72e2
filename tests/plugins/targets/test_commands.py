"""Waits for a command that is run again and again."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from pathlib import Path

import pytest

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from taskmem_hookspecs import (
    ConditionUnclear,
    Frame,
    InvalidArguments,
    Target,
    TargetNotFound,
)
from taskmem_hookspecs.conditions import State
from taskmem_hookspecs.testing import SensorSuite
from taskmem_targets import commands, hooks
from taskmem_targets.commands import CommandSensor

REST = 0.05
"""Seconds between two runs of the tests."""


class TestCommandSensor(SensorSuite):
    def make_sensor(self, tmp_path: Path) -> CommandSensor:
        return CommandSensor(REST)

    def make_target(self, tmp_path: Path) -> Target:
        (tmp_path / "shown").touch()
        return Target(scheme="command", name="tail shown", within=(str(tmp_path),))

    def show(self, tmp_path: Path, text: str) -> None:
        with (tmp_path / "shown").open("a") as file:
            file.write(f"{text}\n")

    def make_missing(self, tmp_path: Path) -> Target:
        return Target(scheme="command", name="no-such-program --at-all")


def run(command: str, sensor: CommandSensor | None = None, folder: Path = Path("/")) -> Frame:
    """Return what is found at the first run of a command."""

    async def look() -> Frame:
        target = Target(scheme="command", name=command, within=(str(folder),))
        watch = await (sensor or CommandSensor(REST)).watch(target)
        try:
            await watch.here()
            return await watch.look("", "")
        finally:
            await watch.close()

    return asyncio.run(look())


def await_end(number: int) -> None:
    """Return once a process has ended; nobody asks for the end of an orphan here."""
    try:
        handle = os.pidfd_open(number)
    except ProcessLookupError:
        return
    assert select.select([handle], [], [], 10)[0]
    os.close(handle)


def is_met(sentence: str, frame: Frame) -> bool:
    target = Target(scheme="command", name="x")
    judge = hooks.wait_judge(target, parse_condition(sentence, "command"))
    assert judge is not None
    return asyncio.run(judge.rule(frame)).met == "yes"


@pytest.mark.parametrize(
    ("status", "met", "unmet"),
    [
        (0, "it succeeds", "it fails"),
        (1, "the command fails", "succeeds"),
        (3, "exits with 3", "exits with 0"),
        (3, "it exits", "exits with 1"),
    ],
)
def test_a_command_is_judged_by_how_it_ended(status: int, met: str, unmet: str):
    frame = run(f"sh -c 'exit {status}'")
    assert frame.exit_status == status
    assert (is_met(met, frame), is_met(unmet, frame)) == (True, False)


@pytest.mark.parametrize(
    ("sentence", "is_right"),
    [
        ('it prints "2 jobs left"', True),
        ('"3 jobs" appears', False),
        ('"running" is gone', True),
        ("/^[0-9] jobs/ appears", True),
        ("jobs < 3", True),
        ("left > 9", False),
    ],
)
def test_a_command_is_judged_by_what_it_prints(sentence: str, is_right: bool):
    assert is_met(sentence, run("echo '2 jobs left'")) is is_right


def test_a_field_of_what_it_prints_is_judged():
    frame = run("""echo '{"status": "completed", "conclusion": "success"}'""")
    assert is_met('$.conclusion is "success"', frame)
    assert not is_met('$.conclusion is "failure"', frame)


def test_what_it_prints_to_both_streams_is_read_in_its_folder(tmp_path: Path):
    frame = run("sh -c 'pwd; echo wrong >&2'", folder=tmp_path)
    assert frame.text == f"{tmp_path}\nwrong\n"
    assert frame.note == 'sh ended with 0; it printed "wrong".'


def test_a_change_of_what_it_prints_counts_from_the_start(tmp_path: Path):
    (tmp_path / "shown").write_text("old")

    async def watch() -> tuple[Frame, Frame]:
        target = Target(scheme="command", name="cat shown", within=(str(tmp_path),))
        watched = await CommandSensor(REST).watch(target)
        start = await watched.end()
        before = await watched.look(start, start)
        (tmp_path / "shown").write_text("new")
        while State.CHANGED not in (after := await watched.look(start, start)).states:
            await asyncio.wait_for(watched.wait_for_change(), 10)
        await watched.close()
        return before, after

    before, after = asyncio.run(watch())
    assert (is_met("output changes", before), is_met("output changes", after)) == (False, True)


def test_a_command_that_hangs_is_ended_and_says_so():
    frame = run("sleep 3600", CommandSensor(REST, run_seconds=0.3))
    assert frame.exit_status is None
    assert frame.note == "sleep did not end within 0.3 s, and was ended; it printed nothing."
    assert not is_met("it fails", frame)


def test_a_run_that_is_ended_ends_what_has_left_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "leave.py").write_text(
        "import os, subprocess\n"
        "left = subprocess.Popen(['sleep', '3600'], start_new_session=True)\n"
        "open('number', 'w').write(str(left.pid))\n"
        "os.execlp('yes', 'yes')\n"
    )
    monkeypatch.setattr(commands, "_MOST_BYTES", 1000)
    run(f"{sys.executable} leave.py", folder=tmp_path)
    await_end(int((tmp_path / "number").read_text()))


def test_a_command_that_floods_is_ended_and_its_end_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(commands, "_MOST_BYTES", 1024**2)
    frame = run("yes")
    assert "printed more than 1 MiB, and was ended" in str(frame.note)
    assert len(frame.text or "") == commands._KEPT_BYTES


def test_what_a_command_leaves_running_holds_nothing_up_and_ends():
    frame = run("sh -c 'sleep 3600 & echo $!'")
    assert frame.exit_status == 0
    await_end(int(frame.text or "0"))


def test_a_command_that_asks_gets_no_answer():
    frame = run("sh -c 'read -r answer || echo nothing'")
    assert frame.text == "nothing\n"


def test_a_run_is_ended_when_nobody_waits_any_more(tmp_path: Path):
    program = "import os, signal; open('pid', 'w').write(str(os.getpid())); signal.pause()"

    async def watch() -> int:
        name = f'{sys.executable} -c "{program}"'
        target = Target(scheme="command", name=name, within=(str(tmp_path),))
        watched = await CommandSensor(REST).watch(target)
        number = await asyncio.to_thread((tmp_path / "pid").read_text)
        await watched.close()
        return int(number)

    os.mkfifo(tmp_path / "pid")
    await_end(asyncio.run(watch()))


@pytest.mark.parametrize("command", ["ls | wc -l", "make && deploy", "ls > list", "echo 'a", "''"])
def test_what_needs_a_shell_or_is_no_command_is_refused(command: str):
    with pytest.raises(InvalidArguments):
        run(command)


@pytest.mark.parametrize("command", ["no-such-program", "./no-such-program", "/etc/passwd/x"])
def test_a_program_that_is_not_there_is_refused(command: str):
    with pytest.raises(TargetNotFound, match="finds no program"):
        run(command)


def test_a_folder_that_is_not_there_is_said_in_the_observation(tmp_path: Path):
    frame = run("true", folder=tmp_path / "gone")
    assert "could not be run (No such file or directory)" in str(frame.note)


def test_other_conditions_are_refused_with_the_forms():
    with pytest.raises(ConditionUnclear, match="succeeds, fails, exits with 3"):
        is_met("the prompt returns", Frame.model_construct())


def test_the_status_of_a_command_changes_whatever_it_prints(tmp_path: Path):
    async def look_twice() -> list[Frame]:
        mark = tmp_path / "red"
        target = Target(scheme="command", name=f"sh -c 'date +%N; ! test -e {mark}'")
        watched = await CommandSensor(REST).watch(target)
        start = await watched.end()
        frames: list[Frame] = []
        for _ in range(2):
            await asyncio.wait_for(watched.wait_for_change(), 10)
            frames.append(await watched.look(start, start))
            mark.touch()
        while (await watched.look(start, start)).exit_status == 0:
            await asyncio.wait_for(watched.wait_for_change(), 10)
        frames[1] = await watched.look(start, start)
        await watched.close()
        return frames

    frames = asyncio.run(look_twice())
    assert [is_met("status changes", each) for each in frames] == [False, True]

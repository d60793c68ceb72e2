import asyncio
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta

import pytest

from taskmem_hookspecs import (
    Feed,
    InvalidArguments,
    Output,
    Target,
    TargetGone,
    TargetNotFound,
)
from taskmem_hookspecs.testing import SensorSuite
from taskmem_terminal.recording import (
    FIFO_NAME,
    Recorder,
    Recording,
    Segments,
    get_recordings_folder,
    list_recordings,
)
from taskmem_terminal.recording_watch import FifoListener
from taskmem_terminal.run_command import notify_daemon
from taskmem_terminal.sensor import TerminalSensor
from taskmem_terminal.terminal_input import InputLookup, TerminalInput
from tests.plugins.terminal.watched import (
    RUN,
    alive,
    list_open_files,
    record,
    start_command,
    watch_terminal,
)
from tests.support.waiting import PATIENCE, status_of, until


def age(name, seconds):
    """Let a recording have ended that much earlier."""
    about = Recording(get_recordings_folder(), name).folder / "about.json"
    said = json.loads(about.read_text())
    ended = datetime.fromisoformat(said["ended_at"]) - timedelta(seconds=seconds)
    about.write_text(json.dumps({**said, "ended_at": ended.isoformat()}))


FED = Target(scheme="pty", name="vivid-shoal")


@pytest.fixture
def at_once(monkeypatch):
    """No recording is waited for."""
    monkeypatch.setattr("taskmem_terminal.sensor.BEGIN_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
class TestRecording(SensorSuite):
    def make_sensor(self, tmp_path):
        return TerminalSensor()

    def make_target(self, tmp_path):
        self.recorder = record(data=b"", exit_status=None)
        return Target(scheme="pty", name="job")

    def show(self, tmp_path, text):
        self.recorder.write(f"{text}\r\n".encode())

    def make_missing(self, tmp_path):
        return Target(scheme="pty", name="other")

    def remove(self, tmp_path):
        self.recorder.end(0)
        self.recorder.close()
        return True


def test_the_sensor_takes_what_is_pushed():
    assert isinstance(TerminalSensor(), Feed)


async def test_what_a_running_command_prints_is_seen_at_once():
    with start_command("cat", stdin=subprocess.PIPE) as process:
        until(lambda: Recording(get_recordings_folder(), "job").is_running(), "it runs")
        async with watch_terminal("job") as watcher:
            for line in ("one", "two", "three"):
                process.stdin.write(f"{line}\n".encode())
                process.stdin.flush()
                frame = await watcher.until_seen(line)
                assert frame.gone is None
                assert frame.changed_at is not None
            process.stdin.close()
            frame = await watcher.until_gone()
        assert frame.gone == "The command ended with status 0."
        assert frame.exit_status == 0
        assert frame.tail == "one\ntwo\nthree"


async def test_all_output_counts_if_the_command_ended_before_the_wait():
    record(data=b"early\r\nlate\r\n", exit_status=3)
    async with watch_terminal("job") as watcher:
        frame = await watcher.look()
    assert frame.text == "early\nlate\n"
    assert (frame.gone, frame.exit_status) == ("The command ended with status 3.", 3)


async def test_the_end_is_told_only_after_everything_was_shown():
    record(data=b"".join(b"line %d\r\n" % n for n in range(60_000)))
    async with watch_terminal("job") as watcher:
        frame = await watcher.until_gone()
    assert not frame.more
    assert "line 59999" in watcher.seen
    assert "line 0\n" in watcher.seen


HIDES = """
import sys, termios
modes = termios.tcgetattr(1)
for flags in (modes[3] & ~termios.ECHO, modes[3]):
    termios.tcsetattr(1, termios.TCSANOW, [*modes[:3], flags, *modes[4:]])
    print("Secret: ", end="", flush=True) if flags != modes[3] else None
    sys.stdin.readline()
"""


async def test_a_terminal_that_hides_what_is_typed_says_so():
    command = (sys.executable, "-c", HIDES)
    with start_command(*command, stdin=subprocess.PIPE) as process:
        async with watch_terminal("job") as watcher:
            await watcher.until_seen("Secret:")
            await watcher.until(lambda frame: frame.hides_input, "it hides")
            process.stdin.write(b"word\n")
            process.stdin.flush()
            await watcher.until(lambda frame: frame.hides_input is False, "it shows")


async def test_a_terminal_that_hides_after_its_question_says_so(monkeypatch):
    hidden = TerminalInput(is_read=True, is_shell=False, is_hidden=True, takes_keys=False)
    monkeypatch.setattr(InputLookup, "look_up", lambda *_, **__: hidden)
    record(exit_status=None)
    async with watch_terminal("job") as watcher:
        assert (await watcher.look()).hides_input is True


async def test_here_shows_what_is_there_and_begins_at_the_beginning():
    recorder = record(data=b"one\r\ntwo", exit_status=None)
    async with watch_terminal("job") as watcher:
        here = await watcher.watch.here()
        assert here.tail == "one\ntwo"
        assert here.place == watcher.start
        assert (await watcher.look()).text == "one\ntwo"
    recorder.close()


async def test_a_place_means_the_same_to_the_next_daemon():
    recorder = record(data=b"1\r\n2\r\n3\r\n4\r\n5\r\n", exit_status=None)
    async with watch_terminal("job") as watcher:
        await watcher.look()
        place, start = watcher.place, watcher.start
    recorder.write(b"6\r\n")
    async with watch_terminal("job", place=place, start=start) as watcher:
        frame = await watcher.look()
    assert frame.text == "3\n4\n5\n6\n"
    assert frame.tail == "1\n2\n3\n4\n5\n6"
    recorder.close()


async def test_a_killed_recorder_is_noticed_at_once():
    with start_command("sh", "-c", "echo up; exec sleep 60") as process:
        assert process.stdout.readline() == b"up\n"
        async with watch_terminal("job") as watcher:
            await watcher.until_seen("up")
            pid = Recording(get_recordings_folder(), "job").read_metadata().pid
            watcher.watch._changed.clear()
            process.kill()
            status_of(process)
            async with asyncio.timeout(PATIENCE):
                await watcher.watch.wait_for_change()
            frame = await watcher.look()
        assert frame.exit_status is None
        assert "its recorder was killed" in frame.gone
        until(lambda: not alive(pid), "its command is hung up on")


async def test_watch_notices_recorder_and_command_killed_together():
    with start_command("sh", "-c", "echo up; exec sleep 60") as process:
        assert process.stdout.readline() == b"up\n"
        pid = until(
            lambda: Recording(get_recordings_folder(), "job").read_metadata().pid, "it runs"
        )
        async with watch_terminal("job") as watcher:
            await watcher.until_seen("up")
            process.kill()
            os.kill(pid, signal.SIGKILL)
            status_of(process)
            assert (await watcher.until_gone()).gone


async def test_a_new_run_of_the_name_ends_the_wait_on_the_old_one():
    first = record(data=b"old", exit_status=None)
    async with watch_terminal("job") as watcher:
        await watcher.look()
        first.close()
        record(data=b"new", exit_status=None).close()
        frame = await watcher.look()
    assert "was replaced by a new run" in frame.gone
    assert frame.text == ""
    assert frame.exit_status is None


@pytest.mark.parametrize("asked", ["here", "end"])
async def test_watch_of_a_replaced_run_does_not_answer_for_the_new_run(asked):
    first = record(data=b"old", exit_status=None)
    async with watch_terminal("job") as watcher:
        first.close()
        record(data=b"new output", exit_status=None).close()
        with pytest.raises(TargetGone, match="was replaced by a new run"):
            await getattr(watcher.watch, asked)()
        assert (await watcher.look()).gone
        shutil.rmtree(get_recordings_folder() / "job")
        with pytest.raises(TargetGone, match="was removed"):
            await getattr(watcher.watch, asked)()


async def test_the_end_is_behind_all_that_was_recorded():
    recorder = record(data=b"old\n", exit_status=None)
    async with watch_terminal("job") as watcher:
        end = await watcher.watch.end()
        recorder.write(b"new\n")
        assert (await watcher.watch.look(end, end)).text == "new\n"
    recorder.close()


async def test_a_removed_recording_is_gone():
    recorder = record(exit_status=None)
    async with watch_terminal("job") as watcher:
        shutil.rmtree(get_recordings_folder() / "job")
        assert (await watcher.look()).gone == "The recording pty:job was removed."
    recorder.close()


async def test_who_is_behind_is_told_how_much_was_lost():
    recorder = record(data=b"x" * 100 + b"\n", exit_status=None)
    async with watch_terminal("job") as watcher:
        await watcher.look()
        for _ in range(18):
            recorder.write(b"y" * (1 << 20))
        frame = await watcher.look()
    assert frame.text.startswith("[taskmem: 3,145,627 bytes were lost here]\n")
    recorder.close()


async def test_a_command_faster_than_its_wait_loses_no_line():
    small = "from taskmem_terminal import recording; recording.KEPT_SEGMENTS = 1 << 3;"
    few = "recording.SEGMENT_BYTES = 1 << 16;"
    printing = "read go; seq 100000 160000; echo needle; seq 100000 160000"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    with start_command("sh", "-c", printing, python=f"{small}{few}{RUN}", **pipes) as process:
        until(lambda: ("job", True) in list_recordings(get_recordings_folder()), "it runs")
        async with watch_terminal("job") as seen:
            process.stdin.write(b"go\n")
            process.stdin.flush()
            await seen.until_gone()
    assert {"needle", *map(str, range(100_000, 160_001))} <= {*seen.seen.split()}
    assert "lost" not in seen.seen


async def test_a_recording_that_is_about_to_begin_is_waited_for():
    sensor = TerminalSensor()
    watching_ = asyncio.create_task(sensor.watch(Target(scheme="pty", name="job")))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not watching_.done()
    recorder = record(data=b"one\r\n", exit_status=None)
    notify_daemon(get_recordings_folder(), "job")
    async with asyncio.timeout(PATIENCE):
        watch = await watching_
    assert (await watch.here()).tail == "one"
    await watch.close()
    recorder.close()


async def test_a_command_that_says_nothing_is_found_when_it_begins():
    sensor = TerminalSensor()
    watching_ = asyncio.create_task(sensor.watch(Target(scheme="pty", name="job")))
    await asyncio.sleep(0)
    with start_command("sleep", "60"):
        async with asyncio.timeout(PATIENCE):
            watch = await watching_
    await watch.close()


async def test_what_ended_before_a_new_run_begins_is_not_taken_for_it():
    record(data=b"old\r\n", exit_status=0)
    age("job", seconds=60)
    sensor = TerminalSensor()
    watching_ = asyncio.create_task(sensor.watch(Target(scheme="pty", name="job")))
    await asyncio.sleep(0)
    with start_command("sleep", "60"):
        async with asyncio.timeout(PATIENCE):
            watch = await watching_
        place = (await watch.here()).place
        assert (await watch.look(place, place)).gone is None
    await watch.close()


async def test_old_ended_recording_is_watched_if_no_new_one_begins(at_once):
    record(data=b"old\r\n", exit_status=3)
    age("job", seconds=60)
    async with watch_terminal("job") as watcher:
        frame = await watcher.look()
    assert (frame.text, frame.exit_status) == ("old\n", 3)


async def test_an_unknown_name_names_those_that_are_there(at_once):
    record("old")
    runs = record("runs", exit_status=None)
    with pytest.raises(TargetNotFound) as refused:
        await TerminalSensor().watch(Target(scheme="pty", name="job"))
    assert str(refused.value) == (
        "Nothing is recorded as pty:job; there are pty:runs, pty:old (ended)."
    )
    runs.close()


async def test_where_folders_are_set_no_other_recording_is_named(at_once):
    record("secret")
    with pytest.raises(TargetNotFound) as refused:
        await TerminalSensor().watch(Target(scheme="pty", name="job", within=()))
    assert str(refused.value).startswith("Nothing is recorded as pty:job in ")
    assert "secret" not in str(refused.value)


async def test_where_nothing_is_recorded_the_sentence_says_how_to(at_once):
    with pytest.raises(TargetNotFound) as refused:
        await TerminalSensor().watch(Target(scheme="pty", name="job"))
    assert "taskmem run --name job -- CMD" in str(refused.value)


@pytest.mark.parametrize("name", ["", "..", "a/b", "screen:x", "a b"])
async def test_a_name_that_no_terminal_can_have_is_refused(name):
    with pytest.raises(InvalidArguments, match="names no terminal"):
        await TerminalSensor().watch(Target(scheme="pty", name=name))


async def test_no_handle_is_left_open():
    sensor = TerminalSensor()
    recorder = record(exit_status=None)
    before = None
    for _ in range(5):
        async with watch_terminal("job", sensor) as watcher:
            await watcher.look()
        count = len(list_open_files())
        assert before is None or count == before
        before = count
    recorder.close()


# --- what is pushed -----------------------------------------------------------


async def test_what_is_pushed_is_watched_like_any_terminal():
    sensor = TerminalSensor()
    await sensor.feed(FED, Output(data=b"one\r\n\x1b[3"))
    async with watch_terminal(FED.name, sensor) as watcher:
        assert (await watcher.look()).text == "one\n"
        await sensor.feed(FED, Output(data=b"1mtwo\r\n"))
        await watcher.until_seen("two")
        await sensor.feed(FED, Output(data=b"three", exit_status=4))
        frame = await watcher.until_gone()
    assert frame.tail == "one\ntwo\nthree"
    assert (frame.gone, frame.exit_status) == ("The command ended with status 4.", 4)


async def test_what_was_pushed_goes_on_after_a_restart():
    await TerminalSensor().feed(FED, Output(data=b"one\r\n"))
    sensor = TerminalSensor()
    await sensor.feed(FED, Output(data=b"two\r\n"))
    async with watch_terminal(FED.name, sensor) as watcher:
        frame = await watcher.look()
    assert frame.text == "one\ntwo\n"
    assert frame.gone is None


async def test_end_may_be_pushed_twice_and_new_output_starts_anew():
    sensor = TerminalSensor()
    await sensor.feed(FED, Output(data=b"one", exit_status=0))
    await sensor.feed(FED, Output(data=b"", exit_status=0))
    async with watch_terminal(FED.name, sensor) as watcher:
        assert (await watcher.look()).text == "one"
    await sensor.feed(FED, Output(data=b"two"))
    async with watch_terminal(FED.name, sensor) as watcher:
        frame = await watcher.look()
    assert (frame.text, frame.gone) == ("two", None)


async def test_recordings_pushed_under_forty_names_stay_within_limits(monkeypatch):
    monkeypatch.setattr("taskmem_terminal.recording.KEPT_BYTES", 3_000)
    monkeypatch.setattr("taskmem_terminal.sensor.ROOM_BYTES", 1)
    monkeypatch.setattr("taskmem_terminal.sensor.SETTLE_SECONDS", 0.0)
    sensor = TerminalSensor()
    await sensor.feed(FED, Output(data=b"one\r\n"))
    async with watch_terminal(FED.name, sensor) as watcher:
        for n in range(40):
            other = Target(scheme="pty", name=f"other-{n}")
            await sensor.feed(other, Output(data=b"x" * 1_000))
        await sensor.feed(FED, Output(data=b"two\r\n"))
        await watcher.until_seen("two")
    names = [name for name, _ in list_recordings(get_recordings_folder())]
    assert FED.name in names
    assert len(names) <= 5


async def test_just_after_a_start_nothing_that_was_pushed_goes(monkeypatch):
    monkeypatch.setattr("taskmem_terminal.recording.KEPT_BYTES", 1)
    monkeypatch.setattr("taskmem_terminal.sensor.ROOM_BYTES", 1)
    sensor = TerminalSensor()
    for n in range(5):
        other = Target(scheme="pty", name=f"other-{n}")
        await sensor.feed(other, Output(data=b"x"))
    assert len(list_recordings(get_recordings_folder())) == 5


async def test_written_output_is_told_even_if_no_room_can_be_made(monkeypatch, caplog):
    def make_room(*_):
        raise PermissionError("not removed")

    monkeypatch.setattr("taskmem_terminal.sensor.ROOM_BYTES", 1)
    monkeypatch.setattr("taskmem_terminal.sensor.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr("taskmem_terminal.sensor.make_room", make_room)
    sensor = TerminalSensor()
    await sensor.feed(FED, Output(data=b"one\r\n"))
    async with watch_terminal(FED.name, sensor) as watcher:
        await sensor.feed(FED, Output(data=b"two\r\n"))
        await watcher.until_seen("two")
    assert "not removed" in caplog.text


async def test_waits_are_told_of_a_piece_before_room_is_made(monkeypatch):
    told = []
    monkeypatch.setattr("taskmem_terminal.sensor.ROOM_BYTES", 1)
    monkeypatch.setattr("taskmem_terminal.sensor.SETTLE_SECONDS", 0.0)
    sensor = TerminalSensor()
    listener = sensor._listener = FifoListener(get_recordings_folder())
    monkeypatch.setattr(listener, "notify_listeners", lambda _: told.append("told"))
    monkeypatch.setattr("taskmem_terminal.sensor.make_room", lambda *_: told.append("room"))
    await sensor.feed(FED, Output(data=b"one\r\n"))
    assert told == ["told", "room"]


async def test_pieces_that_are_pushed_at_once_stay_in_order():
    sensor = TerminalSensor()
    pieces = [sensor.feed(FED, Output(data=b"%d\r\n" % n)) for n in range(50)]
    await asyncio.gather(*pieces)
    async with watch_terminal(FED.name, sensor) as watcher:
        frame = await watcher.look()
    assert frame.text == "".join(f"{n}\n" for n in range(50))


async def test_the_end_waits_for_the_pieces_before_it(monkeypatch):
    sensor = TerminalSensor()
    written, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def sync(_):
        loop.call_soon_threadsafe(written.set)
        assert go.wait(PATIENCE)

    monkeypatch.setattr(Recorder, "sync", sync)
    first = asyncio.create_task(sensor.feed(FED, Output(data=b"one")))
    await written.wait()
    last = asyncio.create_task(sensor.feed(FED, Output(data=b"two", exit_status=0)))
    await asyncio.sleep(0)
    kept = Segments(get_recordings_folder() / FED.name)
    assert kept.read(0, 9) == b"one"
    go.set()
    await asyncio.gather(first, last)
    assert Recording(get_recordings_folder(), FED.name).read_metadata().exit_status == 0


async def test_no_handle_is_left_open_by_who_never_says_the_end():
    sensor = TerminalSensor()
    await sensor.feed(FED, Output(data=b"x"))
    before = list_open_files()
    for n in range(20):
        target = Target(scheme="pty", name=f"shoal-{n}")
        await sensor.feed(target, Output(data=b"one\n"))
        await sensor.feed(target, Output(data=b"two\n"))
    assert sorted(list_open_files()) == sorted(before)
    async with watch_terminal("shoal-7", sensor) as watcher:
        assert (await watcher.look()).text == "one\ntwo\n"


async def test_nothing_is_pushed_into_a_command_that_taskmem_records():
    recorder = record(FED.name, exit_status=None)
    with pytest.raises(InvalidArguments, match="that taskmem run records"):
        await TerminalSensor().feed(FED, Output(data=b"x"))
    recorder.close()


# --- the named pipe -----------------------------------------------------------


async def test_the_doorbell_tells_who_listens_and_nobody_else():
    listener = FifoListener(get_recordings_folder())
    heard = asyncio.Event()
    listener.listen("job", heard.set)
    listener.listen("other", lambda: pytest.fail("it was for somebody else"))
    notify_daemon(get_recordings_folder(), "nobody")
    notify_daemon(get_recordings_folder(), "job")
    async with asyncio.timeout(PATIENCE):
        await heard.wait()
    # At its end, for the last writer has gone, it would keep the loop awake.
    assert select.select([listener._fifo], [], [], 0)[0] == []


@pytest.mark.parametrize("left", ["file", "link"])
async def test_what_a_backup_left_for_the_doorbell_is_replaced(left: str):
    get_recordings_folder().mkdir(parents=True, exist_ok=True)
    other = get_recordings_folder() / "other"
    other.write_text("mine")
    if left == "file":
        (get_recordings_folder() / FIFO_NAME).write_text("")
    else:
        (get_recordings_folder() / FIFO_NAME).symlink_to(other)
    listener = FifoListener(get_recordings_folder())
    heard = asyncio.Event()
    listener.listen("job", heard.set)
    notify_daemon(get_recordings_folder(), "job")
    async with asyncio.timeout(PATIENCE):
        await heard.wait()
    assert other.read_text() == "mine"


async def test_a_doorbell_that_nobody_answers_holds_up_nobody():
    listener = FifoListener(get_recordings_folder())
    heard = asyncio.Event()
    listener.listen("job", heard.set)
    for _ in range(20_000):  # more than a FIFO holds
        notify_daemon(get_recordings_folder(), "job")
    async with asyncio.timeout(PATIENCE):
        await heard.wait()

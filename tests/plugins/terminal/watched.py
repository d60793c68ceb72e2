"""Terminals for tests, and somebody who watches them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from taskmem_hookspecs import Target
from taskmem_terminal.recording import Recorder, Segments, build_metadata, get_recordings_folder
from taskmem_terminal.sensor import TerminalSensor
from tests.support.waiting import PATIENCE

RUN = "from taskmem_terminal.run_command import command; command()"


class Watcher:
    """Looks whenever something changed, from where the last look ended."""

    def __init__(self, watch, place, start):
        self.watch = watch
        self.place = place
        self.start = start
        self.seen = ""
        self.looks = 0
        self.frame = None

    async def look(self):
        self.looks += 1
        self.frame = await self.watch.look(self.place, self.start)
        self.place = self.frame.place
        self.seen += self.frame.text or ""
        return self.frame

    async def until(self, condition, what="it holds"):
        """Look until a condition holds of a frame, and return that frame."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition(await self.look()):
                    if not self.frame.more:
                        assert not self.frame.gone, (what, self.frame)
                        await self.watch.wait_for_change()
        except TimeoutError:
            raise AssertionError(f"waited in vain until {what}: {self.frame}") from None
        return self.frame

    async def until_seen(self, text):
        return await self.until(lambda frame: text in frame.text, f"{text} is seen")

    async def until_gone(self):
        return await self.until(lambda frame: frame.gone, "it is gone")


@asynccontextmanager
async def watch_terminal(name, sensor=None, place=None, start=None):
    """Watch `pty:NAME`, from here or from an older place."""
    watch = await (sensor or TerminalSensor()).watch(Target(scheme="pty", name=name))
    try:
        here = None if start else (await watch.here()).place
        yield Watcher(watch, place or start or here, start or here)
    finally:
        await watch.close()


def record(name="job", data=b"built\r\n", exit_status=0, **more):
    """Record a command; without a status it goes on."""
    recorder = Recorder.claim(get_recordings_folder(), name, build_metadata(["make"], **more))
    recorder.write(data)
    if exit_status is not None:
        recorder.end(exit_status)
        recorder.close()
    return recorder


def read_recording(name="job"):
    """What is kept of a command's output."""
    kept = Segments(get_recordings_folder() / name)
    return kept.read(kept.begin, kept.end)


class Bytes:
    """What came so far of some bytes."""

    def __init__(self, data, begin=0):
        self._data = data
        self.begin = begin
        self.end = len(data)

    def read(self, at, size):
        assert at >= self.begin
        return self._data[at : at + size]


@contextmanager
def start_command(*command, name="job", python=RUN, **options):
    """A command that `taskmem run` runs; it and what it runs end with the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", python, "--name", name, "--", *command],
        **{
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **options,
        },
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGHUP)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not stat_of(pid).startswith("Z")


def stat_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def list_open_files():
    """What this process has open."""
    there = Path("/proc/self/fd").iterdir()
    return [str(handle.readlink()) for handle in there if handle.is_symlink()]

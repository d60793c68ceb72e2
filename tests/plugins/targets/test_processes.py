"""Waits for the end of a process."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psutil
import pytest

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from taskmem_hookspecs import (
    ConditionUnclear,
    Frame,
    InvalidArguments,
    Target,
    TargetGone,
)
from taskmem_targets import hooks
from taskmem_targets.processes import ProcessSensor, ProcessWatch


@contextmanager
def run_process(program: Path = Path("/bin/cat")) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that ends with its input."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.communicate()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program of a name that no other process has."""
    name = tmp_path / f"cat{os.getpid()}"
    name.symlink_to("/bin/cat")
    return name


@asynccontextmanager
async def watch(name: object) -> AsyncIterator[ProcessWatch]:
    """Watch a process until the end of the block."""
    watched = await ProcessSensor().watch(Target(scheme="process", name=str(name)))
    try:
        yield watched
    finally:
        await watched.close()


async def find_place(name: object) -> str:
    async with watch(name) as watched:
        return await watched.end()


async def look(name: object, place: str) -> Frame:
    async with watch(name) as watched:
        return await watched.look(place, place)


def test_the_end_of_a_process_is_noticed_at_once():
    async def run(process: subprocess.Popen[bytes]) -> tuple[Frame, Frame]:
        async with watch(process.pid) as watched:
            place = await watched.end()
            before = await watched.look(place, place)
            process.communicate()
            await asyncio.wait_for(watched.wait_for_change(), 10)
            return before, await watched.look(place, place)

    with run_process() as process:
        before, after = asyncio.run(run(process))
    assert before.gone is None
    assert after.gone == f"Process {process.pid} ended."


def test_another_process_of_the_same_number_is_not_it():
    with run_process() as process:
        assert asyncio.run(look(process.pid, f"{process.pid}.1")).gone


def test_a_name_means_the_only_process_that_has_it(program: Path):
    name = program.name
    with run_process(program) as process:
        assert asyncio.run(find_place(name)).startswith(f"{process.pid}.")
        with run_process(program), pytest.raises(TargetGone, match=f"2 .* called {name}"):
            asyncio.run(find_place(name))


def test_a_process_found_by_name_is_the_same_after_a_restart(program: Path):
    name = program.name
    with run_process(program):
        place = asyncio.run(find_place(name))
        with run_process(program):
            assert asyncio.run(look(name, place)).gone is None
    with run_process(program):
        assert asyncio.run(look(name, place)).gone


def test_a_process_runs_on_where_no_handle_is_left(monkeypatch: pytest.MonkeyPatch):
    def refuse(_number: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def run(pid: int) -> tuple[Frame, float]:
        monkeypatch.setattr(os, "pidfd_open", refuse)
        async with watch(pid) as watched:
            place = await watched.end()
            return await watched.look(place, place), watched.rest_seconds

    with run_process() as process:
        frame, rest = asyncio.run(run(process.pid))
    assert (frame.gone, rest) == (None, 0.0)


def test_setting_the_clock_ends_no_process(monkeypatch: pytest.MonkeyPatch):
    later = psutil.boot_time() + 3600
    with run_process() as process:
        place = asyncio.run(find_place(process.pid))
        monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: later)
        assert asyncio.run(look(process.pid, place)).gone is None


@pytest.mark.parametrize(
    ("name", "error", "why"),
    [
        ("no-such-program", TargetGone, "No process of yours is called no-such-program"),
        ("0", InvalidArguments, "no number of a process"),
        ("9" * 30, InvalidArguments, "no number of a process"),
    ],
)
def test_what_is_no_process_is_refused(name: str, error: type[Exception], why: str):
    with pytest.raises(error, match=why):
        asyncio.run(find_place(name))


def test_a_process_that_does_not_run_is_not_waited_for():
    async def run(number: int) -> Frame:
        async with watch(number) as watched:
            with pytest.raises(TargetGone, match=f"Process {number} does not run"):
                await watched.here()
            return await watched.look(f"{number}.1", f"{number}.1")

    assert asyncio.run(run(4194399)).gone == "Process 4194399 ended."


@pytest.mark.parametrize("sentence", ["it succeeds", "it exits with 3", "it fails or exits"])
def test_nobody_tells_how_a_process_ended(sentence: str):
    target = Target(scheme="process", name="1")
    with pytest.raises(ConditionUnclear, match="when it exits"):
        hooks.wait_judge(target, parse_condition(sentence, target.scheme))

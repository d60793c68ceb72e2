"""Which process is which, though numbers are given away and names say anything."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from openclaw_taskmem.daemon import processes

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's own")


@pytest.fixture
def begin() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Begin processes that wait for words, and end them after the test."""
    begun: list[subprocess.Popen[bytes]] = []

    def one(program: str | Path = "cat") -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        process = subprocess.Popen([program], stdin=pipe, stdout=pipe, bufsize=0)
        begun.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        # Whoever answers is that program by now, and bears its name.
        process.stdin.write(b"\n")
        assert process.stdout.read(1) == b"\n"
        return process

    yield one
    for process in begun:
        with process:
            process.kill()


def identity_of(process: subprocess.Popen[bytes]) -> str:
    identity = processes.identify_process(process.pid)
    assert identity is not None
    return identity


def test_a_process_that_lives_has_an_identity_that_stays() -> None:
    mine = processes.identify_process(os.getpid())

    assert mine is not None
    assert mine.partition(":")[0] == str(os.getpid())
    assert mine.partition(":")[2]
    assert processes.identify_process(os.getpid()) == mine
    assert processes.is_alive(mine) is True


def test_another_process_has_another_identity(
    begin: Callable[..., subprocess.Popen[bytes]],
) -> None:
    child = identity_of(begin())

    assert child != processes.identify_process(os.getpid())
    assert processes.is_alive(child) is True


def test_a_process_that_has_ended_lives_no_more(
    begin: Callable[..., subprocess.Popen[bytes]],
) -> None:
    process = begin()
    identity = identity_of(process)
    process.kill()
    process.wait()

    assert processes.is_alive(identity) is False
    assert processes.identify_process(process.pid) is None


@LINUX
def test_a_process_that_nobody_has_buried_lives_no_more(
    begin: Callable[..., subprocess.Popen[bytes]],
) -> None:
    process = begin()
    identity = identity_of(process)
    process.kill()
    # Waits for the end, and leaves the process as it is.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    assert stat.rpartition(")")[2].split()[0] == "Z"

    assert processes.is_alive(identity) is False
    assert processes.identify_process(process.pid) is None


def test_reused_process_number_is_not_the_same_process() -> None:
    mine = processes.identify_process(os.getpid())
    assert mine is not None

    assert processes.is_alive(f"{mine}1") is False
    assert processes.is_alive(f"{os.getpid()}:1") is False


@LINUX
@pytest.mark.parametrize(
    "name",
    ["a) S 1 2 3", ")", "((a b)) R", "x) Z 0 0"],
    ids=["fields", "bracket", "brackets", "a-dead-one"],
)
def test_a_name_that_looks_like_the_rest_misleads_nobody(
    begin: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, name: str
) -> None:
    program = tmp_path / name
    shutil.copy(shutil.which("cat") or "/bin/cat", program)
    plain, odd = begin(), begin(program)
    assert Path(f"/proc/{odd.pid}/comm").read_text() == f"{name}\n"

    started = int(identity_of(odd).partition(":")[2])
    before = int(identity_of(plain).partition(":")[2])

    # Counted in ticks of a hundredth since the machine started.
    assert 0 <= started - before < 6000
    assert processes.is_alive(identity_of(odd)) is True


NONSENSE = {
    "empty": "",
    "no-start": f"{os.getpid()}:",
    "no-colon": str(os.getpid()),
    "no-number": ":123",
    "a-word": "me:123",
    "negative": "-1:123",
    "a-fraction": "1.5:123",
    "a-date": "1:Sat-Nov-28-21:57:00-2026",
    "a-space": " 1:123",
    "a-path": "../self:123",
    "a-raised-digit": "²:123",
    "a-circled-digit": "①:123",
    "nul": "1\0:123",
    "huge": "9" * 5000 + ":123",
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_nobody_here_has_written_tells_nothing(name: str) -> None:
    assert processes.is_alive(NONSENSE[name]) is None


@pytest.mark.parametrize("number", ["99999999", "0"])
def test_a_number_that_no_process_has_is_of_none_that_lives(number: str) -> None:
    assert processes.is_alive(f"{number}:123") is False


def test_a_number_that_is_no_process_has_no_identity() -> None:
    assert processes.identify_process(99_999_999) is None


def test_a_process_grows_older_from_its_start(
    begin: Callable[..., subprocess.Popen[bytes]],
) -> None:
    mine, child = (processes.read_process_age(os.getpid()), processes.read_process_age(begin().pid))

    assert mine is not None
    assert child is not None
    # Starts are counted in hundredths.
    assert -0.01 <= child <= mine


def test_the_host_of_a_process_is_as_old_as_its_parent(
    begin: Callable[..., subprocess.Popen[bytes]],
) -> None:
    own, child = os.getpid(), processes.identify_process(begin().pid)
    assert child is not None
    before = processes.read_process_age(own)
    age = processes.read_host_age(child)
    after = processes.read_process_age(own)
    assert before is not None
    assert age is not None
    assert after is not None
    assert before <= age <= after


@pytest.mark.parametrize("process", ["", "1:5", "999999999:5"])
def test_a_process_without_a_parent_has_no_host(process: str) -> None:
    assert processes.read_host_age(process) is None


def test_a_process_that_has_ended_has_no_age(begin: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = begin()
    process.kill()
    process.wait()

    assert processes.read_process_age(process.pid) is None


# --- where start times count from 1970 ------------------------------------------


def test_elsewhere_a_process_is_known_by_its_date(
    begin: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes.sys, "platform", "darwin")
    process = begin()
    identity = identity_of(process)
    age = processes.read_process_age(process.pid)

    assert processes.is_alive(identity) is True
    assert age is not None
    # The clock of starts has whole seconds.
    assert -2 < age < 600
    process.kill()
    process.wait()
    assert processes.is_alive(identity) is False
    assert processes.read_process_age(process.pid) is None


@pytest.mark.parametrize(
    "error", [psutil.AccessDenied(), OSError(errno.EMFILE, "Too many open files")]
)
def test_who_cannot_look_has_not_seen_that_a_process_ended(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    mine = processes.identify_process(os.getpid())
    assert mine is not None

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(psutil.Process, "status", fails)

    assert processes.is_alive(mine) is None
    assert processes.identify_process(os.getpid()) is None
    assert processes.read_process_age(os.getpid()) is None


@LINUX
def test_a_start_is_what_the_kernel_counts() -> None:
    stat = Path("/proc/self/stat").read_text()
    ticks = stat.rpartition(")")[2].split()[19]

    assert processes.identify_process(os.getpid()) == f"{os.getpid()}:{ticks}"


@LINUX
def test_a_clock_set_between_two_readings_ends_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = processes.identify_process(os.getpid())
    assert mine is not None
    boot_time = psutil.boot_time()
    boot_times = itertools.chain([boot_time], itertools.repeat(boot_time + 3600))
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: next(boot_times))

    assert processes.is_alive(mine) is True

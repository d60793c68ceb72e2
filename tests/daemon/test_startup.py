"""How a daemon begins: the home is its own before anything is loaded."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from openclaw_taskmem.cli.daemon_process import DaemonStart, stop_daemon
from openclaw_taskmem.daemon import startup
from openclaw_taskmem.daemon.lock import find_holder
from openclaw_taskmem.home import Home
from tests.support.daemons import holder, launch
from tests.support.waiting import status_of, until


@pytest.fixture(autouse=True)
def _collects() -> Iterator[None]:
    yield
    gc.enable()


def test_a_daemon_has_its_home_before_it_loads_the_rest(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int | None] = []

    def run(*_: object) -> None:
        held.append(holder(home))

    rest = SimpleNamespace(run_daemon=run)
    monkeypatch.setitem(sys.modules, "openclaw_taskmem.daemon.main", rest)

    assert startup.main({"TASKMEM_HOME": str(home.folder)}) == 0

    assert held == [os.getpid()]
    assert find_holder(home.lock) is None


def test_what_takes_the_home_imports_nothing_heavy() -> None:
    code = "import sys, openclaw_taskmem.daemon.startup; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()

    heavy = {"asyncio", "click", "pydantic", "sqlalchemy", "taskmem_hookspecs"}
    assert heavy & set(loaded) == set()


def test_stopped_as_it_begins_it_leaves_no_socket_of_another(home: Home) -> None:
    home.prepare()
    home.socket.touch()
    with launch(home) as process:
        until(lambda: find_holder(home.lock), "it has its home")

        assert stop_daemon(home) == (f"Process {process.pid} has stopped.", 0)

        status_of(process)
    assert not home.socket.exists()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "there is no room left on its disk (words). Free some space there, then"),
        (errno.EDQUOT, "there is no room left on its disk (words). Free some space there, then"),
        (errno.EROFS, "its disk is mounted read-only (words). Mount it for writing, or set TASK"),
    ],
)
def test_a_disk_that_takes_nothing_is_named_in_the_foreground(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    said: str,
) -> None:
    def refuse(_path: object) -> None:
        raise OSError(number, "words")

    monkeypatch.setattr(startup, "Lock", refuse)
    assert startup.main({"TASKMEM_HOME": str(home.folder)}) == 1
    assert capsys.readouterr().err.startswith(f"The daemon cannot start: {said}")


@pytest.mark.parametrize("free", [0, 10**9])
def test_a_silent_end_is_laid_to_a_full_disk_only_if_it_is_full(
    home: Home, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    found = SimpleNamespace(f_bavail=free, f_frsize=1)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    ends = [sys.executable, "-c", "raise SystemExit(120)"]
    start = DaemonStart(home, os.environ, ends)

    def has_ended() -> bool:
        return "does not answer" not in (start.explain_failure() or "does not answer")

    until(has_ended, "it ended")
    is_told = "no room left on the disk" in (start.explain_failure() or "")
    assert is_told is (free == 0)


def test_a_file_system_without_locks_is_no_other_daemon(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    # The fixture of the home looks with it, too.
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        status = startup.main({"TASKMEM_HOME": str(home.folder)})
        assert find_holder(home.lock) is None

    told = capsys.readouterr().err
    assert status == 1
    assert "has no locks" in told
    assert str(home.lock) in told


def test_a_daemon_of_another_users_home_does_not_begin(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home.prepare()
    home.config.write_text('openclaw_bin = "/evil"')
    environ = {"TASKMEM_HOME": str(home.folder)}
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    assert startup.main(environ) == 1

    assert f"belongs to user {owner}; set TASKMEM_HOME" in capsys.readouterr().err
    assert environ == {"TASKMEM_HOME": str(home.folder)}
    assert not home.lock.exists()


def test_a_link_in_the_locks_place_is_not_written_through(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    home.prepare()
    victim = home.folder / "precious"
    victim.write_text("kept")
    home.lock.symlink_to(victim)

    assert startup.main({"TASKMEM_HOME": str(home.folder)}) == 1

    assert str(home.lock) in capsys.readouterr().err
    assert victim.read_text() == "kept"
    home.lock.unlink()


def test_a_link_in_the_logs_place_is_not_written_through(home: Home) -> None:
    home.prepare()
    victim = home.folder / "precious"
    victim.write_text("kept")
    home.log.symlink_to(victim)

    with pytest.raises(OSError, match=r"daemon\.log"):
        DaemonStart(home, {}, [sys.executable, "-c", "print('written')"])

    assert victim.read_text() == "kept"

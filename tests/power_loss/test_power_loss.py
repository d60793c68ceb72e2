"""No kill and no power cut takes away what was answered, whatever was being written.

`python -m tests.power_loss` does the same at every write, with more tasks.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from openclaw_taskmem.cli.client import LinkError
from taskmem_hookspecs import StoreUnavailable
from tests.power_loss.faults import FAULTS, FaultedCalls
from tests.power_loss.images import Disk
from tests.power_loss.operations import CREATE, HOME, SYNC, Operation
from tests.power_loss.recovery import Recording
from tests.power_loss.scenario import ROOT, RecordedDaemon, Script, record_script
from tests.support.daemons import Daemon, short_home
from tests.support.long_tests import choose_count
from tests.support.waiting import status_of

EVERY = choose_count("TASKMEM_EVERY_KILL", 3, 1)
"""Each content of the database is there for at least three operations; `--long` checks all."""
FAULT_EVERY = choose_count("TASKMEM_EVERY_FAULT", 29, 3)
"""Every so many-th operation of a call is let fail."""
FAULTED_STARTS = choose_count("TASKMEM_EVERY_START", 200, 20)
"""Likewise of a start."""
pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def whole_recording():
    """One task, from its start to its end; what is left by every third kill is checked."""
    made = Recording(*record_script(1))
    assert made.check_kills(EVERY) > 400
    return made


def test_a_folder_is_synced_once_for_each_new_log(whole_recording):
    made, synced = (
        Counter(each.path for each in whole_recording.operations if is_such(each))
        for is_such in (
            lambda each: each.kind == CREATE,
            lambda each: each.kind == SYNC and each.offset and each.path.endswith("-wal"),
        )
    )
    assert synced
    assert synced <= made


@pytest.mark.parametrize(("path", "is_safe"), [("a", True), (HOME, True), ("other", False)])
def test_a_new_name_outlives_a_cut_once_it_is_synced(tmp_path, path, is_safe):
    disk = Disk()
    for each in (Operation(CREATE, "a"), Operation(SYNC, path, path != "a")):
        disk.apply(each)
    for seed in range(20):
        disk.write_cut(tmp_path / f"{seed}", Random(seed))  # noqa: S311 - no secret
    assert all((tmp_path / f"{seed}" / "a").exists() for seed in range(20)) is is_safe


def test_nothing_answered_is_lost_by_kill_or_power_cut(whole_recording):
    assert whole_recording.check_cuts(Random(22), 2 * EVERY) > 200  # noqa: S311 - no secret


def test_a_log_that_is_not_synced_would_be_noticed(whole_recording):
    lying = whole_recording.forget_syncs("taskmem.db-wal")
    with pytest.raises((AssertionError, StoreUnavailable)):
        lying.check_cuts(Random(22), EVERY)  # noqa: S311 - no secret


def test_an_identity_that_is_not_synced_would_be_noticed(whole_recording):
    lying = whole_recording.forget_syncs("home.id")
    with pytest.raises(AssertionError, match="the home is another one"):
        lying.check_cuts(Random(22), EVERY)  # noqa: S311 - no secret


def test_an_operation_that_fails_is_told_and_loses_nothing():
    """One sentence for each call; the daemon goes on, and what it answered outlives a kill."""
    with short_home() as home:
        daemon = RecordedDaemon(home)
        with daemon.serve():
            calls = FaultedCalls(daemon)
            calls.run(FAULTS, every=FAULT_EVERY)
            daemon.process.kill()
        assert calls.failed > 40
        calls.check_all()


def test_a_start_that_fails_says_why_and_the_next_one_serves():
    words = (sys.executable, "-m", "tests.power_loss.faulted_starts", str(FAULTED_STARTS))
    done = subprocess.run(words, check=False, capture_output=True, cwd=ROOT, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    for why in ("the disk fails", "there is no room left", "too many files are open"):
        assert f"The daemon cannot start: {why}" in done.stdout


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a home, but for SQLite's shared memory, which a start makes anew."""
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in folder.rglob("*")
        if each.is_file() and not each.name.endswith("-shm")
    }


@pytest.mark.parametrize("at", [236, 900])
def test_an_image_is_what_a_real_kill_leaves(at, tmp_path):
    """And a real daemon goes on from it."""
    with short_home() as home:
        daemon = RecordedDaemon(home)
        daemon.control.kill_at = at
        with daemon.serve() as served, suppress(LinkError, OSError, ValueError):
            assert served == (at > 236)
            Script(daemon).play(1)
        assert status_of(daemon.process) == -signal.SIGKILL
        disk = Disk()
        done = daemon.journal.read_operations()
        assert len(done) == at
        for operation in done:
            disk.apply(operation)
        disk.write_killed(tmp_path / "image")
        assert read_files(tmp_path / "image") == read_files(home.folder)
        again = Daemon(home)
        again.wait_until_it_serves()
        again.register()
        assert again.stop() == 0

"""The folders of tests on a RAM disk, where there is one: each commit waits for its disk.

What is proved of power cuts is proved on recorded writes, so it needs no real disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

RAM_DISK = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
ROOM = 3 * 2**30
"""Bytes; a run of everything takes less than a third of it."""
PREFIX = "tests-"
"""Short, since paths of sockets are; the id of the process follows."""
FOLDER = pytest.StashKey[Path]()


def use_ram_disk(config: pytest.Config) -> None:
    """Let the tests' folders be on the RAM disk, unless `--basetemp` or the machine says no."""
    is_worker = hasattr(config, "workerinput")
    if is_worker or config.option.basetemp or not _has_room():
        return
    _remove_old()
    folder = RAM_DISK / f"{PREFIX}{os.getpid()}"
    # PostgreSQL, which may be another user, goes through it to its own.
    folder.mkdir(mode=0o711)
    config.option.basetemp = str(folder / "t")
    config.stash[FOLDER] = folder
    # For what tests make by `tempfile`, and for the workers and programs that they start.
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def clean_up(config: pytest.Config) -> None:
    """Remove what the run has left, unless a test has failed: then until the next run."""
    folder = config.stash.get(FOLDER, None)
    session = config.pluginmanager.get_plugin("session")
    if folder and not getattr(session, "testsfailed", 0):
        shutil.rmtree(folder, ignore_errors=True)


def _has_room() -> bool:
    """Return whether there is a RAM disk that takes a whole run."""
    return os.access(RAM_DISK, os.W_OK) and shutil.disk_usage(RAM_DISK).free > ROOM


def _remove_old() -> None:
    """Remove what runs of before have left; not of one that goes on, nor of another user."""
    for folder in RAM_DISK.glob(f"{PREFIX}*"):
        with suppress(OSError, ValueError):
            is_over = not Path(f"/proc/{int(folder.name.removeprefix(PREFIX))}").exists()
            if is_over and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder)

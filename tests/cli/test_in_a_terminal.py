"""The lists of the command line in a real terminal, narrow and wide, with colour and without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.support.daemons import COMMAND, Daemon, short_home
from tests.support.required import do_without
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
LISTS = ("overview", "list", "task", "waits", "wakes", "runs", "events")
END = "-- end --"


@contextmanager
def open_terminal(command: str, width: int, **environ: str) -> Iterator[tuple[str, ...]]:
    """Run a command in a tmux window; gives the words that tmux is told by."""
    if which("tmux") is None:
        do_without("No tmux is here; install the package tmux.")
    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        tmux = ("tmux", "-S", f"{folder}/socket", "-f", "/dev/null")
        size = ("-x", str(width), "-y", "300")
        subprocess.run(
            [*tmux, "new-session", "-d", *size, "sh", "-c", command],
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": folder, **environ},
            check=True,
        )
        try:
            yield tmux
        finally:
            subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)


def show_in_terminal(width: int, *, colour: bool) -> str:
    """Print every list in a tmux window, and return what it shows."""
    plain = "" if colour else "NO_COLOR=1 "
    program = f"{plain}{sys.executable} -m tests.support.printed_lists"
    shown = "; ".join(f"echo; echo '== {name}'; {program} {name}" for name in LISTS)
    command = f"cd {ROOT}; export TZ=UTC TERM=screen-256color; {shown}; echo '{END}'; read _"
    with open_terminal(command, width) as tmux:
        return str(until(lambda: _read_lists(tmux), "all lists are printed"))


def capture(tmux: tuple[str, ...]) -> str:
    """Return what a window shows, with its colours."""
    words = [*tmux, "capture-pane", "-p", "-e"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return "\n".join(line.rstrip() for line in shown.splitlines())


def _read_lists(tmux: tuple[str, ...]) -> str | None:
    """Return the lists that a window shows; None: not all are printed yet."""
    whole, found, _ = capture(tmux).partition(END)
    return whole.replace("\x1b", "␛") if found else None


@pytest.mark.parametrize("colour", [True, False], ids=["colour", "plain"])
@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_lists_fit_the_terminal(width: int, colour: bool, text_snapshot: Any) -> None:
    shown = show_in_terminal(width, colour=colour)
    assert ("␛[33m" in shown) is colour
    assert "\x07" not in shown
    assert shown == text_snapshot


def test_watch_shows_what_changes_until_ctrl_c() -> None:
    with short_home() as home:
        daemon = Daemon(home)
        daemon.wait_until_it_serves()
        watch = f"trap : INT; {COMMAND} watch; echo ended with $?; read _"
        with open_terminal(watch, 80, TASKMEM_HOME=str(home.folder)) as tmux:
            until(lambda: "There is no task" in capture(tmux), "the empty overview is shown")
            daemon.register("Deploy coursefolio")
            until(lambda: "Deploy coursefolio" in capture(tmux), "the new task is shown")
            daemon.stop()
            until(lambda: "o daemon runs" in capture(tmux), "the user is told of the daemon's end")
            subprocess.run([*tmux, "send-keys", "C-c"], check=True)
            until(lambda: "ended with 130" in capture(tmux), "Ctrl-C ends it")
        daemon.close()

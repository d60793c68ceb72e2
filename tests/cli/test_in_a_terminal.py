"""The lists of the command line in a real terminal, narrow and wide, with colour and without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.support.required import do_without
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
LISTS = ("overview", "list", "task", "waits", "wakes", "runs", "events")
END = "-- end --"


def show_in_terminal(width: int, *, colour: bool) -> str:
    """Print every list in a tmux window, and return what it shows."""
    if which("tmux") is None:
        do_without("No tmux is here; install the package tmux.")
    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        tmux = ("tmux", "-S", f"{folder}/socket", "-f", "/dev/null")
        plain = "" if colour else "NO_COLOR=1 "
        program = f"{plain}{sys.executable} -m tests.support.printed_lists"
        shown = "; ".join(f"echo; echo '== {name}'; {program} {name}" for name in LISTS)
        command = f"cd {ROOT}; export TZ=UTC TERM=screen-256color; {shown}; echo '{END}'; read _"
        subprocess.run(
            [*tmux, "new-session", "-d", "-x", str(width), "-y", "300", "sh", "-c", command],
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": folder},
            check=True,
        )
        try:
            return str(until(lambda: _capture(tmux), "all lists are printed"))
        finally:
            subprocess.run([*tmux, "kill-server"], check=True)


def _capture(tmux: tuple[str, ...]) -> str | None:
    """Return what the window shows, with its colours; None: not all is printed yet."""
    words = [*tmux, "capture-pane", "-p", "-e"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    lines = [line.rstrip() for line in shown.splitlines()]
    whole, found, _ = "\n".join(lines).partition(END)
    return whole.replace("\x1b", "␛") if found else None


@pytest.mark.parametrize("colour", [True, False], ids=["colour", "plain"])
@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_lists_fit_the_terminal(width: int, colour: bool, text_snapshot: Any) -> None:
    shown = show_in_terminal(width, colour=colour)
    assert ("␛[33m" in shown) is colour
    assert "\x07" not in shown
    assert shown == text_snapshot

"""Real terminals: windows of tmux, in which commands run."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import which

from tests.support.required import do_without


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


def capture(tmux: tuple[str, ...]) -> str:
    """Return what a window shows, with its colours."""
    words = [*tmux, "capture-pane", "-p", "-e"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return "\n".join(line.rstrip() for line in shown.splitlines())

"""A tmux server that belongs to one test."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.required import do_without
from tests.support.waiting import PATIENCE, until

SHELL = "env -i PS1='me@box:~$ ' TERM=screen bash --norc --noprofile -i"


@pytest.fixture(autouse=True)
def heard_signals():
    """What a shell has its background jobs ignore is not ignored by what is run."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGQUIT: signal.signal(signal.SIGQUIT, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Server:
    """A tmux server of its own."""

    def __init__(self, folder):
        self.socket = str(folder / "socket")
        self._program = shutil.which("tmux")

    def __call__(self, *arguments, check=True):
        done = subprocess.run(
            [self._program, "-S", self.socket, "-f", "/dev/null", *arguments],
            capture_output=True,
            text=True,
            check=check,
            timeout=PATIENCE,
        )
        return done.stdout.strip()

    def session(self, name, command=SHELL, *more):
        self("new-session", "-d", "-s", name, "-x", "60", "-y", "10", *more, command)
        if command is SHELL:
            self.wait_until_shown(f"={name}:", "$")

    def type(self, name, text):
        self("send-keys", "-t", name, text, "Enter")

    def ask(self, name, field):
        return self("display-message", "-p", "-t", name, f"#{{{field}}}")

    def read_screen(self, name):
        return self("capture-pane", "-p", "-t", name)

    def wait_until_shown(self, name, words):
        until(lambda: words in self.read_screen(name), f"{words!r} is shown")

    def clients(self):
        return self("list-clients", "-F", "#{client_name}", check=False).split()

    def show(self, name, text):
        """Print on a pane as its program would."""
        with Path(self.ask(name, "pane_tty")).open("w") as terminal:
            terminal.write(text)

    @contextmanager
    def user(self, name):
        """Somebody who is attached to a session."""
        attached = subprocess.Popen(
            [self._program, "-S", self.socket, "-C", "attach-session", "-t", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        with attached:
            yield


@pytest.fixture
def tmux(monkeypatch):
    if shutil.which("tmux") is None:
        do_without("tmux is not installed: apt-get install tmux")
    # Short, because the path of a socket has about a hundred bytes.
    folder = Path(tempfile.mkdtemp(prefix="tmux-", dir="/tmp"))
    server = Server(folder)
    monkeypatch.setenv("TASKMEM_TMUX_SOCKET", server.socket)
    monkeypatch.delenv("TMUX", raising=False)
    yield server
    server("kill-server", check=False)
    shutil.rmtree(folder)

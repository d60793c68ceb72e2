"""A daemon for tests: real socket, scripted behaviour.

Run as a program it stands in for the daemon's command: it takes the home's lock
and serves until it is told to `stop`; `FAKE_DAEMON` in its environment chooses
how it fails.
"""

from __future__ import annotations

import fcntl
import json
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from openclaw_taskmem import __version__
from openclaw_taskmem.home import Home, find_home

PATIENCE = 30.0
"""Bounds every wait of a test in seconds; none takes it unless something broke."""


def line_of(document):
    return json.dumps(document).encode() + b"\n"


class Connection:
    """One client that is connected."""

    def __init__(self, daemon, sock):
        self._daemon = daemon
        self._sock = sock
        self._lines = sock.makefile("rb")
        self.opening = None
        threading.Thread(target=self._serve, daemon=True).start()

    def say(self, document):
        self.say_raw(line_of(document))

    def say_raw(self, data):
        self._sock.sendall(data)

    def drop(self):
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def _serve(self):
        with suppress(OSError, ValueError):
            self.opening = json.loads(self._lines.readline() or "null")
            if self.opening and self._daemon.opening is not None:
                self.say_raw(self._daemon.opening)
                if b'"error"' not in self._daemon.opening:
                    self._daemon.connections.put(self)
                    for line in self._lines:
                        self._daemon.hear(self, line)
            elif self.opening:
                self._lines.readline()
        self._lines.close()
        self._sock.close()


def answer(connection, document):
    """Answer any request with its own method."""
    if "id" in document:
        result = {"method": document["method"], "params": document.get("params")}
        connection.say({"jsonrpc": "2.0", "id": document["id"], "result": result})


class FakeDaemon:
    """Listens on a home's socket.

    `opening` is the first that it says, as a document or as bytes; None says
    nothing at all. `behaviour` is called with every document that comes in.
    `heard` and `connections` are queues.
    """

    def __init__(self, home: Home, behaviour: Callable = answer, opening=...):
        self.home = home
        self.behaviour = behaviour
        if opening is ...:
            opening = {"taskmem": 1, "pid": os.getpid(), "version": __version__}
        self.opening = line_of(opening) if isinstance(opening, (dict, list)) else opening
        self.heard: queue.Queue = queue.Queue()
        self.connections: queue.Queue = queue.Queue()
        self._open: list[Connection] = []
        home.prepare()
        home.socket.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.fspath(home.socket))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def hear(self, connection, line):
        try:
            document = json.loads(line)
        except ValueError:
            document = line
        self.heard.put(document)
        self.behaviour(connection, document)

    def next_heard(self):
        return self.heard.get(timeout=PATIENCE)

    def next_connection(self):
        return self.connections.get(timeout=PATIENCE)

    def die(self, *, leave_socket=False):
        """Cut every connection; what was killed leaves its socket."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE)
        if not leave_socket:
            self.home.socket.unlink(missing_ok=True)
        for connection in self._open:
            connection.drop()

    def _accept(self):
        with suppress(OSError):
            while True:
                self._open.append(Connection(self, self._listener.accept()[0]))


def _stand_in():
    home = find_home(os.environ)
    mode = os.environ.get("FAKE_DAEMON", "")
    if mode == "fail":
        sys.exit("Nothing to stand on.\nError: the settings are bad.")
    with home.lock.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("Another daemon runs.")
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        stop = threading.Event()

        def behave(connection, document):
            if document.get("method") == "stop":
                stop.set()
            elif document.get("method") == "about":
                about = {
                    "home": os.environ["TASKMEM_HOME"],
                    "cwd": str(Path.cwd()),
                    "session": os.getsid(0),
                    "stdin_is_null": os.fstat(0).st_rdev == Path(os.devnull).stat().st_rdev,
                }
                connection.say({"id": document["id"], "result": about})
            else:
                answer(connection, document)

        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        daemon = FakeDaemon(home, behave)
        stop.wait(600)
        daemon.die()


if __name__ == "__main__":
    _stand_in()

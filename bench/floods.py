"""`task_update` of one agent while another client floods the daemon."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress

from figures import Figure, amount, millis, percentile
from homes import COMMAND, build_environment, fill_home, make_home, serve_home
from host import Host

from openclaw_taskmem.home import Home

TASKS = 200
SAMPLES = 400
LIMIT_SECONDS = 1.0
CLIENTS = 12
"""Connections of the client that floods."""
LONG = 1000
"""Messages of a task that is shown whole."""
MIB = 1024 * 1024


def update_in_flood() -> Iterator[Figure | str]:
    """Measure updates while another floods with each kind of call."""
    with ExitStack() as stack:
        home = stack.enter_context(make_home())
        ids = fill_home(home, TASKS)
        stack.enter_context(serve_home(home))
        host = stack.enter_context(Host((COMMAND, "mcp"), build_environment(home)))
        host.shake_hands()

        def update(number: int) -> float:
            given = {"task_id": ids[1], "message": f"Read file {number}."}
            return host.call("task_update", given)

        for number in range(LONG):
            given = {"task_id": ids[0], "message": f"{number} " + "x" * 3000}
            host.call("task_update", given)
        yield millis("task_update, nobody floods", [*map(update, range(SAMPLES))])
        for what, (face, line, reads) in _list_floods(ids[0]).items():
            with _Flood(home, face, line, reads=reads):
                times = [*map(update, range(SAMPLES))]
            yield millis(f"task_update while another floods: {what}", times)
            worst = [percentile(times, 0.99)]
            yield amount(f"its p99: {what}", worst, "s", LIMIT_SECONDS)


def _list_floods(task_id: str) -> Mapping[str, tuple[str, bytes, bool]]:
    """Return on which face what is sent over and over; whether answers are read."""
    note = {"task_id": task_id, "message": "Still at it."}
    proof = {"task_id": task_id, "status": "completed"}
    of_clients = {
        "updates": (_build_call("task_update", note), True),
        "updates of 60 kB": (_build_call("task_update", {**note, "message": "y " * 30_000}), True),
        "answers that nobody reads": (_encode_line("show", {"id": task_id}), False),
        "threads shown": (_encode_line("show", {"id": task_id}), True),
        "lists": (_build_call("task_list", {}), True),
        "proofs that are absent": (
            _build_call("task_update", {**proof, "artifacts": [f"no-{n}" for n in range(50)]}),
            True,
        ),
        "lines of 1 MiB": (
            _build_call("task_update", {**note, "message": "x" * (MIB - 500)}),
            True,
        ),
        "lines of 340,000 arrays": (_build_arrays_call(340_000), True),
        "lines of 90,000 arrays": (_build_arrays_call(90_000), True),
    }
    return {
        **{what: ("client", *flood) for what, flood in of_clients.items()},
        "a gateway's lines of 8 MiB": ("gateway", _build_arrays_call(2_700_000), True),
        "a gateway's lines of 90,000 arrays": ("gateway", _build_arrays_call(90_000), True),
    }


def _build_arrays_call(number: int) -> bytes:
    """Return a call whose metadata is so many empty arrays."""
    start = b'{"id":1,"method":"call","params":{"tool":"task_update","arguments":'
    values = b"[]," * (number - 1) + b"[]"
    return start + b'{"task_id":"x","metadata":[' + values + b"]}}}\n"


def _build_call(tool: str, arguments: Mapping[str, object]) -> bytes:
    return _encode_line("call", {"tool": tool, "arguments": arguments})


def _encode_line(method: str, params: Mapping[str, object]) -> bytes:
    return json.dumps({"id": 1, "method": method, "params": params}).encode() + b"\n"


class _Flood:
    """Connections that send one line over and over until the block is left."""

    def __init__(self, home: Home, face: str, line: bytes, *, reads: bool) -> None:
        self._home, self._face, self._line, self._reads = home, face, line, reads
        self._over = threading.Event()
        self._begun = threading.Barrier(CLIENTS + 1)
        """Passed once every connection has sent a line."""
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> None:
        for _ in range(CLIENTS):
            end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            end.connect(str(self._home.socket))
            opening = {"taskmem": 1, "face": self._face}
            end.sendall(json.dumps(opening).encode() + b"\n")
            self._sockets.append(end)
            self._begin(self._send, end)
            if self._reads:
                self._begin(self._read, end)
        self._begun.wait()

    def _begin(self, work: Callable[[socket.socket], None], end: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(end,))
        thread.start()
        self._threads.append(thread)

    def _send(self, end: socket.socket) -> None:
        end.sendall(self._line)
        self._begun.wait()
        with suppress(OSError):
            while not self._over.is_set():
                end.sendall(self._line)

    def _read(self, end: socket.socket) -> None:
        with suppress(OSError):
            while end.recv(MIB):
                pass

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for end in self._sockets:
            end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._sockets:
            end.close()

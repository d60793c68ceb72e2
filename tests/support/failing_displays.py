"""A display that passes on some answers of a screen's X server, and is then gone."""

from __future__ import annotations

import os
import random
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.screens import NUMBERS, Screen

_SOCKETS = Path("/tmp/.X11-unix")  # noqa: S108 - that is where X servers listen
_LARGEST = 1 << 20
_MOST_FILES = 4
"""Files that one request passes at most: memory that it shares."""


class FailingDisplay:
    """A display that serves within `with`, until it has given so many answers."""

    def __init__(self, screen: Screen, answers: int) -> None:
        self._server = str(_SOCKETS / f"X{screen.display.removeprefix(':')}")
        self._left = answers
        self._listener = socket.socket(socket.AF_UNIX)
        self._number = _bind(self._listener)
        self._open = [self._listener]
        self._accepting = threading.Thread(target=self._accept)
        self._passing: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._accepting.join()
        self._end()
        for each in self._passing:
            each.join()
        for each in self._open:
            each.close()
        (_SOCKETS / f"X{self._number}").unlink()

    @property
    def variables(self) -> dict[str, str]:
        """The variables that name this display."""
        return {"DISPLAY": f":{self._number}"}

    def _end(self) -> None:
        """Break all connections, and take no other."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, server = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
                self._open += (client, server)
                server.connect(self._server)
                for pass_on in (self._pass_requests, self._pass_answers):
                    passing = threading.Thread(target=pass_on, args=(client, server))
                    self._passing.append(passing)
                    passing.start()

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                data, files, *_ = socket.recv_fds(client, _LARGEST, _MOST_FILES)
                if not data:
                    server.shutdown(socket.SHUT_RDWR)
                    return
                socket.send_fds(server, [data], files)
                for each in files:
                    os.close(each)

    def _pass_answers(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(_LARGEST):
                if self._left == 0:
                    self._end()
                    return
                self._left -= 1
                client.sendall(data)


def _bind(listener: socket.socket) -> int:
    for number in random.sample(NUMBERS, 20):
        with suppress(OSError):
            listener.bind(str(_SOCKETS / f"X{number}"))
            listener.listen()
            return number
    raise AssertionError("no display has a free number")

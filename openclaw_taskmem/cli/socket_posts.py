"""Write into a socket what the daemon asks a relay for.

A relay is a child of its host, and some hosts trust a message only if a child of theirs sends it.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from taskmem_program.files import require_own_socket


def begin_post(request: bytes) -> socket.socket:
    """Begin to write; return an end from which the answer for the daemon can be read, as a line."""
    import threading  # relays that never need it are smaller without

    end, answers = socket.socketpair()
    sent = (request, answers)
    threading.Thread(target=_answer_request, args=sent, name="post", daemon=True).start()
    return end


def _answer_request(request: bytes, answers: socket.socket) -> None:
    document = json.loads(request)
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": document["id"]}
    try:
        answer["result"] = {"closed": _post(**document["params"])}
    except (OSError, ValueError, TypeError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        answer["error"] = {"code": -32000, "message": why or str(error)}
    with answers, suppress(OSError):
        answers.sendall(json.dumps(answer).encode() + b"\n")


def _post(path: str, text: str, seconds: float, until: float) -> bool:
    """Write a text into a socket; return whether the other end then closed it, within `seconds`.

    `until`: when the daemon gives up, on the clock of `time.monotonic`; it may then try again.

    Raises:
        OSError: It was not written, or not as a whole.
    """
    require_own_socket(Path(path))
    with socket.socket(socket.AF_UNIX) as sock:
        _limit_time(sock, until)
        sock.connect(path)
        _limit_time(sock, until)
        sock.sendall(text.encode())
        sock.shutdown(socket.SHUT_WR)
        until = min(until, _now() + seconds)
        with suppress(TimeoutError):
            _limit_time(sock, until)
            while sock.recv(4096):
                _limit_time(sock, until)
            return True
    return False


def _limit_time(sock: socket.socket, until: float) -> None:
    """Have the next operation end in time.

    Raises:
        TimeoutError: It is too late for it.
    """
    left = until - _now()
    if left <= 0:
        raise TimeoutError(None, "its relay came too late")
    sock.settimeout(left)


def _now() -> float:
    return time.monotonic()  # noqa: TID251 (the daemon's clock, too)

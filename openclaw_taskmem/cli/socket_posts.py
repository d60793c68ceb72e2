"""Write what the daemon asks for into a socket, in the relay's place.

A relay is a child of its host, and some hosts trust a message only if a child of theirs sends it.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import Any, Final

_TIMEOUT: Final = 10.0
"""Seconds in which the other end must accept the connection and the text."""


def begin_post(request: bytes) -> socket.socket:
    """Begin to write; return an end from which the answer for the daemon can be read, as a line."""
    import threading  # relays that never need it are smaller without

    end, answers = socket.socketpair()
    threading.Thread(target=_run, args=(request, answers), name="post", daemon=True).start()
    return end


def _run(request: bytes, answers: socket.socket) -> None:
    document = json.loads(request)
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": document["id"]}
    try:
        answer["result"] = {"closed": _post(**document["params"])}
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        answer["error"] = {"code": -32000, "message": why or str(error)}
    with answers, suppress(OSError):
        answers.sendall(json.dumps(answer).encode() + b"\n")


def _post(path: str, text: str, seconds: float) -> bool:
    """Write a text into a socket; return whether the other end then closed it, within `seconds`."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(_TIMEOUT)
        sock.connect(path)
        sock.sendall(text.encode())
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(seconds)
        with suppress(TimeoutError):
            while sock.recv(4096):
                pass
            return True
    return False

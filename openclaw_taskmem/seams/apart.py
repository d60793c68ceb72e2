"""Calls that may hang, made apart from everything else.

A plain daemon thread and a future: a plug-in that never returns costs its own
answer and nothing more, and does not hold up the end of the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class TookTooLong(Exception):
    """A call did not return within its limit; it goes on in a thread of its own."""


def call_apart(call: Callable[[], T], seconds: float, name: str) -> T:
    """Return what `call` returns, or raise what it raises.

    Args:
        call: Takes no arguments.
        seconds: How long it may take.
        name: Names the thread.

    Raises:
        TookTooLong: It did not return in time.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError as error:
        if future.done():
            raise
        raise TookTooLong(f"no answer within {seconds:g} s") from error

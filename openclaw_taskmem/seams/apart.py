"""Calls that may hang, made apart from everything else.

A plain daemon thread and a future: a plug-in that never returns costs its own
answer and nothing more, and does not hold up the end of the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

T = TypeVar("T")


class TookTooLong(Exception):
    """A call did not return within its limit; it goes on in a thread of its own."""

    def __init__(self, seconds: float, call: Future[Any]) -> None:
        super().__init__(f"no answer within {seconds:g} s")
        self.call: Final = call
        """Done once the call has returned after all."""


class TriedToEnd(Exception):
    """A call raised what ends a program, such as `SystemExit`; it ends nothing here."""


def call_apart(call: Callable[[], T], seconds: float, name: str) -> T:
    """Return what `call` returns, or raise what it raises.

    Args:
        call: Takes no arguments.
        seconds: How long it may take.
        name: Names the thread.

    Raises:
        TookTooLong: It did not return in time.
        TriedToEnd: It raised what is no `Exception`.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001 - it belongs to the caller
            future.set_exception(error)
        except BaseException as error:  # noqa: BLE001 - it must not end the caller
            ended = TriedToEnd(repr(error)).with_traceback(error.__traceback__)
            future.set_exception(ended)

    threading.Thread(target=run, name=name, daemon=True).start()
    if not wait((future,), seconds).done:
        raise TookTooLong(seconds, future)
    return future.result()

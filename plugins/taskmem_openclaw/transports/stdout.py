"""Transport `stdout`: one line for each wake on the daemon's output, for tests and pipes."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import TextIO

from taskmem_hookspecs import Wake, WakeReceipt, WakeUndelivered


class Stdout:
    """Prints wakes."""

    name = "stdout"

    def __init__(self, out: TextIO | None = None) -> None:
        """Set the output; None: standard output."""
        self._out = out
        self._turn = threading.Lock()

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Print a wake's text.

        Raises:
            WakeUndelivered: The output is closed.
        """
        try:
            await asyncio.wrap_future(self._print_in_thread(wake.text))
        except (OSError, ValueError) as error:
            raise WakeUndelivered(
                f"The standard output cannot be written ({error}); start the daemon "
                "with an output, or choose another TASKMEM_WAKE_TRANSPORT."
            ) from error
        return WakeReceipt(delivered_at=datetime.now(UTC))

    def _print_in_thread(self, text: str) -> Future[None]:
        """Print in a separate thread, so that a reader that stops reading blocks nothing else."""
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            try:
                self._print(text)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller
                future.set_exception(error)
            else:
                future.set_result(None)

        threading.Thread(target=run, name="stdout", daemon=True).start()
        return future

    def _print(self, text: str) -> None:
        out = self._out or sys.stdout
        if out is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise ValueError("there is none")
        with self._turn:
            out.write(f"{text}\n")
            out.flush()

"""Wakes on the daemon's standard output, a line each: for trying out, and for pipes."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import TextIO

from taskmem_hookspecs import Wake, WakeReceipt, WakeUndelivered


class Stdout:
    """Prints wakes."""

    name = "stdout"

    def __init__(self, out: TextIO | None = None) -> None:
        """Take where to print; None: the standard output."""
        self._out = out or sys.stdout

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Print a wake's text.

        Raises:
            WakeUndelivered: The output is closed.
        """
        try:
            await asyncio.to_thread(self._print, wake.text)
        except (OSError, ValueError) as error:
            raise WakeUndelivered(
                f"The standard output cannot be written ({error}); start the daemon "
                "with an output, or choose another TASKMEM_WAKE_TRANSPORT."
            ) from error
        return WakeReceipt(delivered_at=datetime.now(UTC))  # noqa: TID251

    def _print(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()

"""Run the doctor's checks of plug-ins, each in an event loop and a thread of its own.

A check that blocks is left behind. Its exception becomes a row like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Coroutine, Generator
from typing import Final, cast

from openclaw_taskmem.plugin_host.isolation import TriedToEnd, require_value
from openclaw_taskmem.plugin_host.plugin_host import format_error
from taskmem_hookspecs import Checkup, DoctorCheck, DoctorRow, DoctorState

CHECK_SECONDS: Final = 30.0
"""Seconds that a check may take until its next row."""
COSTLY_SECONDS: Final = 90.0
"""Seconds until the next row of a check that costs something, such as a model's turn."""
_TIDY_SECONDS: Final = 15.0
"""Seconds that a cancelled check may take to clean up."""
MOST_ROWS: Final = 200
"""Rows of one check, at most; it is stopped there."""


def run_check(
    plugin: str,
    check: DoctorCheck,
    checkup: Checkup,
    *,
    seconds: float | None = None,
    tidy_seconds: float = _TIDY_SECONDS,
) -> Generator[DoctorRow]:
    """Yield the rows of a check as they come; if it fails, that is a row, too.

    Closing the iterator cancels the check and waits until it has cleaned up.

    Args:
        plugin: Name of the check's plug-in, for the row of a failure.
        check: The check.
        checkup: The context that the check gets.
        seconds: Seconds until its next row; None: `COSTLY_SECONDS` if it costs something, else
            `CHECK_SECONDS`.
        tidy_seconds: Seconds to clean up.
    """
    silence = seconds or (COSTLY_SECONDS if check.costs else CHECK_SECONDS)
    looking = _RunningCheck(check, checkup)
    try:
        while (answer := looking.next_row(silence)) is not None:
            if isinstance(answer, DoctorRow):
                yield answer
            else:
                yield build_failure_row(plugin, check.name, format_error(answer))
                return
    except TimeoutError:
        cure = (
            "Run taskmem doctor again once this machine is less busy; if that does not help, leave "
            f"it out: TASKMEM_DISABLED_PLUGINS={plugin}."
        )
        yield build_failure_row(plugin, check.name, f"it was silent for {silence:g} s", cure)
    finally:
        looking.cancel_check(tidy_seconds)


class _RunningCheck:
    """A check that runs in its own thread."""

    def __init__(self, check: DoctorCheck, checkup: Checkup) -> None:
        self._said: queue.SimpleQueue[DoctorRow | BaseException | None] = queue.SimpleQueue()
        self._ending = False
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._collect_rows(check, checkup))
        self._thread = threading.Thread(target=self._run, name=check.name, daemon=True)
        self._thread.start()

    def next_row(self, seconds: float) -> DoctorRow | BaseException | None:
        """Return the next row or the error; None: there are no more.

        Raises:
            TimeoutError: No row came in time.
        """
        try:
            return self._said.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None

    def cancel_check(self, seconds: float) -> None:
        """Cancel the check and wait until it has cleaned up; a check that blocks is abandoned."""
        self._ending = True
        with contextlib.suppress(RuntimeError):
            # The loop may have been closed meanwhile.
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(seconds)

    async def _collect_rows(self, check: DoctorCheck, checkup: Checkup) -> None:
        try:
            count = 0
            async for row in _require_rows(check.look(checkup)):
                self._said.put(require_value(row, DoctorRow))
                count += 1
                if count == MOST_ROWS:
                    raise TypeError(f"it goes on after {MOST_ROWS} rows")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - whatever a plug-in raises
            self._said.put(error)
        except BaseException as error:  # noqa: BLE001 - it must not end the command
            if not self._ending:
                self._said.put(TriedToEnd(repr(error)))
        finally:
            self._said.put(None)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._task)
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


def build_failure_row(plugin: str, name: str, why: str, cure: str | None = None) -> DoctorRow:
    """Return the row of a check that failed, or that the plug-in could not even name.

    `cure`: what to do; None: its author is to mend it.
    """
    return DoctorRow(
        id=name,
        state=DoctorState.FAIL,
        detail=f"A check of the plug-in {plugin} failed: {why}.",
        effect="What it looks at may be well or not.",
        cure=cure or f"Tell its author, or leave it out: TASKMEM_DISABLED_PLUGINS={plugin}.",
    )


def _require_rows(answer: object) -> AsyncIterator[object]:
    """Return the answer of a check's `look` if it is an async iterator."""
    if isinstance(answer, Coroutine):
        cast("Coroutine[object, object, object]", answer).close()
        raise TypeError("look answered a coroutine; it must yield its rows")
    if not isinstance(answer, AsyncIterator):
        kind = type(answer).__name__
        raise TypeError(f"look answered {kind}; it must be async, and yield its rows")
    return cast("AsyncIterator[object]", answer)

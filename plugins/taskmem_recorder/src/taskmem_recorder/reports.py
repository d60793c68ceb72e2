"""Report what the recorder does, what that costs, and what stands in its way.

The daemon writes the report beside the recordings; `taskmem record status` and `taskmem doctor`
read it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from taskmem_hookspecs import Checkup, DoctorRow, DoctorState, TaskmemError
from taskmem_hookspecs.model import Instant, Value
from taskmem_recorder.state import (
    FOLDER,
    RecordingState,
    StateUnreadable,
    load_state,
    write_private_file,
)
from taskmem_recorder.store import make_store
from taskmem_recorder.windows import is_excluded_time

_FILE: Final = "report.json"
WORKING_DAY: Final = 8 * 3600.0
"""Seconds for which the space is told."""
_LEAST_SECONDS: Final = 60.0
"""How long it must have recorded before costs are told."""


class RecorderReport(Value):
    """State of the recorder, and its costs since the daemon started."""

    at: Instant
    resting: str | None = None
    """Why it rests, and what follows, in sentences; None: it does not."""
    display: str | None = None
    """The display that is recorded now, as in DISPLAY; None: none is."""
    seconds: float = 0.0
    """How long it has recorded."""
    cpu_seconds: float = 0.0
    """Time on a processor, of the recorder and of what reads text for it."""
    moments: int = 0
    bytes: int = 0
    """Size of all pictures and texts that were stored."""

    @property
    def cpu_percent(self) -> float | None:
        """Share of one processor; None: not known yet."""
        return None if self.seconds < _LEAST_SECONDS else 100 * self.cpu_seconds / self.seconds

    @property
    def day_bytes(self) -> float | None:
        """Space for a working day of eight hours; None: not known yet."""
        if self.seconds < _LEAST_SECONDS:
            return None
        return self.bytes / self.seconds * WORKING_DAY


def describe_activity(
    state: RecordingState, report: RecorderReport | None, now: datetime
) -> str | None:
    """Return what the recorder does, in one line; None: it is off.

    `now` has the time zone in which times are told.
    """
    if not state.on:
        return None
    if state.paused_until is not None and state.is_paused(now):
        until = format_time(state.paused_until, now)
        return f"Recording of this screen is paused until {until}"
    if is_excluded_time(now, state.exclusions):
        return "This screen is not recorded at this time of the day"
    if report is not None and report.resting:
        return report.resting
    since = "" if state.on_since is None else f" since {format_time(state.on_since, now)}"
    return f"Recording this screen{since}"


def describe_start(state: RecordingState, report: RecorderReport | None, now: datetime) -> str:
    """Return what becomes of a recording that was just switched on, in sentences.

    `report`: what the daemon has said of it; None: nothing yet.
    """
    if is_excluded_time(now, state.exclusions):
        return "It is switched on, but you leave out this time of the day: nothing is recorded now."
    if report is None:
        return "It is switched on; what the daemon makes of it shows: taskmem record status"
    if report.resting:
        return f"It is switched on, but nothing is recorded now. {report.resting}"
    return f"The screen of display {report.display} is recorded from now on."


def describe_costs(report: RecorderReport) -> str:
    """Return what it costs, in one sentence."""
    percent, day = report.cpu_percent, report.day_bytes
    if percent is None or day is None:
        return "What it costs is told after a minute of recording."
    return (
        f"It takes {percent:.1f} % of one processor, and {day / 1e6:.0f} MB for a working day "
        "of 8 hours."
    )


def format_time(instant: datetime, now: datetime) -> str:
    """Return an instant in the time zone of `now`, with the day if that is another."""
    local = instant.astimezone(now.tzinfo)
    return f"{local:%H:%M}" if local.date() == now.date() else f"{local:%Y-%m-%d %H:%M}"


def load_report(home: Path) -> RecorderReport | None:
    """Return the last report of a home's recorder; None: there is none that can be read."""
    try:
        return RecorderReport.model_validate_json((home / FOLDER / _FILE).read_bytes())
    except (OSError, ValidationError):
        return None


def save_report(home: Path, report: RecorderReport) -> None:
    """Write the report, readable by its owner only.

    Raises:
        OSError: It cannot be written.
    """
    write_private_file(home / FOLDER, _FILE, report.model_dump_json().encode())


class RecordingCheck:
    """`DoctorCheck` of the recorder and its store."""

    name = "recording"
    costs = False

    async def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        """Yield a row on the recorder, and one on its store if that is damaged."""
        home = Path(os.environ["TASKMEM_HOME"])
        now = datetime.now(UTC).astimezone()
        try:
            state = load_state(home)
        except StateUnreadable as error:
            yield DoctorRow(id="recording.state", state=DoctorState.WARN, detail=str(error))
            return
        yield _check_recorder(state, load_report(home), now, has_daemon=checkup.status is not None)
        store = make_store(home)
        try:
            row = _check_store(store.measure().damaged)
        except TaskmemError as error:
            row = DoctorRow(id="recording.store", state=DoctorState.FAIL, detail=str(error))
        finally:
            store.close()
        if row is not None:
            yield row


def _check_recorder(
    state: RecordingState, report: RecorderReport | None, now: datetime, *, has_daemon: bool
) -> DoctorRow:
    """Return the row on the recorder. That it is off is no fault: the user has not switched it on.

    `now` has the time zone in which times are told.
    """
    activity = describe_activity(state, report, now)
    if activity is None:
        return DoctorRow(
            id="recording.state", state=DoctorState.OK, detail="The screen is not recorded."
        )
    if not has_daemon:
        return DoctorRow(
            id="recording.state",
            state=DoctorState.WARN,
            detail="The recording of the screen is on, but no daemon runs, which records.",
            cure="Run: taskmem daemon --detach",
        )
    rests = not state.is_paused(now) and report is not None and report.resting is not None
    return DoctorRow(
        id="recording.state",
        state=DoctorState.WARN if rests else DoctorState.OK,
        detail=activity if activity.endswith(".") else f"{activity}.",
    )


def _check_store(damaged: Sequence[str]) -> DoctorRow | None:
    """Return the row on databases that were set aside; None: there is none."""
    if not damaged:
        return None
    return DoctorRow(
        id="recording.store",
        state=DoctorState.WARN,
        detail=f"A damaged database of recordings was set aside: {', '.join(damaged)}.",
        cure="What it held is not found any more. Remove all that was recorded with: "
        "taskmem record forget all",
    )

"""Check of `taskmem doctor`: whether the screen is recorded, and what stands in the way."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from taskmem_hookspecs import Checkup, DoctorRow, DoctorState, TaskmemError
from taskmem_recall.recorder import make_store
from taskmem_recall.recorder_report import RecorderReport, describe_activity, load_report
from taskmem_recall.recording_state import RecordingState, StateUnreadable, load_state


class RecordingCheck:
    """`DoctorCheck` of the recorder and its store."""

    name = "recording"
    costs = False

    async def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        """Yield a row on the recorder, and one on its store if that is damaged."""
        home = Path(os.environ["TASKMEM_HOME"])
        now = datetime.now(UTC).astimezone()  # noqa: TID251 - a person runs this now
        try:
            state = load_state(home)
        except StateUnreadable as error:
            yield DoctorRow(id="recording.state", state=DoctorState.WARN, detail=str(error))
            return
        yield check_recorder(state, load_report(home), now, has_daemon=checkup.status is not None)
        store = make_store(home)
        try:
            row = check_store(store.measure().damaged)
        except TaskmemError as error:
            row = DoctorRow(id="recording.store", state=DoctorState.FAIL, detail=str(error))
        finally:
            store.close()
        if row is not None:
            yield row


def check_recorder(
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


def check_store(damaged: Sequence[str]) -> DoctorRow | None:
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

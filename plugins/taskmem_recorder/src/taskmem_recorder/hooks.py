"""Hooks of the screen recorder: what it recorded, and whether it can record."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from taskmem_hookspecs import Clock, DoctorCheck, RecallSource, hookimpl


@hookimpl
def recall_source(folder: Path, clock: Clock, scrub: Callable[[str], str]) -> RecallSource:
    """Return what was recorded of this screen, and what records it where it is switched on."""
    from taskmem_recorder.history import ScreenHistory
    from taskmem_recorder.recorder import ScreenRecorder
    from taskmem_recorder.store import make_store

    store = make_store(folder)
    recorder = ScreenRecorder(folder, store, clock, scrub, os.environ)
    return ScreenHistory(store, clock, recorder)


@hookimpl(trylast=True)
def health_checks() -> Sequence[DoctorCheck]:
    """Return the check of the recorder and of what it stored."""
    from taskmem_recorder.reports import RecordingCheck

    return [RecordingCheck()]

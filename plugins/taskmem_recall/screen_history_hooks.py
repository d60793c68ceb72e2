"""The hook of the screen's history, which can be switched off alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from taskmem_hookspecs import Clock, DoctorCheck, RecallSource, hookimpl


@hookimpl
def recall_source(folder: Path, clock: Clock, scrub: Callable[[str], str]) -> RecallSource:
    """Return what was recorded of this screen, and what records it where it is switched on."""
    from taskmem_recall.recorder import ScreenRecorder, make_store
    from taskmem_recall.screen_history import ScreenHistory

    store = make_store(folder)
    recorder = ScreenRecorder(folder, store, clock, scrub, os.environ)
    return ScreenHistory(store, clock, recorder)


@hookimpl(trylast=True)
def health_checks() -> Sequence[DoctorCheck]:
    """Return the check of the recorder and of what it stored."""
    from taskmem_recall.recorder_health import RecordingCheck

    return [RecordingCheck()]

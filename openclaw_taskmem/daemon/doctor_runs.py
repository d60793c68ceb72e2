"""Run the doctor in a process of its own, for the page that shows its report."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

log = logging.getLogger(__name__)

SECONDS: Final = 180.0
"""Time limit of the doctor, its proof included."""
_RANKS: Final = {"fail": 0, "warn": 1}
"""The order in which rows are shown; the others come last."""


class DoctorRuns:
    """Runs the doctor, one at a time, and keeps its last report. May be used from any thread."""

    def __init__(self, home: str, note_change: Callable[[], None]) -> None:
        """`home`: the folder of the home; `note_change` is called with each new report."""
        self._home = home
        self._note_change = note_change
        self._lock = threading.Lock()
        self._running = False
        self._process: subprocess.Popen[bytes] | None = None
        self._report: Mapping[str, Any] | None = None

    def read_report(self) -> Mapping[str, Any] | None:
        """Return the last report, as `taskmem doctor --json` prints it; begin one if there is none.

        None: the doctor looks.
        """
        with self._lock:
            report = self._report
        if report is None:
            self.begin(proof=False)
        return report

    def begin(self, *, proof: bool) -> None:
        """Have the doctor look in the background, unless it does already."""
        with self._lock:
            if self._running:
                return
            self._running, self._report = True, None
        threading.Thread(target=self._run, args=(proof,), name="doctor", daemon=True).start()

    def close(self) -> None:
        """End a doctor that looks."""
        if self._process is not None:
            self._process.terminate()

    def _run(self, proof: bool) -> None:  # noqa: FBT001 - a thread's argument
        command = [sys.executable, "-m", "openclaw_taskmem", "doctor", "--json"]
        command += [] if proof else ["--no-proof"]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                env={**os.environ, "TASKMEM_HOME": self._home},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            with self._process as process:
                said, _ = process.communicate(timeout=SECONDS)
            report = json.loads(said)
            for row in report["rows"]:
                row["rank"] = _RANKS.get(row["state"], 2)
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            self.close()
            log.warning("the doctor did not report: %s", error)
            row = {"id": "doctor", "state": "fail", "detail": "It did not report.", "rank": 0}
            report = {"ok": False, "rows": [{**row, "cure": "Run: taskmem doctor"}]}
        with self._lock:
            self._running, self._report = False, report
        self._note_change()

"""Run the doctor in a process of its own, for the page that shows its report."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

log = logging.getLogger(__name__)

_RUN_SECONDS: Final = 180.0
"""Time limit of the doctor, its proof included."""
_ENDING_SECONDS: Final = 5.0
"""Seconds that a doctor has to clean up after it was told to end; then it is killed."""
_RANKS: Final = {"fail": 0, "warn": 1, "ok": 2}
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
        self._known: Mapping[str, Any] | None = None

    def list_known_rows(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the last report, also while the doctor looks again; empty: none."""
        rows = self._known
        return () if rows is None else rows["rows"]

    def read_report(self) -> Mapping[str, Any] | None:
        """Return the last report, as `taskmem doctor --json` prints it; begin one if there is none.

        None: the doctor looks.
        """
        with self._lock:
            report = self._report
        if report is None:
            self.begin(proof=False)
        return report

    def begin(self, *, proof: bool) -> bool:
        """Have the doctor look in the background; False: it looks already, and nothing is begun."""
        with self._lock:
            if self._running:
                return False
            self._running, self._report = True, None
        threading.Thread(target=self._run, args=(proof,), name="doctor", daemon=True).start()
        return True

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
                report = json.loads(_read_output(process))
            for row in report["rows"]:
                row["rank"] = _RANKS.get(row["state"], 3)
        except subprocess.TimeoutExpired:
            report = _build_failure(f"It did not report within {_RUN_SECONDS:g} s, and was ended.")
        except (OSError, ValueError, KeyError):
            report = _build_failure("It did not report.")
        with self._lock:
            self._running, self._report, self._known = False, report, report
        self._note_change()


def _read_output(process: subprocess.Popen[bytes]) -> bytes:
    """Return what a doctor prints until it ends.

    Raises:
        TimeoutExpired: It took too long. It has ended now.
    """
    try:
        return process.communicate(timeout=_RUN_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def _build_failure(detail: str) -> Mapping[str, Any]:
    log.warning("the doctor: %s", detail)
    row = {"id": "doctor", "state": "fail", "detail": detail, "rank": 0}
    return {"ok": False, "rows": [{**row, "cure": "Run: taskmem doctor"}]}

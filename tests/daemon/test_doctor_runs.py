"""The doctor that a page has look at every link."""

from __future__ import annotations

import threading

import pytest

from openclaw_taskmem.daemon import doctor_runs
from openclaw_taskmem.daemon.doctor_runs import DoctorRuns
from tests.support.daemons import short_home
from tests.support.waiting import PATIENCE


def test_the_first_look_begins_by_itself_and_is_told() -> None:
    with short_home() as home:
        told = threading.Event()
        runs = DoctorRuns(str(home.folder), told.set)
        assert runs.read_report() is None
        assert told.wait(PATIENCE)
        report = runs.read_report()
    assert report is not None
    assert "daemon" in [row["id"] for row in report["rows"]]


def test_a_doctor_that_says_nothing_is_a_row_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor_runs.sys, "executable", "/bin/true")
    told = threading.Event()
    runs = DoctorRuns("/nowhere", told.set)
    runs.begin(proof=False)
    assert told.wait(PATIENCE)
    report = runs.read_report()
    assert report is not None
    assert (report["ok"], report["rows"][0]["detail"]) == (False, "It did not report.")


def test_a_doctor_that_looks_is_ended_with_the_daemon(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(doctor_runs.sys, "executable", str(program))
    told = threading.Event()
    runs = DoctorRuns("/nowhere", told.set)
    runs.begin(proof=True)
    while not told.wait(0.01):
        runs.close()
    assert runs.read_report() is not None

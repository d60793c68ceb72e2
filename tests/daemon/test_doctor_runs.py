"""The doctor that a page has look at every link."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from openclaw_taskmem.config import Settings
from openclaw_taskmem.daemon import person_calls
from openclaw_taskmem.daemon.person_calls import BEGUN_REPLY, BUSY_REPLY, DoctorRuns, PersonCalls
from openclaw_taskmem.home import find_home
from tests.support.daemons import short_home
from tests.support.waiting import PATIENCE
from tests.support.world import World


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
    monkeypatch.setattr(person_calls, "OWN_PROGRAM", ("/bin/true",))
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
    monkeypatch.setattr(person_calls, "OWN_PROGRAM", (str(program),))
    told = threading.Event()
    runs = DoctorRuns("/nowhere", told.set)
    runs.begin(proof=True)
    while not told.wait(0.01):
        runs.close()
    assert runs.read_report() is not None


def test_a_proof_that_is_not_begun_is_not_told_as_begun(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(person_calls, "OWN_PROGRAM", (str(program),))
    told = threading.Event()
    settings = Settings(home=find_home({"TASKMEM_HOME": str(tmp_path)}))
    calls = PersonCalls(World().context, settings, dict, list, told.set)
    acts: list[Any] = [calls.act(None, {"action": each}) for each in ("look", "prove")]
    assert [act["message"] for act in acts] == [BEGUN_REPLY, BUSY_REPLY]
    while not told.wait(0.01):
        calls.close()


@pytest.mark.parametrize("deaf", ["", "trap '' TERM"])
def test_a_doctor_that_hangs_is_ended_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path, deaf: str
) -> None:
    pid = tmp_path / "pid"
    program = tmp_path / "slow"
    program.write_text(f"#!/bin/sh\n{deaf}\necho $$ > {pid}\nexec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(person_calls, "OWN_PROGRAM", (str(program),))
    monkeypatch.setattr(person_calls, "_RUN_SECONDS", 2.0)
    monkeypatch.setattr(person_calls, "_ENDING_SECONDS", 0.1)
    told = threading.Event()
    runs = DoctorRuns("/nowhere", told.set)
    runs.begin(proof=True)
    assert told.wait(PATIENCE)
    report = runs.read_report()
    assert report is not None
    assert report["rows"][0]["detail"] == "It did not report within 2 s, and was ended."
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)

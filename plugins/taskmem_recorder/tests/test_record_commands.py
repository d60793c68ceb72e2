"""`taskmem record`: what a person switches, and what an agent cannot."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from taskmem_recorder import commands
from taskmem_recorder.commands import record as record_group
from taskmem_recorder.reports import RecorderReport, save_report
from taskmem_recorder.state import (
    FOLDER,
    STATE_FILE,
    Exclusion,
    ExclusionKind,
    RecordingState,
    StateUnreadable,
    load_state,
    save_state,
)
from taskmem_recorder.store import Moment, make_store


class CommandLine:
    """The command line of a person, or of an agent."""

    def __init__(self, *, is_person: bool) -> None:
        self._is_person = is_person
        self.asked: list[str] = []

    def require_person(self) -> None:
        if not self._is_person:
            sys.exit("Only a person may do this.")

    def call_daemon(self, method: str, **params: object):
        self.asked.append(method)

    def is_daemon_running(self) -> bool:
        return bool(self.asked)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(commands, "_MOST_LOOKS", 1)
    return tmp_path


@pytest.fixture
def person() -> CommandLine:
    return CommandLine(is_person=True)


def record(who: CommandLine, *words: str, status: int = 0) -> str:
    run = CliRunner().invoke(record_group, words, obj=who)
    assert run.exit_code == status, run.output
    return run.output


def store_moment(home: Path, at: datetime, title: str = "") -> None:
    store = make_store(home)
    store.add_moment(Moment(at=at, window_title=title, application="x"), b"\xff\xd8picture")
    store.close()


CHANGES = (
    ("on",),
    ("off",),
    ("pause", "30m"),
    ("resume",),
    ("exclude", "title", "Bank"),
    ("forget", "all"),
    ("mark", "off"),
)


@pytest.mark.parametrize("words", CHANGES, ids=" ".join)
def test_an_agent_switches_nothing(home, words) -> None:
    record(CommandLine(is_person=False), *words, status=1)
    assert not (home / FOLDER).exists()


def test_it_is_off_until_a_person_switches_it_on(home, person) -> None:
    assert load_state(home) == RecordingState()
    assert "not recorded" in record(person, "status")
    assert str(home / FOLDER) in record(person, "on")
    assert load_state(home).on
    assert load_state(home).display == ":7"
    assert person.asked == ["status"], "a daemon must run"
    assert "Recording this screen since" in record(person, "status")
    record(person, "off")
    assert not load_state(home).on


def report_of(home: Path, person: CommandLine, **facts: object) -> str:
    """What is said on switching it on where the daemon reports this."""
    later = datetime.now(UTC) + timedelta(minutes=1)
    save_report(home, RecorderReport(at=later, **facts))
    return record(person, "on")


def test_on_names_the_display_that_is_recorded(home, person) -> None:
    said = report_of(home, person, display=":5")
    assert "display :5 is recorded from now on" in said


def test_on_says_why_nothing_is_recorded_yet(home, person) -> None:
    rest = "The recording rests: the machine runs on battery. It goes on with the charger."
    said = report_of(home, person, display=":5", resting=rest)
    assert f"nothing is recorded now. {rest}" in said
    assert "from now on" not in said


def test_on_claims_nothing_that_the_daemon_has_not_said(home, person) -> None:
    old = RecorderReport(at=datetime.now(UTC) - timedelta(minutes=1), display=":5")
    save_report(home, old)
    said = record(person, "on")
    assert "from now on" not in said
    assert "taskmem record status" in said


def test_on_says_if_this_time_of_the_day_is_left_out(home, person) -> None:
    now = datetime.now().astimezone()
    hours = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}"
    record(person, "exclude", "time", hours)
    assert "leave out this time" in report_of(home, person, display=":5")


@pytest.mark.parametrize("system", ["Wayland", "macOS"])
def test_on_is_refused_where_nothing_could_be_left_out(home, person, monkeypatch, system) -> None:
    if system == "macOS":
        monkeypatch.setattr(sys, "platform", "darwin")
    else:
        monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert system in record(person, "on", status=1)
    assert not load_state(home).on


def test_on_once_more_keeps_the_time_and_ends_a_pause(home, person) -> None:
    record(person, "on")
    since = load_state(home).on_since
    record(person, "pause", "2h")
    assert "paused until" in record(person, "status")
    record(person, "on")
    assert load_state(home).on_since == since
    assert load_state(home).paused_until is None


def test_a_pause_ends_by_itself_or_by_resume(home, person) -> None:
    record(person, "on")
    record(person, "pause", "30", "minutes")
    state = load_state(home)
    now = datetime.now(UTC)
    assert state.is_paused(now)
    assert not state.is_paused(now + timedelta(minutes=31))
    record(person, "resume")
    assert not load_state(home).is_paused(now)


@pytest.mark.parametrize(
    "words", ["", "soon", "-5m", "0m", "5", "5 fortnights", "9999999d", "1e9d"]
)
def test_what_is_no_length_of_time_is_refused(home, person, words) -> None:
    output = record(person, "pause", "--", words, status=2)
    assert "30m" in output


def test_exclusions_are_added_listed_and_removed(home, person) -> None:
    record(person, "exclude", "application", "Signal")
    record(person, "exclude", "time", "20:00-8:00", status=2)
    record(person, "exclude", "time", "20:00-08:00")
    record(person, "exclude", "window", "26214403")
    listed = record(person, "exclude")
    assert "Left out: application Signal" in listed
    assert "Left out: time 20:00-08:00" in listed
    assert "Left out: window 0x1900003" in listed
    record(person, "exclude", "application", "signal", "--remove")
    assert "Signal" not in record(person, "exclude")


def test_what_is_not_left_out_cannot_be_taken_back(home, person) -> None:
    record(person, "exclude", "title", "my bank")
    output = record(person, "exclude", "title", "bank", "--remove", status=2)
    assert "title bank is not left out" in output
    assert "Left out: title my bank" in record(person, "exclude")


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        *(("window", "mine"), ("time", "late"), ("time", "07:00-07:00"), ("title", " ")),
        ("time", "20:00-20:00:30"),
    ],
)
def test_an_exclusion_that_means_nothing_is_refused(home, person, kind, what) -> None:
    record(person, "exclude", kind, what, status=2)


def test_hours_that_are_not_taken_any_more_are_removed(home, person) -> None:
    empty = Exclusion(kind=ExclusionKind.TIME, what="20:00-20:00")
    save_state(home, RecordingState(on=True, exclusions=(empty,)))
    assert "Left out: time 20:00-20:00" in record(person, "status")
    record(person, "exclude", "time", "20:00-20:00", "--remove")
    assert load_state(home).exclusions == ()


def test_a_window_that_is_no_number_makes_the_state_damaged(home, person) -> None:
    """As where somebody has edited the file: nothing is recorded by it."""
    record(person, "on")
    record(person, "exclude", "window", "0x1a00003")
    file = home / FOLDER / STATE_FILE
    file.write_text(file.read_text().replace("0x1a00003", "the mail"))
    with pytest.raises(StateUnreadable, match="taskmem record on"):
        load_state(home)
    said = record(person, "exclude", "window", "the mail", "--remove", status=1)
    assert "taskmem record on" in said


def test_forget_removes_the_last_minutes_only(home, person) -> None:
    now = datetime.now(UTC)
    for minutes, title in ((60, "Long ago"), (5, "Just now")):
        store_moment(home, now - timedelta(minutes=minutes), title)
    store = make_store(home)
    assert "1 moment and 1 picture." in record(person, "forget", "last 10 minutes")
    assert [each.window_title for each in store.list_moments()] == ["Long ago"]
    assert load_state(home).forgot_at is not None, "what is being read now is dropped"
    record(person, "forget", "all")
    assert not store.list_moments()
    store.close()


def test_a_damaged_state_is_off_until_it_is_switched_anew(home, person) -> None:
    record(person, "on")
    (home / FOLDER / STATE_FILE).write_text("{")
    assert "taskmem record on" in record(person, "status", status=1)
    record(person, "pause", "5m", status=1)
    assert "nothing that you left out is left out any more" in record(person, "on", status=1)
    assert not load_state(home).on, "nothing is recorded before the person knows"
    assert "left out any more" not in record(person, "on")
    assert load_state(home).on


@pytest.mark.parametrize(("switch", "status"), [("on", 1), ("off", 0)])
def test_a_damaged_state_is_kept_beside_the_new_one(home, person, switch, status) -> None:
    record(person, "exclude", "title", "my bank")
    file = home / FOLDER / STATE_FILE
    file.write_text(damaged := file.read_text()[:-3])
    said = record(person, switch, status=status)
    (kept,) = (home / FOLDER).glob("state.damaged-*")
    assert kept.read_text() == damaged
    assert str(kept) in said
    assert "taskmem record exclude title" in said


def test_a_switch_that_was_told_outlives_a_power_cut(home, person, monkeypatch) -> None:
    record(person, "on")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    record(person, "off")
    folder = home / FOLDER
    assert synced == [(folder / STATE_FILE).stat().st_ino, folder.stat().st_ino]


def test_a_damaged_state_stays_if_it_cannot_be_replaced(home, person, monkeypatch) -> None:
    record(person, "on")
    (home / FOLDER / STATE_FILE).write_text("{")

    def refuse(*given) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("taskmem_recorder.state.save_state", refuse)
    record(person, "on", status=1)
    assert (home / FOLDER / STATE_FILE).read_text() == "{"


def test_forget_needs_no_state_that_can_be_read(home, person) -> None:
    store_moment(home, datetime.now(UTC))
    (home / FOLDER / STATE_FILE).write_text("{")
    assert "1 moment and 1 picture." in record(person, "forget", "all")


def test_forget_says_what_went_with_a_damaged_database(home, person) -> None:
    store_moment(home, datetime.now(UTC))
    (home / FOLDER / "recordings.db").write_bytes(b"\xff" * 9000)
    said = record(person, "forget", "last 10 minutes")
    assert "0 moments and 1 picture." in said
    assert "Also removed: 1 damaged database, with everything" in said
    assert "Also removed" not in record(person, "forget", "all")


def test_forget_makes_the_room_that_it_needs_itself(home, person, monkeypatch) -> None:
    store_moment(home, datetime.now(UTC))

    def save_if_there_is_room(*given) -> None:
        if [*(home / FOLDER).rglob("*.jpg")]:
            raise OSError(28, "No space left on device")
        save_state(*given)

    monkeypatch.setattr("taskmem_recorder.state.save_state", save_if_there_is_room)
    assert "1 moment and 1 picture." in record(person, "forget", "all")


def test_status_for_programs_is_json(home, person) -> None:
    record(person, "on")
    found = json.loads(record(person, "status", "--json"))
    assert found["on"] is True
    assert found["moments"] == 0


@pytest.mark.parametrize("words", [(), *((name,) for name in record_group.commands)], ids=" ".join)
def test_every_command_explains_itself(words, text_snapshot) -> None:
    run = CliRunner().invoke(
        record_group, [*words, "--help"], prog_name="taskmem record", terminal_width=80
    )
    assert run.exit_code == 0
    assert run.output == text_snapshot

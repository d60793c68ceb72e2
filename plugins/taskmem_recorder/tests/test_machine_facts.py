"""When the recorder rests, and how much it may read."""

from __future__ import annotations

import pytest

from taskmem_recorder import machine
from taskmem_recorder.machine import (
    CPU_SHARE,
    FIRST_SECONDS,
    LEAST_FREE_BYTES,
    CpuBudget,
    MachineFacts,
    find_rest,
    has_locked_session,
    is_on_battery,
    is_session_locked,
    parse_sessions,
    read_facts,
)

HOUR = 3600.0


def test_a_machine_that_is_well_records() -> None:
    assert find_rest(MachineFacts(load=0.5)) is None


@pytest.mark.parametrize(
    ("facts", "why", "follows"),
    [
        (MachineFacts(load=3.0), "busy", "below 2"),
        (MachineFacts(is_on_battery=True), "battery", "charger"),
        (MachineFacts(is_locked=True), "locked", "unlocked"),
        (MachineFacts(is_locked=None), "does not say whether", "loginctl list-sessions"),
        (MachineFacts(free_bytes=LEAST_FREE_BYTES - 1), "disk", "make room"),
        (MachineFacts(reads_text=False), "reads text", "tesseract-ocr"),
    ],
)
def test_what_stands_in_the_way_is_told_with_what_follows(facts, why, follows) -> None:
    rest = find_rest(facts)
    assert rest is not None
    assert why in rest.why
    assert follows in str(rest)


def test_the_user_says_how_much_load_is_too_much() -> None:
    assert find_rest(MachineFacts(load=3.0), 4.0) is None


@pytest.mark.parametrize(
    ("supplies", "found"),
    [
        ({}, False),
        ({"BAT0": {"type": "Battery", "status": "Discharging"}}, True),
        ({"BAT0": {"type": "Battery", "status": "Charging"}}, False),
        (
            {
                "AC": {"type": "Mains", "online": "1"},
                "BAT0": {"type": "Battery", "status": "Discharging"},
            },
            False,
        ),
        ({"mouse": {"type": "Battery", "scope": "Device", "status": "Discharging"}}, False),
    ],
)
def test_a_battery_counts_while_it_is_discharged(tmp_path, supplies, found) -> None:
    for name, facts in supplies.items():
        (tmp_path / name).mkdir()
        for fact, value in facts.items():
            (tmp_path / name / fact).write_text(f"{value}\n")
    assert is_on_battery(tmp_path) is found


def test_a_folder_that_does_not_exist_yet_is_on_a_disk(tmp_path) -> None:
    facts = read_facts(tmp_path / "not" / "there", reads_text=True)
    assert 0 < facts.free_bytes < 1 << 62


def test_reading_keeps_to_its_share_in_the_long_run() -> None:
    budget, spent, now = CpuBudget(0.0), 0.0, 0.0
    while now < HOUR:
        if budget.can_spend(now):
            budget.spend(now, 2.0)
            spent += 2.0
        now += 2.0
    assert spent <= CPU_SHARE * HOUR + FIRST_SECONDS + 2.0
    assert spent / HOUR <= 0.03


def test_what_is_overdrawn_is_earned_first() -> None:
    budget = CpuBudget(0.0, saved=1.0)
    budget.spend(0.0, 1.0 + CPU_SHARE)
    assert not budget.can_spend(0.5)
    assert budget.is_left_at(0.5) == pytest.approx(1.0)
    assert budget.can_spend(1.01)


def test_a_locked_session_is_found_among_those_of_the_user() -> None:
    listed = "  2 1000 me   seat0 tty2 active no -\n c1  120 gdm  seat0 tty1 active no -\n"
    assert parse_sessions(listed, 1000) == ["2"]
    assert has_locked_session("Type=x11\nLockedHint=yes\n")
    assert has_locked_session("Type=tty\nLockedHint=no\n\nType=x11\nLockedHint=yes\n")
    assert not has_locked_session("Type=x11\nLockedHint=no\n")
    assert not has_locked_session("Type=tty\nLockedHint=yes\n\nType=x11\nLockedHint=no\n")
    assert not has_locked_session("")


@pytest.mark.parametrize(
    ("sessions", "answers", "found"),
    [
        (1, 'case "$1" in list*) id=$(id -u); echo "2 $id";; *) echo Type=x11;; esac', False),
        (1, "exit 1", None),
        (1, None, None),
        (0, "exit 1", False),
    ],
)
def test_a_lock_that_logind_does_not_tell_is_not_known(
    tmp_path, monkeypatch, sessions, answers, found
) -> None:
    folder = tmp_path / "sessions"
    for number in range(sessions):
        (folder / str(number)).mkdir(parents=True)
    if answers is not None:
        program = tmp_path / "loginctl"
        program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{answers}\n")
        program.chmod(0o700)
    monkeypatch.setattr(machine, "_SESSIONS", folder)
    assert is_session_locked({"PATH": str(tmp_path)}) is found

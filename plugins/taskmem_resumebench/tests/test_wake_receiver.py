"""Wakes come in at the door, and those that nobody needs are counted as false."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from taskmem_resumebench.lane import BenchCondition, Lane
from taskmem_resumebench.wake_receiver import NAME, WakeReceiver

SESSION = "agent:main:t00001"


def send(ask: str, note_wake: Callable[[str], None]) -> object:
    with (
        tempfile.TemporaryDirectory(prefix="tm") as folder,
        WakeReceiver(Path(folder), note_wake),
        socket.socket(socket.AF_UNIX) as link,
        link.makefile("rb") as lines,
    ):
        link.connect(str(Path(folder) / NAME))
        link.sendall(json.dumps({"ask": ask, "session_key": SESSION}).encode() + b"\n")
        return json.loads(lines.readline())


def test_a_wake_is_taken_and_nothing_else_is_one() -> None:
    woken: list[str] = []

    assert send("wake", woken.append) == {"turn": "ordinary"}
    assert send("say", woken.append) == {}
    assert woken == [SESSION]


@pytest.mark.parametrize(
    ("at_work", "over", "false"), [("", (), False), (SESSION, (), True), ("", (SESSION,), True)]
)
def test_a_wake_that_nobody_needs_is_false(
    at_work: str, over: tuple[str, ...], false: bool
) -> None:
    lane = Lane(Path(), Mock(), Mock())
    packet = BenchCondition("packet")
    lane._at_work, lane._over, lane._conditions = at_work, {*over}, {SESSION: packet}

    lane.note_wake(SESSION)
    lane.note_wake("agent:main:t00002")

    assert lane.false_wakes == ({packet: 1} if false else {})

"""The clock of a database's server, as a machine goes by it whose own clock differs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from openclaw_taskmem.clock import ServerClock, read_uptime
from taskmem_hookspecs.testing import DAWN, FakeClock

HOURS = timedelta(hours=2)


class Machine:
    """A machine, two hours before its server; both clocks are turned by hand."""

    def __init__(self) -> None:
        self.wall = FakeClock(DAWN - HOURS)
        self.server = FakeClock(DAWN)
        self.uptime = 0.0
        self.question_takes = self.answer_takes = 0.0
        """Seconds until a question is at the server, and until its answer is here."""
        self.clock = ServerClock(self.wall, self.ask, lambda: self.uptime)

    def ask(self) -> datetime:
        self.pass_time(self.question_takes)
        at = self.server.now()
        self.pass_time(self.answer_takes)
        return at

    def pass_time(self, seconds: float) -> None:
        self.wall.tick(seconds)
        self.server.tick(seconds)
        self.uptime += seconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.mark.parametrize("seconds", [7200, -7200])
def test_setting_the_machines_clock_changes_no_instant(machine: Machine, seconds: float) -> None:
    machine.pass_time(10)

    machine.wall.jump(seconds)

    assert machine.clock.now() == machine.server.now() == DAWN + timedelta(seconds=10)


def test_how_far_the_machine_is_ahead_is_measured(machine: Machine) -> None:
    machine.pass_time(10)

    assert machine.clock.measure_lead() == -HOURS


@pytest.mark.parametrize("jump", [0.5, -700.0])
def test_server_that_was_set_is_followed(machine: Machine, jump: float) -> None:
    machine.server.jump(jump)

    machine.clock.synchronize()

    assert machine.clock.now() == machine.server.now()


@pytest.mark.parametrize("delays", [(3.0, 0.0), (0.0, 3.0)])
def test_an_answer_that_comes_late_moves_no_instant(
    machine: Machine, delays: tuple[float, float]
) -> None:
    machine.question_takes, machine.answer_takes = delays

    machine.clock.synchronize()

    assert machine.clock.now() == machine.server.now()


def test_the_uptime_grows() -> None:
    first: Callable[[], float] = read_uptime
    assert 0 < first() <= read_uptime()

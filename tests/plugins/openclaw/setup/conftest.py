"""A stand-in `openclaw`, and `taskmem setup` as a person calls it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from taskmem_openclaw.setup import command
from tests.plugins.openclaw.setup.stand_in import StandIn
from tests.support.commands import CommandResult

Setup = Callable[..., CommandResult]


@pytest.fixture
def openclaw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """An `openclaw` whose faults the test chooses."""
    folder = tmp_path / "openclaw"
    folder.mkdir()
    stand_in = StandIn(folder)
    monkeypatch.setenv("TASKMEM_OPENCLAW_BIN", str(stand_in.program))
    return stand_in


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Our state folder."""
    folder = tmp_path / "taskmem"
    monkeypatch.setenv("TASKMEM_HOME", str(folder))
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "TASKMEM_READERS"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def setup(home: Path) -> Setup:
    """Calls `taskmem setup …`."""

    def call(host: str, *arguments: str) -> CommandResult:
        return CommandResult(CliRunner().invoke(getattr(command, host), arguments))

    return call


@pytest.fixture
def set_up_openclaw(setup: Setup) -> Setup:
    """Calls `taskmem setup openclaw … --no-proof`."""
    return lambda *arguments: setup("openclaw", "--no-proof", *arguments)

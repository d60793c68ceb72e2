"""A user's own home, and `taskmem setup` as a person calls it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from taskmem_mcp_hosts import setup_commands
from tests.support.commands import CommandResult, make_user_home

Setup = Callable[..., CommandResult]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own home, with nothing in it, and no command of any host."""
    return make_user_home(tmp_path, monkeypatch)


@pytest.fixture
def setup(user: Path) -> Setup:
    """Calls `taskmem setup …`."""

    def call(host: str, *arguments: str) -> CommandResult:
        return CommandResult(CliRunner().invoke(getattr(setup_commands, host), arguments))

    return call

"""A user's own home, how a command of the command line ended there, and what it said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import Result


@dataclass(frozen=True)
class CommandResult:
    """How a command ended, and what it said."""

    result: Result

    @property
    def status(self) -> int:
        return self.result.exit_code

    @property
    def text(self) -> str:
        return self.result.output

    @property
    def sentence(self) -> str:
        """The last line, which is all that a failure says."""
        assert self.status == 1, self.text
        assert isinstance(self.result.exception, SystemExit), self.result.exception
        return self.text.splitlines()[-1]


def make_user_home(top: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a user's home with nothing in it, on a machine with no command of any host."""
    folder = top / "user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(top / "programs"))
    monkeypatch.setenv("TASKMEM_HOME", str(folder / ".openclaw" / "taskmem"))
    return folder

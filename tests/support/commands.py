"""How a command of the command line ended, and what it said."""

from __future__ import annotations

from dataclasses import dataclass

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

"""What a clause was found to be, and what is remembered of it between frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from taskmem_hookspecs import Met
from taskmem_terminal.judging.seen import clip


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a clause holds, and the sentence that says why."""

    met: Met
    because: str = ""
    again: float | None = None
    """Seconds after which to look again although nothing changes."""
    line: str = ""
    """The line that decided; empty: none did."""

    @classmethod
    def yes(cls, because: str, line: str = "") -> Self:
        """It holds; what was said, and the line in which."""
        said = f'{because}: "{clip(line)}"' if line else because
        return cls(Met.YES, said, line=line)

    @classmethod
    def unsure(cls, because: str, line: str = "") -> Self:
        """It may hold."""
        return cls(Met.UNSURE, f'{because}: "{clip(line)}"' if line else because)

    @classmethod
    def no(cls, because: str = "", again: float | None = None) -> Self:
        """It does not hold yet."""
        return cls(Met.NO, because, again)


@dataclass(slots=True)
class Memory:
    """What one clause has to remember; a few short lines at most."""

    held: Finding | None = None
    good: str = ""
    bad: str = ""
    doubted: tuple[str, ...] = ()
    shown: bool = False
    warned: bool = False

    def doubts(self, line: str) -> bool:
        """Whether a line is doubted for the first time; some are shown twice."""
        line = clip(line)
        if line in self.doubted:
            return False
        self.doubted = (*self.doubted[-3:], line)
        return True

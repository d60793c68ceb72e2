"""What a condition asks for, as values.

Condition  =  alternatives, of which one is enough
alternative  =  clauses, all of which are needed
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How something has to end."""

    ANY = "any"
    SUCCESS = "success"
    FAILURE = "failure"


class Where(StrEnum):
    """Where in a line a phrase has to stand."""

    ANYWHERE = "anywhere"
    START = "start"
    END = "end"
    ALONE = "alone"
    LAST = "last"
    """Anywhere, but in the last line."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A phrase stands in a line."""

    phrase: str
    where: Where = Where.ANYWHERE
    beside: tuple[str, ...] = ()
    """Names of whose line it has to be, if they are shown at all."""


@dataclass(frozen=True, slots=True)
class Vanished:
    """A phrase that was shown is shown no more."""

    phrase: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A command, or a part of what it does, is over."""

    outcome: Outcome
    domains: frozenset[str] = frozenset()
    """What it is about: `test`, `build` …; none: the whole command."""
    words: tuple[str, ...] = ()
    """What it is called."""
    status: int | None = None
    """The exit status that is asked for."""
    strict: bool = False
    """Whether an end that is no success does not count, though none is asked for."""
    spotless: bool = False
    """Whether a warning is too much."""
    process: bool = False
    """Whether it is the process that ends, rather than its work."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A line of a known family is shown."""

    family: str
    words: tuple[str, ...] = ()
    """Names that the line has to hold, unless it can belong to nothing else."""
    groups: frozenset[str] = frozenset()
    """What sort of thing it is: `web`, `data` …"""
    numbers: tuple[str, ...] = ()
    """Ports and codes that the line has to hold."""
    programs: tuple[str, ...] = ()
    """Whose lines they have to be, as far as that can be told."""


@dataclass(frozen=True, slots=True)
class Told:
    """One line says it, in about the condition's own words."""

    words: tuple[str, ...]
    """All of them have to stand in the line, in any form."""
    done: tuple[str, ...] = ()
    """What has to be said to be over, not to go on: `downloaded`."""
    begun: bool = False
    """Whether it is the beginning that is waited for."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number that goes up or down is far enough."""

    compare: str
    """`>=`, `>`, `<`, `<=` or `==`."""
    value: float
    unit: str
    """`%`, `/` for "n of m", `passed` for tests, `b` for bytes, `#` for a numbered
    thing, `=` for a named value, else the name of what is counted."""
    total: int | None = None
    words: tuple[str, ...] = ()
    about: frozenset[str] = frozenset()
    exact: bool = False
    """Whether more than that is only enough where the line is surely about it."""


@dataclass(frozen=True, slots=True)
class Asks:
    """A program waits for somebody to type."""

    what: str
    """`password`, `confirmation`, `user name`, `code`, `key` or `input`."""
    words: tuple[str, ...] = ()
    """What the question has to be about."""


@dataclass(frozen=True, slots=True)
class AtPrompt:
    """A shell, or another program's prompt, waits for a command."""

    program: str = "shell"
    after: tuple[str, ...] = ()
    """What is in the command after which it has to come back."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing has come for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class AnyOutput:
    """Something was printed, whatever it is."""


@dataclass(frozen=True, slots=True)
class Flawless:
    """No error has been shown; asked for beside something else."""


@dataclass(frozen=True, slots=True)
class Puzzling:
    """What these rules do not understand."""

    hopeless: bool = False
    """Whether no rule for text could ever settle it."""


Clause = (
    Shown
    | Vanished
    | Ended
    | Sign
    | Told
    | Amount
    | Asks
    | AtPrompt
    | Quiet
    | AnyOutput
    | Flawless
    | Puzzling
)
Alternative = tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """What a wait wakes for."""

    alternatives: tuple[Alternative, ...] = field(default=())

    @property
    def hopeless(self) -> bool:
        """Whether no text could ever settle any part of it."""
        return all(
            all(isinstance(clause, Puzzling) for clause in side)
            or any(isinstance(clause, Puzzling) and clause.hopeless for clause in side)
            for side in self.alternatives
        )

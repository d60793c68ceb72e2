"""Who may be asked what a text or a picture shows: a language model, usually.

A plug-in provides a `Reader` through the hook `reader()`. The core counts what each one
is asked, keeps to its limit, and asks the next one where the first cannot be asked;
judges are given all of them as one `Reader`.

What a reader is shown was written by whoever wrote it. It goes into `parts`, never into
`instruction`, and what comes back is one more thing to be doubted.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field, JsonValue, NonNegativeInt

from taskmem_hookspecs.errors import JudgeUnavailable
from taskmem_hookspecs.value import Value

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Question(Value):
    """What a reader is asked."""

    instruction: str
    """What the reader is there for; written by us, never from outside."""
    parts: tuple[str | bytes, ...]
    """What it is shown, in order: texts, and pictures as JPEG (bytes)."""
    answer_schema: Mapping[str, JsonValue]
    """The JSON schema of the answer."""
    confirms: bool = False
    """Whether it confirms a yes: only such a question may use the last call of a day.
    """

    @property
    def has_pictures(self) -> bool:
        """Whether only a reader that sees pictures can answer it."""
        return any(isinstance(part, bytes) for part in self.parts)


class Reading(Value):
    """What a reader answered, and what that used up."""

    answer: str
    """JSON, as the model wrote it; whoever asked checks it."""
    reader: str
    """The name of the reader."""
    model: str
    """The model that answered, as its makers write its name."""
    tokens_in: NonNegativeInt | None = None
    """What the model read; None: it was not told."""
    tokens_out: NonNegativeInt | None = None
    """What the model wrote, its thoughts included; None: it was not told."""
    cost_usd: Dollars | None = None
    """What that costs by the list; None: nobody knows."""
    note: str | None = None
    """Why an earlier reader in the operator's order was not asked; the core fills it
    in. None: the first one answered."""


class ReaderUnavailable(JudgeUnavailable):
    """A reader cannot be asked now; says why, and after how long to ask again."""


class ReaderRefused(ReaderUnavailable):
    """The reader's service refused the key (401 or 403).

    The core asks that reader nothing more for an hour.
    """


class NoAnswer(ReaderUnavailable):
    """The reader was asked, and what came back is no answer.

    The question was blocked, or the answer was cut, empty or far too long. It says
    nothing about the next question.
    """

    def __init__(
        self,
        sentence: str,
        retry_seconds: float | None = None,
        *,
        tokens_in: int | None = None,
        tokens_out: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        super().__init__(sentence, retry_seconds)
        self.tokens_in = tokens_in
        self.tokens_out = tokens_out
        self.cost_usd = cost_usd
        """What it used up all the same; None: it was not told."""


class Readiness(StrEnum):
    """Whether a reader can be asked."""

    READY = "ready"
    AWAY = "away"
    """It is set up, and cannot be asked just now."""
    OFF = "off"
    """It is not set up here."""


class ReaderStatus(Value):
    """How a reader stands, in words for people."""

    readiness: Readiness
    detail: str
    """One sentence."""
    cure: str | None = None
    """What to do about it; None: nothing, or nothing is wrong."""


@runtime_checkable
class Reader(Protocol):
    """Reads texts, and perhaps pictures.

    `read` runs on the plug-in's own event loop, several questions at once.
    """

    @property
    def name(self) -> str:
        """What the settings and the answers call it: `gemini`."""
        ...

    @property
    def model(self) -> str:
        """The model that is asked, as its makers write its name; empty: unknown yet."""
        ...

    @property
    def sees_pictures(self) -> bool:
        """Whether it may be shown pictures."""
        ...

    @property
    def calls_per_day(self) -> int | None:
        """How many questions may be sent on one day in UTC; None: there is no limit.

        By custom the operator sets it by `TASKMEM_<NAME>_CALLS_PER_DAY`.
        """
        ...

    def status(self) -> ReaderStatus:
        """Return how it stands; at once, and without asking its model."""
        ...

    async def read(self, question: Question) -> Reading:
        """Ask, and return the answer; cancelling it ends the question.

        Raises:
            ReaderRefused: The key is not valid.
            NoAnswer: It was asked, and what came back is no answer.
            ReaderUnavailable: It could not be asked; the sentence says why.
        """
        ...

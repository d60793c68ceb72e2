"""Define `Reader`, usually a language model, which answers questions on texts and pictures.

A plug-in provides a `Reader` by the hook `reader()`. The core counts the questions to each reader,
applies its daily limit, and asks the next reader if one is unavailable. Judges get all readers as
one `Reader`.

The text or picture shown is untrusted. It goes into `parts`, never into `instruction`, and the
answer must be checked as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field, JsonValue, NonNegativeInt

from taskmem_hookspecs.errors import JudgeUnavailable
from taskmem_hookspecs.model import Value

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Question(Value):
    """A question to a reader."""

    instruction: str
    """The reader's task; written by the plug-in, never taken from outside."""
    parts: tuple[str | bytes, ...]
    """Texts, and pictures as JPEG (bytes), in the order in which the reader is shown them."""
    answer_schema: Mapping[str, JsonValue]
    """JSON schema of the answer."""
    confirms: bool = False
    """True if it confirms a yes; only such a question may use the last call of a day."""

    @property
    def has_pictures(self) -> bool:
        """True if it needs a reader that sees pictures."""
        return any(isinstance(part, bytes) for part in self.parts)


class Reading(Value):
    """A reader's answer and what it cost."""

    answer: str
    """JSON as the model wrote it; the caller validates it."""
    reader: str
    """Name of the reader."""
    model: str
    """Id of the model that answered, as its maker writes it."""
    tokens_in: NonNegativeInt | None = None
    """Input tokens; None: not reported."""
    tokens_out: NonNegativeInt | None = None
    """Output tokens, including thinking; None: not reported."""
    cost_usd: Dollars | None = None
    """Cost at list price; None: unknown."""
    note: str | None = None
    """Why an earlier reader was not asked; set by the core. None: the first reader answered."""


class ReaderUnavailable(JudgeUnavailable):
    """The reader cannot be asked now; says why, and when to ask again."""


class ReaderRefused(ReaderUnavailable):
    """The reader's service rejected the key (401 or 403).

    The core then leaves that reader alone for an hour.
    """


class NoAnswer(ReaderUnavailable):
    """The reader was asked and returned no usable answer.

    The question was blocked, or the answer was cut off, empty or far too long. This says nothing
    about the next question.
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
        """Cost of the failed question; None: not reported."""


class Readiness(StrEnum):
    """Answers to the question if a reader can be asked."""

    READY = "ready"
    AWAY = "away"
    """Set up, but unavailable at the moment."""
    OFF = "off"
    """Not set up."""


class ReaderStatus(Value):
    """A reader's status, in words for people."""

    readiness: Readiness
    detail: str
    """One sentence."""
    cure: str | None = None
    """One sentence on what to do about it; None: nothing."""


@runtime_checkable
class Reader(Protocol):
    """Answers questions on texts, and pictures if it sees them.

    `read` runs on the plug-in's own event loop, several questions at once.
    """

    @property
    def name(self) -> str:
        """Name in the settings and in answers, such as `gemini`."""
        ...

    @property
    def model(self) -> str:
        """Id of the model that is asked, as its maker writes it; empty: not known yet."""
        ...

    @property
    def sees_pictures(self) -> bool:
        """True if it accepts pictures."""
        ...

    @property
    def calls_per_day(self) -> int | None:
        """Maximum number of questions a day (UTC); None: no limit.

        By convention the operator sets it by `TASKMEM_<NAME>_CALLS_PER_DAY`.
        """
        ...

    def status(self) -> ReaderStatus:
        """Return the status immediately, without asking the model."""
        ...

    async def read(self, question: Question) -> Reading:
        """Ask the question and return the answer; cancelling ends the question.

        Raises:
            ReaderRefused: The key is not valid.
            NoAnswer: It was asked and returned no usable answer.
            ReaderUnavailable: It could not be asked; the sentence says why.
        """
        ...

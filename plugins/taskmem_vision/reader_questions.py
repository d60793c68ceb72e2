"""Ask a reader one question, and parse the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from taskmem_hookspecs import Met, NoAnswer, Question, Reader
from taskmem_vision.text_lines import fold_text, to_one_line

DECOYS: Final = (
    "A violet giraffe in a top hat plays the trombone.",
    "Seven green owls sit on a floating piano.",
    "An orange walrus knits a scarf on the moon.",
)
"""Conditions that never hold.

A reader that says yes to one was influenced by the content or answers at random.
"""
_CONDITION_PREFIX: Final = "The condition with the id "
"""Prefix of the part with a condition, which is quoted verbatim."""
_LEAST_CONFIDENCE: Final = 0.5
"""Minimum confidence of a yes."""
_OBSERVATION_CHARACTERS: Final = 300
_MOST_HINTS: Final = 5
_SHORTEST_HINT, _LONGEST_HINT = 3, 80
"""Limits of a hint's length. Characters."""


def _require_words(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


class ReaderVerdict(BaseModel):
    """Whether the condition holds."""

    # The order matters: the model writes the observation before its verdict.
    observation: Annotated[str, AfterValidator(_require_words)] = Field(
        description="What is seen that bears on the condition, in one sentence."
    )
    met: Met = Field(description="Whether the condition holds now.")
    confidence: float = Field(
        ge=0, le=1, allow_inf_nan=False, description="How sure that is, from 0 to 1."
    )
    expect_text: list[str] | None = Field(
        description="When it does not hold yet: up to five short texts, word for "
        "word as the terminal would show them, any of which would show that it holds."
    )
    look_again_seconds: float | None = Field(
        allow_inf_nan=False,
        description="When it does not hold yet: after how many seconds a look is "
        "worth while although nothing new was shown.",
    )

    @property
    def is_likely(self) -> bool:
        """True if it is a yes with at least `_LEAST_CONFIDENCE` confidence."""
        return self.met is Met.YES and self.confidence >= _LEAST_CONFIDENCE


class ConditionVerdict(ReaderVerdict):
    """Whether one of several conditions holds."""

    id: str = Field(description="Of the condition.")


T = TypeVar("T", bound=BaseModel)
V = TypeVar("V", bound=ConditionVerdict)


class PromptInjectionSuspected(NoAnswer):
    """The reader said yes to a decoy."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} also said yes to what never holds: a text that it was shown may "
            "have swayed it, and its answer is not taken."
        )


class ReaderReply(NamedTuple):
    """Which reader answered; `note` says why an earlier one was not asked."""

    reader: str
    note: str | None

    def describe(self, verdict: ReaderVerdict) -> str:
        """Return the reader's observation and the note, on one line."""
        note = f" ({to_one_line(self.note, _OBSERVATION_CHARACTERS)})" if self.note else ""
        return f"{to_one_line(verdict.observation, _OBSERVATION_CHARACTERS)}{note}"

    def index_verdicts(self, verdicts: Sequence[V], decoy: str) -> dict[str, V]:
        """Return the verdicts by id, without the decoy's.

        Raises:
            PromptInjectionSuspected: The reader said yes to the decoy.
        """
        found = {each.id.strip(): each for each in verdicts}
        lie = found.pop(decoy, None)
        if lie is not None and lie.met is Met.YES:
            raise PromptInjectionSuspected(self.reader)
        return found


async def ask_reader(
    reader: Reader,
    instruction: str,
    parts: Sequence[str | bytes],
    form: type[T],
    *,
    confirms: bool = False,
) -> tuple[T, ReaderReply]:
    """Ask a reader, and return the answer parsed into `form`.

    Raises:
        NoAnswer: The answer does not have that form.
        JudgeUnavailable: There is no answer; the message says why.
    """
    reading = await reader.read(
        Question(
            instruction=instruction,
            parts=tuple(parts),
            answer_schema=form.model_json_schema(),
            confirms=confirms,
        )
    )
    try:
        found = form.model_validate_json(reading.answer)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
    else:
        return found, ReaderReply(reading.reader, reading.note)
    if any(fault["type"] == "json_invalid" for fault in faults):
        raise NoAnswer(f"{reading.reader}'s answer was not JSON; it is asked again.")
    fields = {".".join(map(str, fault["loc"])) or "all of it" for fault in faults}
    raise NoAnswer(
        f"{reading.reader}'s answer was not in the form that it was asked for "
        f"({', '.join(sorted(fields))}); it is asked again."
    )


def pick_hints(hints: Iterable[str], shown: str) -> tuple[str, ...]:
    """Return the hints, folded, that are not already in the folded text `shown`."""
    return tuple(
        hint
        for hint in map(fold_text, hints)
        if _SHORTEST_HINT <= len(hint) <= _LONGEST_HINT and hint not in shown
    )[:_MOST_HINTS]


def describe_condition(number: str, words: str) -> str:
    """Return the part of a question with a condition."""
    return f"{_CONDITION_PREFIX}{number}:\n{make_sendable(words)}"


def make_sendable(text: str) -> str:
    """Replace lone surrogates, which cannot be sent."""
    return text.encode(errors="replace").decode()

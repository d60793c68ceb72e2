"""One question to a reader, and its answer in the form that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from taskmem_hookspecs import NoAnswer, Question, Reader

T = TypeVar("T", bound=BaseModel)

DECOYS: Final = (
    "A violet giraffe in a top hat plays the trombone.",
    "Seven green owls sit on a floating piano.",
    "An orange walrus knits a scarf on the moon.",
)
"""Conditions that hold nowhere: who says yes to one was swayed by what is shown, or
answers at random."""
CONDITION: Final = "The condition with the id "
"""Begins the part that holds a condition, word for word."""


class Swayed(NoAnswer):
    """The reader said yes to what never holds."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} also said yes to what never holds: a text that it was shown may "
            "have swayed it, and its answer is not taken."
        )


class Answered(NamedTuple):
    """What a reader said; `note` says why an earlier one was not asked."""

    reader: str
    note: str | None


async def ask_reader(
    reader: Reader,
    instruction: str,
    parts: Sequence[str | bytes],
    form: type[T],
    *,
    confirms: bool = False,
) -> tuple[T, Answered]:
    """Ask, and return the answer in the form that was asked for.

    Raises:
        NoAnswer: The answer has another form.
        JudgeUnavailable: There is none; the sentence says why.
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
        return found, Answered(reading.reader, reading.note)
    if any(fault["type"] == "json_invalid" for fault in faults):
        raise NoAnswer(f"{reading.reader}'s answer was not JSON; it is asked again.")
    fields = {".".join(map(str, fault["loc"])) or "all of it" for fault in faults}
    raise NoAnswer(
        f"{reading.reader}'s answer was not in the form that it was asked for "
        f"({', '.join(sorted(fields))}); it is asked again."
    )


def describe_condition(number: str, words: str) -> str:
    """Return the part of a question that holds a condition."""
    return f"{CONDITION}{number}:\n{make_sendable(words)}"


def make_sendable(text: str) -> str:
    """Return a text without lone surrogates, which could not be sent."""
    return text.encode(errors="replace").decode()

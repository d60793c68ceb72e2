"""What a use case asks of those who read texts, and nothing of how they do it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from pydantic import JsonValue

READING_SECONDS: Final = 10.0
"""How long an answer is waited for."""


class Reading(Protocol):
    """Those who read texts; called from the threads of calls."""

    def ask(
        self, instruction: str, text: str, schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | None:
        """Return what a reader says of a text, as a schema wants it.

        None: there is no reader, it is away or out of its budget, or it did not answer
        within `READING_SECONDS`. The text is data, and never an instruction.
        """
        ...


class NoReader:
    """Plays `Reading` where nobody reads."""

    def ask(
        self, instruction: str, text: str, schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | None:
        """Return None."""
        del instruction, text, schema
        return None

"""A reader that follows a script, for the tests of judges and of the core."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from taskmem_hookspecs.readers import Question, ReaderStatus, Readiness, Reading

Answer = str | JsonValue | BaseException
"""A text as the model wrote it, any other JSON, or what is raised."""
Decide = Callable[[Question], "Answer | Awaitable[Answer]"]

JPEG: Final = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffd9")
"""The smallest thing that begins and ends as a picture does."""
SCHEMA: Final[Mapping[str, JsonValue]] = {
    "type": "object",
    "properties": {"met": {"type": "string", "enum": ["yes", "no", "unsure"]}},
    "required": ["met"],
}


def a_question(*parts: str | bytes, confirms: bool = False) -> Question:
    """Return a question about texts and pictures."""
    return Question(
        instruction="You judge.",
        parts=parts or ("Does it hold?",),
        answer_schema=SCHEMA,
        confirms=confirms,
    )


class ScriptedReader:
    """Plays `Reader`: answers from a script, and after it whatever `decide` says.

    reader = ScriptedReader(script=[{"met": "no"}, ReaderUnavailable("Away.")])
    reader.decide = lambda question: {"met": "yes"}
    ...
    assert "the condition" in reader.asked[0].parts[0]
    """

    def __init__(
        self,
        decide: Decide | None = None,
        *,
        script: Iterable[Answer] = (),
        name: str = "scripted",
        sees_pictures: bool = True,
        calls_per_day: int | None = None,
    ) -> None:
        """Take what it answers; without anything, it answers `{}`."""
        self.name = name
        self.model = f"{name}-1"
        self.sees_pictures = sees_pictures
        self.calls_per_day = calls_per_day
        self.decide: Decide = decide or (lambda _: {})
        self.script: deque[Answer] = deque(script)
        self.asked: list[Question] = []
        """Every question, as it came."""
        self.readiness = Readiness.READY

    def status(self) -> ReaderStatus:
        """Return how it stands, as the test has set it."""
        detail = f"{self.name} is {self.readiness}."
        return ReaderStatus(readiness=self.readiness, detail=detail)

    async def read(self, question: Question) -> Reading:
        """Answer as the script says."""
        self.asked.append(question)
        if self.script:
            said: object = self.script.popleft()
        else:
            said = self.decide(question)
            if isinstance(said, Awaitable):
                said = await said
        if isinstance(said, BaseException):
            raise said
        return Reading(
            answer=said if isinstance(said, str) else json.dumps(said),
            reader=self.name,
            model=self.model,
            tokens_in=100,
            tokens_out=10,
            cost_usd=0.001,
        )

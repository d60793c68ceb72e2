"""Define `ScriptedReader`, whose answers tests set, for tests of judges and of the core."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from taskmem_hookspecs.readers import Question, ReaderStatus, Readiness, Reading

Answer = str | JsonValue | BaseException
"""A text as the model wrote it, any other JSON value, or an error to raise."""
Decide = Callable[[Question], "Answer | Awaitable[Answer]"]

JPEG: Final = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffd9")
"""The shortest bytes with the start and end marks of a JPEG."""
SCHEMA: Final[Mapping[str, JsonValue]] = {
    "type": "object",
    "properties": {"met": {"type": "string", "enum": ["yes", "no", "unsure"]}},
    "required": ["met"],
}


def a_question(*parts: str | bytes, confirms: bool = False) -> Question:
    """Return a question on texts and pictures."""
    return Question(
        instruction="You judge.",
        parts=parts or ("Does it hold?",),
        answer_schema=SCHEMA,
        confirms=confirms,
    )


class ScriptedReader:
    """Implements `Reader`: answers from a script, then by `decide`.

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
        """Set the answers; by default each one is `{}`."""
        self.name = name
        self.model = f"{name}-1"
        self.sees_pictures = sees_pictures
        self.calls_per_day = calls_per_day
        self.decide: Decide = decide or (lambda _: {})
        self.script: deque[Answer] = deque(script)
        self.asked: list[Question] = []
        """All questions, in order."""
        self.readiness = Readiness.READY

    def status(self) -> ReaderStatus:
        """Return the readiness that the test has set."""
        detail = f"{self.name} is {self.readiness}."
        return ReaderStatus(readiness=self.readiness, detail=detail)

    async def read(self, question: Question) -> Reading:
        """Return or raise the next answer."""
        self.asked.append(question)
        if self.script:
            answer: object = self.script.popleft()
        else:
            answer = self.decide(question)
            if isinstance(answer, Awaitable):
                answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        return Reading(
            answer=answer if isinstance(answer, str) else json.dumps(answer),
            reader=self.name,
            model=self.model,
            tokens_in=100,
            tokens_out=10,
            cost_usd=0.001,
        )

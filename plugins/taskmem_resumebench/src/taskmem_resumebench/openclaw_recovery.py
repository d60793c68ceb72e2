"""A model of OpenClaw's own restart recovery, as its documentation describes it (2026.9.6).

A turn that a restart has cut goes on from the stored transcript: the user's messages, and each
call with its result; a call without one is to be treated as of unknown outcome. After three
recoveries of one turn the session is given up, and the user begins another: it knows what the user
asks for, and nothing of what was done. Nothing here is OpenClaw's code, and its transcript is never
compacted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskmem_resumebench.agents import BEGUN_LINE, CALL_LINE, write_notes
from taskmem_resumebench.generated_task import GeneratedTask
from taskmem_resumebench.memories import Nothing
from taskmem_resumebench.work_steps import Call

MOST_RECOVERIES: Final = 3
CONTINUE: Final = (
    "[System] Your previous turn was interrupted by a gateway restart. "
    "Continue from the existing transcript."
)


class OpenClawRecovery(Nothing):
    """The transcript of a session, and how often its turn was taken up again."""

    def __init__(self) -> None:
        """Begin a session."""
        self._asked: tuple[str, ...] = ()
        self._plan: tuple[str, ...] = ()
        self._calls: dict[str, str] = {}
        """Each call, with the beginning of its line."""
        self._recoveries = 0

    def begin(self, task: GeneratedTask) -> None:
        """Hear the user's request."""
        self._asked = self._plan = task.plan

    def note_call_start(self, call: Call) -> None:
        """Store a call, of which nothing is known until it has a result."""
        self._calls[call.line] = BEGUN_LINE

    def note_call_end(self, call: Call, *, failed: bool) -> None:
        """Store its result."""
        self._calls[call.line] = BEGUN_LINE if failed else CALL_LINE

    def revise(self, plan: Sequence[str], words: str) -> None:
        """Hear the user."""
        del words
        self._plan = tuple(plan)

    def resume(self) -> str:
        """Return the transcript; empty: the session was given up, and a new one begins."""
        self._recoveries += 1
        if self._recoveries > MOST_RECOVERIES:
            self._plan, self._calls, self._recoveries = self._asked, {}, 0
            return ""
        calls = (f"{word}{line}" for line, word in self._calls.items())
        return "\n".join((CONTINUE, write_notes(self._plan, frozenset(), over=False), *calls))

"""Scripted agents: what one knows after an interruption, and what it does next.

An agent decides from what it was asked, what its memory told it, and what it sees when it looks at
the world. It knows nothing of the harness: not which calls it made before it was killed, nor which
are still to come.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from taskmem_resumebench.tasks import CUT, Call, read_step

_ALL_DONE: Final = "All done."
"""The line of a notes file that says so."""
PACKETS: Final = ("[task_resume] ", "[task_stuck_resume] ")
_OPEN_BOX: Final = "- [ ] "
_TICKED_BOX: Final = "- [x] "
_BOXES: Final = (_OPEN_BOX, _TICKED_BOX)
CALL_LINE: Final = "Done: "
"""Begins the line of a finished call, in notes and in the text of a thread."""
BEGUN_LINE: Final = "Begun: "
"""Begins the line of a call in notes of which no end was noted."""


class Habits(NamedTuple):
    """How an agent behaves, apart from what it remembers."""

    reports: bool = True
    """The agent tells its memory what is done."""
    claims_early: bool = False
    """The agent says in the middle that all is done."""
    looks: bool = True
    """The agent looks what became of a call before it makes that again."""
    careful: bool = False
    """After an interruption it looks whether its next step was done, whatever its memory says."""
    answers_others: bool = False
    """The agent answers messages of others between its calls."""
    keeps: int = 0
    """Newest messages of the conversation that it keeps through an interruption."""


AGENTS: Final = {
    "amnesiac": Habits(),
    "sloppy": Habits(reports=False),
    "liar": Habits(claims_early=True),
    "stubborn": Habits(looks=False),
    "distractible": Habits(answers_others=True),
    "bounded": Habits(keeps=3),
    "careful": Habits(careful=True),
}


class Knowledge(NamedTuple):
    """Knowledge of an agent about its task."""

    plan: tuple[str, ...]
    done: frozenset[str] = frozenset()
    """Steps that are done, by their sentences."""
    finished_calls: tuple[str, ...] = ()
    """Calls that were made and succeeded, a line each, perhaps shortened."""
    cut_calls: tuple[str, ...] = ()
    """Calls of unknown outcome, likewise."""
    incomplete: bool = False
    """There may be finished calls that are not listed."""
    over: bool = False
    """There is nothing to do any more."""

    def find_number(self, sentence: str) -> int:
        """Return the number of a step in the plan, from 1."""
        return self.plan.index(sentence) + 1

    def note_done(self, sentence: str) -> Knowledge:
        """Return the knowledge with a step added that is done."""
        return self._replace(done=self.done | {sentence})

    def note_absent(self, line: str) -> Knowledge:
        """Return the knowledge after a look that found no effect of a call.

        Steps are done in order, so those after it were not done either.
        """
        cut = tuple(each for each in self.cut_calls if not _is_same_call(each, line))
        return self._replace(cut_calls=cut, incomplete=False)

    def note_failure(self, line: str) -> Knowledge:
        """Return the knowledge with a call added whose answer was lost."""
        return self._replace(cut_calls=(*self.cut_calls, line))


class Deed(StrEnum):
    """Kind of the next deed for a step."""

    PERFORM = "perform"
    LOOK = "look"
    NOTE = "note"
    """Note that it is done already."""


class Decision(NamedTuple):
    """The next deed of an agent."""

    deed: Deed
    sentence: str
    call: Call


def decide(known: Knowledge, habits: Habits, read_gate: Callable[[], str]) -> Decision | None:
    """Decide what to do next; None: all is done."""
    if known.over:
        return None
    for sentence in known.plan:
        if sentence in known.done:
            continue
        call = read_step(sentence, read_gate())
        if any(_is_same_call(line, call.line) for line in known.cut_calls):
            return Decision(Deed.LOOK if habits.looks else Deed.PERFORM, sentence, call)
        if any(_is_same_call(line, call.line) for line in known.finished_calls):
            return Decision(Deed.NOTE, sentence, call)
        return Decision(Deed.LOOK if known.incomplete else Deed.PERFORM, sentence, call)
    return None


def read_memory(
    text: str, asked: Sequence[str], ask_for_plan: Callable[[], Sequence[str]]
) -> Knowledge:
    """Return what an agent knows from a memory's text.

    Args:
        text: The text.
        asked: The steps of the user's request.
        ask_for_plan: Asks the memory for the whole plan, where the text shows it shortened.
    """
    line = next((each for each in text.split("\n") if each.startswith(PACKETS)), None)
    if line is not None:
        return _read_packet(json.loads(line.partition(" ")[2]), text, ask_for_plan)
    steps = [each for each in text.split("\n") if each.startswith(_BOXES)]
    if not steps:
        return Knowledge(tuple(asked))
    plan = tuple(each[len(_OPEN_BOX) :] for each in steps)
    done = frozenset(each[len(_OPEN_BOX) :] for each in steps if each.startswith(_TICKED_BOX))
    return Knowledge(
        plan,
        done=done,
        finished_calls=_list_calls(text, CALL_LINE),
        cut_calls=_list_calls(text, BEGUN_LINE),
        over=_ALL_DONE in text.split("\n"),
    )


def write_notes(plan: Sequence[str], done: frozenset[str], *, over: bool) -> str:
    """Return the notes of an agent that keeps a Markdown file, as `read_memory` reads them."""
    lines = [f"{_TICKED_BOX if step in done else _OPEN_BOX}{step}" for step in plan]
    return "\n".join(("# My task", "", *lines, *([_ALL_DONE] if over else []), ""))


def _read_packet(
    packet: Mapping[str, Any], text: str, ask_for_plan: Callable[[], Sequence[str]]
) -> Knowledge:
    """Return what a packet says; of `text`, the lines of a thread that follow it count, too."""
    thread = _list_calls(text, CALL_LINE)
    progress: Mapping[str, Any] = packet["progress"]
    plan: tuple[str, ...] = tuple(packet["plan"])
    completed: Sequence[int] = progress["completed"]
    current = progress.get("current")
    finished: Sequence[str] = packet.get("do_not_redo", ())
    cut: Sequence[str] = packet.get("unknown_outcome", ())
    count = len(completed) + len(progress.get("remaining", ())) + (current is not None)
    if len(plan) < count or any(CUT in step for step in plan):
        plan = tuple(ask_for_plan())
    return Knowledge(
        plan,
        done=frozenset(plan[step] for step in completed),
        finished_calls=(*finished, *thread),
        cut_calls=tuple(cut),
        incomplete="past_more" in packet and not thread,
        over=packet["status"] == "completed",
    )


def _list_calls(text: str, beginning: str) -> tuple[str, ...]:
    """Return the calls on the lines that begin so."""
    return tuple(
        each.removeprefix(beginning) for each in text.split("\n") if each.startswith(beginning)
    )


def _is_same_call(listed: str, line: str) -> bool:
    """Return True if a listed call, perhaps cut or with its exit status, is that of a line."""
    beginning, cut, _ = listed.partition(CUT)
    if cut:
        return line.startswith(beginning)
    return listed == line or listed.startswith((f"{line} (exit ", f"{line}, "))

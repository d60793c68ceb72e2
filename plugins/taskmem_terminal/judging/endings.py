"""Decides whether a command, or what it does, is over, and how that went."""

from __future__ import annotations

import re
from typing import Final

from taskmem_terminal.judging.conditions import Ended, Outcome
from taskmem_terminal.judging.families import FAMILIES
from taskmem_terminal.judging.findings import Finding, Memory
from taskmem_terminal.judging.seen import Seen
from taskmem_terminal.judging.subjects import domains, stem
from taskmem_terminal.judging.summaries import elsewhere, statements, summaries
from taskmem_terminal.judging.trouble import perhaps, plainly

_SAID: Final = re.compile(
    r"\b(?:exit(?:ed|s)?|returned|terminated)\b[^\n]{0,30}?\b(?:code|status|with"
    r"|value):?\s*"
    r"(-?\d{1,3})\b",
    re.IGNORECASE,
)
# Work that a command without a word about it has hardly done.
_RARE: Final = frozenset({"upload", "deploy", "migrate", "train", "image", "clone"})
_SIGNALS: Final = 128


def ended(clause: Ended, seen: Seen, memory: Memory) -> Finding:
    """Return whether it is over, in the way that was asked for."""
    _listen(clause, seen, memory)
    status = seen.frame.exit_status
    if status is not None:
        return _exited(clause, seen, memory, status)
    told = None if _unheard(clause, seen) else _told(clause, memory)
    if told is not None and clause.status is None:
        return told
    if seen.frame.gone is not None or _back(seen, memory):
        return _unknown(clause, seen, memory)
    if clause.outcome is Outcome.FAILURE and (line := _trouble(seen, memory)):
        return Finding.unsure("This may be a failure, but nothing has ended", line)
    return Finding.no()


def back(seen: Seen, memory: Memory) -> bool:
    """Whether a shell has come back to its prompt since the wait began."""
    return _back(seen, memory)


def how(seen: Seen) -> str:
    """Return in words that the target has come to its end."""
    status = seen.frame.exit_status
    if status is None:
        return (seen.frame.gone or "It ended").rstrip(".")
    if status < 0:
        return f"The command was ended by signal {-status}"
    return f"The command ended with exit status {status}"


def _listen(clause: Ended, seen: Seen, memory: Memory) -> None:
    """Remember what the program says of its end, and on the way there."""
    if clause.spotless and not memory.warned:
        family = FAMILIES["warning"]
        memory.warned = any(plainly(family, line) for line in seen.hits(family.trigger))
    if not (clause.domains or clause.words):
        return
    found = summaries(seen.settled, clause.domains, clause.words)
    found += statements(seen.settled, seen.lower, clause.domains, clause.words)
    for summary in found:
        if summary.good:
            memory.good, memory.bad = summary.line[:400], ""
        else:
            memory.bad, memory.good = summary.line[:400], ""


def _told(clause: Ended, memory: Memory) -> Finding | None:
    """Return what follows from the program's own words alone."""
    if memory.warned:
        return Finding.no()
    if memory.good and clause.outcome is not Outcome.FAILURE:
        return Finding.yes("It is over", memory.good)
    if memory.bad and clause.outcome is Outcome.FAILURE:
        return Finding.yes("It failed", memory.bad)
    if memory.bad and clause.outcome is Outcome.ANY and not clause.strict:
        return Finding.yes("It ended with an error", memory.bad)
    return None


def _exited(clause: Ended, seen: Seen, memory: Memory, status: int) -> Finding:
    because, line = how(seen), memory.bad or seen.last_said
    if memory.warned:
        return Finding.no(f"{because}, after a warning")
    if clause.status is not None:
        # A shell tells of a signal by a status above 128.
        met = clause.status in (status, _SIGNALS - status if status < 0 else status)
        return Finding.yes(because, line) if met else Finding.no(because)
    if clause.outcome is Outcome.FAILURE:
        return _failed(clause, seen, memory, bad=status != 0)
    return _fulfilled(clause, seen, memory, bad=status != 0)


def _fulfilled(clause: Ended, seen: Seen, memory: Memory, *, bad: bool) -> Finding:
    because, line = how(seen), memory.bad or seen.last_said
    if bad and (clause.outcome is Outcome.SUCCESS or clause.strict):
        good = memory.good
        return Finding.yes("It succeeded", good) if good else Finding.no(because)
    if clause.outcome is Outcome.SUCCESS and memory.bad:
        return Finding.unsure(f"{because}, but it said", memory.bad)
    if _unrelated(clause, seen) or (
        clause.domains and not memory.good and elsewhere(_all(seen), clause.domains)
    ):
        return Finding.unsure(f"{because}, but maybe that was something else", line)
    return Finding.yes(because, line)


def _failed(clause: Ended, seen: Seen, memory: Memory, *, bad: bool) -> Finding:
    because = how(seen)
    if bad and memory.good:
        return Finding.unsure(f"{because}, but it said", memory.good)
    if not bad and not memory.bad:
        return Finding.no(because)
    if _unheard(clause, seen):
        return Finding.unsure(f"{because}, but not in so many words", memory.bad)
    if memory.bad:
        return Finding.yes("It failed", memory.bad)
    small = because[0].lower() + because[1:]
    return Finding.yes(f"It failed; {small}", seen.last_said)


def _unknown(clause: Ended, seen: Seen, memory: Memory) -> Finding:
    """Decide on an end whose status nobody knows."""
    because = how(seen) if seen.frame.gone is not None else "The shell's prompt is back"
    line = seen.last_said
    if said := _SAID.search(line):
        return _exited(clause, seen, memory, int(said[1]))
    if clause.status is None and clause.outcome is Outcome.ANY and not clause.strict:
        return Finding.yes(because, line)
    failed = plainly(FAMILIES["error"], line)
    if failed and clause.outcome is Outcome.FAILURE and clause.status is None:
        return Finding.yes(f"{because}, after an error", line)
    if failed or ((memory.bad or memory.good) and clause.status is None):
        return Finding.no(because)
    return Finding.unsure(f"{because}, and nobody knows how it went", line)


def _trouble(seen: Seen, memory: Memory) -> str:
    family = FAMILIES["error"]
    for line in seen.hits(family.trigger):
        if perhaps(family, line) and memory.doubts(line):
            return line
    return ""


def _back(seen: Seen, memory: Memory) -> bool:
    if seen.frame.prompt is False:
        memory.shown = True
        return False
    if seen.last_said:
        memory.shown = True
    waits = seen.frame.prompt or (
        seen.frame.prompt is None and seen.at_shell and not seen.open
    )
    return bool(memory.shown and waits)


def _unheard(clause: Ended, seen: Seen) -> bool:
    """Whether what should have failed is named closely, and was never shown."""
    if clause.outcome is not Outcome.FAILURE or len(clause.words) <= 1:
        return False
    shown = _all(seen).lower()
    return not any(word.lower() in shown for word in clause.words)


def _unrelated(clause: Ended, seen: Seen) -> bool:
    """Whether something closely named should be done, of which nothing was shown."""
    if clause.outcome is Outcome.ANY and not clause.strict:
        return False
    shown = _all(seen).lower()
    if not seen.last_said or any(stem(word) in shown for word in clause.words):
        return False
    return len(clause.words) > 1 or bool(
        clause.domains & _RARE and not clause.domains & domains(shown)
    )


def _all(seen: Seen) -> str:
    return "\n".join((*seen.echoes, seen.tail or seen.text))

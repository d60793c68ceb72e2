"""Decides whether a command, or what it does, is over, and how that went."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from taskmem_terminal.judging.conditions import Ended, Outcome
from taskmem_terminal.judging.families import FAMILIES
from taskmem_terminal.judging.findings import Finding, Memory
from taskmem_terminal.judging.programs import is_program, spoken
from taskmem_terminal.judging.seen import Seen
from taskmem_terminal.judging.subjects import VARIANTS, domains, stem
from taskmem_terminal.judging.summaries import statements, summaries
from taskmem_terminal.judging.trouble import perhaps, plainly
from taskmem_terminal.recording import UNSEEN

_SAID: Final = re.compile(
    r"\b(?:exit(?:ed|s)?|returned|terminated)\b[^\n]{0,30}?\b(?:code|status|with"
    r"|value):?\s*"
    r"(-?\d{1,3})\b",
    re.IGNORECASE,
)
_SIGNALS: Final = 128
# Work that a command without a word about it has hardly done.
_RARE: Final = frozenset(
    {"upload", "deploy", "migrate", "image", "clone", "check", "transfer"}
)
_TYPED: Final = re.compile(r"^\s{0,8}(?:usage:|\$ |>>> )")
_SKIPPED: Final = re.compile(r"\bskipp(?:ed|ing)\b|\bnot run\b|\bdisabled\b")
_STAGE: Final = re.compile(
    r"^\s{0,4}\[?(?:stage|step|job|task) #?(\d{1,3})\b", re.MULTILINE
)
_KINDS: Final = frozenset({"unit", "whole", "suite", "docker", "image", "entire"})


def ended(clause: Ended, seen: Seen, memory: Memory) -> Finding:
    """Return whether it is over, in the way that was asked for."""
    _listen(clause, seen, memory)
    status = seen.frame.exit_status
    if status is not None:
        return _exited(clause, seen, memory, status)
    told = None if _unheard(clause, seen) else _told(clause, memory)
    if told is not None and clause.status is None:
        return told
    if UNSEEN in (seen.frame.gone or ""):
        # It is lost from sight, and may well go on.
        return Finding.no()
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
        if not _owned(clause, summary.line, seen):
            continue
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
    if not memory.good and not _fits(clause, seen):
        return Finding.unsure(f"{because}, but maybe that was something else", line)
    return Finding.yes(because, line)


def _failed(clause: Ended, seen: Seen, memory: Memory, *, bad: bool) -> Finding:
    because = how(seen)
    if bad and memory.good:
        return Finding.unsure(f"{because}, but it said", memory.good)
    if not bad and not memory.bad:
        return Finding.no(because)
    if memory.bad:
        return Finding.yes("It failed", memory.bad)
    if not _fits(clause, seen) or not _named(clause, seen):
        return Finding.unsure(f"{because}, but not in so many words", seen.last_said)
    small = because[0].lower() + because[1:]
    return Finding.yes(f"It failed; {small}", seen.last_said)


def _unknown(clause: Ended, seen: Seen, memory: Memory) -> Finding:
    """Decide on an end whose status nobody knows."""
    because = how(seen) if seen.frame.gone is not None else "The shell's prompt is back"
    line = seen.last_said
    if said := _SAID.search(line):
        return _exited(clause, seen, memory, int(said[1]))
    if clause.status is None and clause.outcome is Outcome.ANY and not clause.strict:
        if seen.typed and not _fits(replace(clause, strict=True, process=False), seen):
            return Finding.unsure(f"{because}, maybe after something else", line)
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
    shown = seen.all_lower
    return not any(word.lower() in shown for word in clause.words)


def _owned(clause: Ended, line: str, seen: Seen) -> bool:
    """Whether what a program said of its end is about all that a clause names."""
    lower = line.lower()
    if _TYPED.search(lower) or _repeated(line, seen):
        return False
    return all(
        stem(word) in lower or word in _KINDS or _is_here(word, seen)
        for word in _specific(clause)
    )


def _is_here(word: str, seen: Seen) -> bool:
    """Whether a word is a program's name, and nothing speaks against that program."""
    names = seen.spoken.names
    return is_program(word) and (not names or word in names or word in seen.all_lower)


def _specific(clause: Ended) -> list[str]:
    """Return the names of a clause that are no kinds of work."""
    words = [word.lower() for word in clause.words]
    return [
        word
        for word in words
        if word in VARIANTS or is_program(word) or not domains(word)
    ]


def _repeated(line: str, seen: Seen) -> bool:
    """Whether a line only repeats what somebody typed in quotes."""
    said = line.strip().lower()
    shown = seen.all_lower
    return any(f"{quote}{said}{quote}" in shown for quote in "\"'")


def _fits(clause: Ended, seen: Seen) -> bool:
    """Whether what came to its end may well be what a clause names."""
    words = _specific(clause)
    if not (words or clause.domains) or not (seen.last_said or seen.typed):
        return True
    known, shown = seen.spoken, seen.all_lower
    if known.help or _left_out(clause, shown):
        return False
    loose = clause.process or (clause.outcome is Outcome.ANY and not clause.strict)
    if loose and not known.names and (clause.process or all(map(is_program, words))):
        return True
    if words:
        hits = sum(word in known.names or stem(word) in shown for word in words)
        other = any(word not in shown for word in VARIANTS.intersection(words))
        return hits > 0 and hits * 2 >= len(words) and not other
    about = known.domains or domains(shown)
    return bool(clause.domains & about) or not (about or clause.domains & _RARE)


def _left_out(clause: Ended, shown: str) -> bool:
    """Whether a text says that this very thing was not done."""
    for line in shown.split("\n"):
        if _SKIPPED.search(line) and (clause.words or clause.domains):
            named = all(stem(word) in line for word in clause.words)
            if named and (clause.words or clause.domains & domains(line)):
                return True
    return False


def _named(clause: Ended, seen: Seen) -> bool:
    """Whether a line of trouble is about all that a clause names."""
    words = [word for word in _specific(clause) if not is_program(word)]
    if clause.process:
        return True
    family = FAMILIES["error"]
    lines = [
        line.lower()
        for line in _all(seen).split("\n")
        if perhaps(family, line) or plainly(family, line)
    ]
    if words:
        return any(all(stem(word) in line for word in words) for line in lines)
    shown = seen.all_lower
    if clause.domains and (
        len(domains(shown)) > 1 or len(set(_STAGE.findall(shown))) > 1
    ):
        return any(
            clause.domains & (domains(line.lower()) | spoken(line).domains)
            for line in _all(seen).split("\n")
            if perhaps(family, line) or plainly(family, line)
        )
    return True


def _all(seen: Seen) -> str:
    return "\n".join((*seen.echoes, seen.tail or seen.text))

"""Decides on one condition, frame by frame."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from taskmem_hookspecs import Met
from taskmem_terminal.judging import asking, counting, doubts, endings, telling
from taskmem_terminal.judging.conditions import (
    Amount,
    AnyOutput,
    Asks,
    AtPrompt,
    Clause,
    Condition,
    Ended,
    Flawless,
    Quiet,
    Shown,
    Sign,
    Told,
    Vanished,
    Where,
)
from taskmem_terminal.judging.families import FAMILIES
from taskmem_terminal.judging.findings import Finding, Memory
from taskmem_terminal.judging.phrases import Phrase
from taskmem_terminal.judging.seen import Seen, clip, lowered
from taskmem_terminal.judging.signs import DENIED, sign, visible
from taskmem_terminal.judging.subjects import stem
from taskmem_terminal.judging.trouble import perhaps, relevant

_LONGEST_TOLD: Final = 240
_SCREEN: Final = 80
_REPL: Final = {
    "python": re.compile(r"(?:>>>|In \[\d+\]:|\(Pdb\))\s?$"),
    "node": re.compile(r"^>\s?$"),
    "sql": re.compile(r"(?:mysql|MariaDB \[[^\]]{0,60}\]|sqlite|\w{1,60}=?[#>])>?\s?$"),
    "gdb": re.compile(r"\((?:gdb|lldb)\)\s?$"),
    "other": re.compile(r"[>:)#$]\s?$"),
}


class Case:
    """One condition, and what has been seen of it so far."""

    def __init__(self, condition: Condition, wake_when: str) -> None:
        """Take a condition, and the words in which it was put."""
        self._wake_when = wake_when
        self._sides = [
            [(clause, Memory(), _phrase(clause)) for clause in side]
            for side in condition.alternatives
        ]

    def rule(self, seen: Seen) -> Finding:
        """Return whether one of the alternatives holds."""
        found = [self._side(side, seen) for side in self._sides]
        again = min((one.again for one in found if one.again is not None), default=None)
        for met in (Met.YES, Met.UNSURE):
            for finding in found:
                if finding.met is met:
                    return Finding(met, finding.because, again)
        because = next((one.because for one in found if one.because), "")
        return Finding(Met.NO, because, again)

    def _side(
        self, side: list[tuple[Clause, Memory, Phrase | None]], seen: Seen
    ) -> Finding:
        found: list[Finding] = []
        for clause, memory, phrase in side:
            finding = memory.held or self._doubted(
                clause, _clause(clause, memory, phrase, seen)
            )
            if finding.met is Met.YES and not isinstance(clause, (Flawless, Quiet)):
                memory.held = finding
            found.append(finding)
        for met in (Met.NO, Met.UNSURE):
            for finding in found:
                if finding.met is met:
                    return finding
        return Finding(Met.YES, "; ".join(one.because for one in found if one.because))

    def _doubted(self, clause: Clause, finding: Finding) -> Finding:
        """Return a finding, or that it is unsure: the line may not say it."""
        line = finding.line
        if finding.met is not Met.YES or not line:
            return finding
        if isinstance(clause, Asks):
            return Finding.no() if doubts.answered(line) else finding
        if isinstance(clause, Shown):
            whole = doubts.quoted(self._wake_when, clause.phrase) or doubts.whole(
                clause.phrase, line
            )
            return finding if whole else Finding.no()
        if doubts.doubtful(self._wake_when, line):
            return Finding.unsure("It may be said of something else", line)
        return finding


def _phrase(clause: Clause) -> Phrase | None:
    if isinstance(clause, Shown):
        return Phrase(clause.phrase, clause.where)
    return Phrase(clause.phrase) if isinstance(clause, Vanished) else None


def _clause(  # noqa: C901, PLR0911 - one line for each kind of clause
    clause: Clause, memory: Memory, phrase: Phrase | None, seen: Seen
) -> Finding:
    match clause:
        case Shown():
            return _shown(clause, phrase, seen)
        case Vanished():
            return _vanished(clause, memory, phrase, seen)
        case Ended():
            return endings.ended(clause, seen, memory)
        case Sign():
            return sign(clause, memory, seen)
        case Told():
            return _told(clause, memory, seen)
        case Amount():
            return _amount(clause, memory, seen)
        case Asks():
            return _asks(clause, seen)
        case AtPrompt():
            return _at_prompt(clause, memory, seen)
        case Quiet():
            return _quiet(clause, seen)
        case AnyOutput():
            said = seen.last_said
            return Finding.yes("There is output", said) if said else Finding.no()
        case Flawless():
            return _flawless(memory, seen)
        case _:
            return Finding.unsure("Rules for text cannot tell")


def _shown(clause: Shown, phrase: Phrase | None, seen: Seen) -> Finding:
    if phrase is None:
        return Finding.no()
    places = [(seen.text, seen.text_lower), (seen.tail, seen.tail_lower)]
    if clause.where is Where.LAST:
        places = [(seen.last, lowered(seen.last))]
    for text, lower in places:
        if not (line := phrase.find(text, lower)):
            continue
        if clause.beside and visible(clause.beside, seen):
            near = (one for one in text.split("\n") if _named(clause.beside, one))
            line = next((one for one in near if phrase.find(one, one.lower())), "")
            if not line:
                return Finding.unsure("It stands in the line of something else", line)
        return Finding.yes(f"'{clip(clause.phrase)}' appeared", line)
    return Finding.no()


def _named(names: tuple[str, ...], line: str) -> bool:
    lower = line.lower()
    return any(name.lower() in lower for name in names)


def _vanished(
    clause: Vanished, memory: Memory, phrase: Phrase | None, seen: Seen
) -> Finding:
    if phrase is None:
        return Finding.no()
    line = phrase.find(seen.tail, seen.tail_lower)
    if line is not None:
        memory.shown = True
        if seen.over:
            return Finding.unsure("It is still to be seen, but nothing runs", line)
        return Finding.no()
    if phrase.find(seen.text, seen.text_lower) is not None:
        memory.shown = True
    if not memory.shown:
        return Finding.unsure("It has not been shown at all")
    if len(seen.lines) >= _SCREEN:
        return Finding.unsure("It has scrolled out of sight")
    return Finding.yes(f"'{clip(clause.phrase)}' is gone", seen.last)


def _told(clause: Told, memory: Memory, seen: Seen) -> Finding:
    rarest = max((*clause.words, *clause.done), key=len)
    for line in seen.hits(re.compile(re.escape(stem(rarest)))):
        lower = line.lower()
        if len(line) <= _LONGEST_TOLD and telling.says(clause, lower):
            denied = not any(map(DENIED.search, clause.words))
            going = telling.goes_on(clause, lower)
            if not going and not (denied and DENIED.search(relevant(lower))):
                return Finding.yes("It says so", line)
        if telling.near(clause, lower):
            memory.bad = line[:400]
    if not memory.bad or not memory.doubts(memory.bad):
        if memory.bad and seen.over:
            return Finding.unsure("Something about it was shown", memory.bad)
        return Finding.no()
    return Finding.unsure("This may be it", memory.bad)


def _amount(clause: Amount, memory: Memory, seen: Seen) -> Finding:
    doubt = ""
    named = bool(clause.words) and visible(clause.words, seen, typed=False)
    for line in seen.counted(counting.trigger(clause)):
        for part in re.split(r"\r", line):
            far = counting.reached(clause, part)
            if far is not False and _astray(clause, part, seen):
                doubt = doubt or part
                continue
            if far and clause.exact and not named:
                far = counting.reached(replace(clause, compare="=="), part)
            if far or (far is None and not named and _free(clause, part)):
                return Finding.yes("It is that far", part)
            if memory.shown or not clause.words:
                doubt = part if far is None and not clause.words else doubt
                continue
            memory.shown = counting.speaks(clause, part)
            doubt = part if far is None else doubt
    if doubt and not memory.shown and memory.doubts(doubt):
        return Finding.unsure("This number may be another one", doubt)
    return Finding.no()


def _astray(clause: Amount, line: str, seen: Seen) -> bool:
    return clause.unit == "%" and counting.elsewhere(
        clause, line.lower(), seen.spoken.domains
    )


def _free(clause: Amount, line: str) -> bool:
    """Whether a number may be taken although nothing in its line names it."""
    if clause.unit in ("error", "warning", "failure"):
        return False
    if clause.exact:
        return bool(counting.reached(replace(clause, compare="==", words=()), line))
    return bool(counting.reached(replace(clause, words=()), line))


def _asks(clause: Asks, seen: Seen) -> Finding:
    loose = asking.loose(clause.what) and (seen.open or not seen.unended)
    if not seen.over and not loose and asking.asks(clause.what, seen.last, newest=True):
        lower = seen.last.lower()
        if not clause.words or any(stem(word) in lower for word in clause.words):
            return Finding.yes("It asks", seen.last)
    if clause.words:
        return Finding.no()
    for line in seen.hits(asking.trigger()):
        if asking.asks(clause.what, line, newest=False):
            return Finding.yes("It asks", line)
    return Finding.no()


def _at_prompt(clause: AtPrompt, memory: Memory, seen: Seen) -> Finding:
    if clause.program != "shell":
        return _at_program(clause.program, seen)
    if seen.over:
        return Finding.yes(endings.how(seen), seen.last_said)
    if not endings.back(seen, memory):
        return Finding.no()
    typed = seen.typed.lower()
    if clause.after and typed and not any(word in typed for word in clause.after):
        return Finding.unsure("A prompt is back, but after another command", typed)
    return Finding.yes("The shell's prompt is back", seen.cursor)


def _at_program(program: str, seen: Seen) -> Finding:
    if seen.over:
        return Finding.no(endings.how(seen))
    line = seen.cursor if _REPL[program].search(seen.cursor) else ""
    if program == "python" and not line:
        typed = seen.typed.split("\n")
        line = next((one for one in typed if one.startswith(">>>")), "")
    return Finding.yes("The prompt is there", line) if line else Finding.no()


def _quiet(clause: Quiet, seen: Seen) -> Finding:
    changed = seen.frame.changed_at
    if seen.over:
        return Finding.no(endings.how(seen))
    if changed is None:
        return Finding.unsure("Nobody knows when it last changed")
    passed = (seen.frame.seen_at - changed).total_seconds()
    if passed >= clause.seconds:
        return Finding.yes(
            f"Nothing came for {passed:.0f} seconds; the last line", seen.last
        )
    return Finding.no(again=clause.seconds - passed + 0.05)


def _flawless(memory: Memory, seen: Seen) -> Finding:
    family = FAMILIES["error"]
    for line in seen.hits(family.trigger):
        if perhaps(family, line):
            memory.bad = line[:400]
    if memory.bad:
        return Finding.unsure("There may have been an error", memory.bad)
    return Finding(Met.YES)

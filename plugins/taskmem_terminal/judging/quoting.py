"""What a quoted phrase is for: to be looked for, or to name something."""

from __future__ import annotations

import re
from typing import Final

from taskmem_terminal.judging.conditions import (
    AtPrompt,
    Clause,
    Puzzling,
    Shown,
    Vanished,
    Where,
)
from taskmem_terminal.judging.subjects import names
from taskmem_terminal.judging.wording import QUOTE, Wording

_GONE: Final = re.compile(
    r"\b(?:disappears?|disappeared|is gone|has gone|gone|goes away|vanish\w*|no "
    r"longer|removed"
    r"|cleared|stops? (?:appearing|showing|being)|not \w+ any ?more|is replaced|not "
    r"any ?more)\b"
)
_LEFT: Final = re.compile(r"\bno longer (?:running|active|alive|responding)\b")
_DENIED: Final = re.compile(
    r"\b(?:not|without|never|except|other than|unless|but|instead|before|after|twice"
    r"|again|no"
    r"|times|second|third|each|every|still|only|more than|at least|fewer|regex|regular"
    r" expression|pattern|between|within|while|neither|nor|if|different|anything)\b"
    r"|n't\b"
)
_SHOWS: Final = re.compile(
    r"\b(?:shows?|shown|showing|sees?|seen|prints?|printed|printing|says?|said|saying"
    r"|displays?"
    r"|displayed|contain(?:s|ing)?|outputs?|output|logs?|logged|logging|reads?|appears?"
    r"|appeared|appearing|reports?|reported|includes?|including|mentions?|emits?"
    r"|emitted"
    r"|writes?|written|visible|found|present|comes up|pops up|occurs?|matches|match"
    r"|text"
    r"|message|messages|line|lines|string|phrase|words?|notification|banner|dialog\w*"
    r"|prompt"
    r"|output|echoes|echoed|has|have|exists?|listed|lists?|there is|like|literal\w*"
    r"|shows up|arrives|is hit"
    r"|screen|terminal|console|stdout|stderr|tail|end of|start of|find|get|got"
    r"|receives?)\b"
)
_BECOMES: Final = re.compile(
    r"\b(?:is|are|becomes?|became|turns?(?: into| to)?|changes?(?: \w+)? to|switch\w* "
    r"to"
    r"|goes to|go to|goes from|from|to|reach(?:es)?|equals|status|state|phase|as|in|of)"
    r"\W*$|[=:]\s*$"
)
_NOUN: Final = (
    r"(?:containers?|services?|pods?|jobs?|steps?|stages?|tasks?|tests?|suites?"
    r"|targets?"
    r"|packages?|modules?|process(?:es)?|deployments?|images?|branch(?:es)?|files?"
    r"|scripts?"
    r"|commands?|workflows?|pipelines?|builds?|servers?|sessions?|nodes?|hosts?|users?"
    r"|databases?|tables?|apps?|applications?|projects?|crates?|rules?|recipes?"
    r"|programs?"
    r"|stacks?|clusters?|downloads?|instances?|topics?|queues?|buckets?|daemons?|runs?)"
)
_AFTER_NAME: Final = re.compile(
    rf"^\s*{_NOUN}\b(?!\s*(?:appears|is (?:shown|printed|displayed|visible)))"
    r"|^\s*(?:is|are|has|have|becomes?|gets?|finish\w*|complet\w*|exits?|ends?"
    r"|terminat\w*"
    r"|fails?|succe\w+|pass(?:es)?|returns?|stops?|crash\w*|reaches|starts?|runs?)\b"
)
_NAMED: Final = re.compile(
    rf"\b(?:{_NOUN}|run(?:ning)? of|completion of|named|called)\s*$"
)
_EVENT: Final = re.compile(
    r"\b(?:with|because of|due to|on|at|by|saying|error|warning|for|via)\W*$"
)
_SPOT: Final = (
    (Where.START, re.compile(r"\b(?:start|begin)s?(?:n?ing)? with\b")),
    (Where.END, re.compile(r"\bend(?:s|ing)? (?:with|in)\b")),
    (Where.LAST, re.compile(r"\b(?:last|final|bottom) line\b|\bline is\b")),
    (
        Where.ALONE,
        re.compile(
            r"\bon (?:its|a line of its|a) own(?: line)?\b|\balone\b|\bby itself\b"
            r"|\bexactly\b|\bentire line\b"
        ),
    ),
)
_PROMPTS: Final = {
    "$": "shell",
    "#": "shell",
    "%": "shell",
    "❯": "shell",
    ">>>": "python",
}
_ELLIPSIS: Final = re.compile(r"^(?:…|\.{3}) +| +(?:…|\.{3})$")


def quoted(whole: Wording, clause: str) -> tuple[Clause | None, str, tuple[str, ...]]:
    """Read a clause that holds a quoted phrase.

    Returns:
        What it asks for; or None, with the clause in which the phrases are plain
        words, and the phrases as names.
    """
    chars = re.findall(QUOTE, clause)
    before, after = (part.lower() for part in clause.rsplit(chars[-1], 1))
    phrase = whole.phrase(chars[-1])
    others = tuple(whole.phrase(char) for char in chars[:-1])
    lead = re.sub(QUOTE, " ", before)
    if _is_name(before, after):
        return None, _filled(whole, clause), tuple(whole.phrase(char) for char in chars)
    phrase = _ELLIPSIS.sub("", phrase) or phrase
    return _looked_for(phrase, others, lead, after), "", ()


def _looked_for(phrase: str, others: tuple[str, ...], lead: str, after: str) -> Clause:
    around = f"{lead} | {after}"
    if _GONE.search(around):
        return Puzzling() if others else Vanished(phrase)
    if phrase in _PROMPTS and "prompt" in around:
        return AtPrompt(_PROMPTS[phrase])
    spot = next(
        (where for where, words in _SPOT if words.search(around)), Where.ANYWHERE
    )
    if spot is Where.ALONE:
        around = around.replace("by itself", "")
    state, shows = _BECOMES.search(lead), _SHOWS.search(lead)
    unclear = others and not (state or shows)
    if _DENIED.search(around) or unclear or not _understood(lead, after):
        return Puzzling()
    if re.search(r"\bfrom\b.*\bto\W*$", lead):
        others = ()
    beside = (*others, *(names(lead) if state and not shows else ()))
    return Shown(phrase, spot, beside)


def _understood(lead: str, after: str) -> bool:
    if _SHOWS.search(f"{lead} {after}"):
        return True
    if after.strip(" .,!?"):
        return bool(
            re.match(r"\s*(?:in|on|at|from|by|error|or so|status|state)\b", after)
        )
    return not lead.strip(" .,:") or bool(
        _BECOMES.search(lead) or _EVENT.search(lead) or not names(lead)
    )


def _is_name(before: str, after: str) -> bool:
    if _NAMED.search(before) and not re.match(
        r"\s*(?:appears|is shown|is printed)", after
    ):
        return bool(after.strip(" .,")) or "completion" in before
    if not _AFTER_NAME.search(after):
        return False
    if re.search(rf"{QUOTE}", before) or re.search(r"[=:]\s*$", before):
        return False
    shown = re.match(
        r"\s*(?:is|are|has been|has|have|was|gets|becomes)?\s*(?:now |been |both |all "
        r"){0,2}(?:appeared|shown|printed|displayed"
        r"|visible|seen|logged|output|found|present|reported|listed|there|on|in"
        r"|echoed|gone|no longer"
        r"|removed|cleared|replaced|written to (?:the )?(?:terminal|log|screen"
        r"|output|stdout))\b",
        after,
    )
    return not shown and not re.search(
        r"\b(?:text|message|line|string|phrase|word)\s*$", before
    )


def _filled(whole: Wording, clause: str) -> str:
    return re.sub(QUOTE, lambda match: whole.phrase(match[0]), clause)

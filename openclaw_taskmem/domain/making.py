"""What a clause says is made: the object of a verb of making, or where its object goes.

    object  VERB [NOUN] FILES               write the final FILE, FILE and FILE
    in      VERB [NOUN] in FILES            record the results in FILE
    to      VERB [ANY] to, as, at … FILES   save a summary of them to FILE
    passive FILES [was, has been …] VERB    FILE and FILE were written
    noted   THING VERB in, to … or : FILES  final report saved to FILE

With `in` and `to`, more may follow: the code in FILE and the tests in FILE.

What is not of these forms makes nothing: `tests for FILE`, `once FILE has run`. Files
stand in a clause as marks, for what their names look like is not known here. Each part
but FILES is short, so that the time that it takes is in proportion to the clause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_VERBS: Final = (
    ("write", "wrote|written", "object in to"),
    ("create", "created", "object in to"),
    ("draft", "drafted", "object in to"),
    ("generate", "generated", "object to"),
    ("produce", "produced", "object to"),
    ("update", "updated", "object in"),
    ("edit", "edited", "object in"),
    ("save", "saved", "alone in to"),
    ("record", "recorded", "alone in to"),
    ("add", "added", "alone in to"),
    ("export", "exported", "alone to"),
    ("output", "output", "alone to"),
    ("prepare", "prepared", "alone to"),
    ("store", "stored", "in to"),
    ("put", "put", "in to"),
    ("append", "appended", "to"),
    ("dump", "dumped", "to"),
    ("render", "rendered", "to"),
)
"""Verbs as they stand in a plan and in a report, and the forms that they take.

`alone`: an object that goes nowhere, for `save FILE to S3` takes a file that is there.
What is, say, exported `in` a file may have been there as well.
"""

_LINKS: Final = (
    r"that|which|who|whose|what|how|why|when|whenever|where|whether|if|because|since"
    r"|while|unless|until|once|after|before|so|than|can|could|should"
)
_ENDS: Final = (
    rf"{_LINKS}|then|but|or|and|nor|not?|never|is|are|was|were|has|have|had|to|as|like"
    r"|same|unlike|using|via"
)
_PREPOSITIONS: Final = (
    r"of|for|from|about|on|onto|in|inside|into|at|under|with|within|without|by|against"
    r"|around|along|through|over|per|regarding|between|behind|during|off|named|called"
)
_AIMED: Final = (
    r"links?|symlinks?|references?|repl(?:y|ies)|responses?|answers?|pointers?|paths?"
    r"|introductions?|alternatives?|redirects?|shortcuts?|changes|edits|updates|patch"
    r"|similar|equivalent|identical|related|compared|according|due|thanks|access"
)
"""What is aimed `to` a file, and is not put there."""

_THE: Final = r"(?:the|an?|this|its?|their|my|our|your|another)"
_FILE: Final = r"\0\d+\0"
_WORD: Final = r"(?:[^\s\0,:;()]|(?<=\d),(?=\d))+\s+"
_NAME: Final = rf"(?:(?!(?:{_ENDS}|{_PREPOSITIONS})\s){_WORD})"
_NAMES: Final = rf"{_NAME}(?:(?!\w+ing\s){_NAME}){{0,6}}"
"""Words that describe one thing, of which only the first may end in -ing."""
_NOUN: Final = rf"(?:{_THE}\s+)?(?:{_NAMES})?(?:[^\s\0,:;()]+:\s+)?"
_ANY: Final = rf"(?:(?!(?:{_ENDS}|(?:{_AIMED})\s+to)\s)(?:{_WORD}|{_FILE}\s+)){{0,20}}?"
_ONE: Final = rf"(?:{_THE}\s+(?:{_NAMES})?|file\s+)?(?:(?:named|called)\s+)?{_FILE}"
_AND: Final = r"(?:\s*,(?:\s*and\b)?|\s+(?:and|&|along with|as well as|plus))\s+"
_PLACE: Final = r"\s+(?:in|inside|under|at)\s+[^\s\0,:;()]+"
_FILES: Final = rf"{_ONE}(?:(?:{_PLACE})?{_AND}{_ONE})*+"
_END: Final = (
    r"(?=\s*(?:$|[.,:;!?…)\]—–-])|\s+(?:and|or|but|then|with|from|using|so|that|which"
    r"|based|via|by|before|after|when|while|once|now|again|too|also|first|today|instead"
    r"|\w+ly|\w+ing{})\b)"
)
"""What may follow a file. A noun may not, for `FILE tests` are something else."""
_ALONE: Final = _END.format("")
_GOAL: Final = _END.format("|for|on")
_ANYWHERE: Final = _END.format("|for|on|to|into|in|at|under|as|about")
_AND_VERB: Final = r"(?:(?:\s+(?:and|or)\s+|/)\w+)?"
_THEN: Final = rf"{_AND_VERB}(?:\s*[:→–—-])?\s+"

_DOERS: Final = (
    r"I|we|you|he|she|they|it|there|here|read|found|took|ran|saw|got|sent|kept|made"
    r"|built|gave|used?|see|look|check|open|review|view|find|load|run|compare|note|keep"
    r"|get|need|given|known|taken|(?!(?:updated|revised|finished|completed|detailed)\s)"
    r"\w*[^\We]ed"
)
"""Who does a thing, and what is done: what follows may have been there to be used.

What is said to be updated or finished is made all the same.
"""
_KNOWN: Final = (
    r"the|this|that|these|those|its?|their|my|our|your|his|her|another|any|each|every"
    r"|some|one|last|previous|old|older|earlier|existing|original|already"
)
"""What tells which one is meant, as in `the report saved in FILE`."""
_PLAIN_WORD: Final = rf"(?!(?:{_ENDS}|{_PREPOSITIONS}|{_DOERS}|{_KNOWN})\s){_WORD}"
_THING: Final = (
    r"(?:(?!(?!(?:sales|results|news)\s)\w*[^\Wsuic]s\s"
    r"|(?!(?:meeting|landing|pricing|training)\s)\w+ing\s)"
    rf"{_PLAIN_WORD}){{0,4}}{_PLAIN_WORD}"
)
"""A few words for one thing. What ends in -s or -ing may be a verb, if not the last."""
_IN: Final = r"(?:in|inside):?\s+"
_TO: Final = r"(?:to|into|as|at|under):?\s+"
_MORE: Final = (
    rf"(?:{_AND}{_THE}\s+(?!(?:{_AIMED})\s+to\s){_THING}(?:{_IN}|{_TO}){_FILES}){{0,9}}"
)
_FORMS: Final = {
    name: re.compile(_THEN + form, re.IGNORECASE)
    for name, form in {
        "object": rf"{_NOUN}(?:and\s+)?(?P<files>{_FILES}){_ANYWHERE}",
        "alone": rf"{_NOUN}(?:and\s+)?(?P<files>{_FILES}){_ALONE}",
        "in": rf"(?:{_NOUN}(?<!ed\s))??{_IN}(?P<files>{_FILES}{_MORE}){_GOAL}",
        "to": rf"{_ANY}{_TO}(?P<files>{_FILES}{_MORE}){_GOAL}",
    }.items()
}

_WHO: Final = (
    r"(?:(?:I|we|you|(?:I|we|you)['’]ve|it|(?:the|this|my|our)\s+"
    r"(?:agent|command|job|program|run|script|tool|worker))\s+)?"
)
_ALSO: Final = (
    r"(?:(?:please|also|then|now|just|next|first|finally|have|has|had|been|\w+ly)\s+)*"
)
_PLAIN: Final = (
    rf"(?:(?!(?:{_LINKS}|to\s+(?!\0|{_THE}\s)\w+)\s)(?:{_WORD}|{_FILE}\s+))*?"
)
_BEGINS: Final = r"(?:^|[,:;(—–→]|[.!?]\s|\s-\s)(?:[^\w\0]|[\d_])*"
_LEAD: Final = re.compile(
    rf"{_BEGINS}(?:{_PLAIN}(?:and|or|then|&|was|were|been|is|are)\s+"
    rf"|(?:use|using|run|call|execute)\s+{_PLAIN}to\s+)?{_WHO}{_ALSO}$",
    re.IGNORECASE,
)
"""What stands before a verb that says what is done, unlike in `the saved FILE`."""
_PASSIVE: Final = re.compile(
    rf"{_BEGINS}(?P<files>{_FILES})\s*[:—–-]?\s+"
    rf"(?:(?:was|were|(?:has|have)\s+been)\s+)?{_ALSO}$",
    re.IGNORECASE,
)

_SHOWN: Final = r"\s*(?:[:→–—]|-+>?|=>)\s+"
_WAYS: Final = {
    "object": _SHOWN,
    "alone": _SHOWN,
    "in": rf"\s+{_IN}",
    "to": rf"\s+{_TO}",
}
_NOTED_END: Final = (
    r"(?=\s*(?:$|[.,;!…—–-])|\s+(?:now|too|also|successfully|with\s+(?:\d|all\b|an?\b)"
    rf"|and\s+(?:{_NAME}){{0,4}}\w+(?:ed|en)\b))"
)
"""What may follow in a note: nothing that could be said of what is in the file."""
_NOTED: Final = {
    name: re.compile(
        rf"(?<=ed|en)(?:\s+\w+ly)?{way}(?P<files>{_FILES}){_NOTED_END}", re.IGNORECASE
    )
    for name, way in _WAYS.items()
}
"""How a note goes on after a verb as it stands in a report."""
_OTHER: Final = rf"{_THING}\w+(?:ed|en)(?:{'|'.join(_WAYS.values())}){_FILES}{_AND}"
_NOTES: Final = re.compile(
    r"(?:^|(?<!used:)(?<!inputs:)(?<!sources:)(?<=[:—–→])|[.!?]\s|\s-\s)"
    rf"(?:[^\w\0]|[\d_])*(?:{_OTHER}){{0,3}}{_THING}$",
    re.IGNORECASE,
)
"""What stands before a verb in a note, as in `✅ Final report saved to FILE`.

After a comma it may as well be one of the things that were read.
"""
_OVER: Final = re.compile(r"(?<=ed|en)(?:\s*(?:$|[.,;!])|\s+(?:and|with)\b)")
"""After a verb that can be nothing else, as the `output` of a file is."""
_NEAR: Final = 160
"""Characters before a verb that are read."""


def _either(*verbs: str) -> re.Pattern[str]:
    named = r"(?!(?<=output):)"  # the title in `Output: FILE`
    return re.compile(rf"\b(?:{'|'.join(verbs)})\b{named}", re.IGNORECASE)


TO_MAKE: Final = _either(*(verb for verb, _, _ in _VERBS))
MADE: Final = _either(*(done for _, done, _ in _VERBS))
_TAKES: Final = {
    each: tuple(forms.split())
    for verb, done, forms in _VERBS
    for each in (verb, *done.split("|"))
}
_MARK: Final = re.compile(r"\0(\d+)\0")


def mark(number: int) -> str:
    """Return what stands in a clause for a file: nothing else may hold a NUL."""
    return f"\0{number}\0"


def made(verbs: re.Pattern[str], clause: str) -> Iterator[int]:
    """Yield the numbers of the files that a clause says are made.

    `verbs`: `TO_MAKE` in a plan, or `MADE` in a report.
    """
    plain = re.sub(r"[*`]", "", clause)
    plain = re.sub(rf"\(\s*({_FILE})\s*\)", r"\1", plain)
    plain = " ".join(re.sub(r"\([^()]*\)", " ", plain).split())
    for verb in verbs.finditer(plain):
        start, end = verb.span()
        near = max(0, start - _NEAR), start
        takes = _TAKES[verb[0].lower()]
        found = None
        if _LEAD.search(plain, *near):
            forms = (_FORMS[form].match(plain, end) for form in takes)
            found = next(filter(None, forms), None)
        if found is None:
            notes = (_NOTED[form].match(plain, end) for form in takes)
            noted = next(filter(None, notes), None)
            found = noted if noted and _NOTES.search(plain, *near) else None
        if found is None and _OVER.match(plain, end):
            found = _PASSIVE.search(plain, *near)
        if found is not None:
            yield from (int(number) for number in _MARK.findall(found["files"]))

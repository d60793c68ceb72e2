"""Read which steps a message reports as done, or as not done after all.

A clause marks steps only if every word of it is in the tables below: "Step 2 done", "finished step
4", "[x] Push to ghcr.io". With any other word it marks nothing; then the answer may hint how to
mark. Source: docs/origins.md, "Narration".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

from openclaw_taskmem.domain.tasks.plan import identify_step
from taskmem_hookspecs import Value

TICKS: Final = frozenset(("✅", "☑", "✔", "✓", "[x]"))
_LEADING_WORDS: Final = TICKS | {"done", "completed", "finished", "skipped"}
"""Words that may come before a step: "finished step 2", but not "complete step 2"."""
_DONE_WORDS: Final = _LEADING_WORDS | {"complete"}
EMPTY_WORDS: Final = frozenset(
    """
    ( is are was were has have been am the of plan i we i've we've i'm and but so now then
    just also already both fully finally successfully too ok okay today great cleanly
    got marked as 🎉
    """.split()  # noqa: SIM905 - it is read as a text
)
"""Words without meaning in a clause about steps."""
_HEADINGS: Final = frozenset(("progress", "status", "update", "summary", "so", "far"))
"""Words without meaning before a colon."""
_DOUBTS: Final = frozenset(
    """
    if when whenever once after until unless before assuming should as hopefully maybe
    perhaps can provided
    """.split()  # noqa: SIM905
)
"""A sentence that begins with one of these marks nothing."""
_OBJECTIONS: Final = frozenset(
    "no not oops nope wait actually except though if unless".split()  # noqa: SIM905
)
"""A clause or sentence that begins with one of these takes the mark before it back."""
_LIMITS: Final = frozenset(("but", "only"))
"""These do, too, at either end of a clause, unless the clause is about another step."""
_EXCEPTIONS: Final = frozenset(("but", "except", "besides"))
"""After `all` or `everything`, these name the steps that are not meant."""
_PARTIAL_WORDS: Final = frozenset(
    "dry simulated almost half mostly nearly partially partly".split()  # noqa: SIM905
)
"""And these in brackets, alone, or before a done word: "step 2 done (dry run)"."""
_BRACKET: Final = "("
"""First word of a clause in brackets."""
_DUTIES: Final = frozenset("must need needs should has have will".split())  # noqa: SIM905
_REPEAT_WORDS: Final = frozenset(
    "again anew redo redone repeat repeated rerun".split()  # noqa: SIM905
)
"""With a duty before: "step 2 (done) must be done again"."""
_REOPENING_WORDS: Final = frozenset(("actually", "really", "after", "correction", "oops"))
_DENIAL_WORDS: Final = frozenset(
    "not never fail failed fails failing broke broken blocked undone reverted".split()  # noqa: SIM905
)
"""A clause with one of these, or with "n't", marks no step as done."""
_NEGATIONS: Final = (
    _DENIAL_WORDS
    | _OBJECTIONS
    | _PARTIAL_WORDS
    | frozenset(
        """
        0 zero nothing none nobody neither nor cannot without unable hardly barely incomplete
        unfinished still yet until should maybe perhaps hopefully
        """.split()  # noqa: SIM905
    )
)
"""A message with one of these, or with "n't", is given no hint. Used only for that."""
PROGRESS: Final = _DONE_WORDS | frozenset(
    """
    built ran wrote made sent got works live ready ok up did passes succeeds green
    marking
    """.split()  # noqa: SIM905
)
"""Words that sound like progress, besides those that end in "ed". Used only for a hint."""
_SENTENCE_CHARS: Final = 400
"""Characters of a sentence that are read."""


def _number_words(first: int, words: str) -> Mapping[str, int]:
    return {word: number for number, word in enumerate(words.split(), first)}


_NUMBERS: Final = _number_words(
    0, "zero one two three four five six seven eight nine ten eleven twelve"
)
_TROUBLE_WORDS: Final = frozenset(
    """
    crashed denied refused rejected needed required expected supposed aborted timed
    interrupted disconnected killed unchanged used called planned
    """.split()  # noqa: SIM905
)
_ORDINALS: Final = _number_words(
    1, "first second third fourth fifth sixth seventh eighth ninth tenth"
)
_N: Final = rf"(?:\d{{1,3}}|{'|'.join(_NUMBERS)})(?![\w(]|\.\d)"
_SPAN: Final = rf"{_N}(?: ?(?:[-–]|to|through) ?{_N})?"
_REFERENCE: Final = re.compile(
    rf"\bsteps? #?(?P<list>{_SPAN}(?:(?:, and |, ?| and | ?& ?)(?:steps? )?{_SPAN})*)"
    rf"(?: ?/ ?(?P<total>{_N}))?"
    rf"|\b(?P<ordinal>{'|'.join(_ORDINALS)}|final) step\b"
    rf"|\b(?:all (?:of )?(?:the )?(?P<count>{_N} )?steps|every step)\b"
)
_QUOTATION: Final = re.compile(r"```.*?(?:```|$)|`[^`\n]*`|\"[^\"\n]*\"|https?://\S+", re.DOTALL)
_CLAUSE: Final = re.compile(r"\s*[,:(—–]\s*|\)\s*|\s-+\s|\s(?=(?:and|but)\s)|\s*→\s*")
_WORD: Final = re.compile(r"\[x\]|[✅☑✔✓🎉]|‹[\d·]+›|[\w'/]+")
_ASIDE_PHRASE: Final = re.compile(
    r"\bin \d[\d.]* ?\w+|\bwithout (?:any )?(?:errors|issues)\b"
    r"|(?<=\bdone) with(?= *‹)|(?<=\bfinished) with(?= *‹)"
)
"""Phrases without meaning: how long it took, that nothing went wrong."""
_LEADING_MARK: Final = re.compile(
    rf"(?:\[x\]|[✅☑✔✓]\ufe0f?|(?:{'|'.join(sorted(_LEADING_WORDS - TICKS))}) ?[:–—-])\s*",
    re.IGNORECASE,
)
_SKIPPED_WORDS: Final = _DONE_WORDS | EMPTY_WORDS
_DONE_WORD_LISTS: Final = [[word] for word in _DONE_WORDS]
_BULLET: Final = re.compile(r"^(?:[-*+•#]+\s+|\d{1,3}[.)]\s+)+")


class StepMarks(Value):
    """The steps of a plan that a message marks. Steps count from 0."""

    done: frozenset[int] = frozenset()
    reopened: frozenset[int] = frozenset()
    """Steps reported as not done after all."""
    denied: frozenset[int] = frozenset()
    """Steps reported as failed or not done."""
    named: frozenset[int] = frozenset()
    """All steps named by number."""
    all_done: bool = False
    """True if it says "All done", which marks every step if the task is completed."""


def parse_step_marks(message: str, plan: Sequence[str]) -> StepMarks:
    """Read which of a plan's steps a message marks, reopens and names."""

    @cache
    def identify_steps() -> list[tuple[str, ...]]:
        return [identify_step(step) for step in plan]

    done, reopened, denied, named = set[int](), set[int](), set[int](), set[int]()
    all_done = False
    for sentence in _split_sentences(message):
        clauses = _split_clauses(sentence, len(plan))
        words = [word for clause in clauses for word in clause]
        named |= _read_steps(words)
        if not words or words[0] in _DOUBTS or _names_exceptions(words):
            continue
        if words[0] in _OBJECTIONS and "not" not in words:
            done.clear()  # "Step 2 done. Oops, no."
            all_done = False
            continue
        reopened |= _find_reopened(clauses)
        denied |= _find_denied(clauses)
        by_words: set[int] = set()
        if not _DONE_WORDS.isdisjoint(words):
            by_words = _find_own_words(sentence, identify_steps)
        if by_words and _read_steps(words) - by_words:
            continue  # "Step 3: Build the image - done" means one or the other
        done |= by_words | (_find_done(clauses) if _is_plain(sentence) else set())
        all_done |= clauses[0] == ["all", "done"] and not _has_objection(clauses[1:2])
    if -1 in named:  # the message counts from 0, so each number means another step
        done.clear()
        reopened.clear()
    return StepMarks(
        done=frozenset(done - reopened - denied),
        reopened=frozenset(reopened),
        denied=frozenset(denied),
        named=frozenset(named - {-1}),
        all_done=all_done,
    )


def _names_exceptions(words: Sequence[str]) -> bool:
    """True if a sentence names the steps that are not meant, as "all but step 4 done" does."""
    found = [n for n, word in enumerate(words[:4]) if word in _EXCEPTIONS]
    return (
        bool(found)
        and words[0] in ("all", "everything")
        and _DONE_WORDS.isdisjoint(words[: found[0]])
    )


def denies_progress(message: str) -> bool:
    """True if a message may deny or doubt that something is done. Lenient; English only."""
    words = _WORD.findall(message.lower().replace("’", "'"))
    return any(word in _NEGATIONS or _is_denial(word) for word in words)


def sounds_like_progress(message: str) -> bool:
    """True if a message may report progress. Lenient; English only."""
    return any(
        any(map(_is_progress, words)) or re.search(r"\d ?/ ?\d", sentence)
        for sentence in _split_sentences(message)
        if (words := _WORD.findall(sentence.lower())) and not _is_ongoing(words[0])
    )


def _is_progress(word: str) -> bool:
    past = word.endswith("ed") and word not in _DENIAL_WORDS | _TROUBLE_WORDS
    return past or word in PROGRESS


def _is_ongoing(word: str) -> bool:
    return word.endswith("ing") and word not in ("marking", "everything", "nothing")


def find_step_numbers(text: str, size: int) -> frozenset[int]:
    """Find which of a plan's `size` steps a text names by number, from 0."""
    found = _REFERENCE.finditer(text.lower())
    words = [_write_steps(reference, size).strip() for reference in found]
    return frozenset(_read_steps(words)) - {-1}


def _split_sentences(message: str) -> Iterator[str]:
    """Yield the statements of a message, without questions, quotations and code.

    A list under a heading such as "Missing:" is left out.
    """
    text = _QUOTATION.sub('"', message.replace("**", "").replace("__", ""))
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?…])\s|\n|;", paragraph):
            words = sentence.strip()
            if words.endswith(":") and not _is_plain(f"{words} "):
                break
            if words and not words.endswith("?") and not words.startswith(">"):
                yield words.rstrip(".!…")[:_SENTENCE_CHARS]


def _split_clauses(sentence: str, size: int) -> list[list[str]]:
    """Split a sentence into clauses of words; step references become ‹1·2›."""
    text = _REFERENCE.sub(lambda found: _write_steps(found, size), sentence.lower())
    text = _ASIDE_PHRASE.sub("", _BULLET.sub("", text)).replace("[x]", " [x] ")
    return _cut_clauses(text) or [[]]


def _cut_clauses(text: str, before: str = "") -> list[list[str]]:
    """Cut a text into clauses of words; `before` is what parts it from the text before it."""
    clauses, begin, mark = list[list[str]](), 0, before
    for end, after, cut in [(m.start(), m.end(), m[0]) for m in _CLAUSE.finditer(text)] + [
        (len(text), len(text), "")
    ]:
        if words := _WORD.findall(text[begin:end]):
            clauses.append([_BRACKET, *words] if _BRACKET in mark else words)
        begin, mark = after, cut
    return clauses


def _write_steps(found: re.Match[str], size: int) -> str:
    """Write a reference as ‹1·2›; one that does not fit the plan stays unchanged."""
    steps: list[int] = []
    if found["ordinal"] == "final":
        steps = [size]
    elif found["ordinal"]:
        steps = [_ORDINALS[found["ordinal"]]]
    elif found["list"]:
        for span in re.finditer(_SPAN, found["list"]):
            first, *last = [_read_number(n) for n in re.findall(_N, span[0])]
            steps += range(first, (last or [first])[0] + 1)
    else:
        steps = [*range(1, size + 1)]
    sizes = [_read_number(found[g]) for g in ("total", "count") if found[g]]
    fits = steps and all(0 <= step <= size for step in steps) and set(sizes) <= {size}
    return f" ‹{'·'.join(map(str, steps))}› " if fits else found[0]


def _read_number(word: str) -> int:
    word = word.strip()
    return int(word) if word.isdigit() else _NUMBERS[word]


def _read_steps(words: Sequence[str]) -> set[int]:
    listed = [word[1:-1].split("·") for word in words if word.startswith("‹")]
    return {int(number) - 1 for numbers in listed for number in numbers}


def _find_done(clauses: Sequence[list[str]]) -> set[int]:
    """Find the steps marked by clauses: "step 2 done", "finished step 2", "step 2: done"."""
    telling = [[word for word in clause if word not in EMPTY_WORDS] for clause in clauses]
    found: set[int] = set()
    read = 0  # clauses before this one are part of a mark
    for index, words in enumerate(telling):
        steps = _read_steps(words)
        others = [word for word in words if not word.startswith("‹")]
        after = telling[index + 1] if index + 1 < len(telling) else []
        before = telling[index - 1] if index > read else []
        following = index + 1
        if not others and len(after) == 1 and after[0] in _DONE_WORDS:
            others, following = after, index + 2
        elif not others and len(before) == 1 and before[0] in _LEADING_WORDS:
            others = before
        first = words[0] if words else ""
        fits = set(others) <= (_LEADING_WORDS if first in _DONE_WORDS else _DONE_WORDS)
        if steps and others and fits:
            read = following
            found |= set() if _has_objection(clauses[following:]) else steps
    return found


def _is_plain(sentence: str) -> bool:
    """True if a sentence has no heading such as "Goal:"."""
    head, colon, _ = sentence.lower().partition(": ")
    words = set(_WORD.findall(head)) - (EMPTY_WORDS | _DONE_WORDS | _HEADINGS)
    return not colon or not words or bool(_REFERENCE.search(head))


def _has_objection(clauses: Sequence[list[str]]) -> bool:
    """True if the next clause takes back or limits what was said."""
    words = clauses[0] if clauses else []
    first = [word for word in words if word not in {"but", _BRACKET}]
    if not first or first[1:] == ["needed"]:
        return False
    limited = (
        not _LIMITS.isdisjoint((first[0], words[0], words[-1]))
        or _is_partial(words)
        or (first[0] in _DUTIES and not _REPEAT_WORDS.isdisjoint(first))
        or any(map(_is_denial, first))
        or _is_share(first)
    )
    return first[0] in _OBJECTIONS or (limited and not _read_steps(first))


def _is_partial(words: Sequence[str]) -> bool:
    """True if words say that something was done in part; "it was almost trivial" does not."""
    told = [word for word in words if word not in EMPTY_WORDS]
    if words[0] == _BRACKET or set(told) <= _PARTIAL_WORDS | {"a", "run"}:
        return not _PARTIAL_WORDS.isdisjoint(told)
    return any(one in _PARTIAL_WORDS and other in _DONE_WORDS for one, other in pairwise(told))


def _is_share(words: Sequence[str]) -> bool:
    """True if words are a percentage below 100, such as the "90" of "90%"."""
    return len(words) == 1 and words[0].isdigit() and words[0] != "100"


def _is_denial(word: str) -> bool:
    return word in _DENIAL_WORDS or word.endswith("n't")


def _find_denied(clauses: Sequence[list[str]]) -> set[int]:
    return {
        step for clause in clauses if any(map(_is_denial, clause)) for step in _read_steps(clause)
    }


def _find_reopened(clauses: Sequence[list[str]]) -> set[int]:
    """Find the steps of "step 2 is not done after all"; "not done yet" reopens none."""
    found: set[int] = set()
    plain = any(_REOPENING_WORDS.intersection(clause) for clause in clauses)
    for clause in clauses if plain else ():
        words = [word for word in clause if word not in EMPTY_WORDS | _REOPENING_WORDS | {"all"}]
        kept = [word for word in words if not word.startswith("‹")]
        if len(kept) == 2 and kept[1] in _DONE_WORDS and _is_not(kept[0]):  # noqa: PLR2004
            found |= _read_steps(words)
    return found


def _is_not(word: str) -> bool:
    return word == "not" or word.endswith("n't")


def _find_own_words(
    sentence: str, identify_steps: Callable[[], Sequence[tuple[str, ...]]]
) -> set[int]:
    """Find the step that a sentence names by its text and reports as done.

    `identify_steps` returns the names of the plan's steps; it is called if needed.
    """
    text = _BULLET.sub("", sentence)
    opened = _LEADING_MARK.match(text)
    text = text[opened.end() :] if opened else text
    cuts = [*_CLAUSE.finditer(text)]
    ends = [(cut.start(), text[cut.end() :], cut[0]) for cut in cuts] + [(len(text), "", "")]
    for end, rest, mark in ends:
        words = text[:end].split()
        called = bool(opened)
        while words and words[-1].lower() in _SKIPPED_WORDS:
            called |= words.pop().lower() in _DONE_WORDS
        after = _cut_clauses(rest.lower(), mark)
        if after and [word for word in after[0] if word not in EMPTY_WORDS] in _DONE_WORD_LISTS:
            called, after = True, after[1:]
        text_of_step = " ".join(words)
        if not called or _REFERENCE.fullmatch(text_of_step.lower()):
            continue  # a step that is called "Step 1" is named by its number
        own, name = identify_steps(), identify_step(text_of_step)
        if own.count(name) == 1 and not _has_objection(after):
            return {own.index(name)}
    return set()

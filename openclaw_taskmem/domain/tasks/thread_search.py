"""Find the messages of a thread that answer a question about its task.

Messages are ranked by matching words (BM25 of SQLite's full-text search, in memory) and by what the
question is about: a step, trouble, the plan, waits. Messages that do not match follow. Source:
docs/origins.md, "Answers to questions".
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Final

from openclaw_taskmem.domain.tasks.step_phrases import find_step_numbers
from openclaw_taskmem.domain.tasks.thread import READ, choose_meaningful, has_trouble
from taskmem_hookspecs import Message, MessageType, Role, Value

FIRST: Final = 10
"""Meaningful messages that come first after the matches."""
_MOST_WORDS: Final = 50
_PREFIX: Final = 4
"""Letters from which a word also matches longer words that begin with it."""
_NAMING: Final = 2_000
"""First characters of a message in which step numbers are looked for."""

_COMMON_WORDS: Final = """
a about all already also am an and any are as at be been being but by can could
currently did do does doing done earlier far find for found from get give go going had
happen happened has have how i if in into is it its just last latest left let many me
more much my need next no not now number of on or our out please recent remaining
remains remind right said say should show so some stand state status step steps still
summarize summary task tell than that the their them then there these they thing things
this those to up us use used was we were what when where which while who why will with
would yet you your
"""
_COMMON: Final = frozenset(_COMMON_WORDS.split())
"""Words common in questions, which are not searched for."""
_TROUBLE: Final = re.compile(
    r"\b(?:why|wrong|problems?|issues?|trouble|blockers?|blocked|stuck|bugs?"
    r"|fail\w*|err(?:or|ors|ed)|crash\w*|br[eo]ke\w*|denied|reject\w*)\b"
)
_TROUBLES: Final = (
    *("fail", "error", "denied", "refused", "rejected", "crashed", "broken", "wrong"),
    *("cannot", "can't", "could not", "couldn't", "unable", "missing", "timed out"),
    *("timeout", "blocked", "blocker", "stuck", "exception", "traceback", "needs"),
)
"""Words to search for if a question asks for trouble."""
_PLAN: Final = re.compile(r"\b(?:plan(?:ned)?|checklist|revis\w+)\b")
_WAITS: Final = re.compile(r"\bwait(?:s|ed|ing)?\b")
_BY_NUMBER: Final = re.compile(r"\s*(?:message|#)\s*#?([0-9]{1,12})\s*", re.IGNORECASE)


class ThreadQuery(Value):
    """A parsed question."""

    words: tuple[str, ...]
    """Words to search for, without common ones."""
    steps: frozenset[int]
    """Steps that it names by number, from 0."""
    like_steps: frozenset[int]
    """Steps that it names by their words, from 0."""
    trouble: bool
    plan: bool
    waits: bool


class SearchResult(Value):
    """A thread in the order for a question."""

    messages: tuple[Message, ...]
    """The matching messages, best and newest first, then the meaningful, then all others; if
    `alone`, only the one asked for."""
    matches: int
    """Number of matching messages."""
    question: ThreadQuery
    alone: bool = False
    """True if the question asks for one message by its number."""


def parse_query(query: str, plan: Sequence[str]) -> ThreadQuery:
    """Parse a question about a task."""
    lowered = query.lower()
    words = _read_words(query)
    scores = rank_texts(plan, words)
    best = max(scores.values(), default=0)
    return ThreadQuery(
        words=words,
        steps=find_step_numbers(query[:_NAMING], len(plan)),
        like_steps=frozenset(step for step in scores if scores[step] == best),
        trouble=_TROUBLE.search(lowered) is not None,
        plan=_PLAN.search(lowered) is not None,
        waits=_WAITS.search(lowered) is not None,
    )


def search_thread(query: str, plan: Sequence[str], messages: Sequence[Message]) -> SearchResult:
    """Order a task's thread, given oldest first, for a question."""
    question = parse_query(query, plan)
    number = _BY_NUMBER.fullmatch(query)
    for message in messages if number else ():
        if number and message.message_id == int(number[1]):
            return SearchResult(messages=(message,), matches=1, question=question, alone=True)
    scores = _score_messages(question, plan, messages)
    matching = sorted(scores, key=lambda place: (-scores[place], -place))
    telling = choose_meaningful(messages[-READ:], FIRST)
    by_id = {message.message_id: message for message in messages}
    ordered = dict.fromkeys(
        (
            *(messages[place].message_id for place in matching),
            *(message.message_id for message in reversed(telling)),
            *reversed(by_id),
        )
    )
    return SearchResult(
        messages=tuple(by_id[number] for number in ordered),
        matches=len(matching),
        question=question,
    )


def rank_texts(texts: Sequence[str], words: Sequence[str]) -> Mapping[int, float]:
    """Score each text that has any of the words, above 0 up to 1."""
    if not words or not texts:
        return {}
    wanted = " OR ".join(
        f'"{word.replace(chr(34), " ")}"{"*" if len(word) >= _PREFIX else ""}' for word in words
    )
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize='porter unicode61')"
        )
        database.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", enumerate(texts))
        found = database.execute(
            "SELECT rowid, -rank FROM texts WHERE texts MATCH ?", (wanted,)
        ).fetchall()
    best = max((score for _, score in found), default=1.0)
    return {place: score / best for place, score in found}


def _read_words(text: str) -> tuple[str, ...]:
    stripped = (word.strip("?!.,;:\"'()[]{}<>«»“”`*") for word in text.lower().split())
    kept = [
        word
        for word in stripped
        if word not in _COMMON and any(letter.isalnum() for letter in word)
    ]
    return tuple(dict.fromkeys(kept))[:_MOST_WORDS]


def _score_messages(
    question: ThreadQuery, plan: Sequence[str], messages: Sequence[Message]
) -> Mapping[int, float]:
    """Score each message that matches; higher is better."""
    named = [word for step in question.steps for word in _read_words(plan[step])]
    words = (*question.words, *named, *(_TROUBLES if question.trouble else ()))
    scores = dict(rank_texts([message.content for message in messages], words))
    asked = question.steps | question.like_steps
    for place, message in enumerate(messages):
        score = scores.get(place, 0.0)
        if score and message.role is Role.SYSTEM:
            score /= 2
        if score and question.trouble and has_trouble(message):
            score += 1.0
        if asked:
            about = find_step_numbers(message.content[:_NAMING], len(plan))
            score += 1.0 if about & question.steps else 0.0
            score += 0.5 if about & question.like_steps else 0.0
        score += question.plan and message.msg_type is MessageType.PLAN
        score += question.waits and message.msg_type is MessageType.WAIT
        if score:
            scores[place] = round(score, 6)
    return scores

"""Choose the messages of a thread that are worth reading again, or that answer a question.

Matching messages are ranked by the words of the question that they have, rare ones first, and by
what the question is about: a step, trouble, the plan, waits. Messages that do not match follow.

Source: docs/origins.md, "The resume packet" and "Answers to questions".
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain.tasks import lifecycle
from openclaw_taskmem.domain.tasks.plan import map_steps
from openclaw_taskmem.domain.tasks.step_phrases import find_step_numbers, sounds_like_progress
from openclaw_taskmem.domain.text.texts import quote_step
from taskmem_hookspecs import Message, MessageType, PlanRevision, Role, Value
from taskmem_hookspecs.words import (
    ENGLISH_COMMON_WORDS,
    MOST_WORDS,
    build_pattern,
    find_patterns,
    has_phrase,
    split_words,
)

MOST_READ_MESSAGES: Final = 60
"""Newest messages to choose from."""
MOST_CHOSEN: Final = 5
"""Most messages to choose."""

_NOISE: Final = frozenset({MessageType.STUCK, MessageType.LIFECYCLE})
_TROUBLE: Final = re.compile(
    r"\b(?:block(?:ed|er|ers|ing)|stuck|fail(?:ed|s|ing|ures?)?|errors?|denied"
    r"|refused|rejected|crash(?:ed|es)?|broken?|cannot|can't|could ?n[o']t|unable"
    r"|missing|wrong|timed? ?out|exception|traceback|waiting for (?:you|the user)"
    r"|needs? (?:your|the user|approval))\b"
)
_NO_TROUBLE: Final = re.compile(
    r"\b(?:no|0|zero|without(?: any)?|(?:fixed|solved|resolved)(?: the| an?)?)"
    r" (?:more )?(?:errors?|blockers?|failures?|problems?|failed)\b"
)

_STILL_TROUBLE: Final = re.compile(
    r"\bsteps? \d+\b[^.,;:\n—–-]{0,60}\b(?:failed|fails|crashed|(?:is|are) (?:blocked"
    r"|stuck))\b"
)
_CONTRAST: Final = re.compile(r"\b(?:but|however)\b")


def choose_meaningful(messages: Sequence[Message], most: int = MOST_CHOSEN) -> tuple[Message, ...]:
    """Choose the few most meaningful messages, oldest first.

    The newest message and the last progress come first, then the newest ones about progress,
    trouble or a changed plan, or from the user, then the newest others. Alerts and lifecycle
    entries are left out, and all decisions but the newest refusal and the newest other one. Of the
    same text several times in a row, only the newest is chosen.
    """
    newest: list[Message] = []
    decided: set[bool] = set()
    for message in reversed(_leave_out_past_statuses(messages)):
        if message.msg_type in _NOISE or not message.content.strip():
            continue
        if is_decision(message):
            if is_refusal(message) in decided:
                continue
            decided.add(is_refusal(message))
        if not newest or newest[-1].content != message.content:
            newest.append(message)
    places = range(len(newest))
    progress = [i for i in places if newest[i].msg_type is MessageType.PROGRESS]
    telling = [i for i in places if _is_telling(newest[i])]
    ranked = dict.fromkeys((*places[:1], *progress[:1], *telling, *places))
    return tuple(newest[i] for i in sorted([*ranked][:most], reverse=True))


def _is_telling(message: Message) -> bool:
    kinds = (MessageType.PROGRESS, MessageType.PLAN)
    own = message.msg_type in kinds or message.role is Role.USER
    return own or _has_trouble(message)


def has_user_spoken_last(messages: Sequence[Message]) -> bool:
    """True if the user sent the last message, ignoring the system's.

    A completion settles the user's messages before it.
    """
    for message in reversed(messages):
        if lifecycle.is_completion_message(message):
            return False
        if message.role is not Role.SYSTEM:
            return message.role is Role.USER
    return False


QUESTION_PREFIX: Final = "Asked the user: "
"""Begins the thread's entry for a question to the user."""
REFUSAL_PREFIX: Final = "Not completed: "
"""Begins the thread's entry for a refused completion."""


def find_words_since(
    messages: Sequence[Message], question: str | None, since: datetime
) -> str | None:
    """Return the user's last words after the newest entry for a question; None: there are none.

    `since` is when its run came to wait, as the entry may be older than `messages`.
    """
    for message in reversed(messages):
        if message.role is Role.AGENT and message.content == f"{QUESTION_PREFIX}{question}":
            return None
        if message.role is Role.USER and message.created_at >= since:
            return message.content
    return None


def is_decision(message: Message) -> bool:
    """True if a message is the thread's entry for what was decided about its task."""
    return message.role is Role.SYSTEM and message.msg_type is MessageType.TEXT


def is_refusal(message: Message) -> bool:
    """True if a message is the thread's entry for a refused completion."""
    return is_decision(message) and message.content.startswith(REFUSAL_PREFIX)


def find_decisions(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the newest refusal and the newest other decision, oldest first.

    Those that an agent's progress, or a completion, has followed are left out.
    """
    found: dict[bool, Message] = {}
    for message in reversed(_leave_out_past_statuses(messages)):
        if lifecycle.is_completion_message(message) or _is_agents_progress(message):
            break
        if is_decision(message):
            found.setdefault(is_refusal(message), message)
    return [*reversed(found.values())]


def _leave_out_past_statuses(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages without the decisions on a status that a later change has ended."""
    last = next(filter(lifecycle.is_status_message, reversed(messages)), None)
    return [
        each
        for each in messages
        if each is last or not (is_decision(each) and lifecycle.is_status_message(each))
    ]


def _has_trouble(message: Message) -> bool:
    """True if a message says that something failed or is in the way."""
    if message.msg_type in _NOISE or is_decision(message) or _is_revision(message):
        return is_decision(message)
    content = message.content.lower()
    return bool(_TROUBLE.search(content) and _TROUBLE.search(_NO_TROUBLE.sub("", content)))


def _is_trouble_left(message: Message) -> bool:
    """True if the trouble in a message still exists.

    A progress message has overcome it, unless it says that a step failed, crashed, or is blocked or
    stuck, or names trouble after a "but" or "however".
    """
    if message.msg_type is not MessageType.PROGRESS:
        return True
    content = message.content.lower()
    besides = " ".join(_CONTRAST.split(content)[1:])
    return bool(_STILL_TROUBLE.search(content) or _TROUBLE.search(_NO_TROUBLE.sub("", besides)))


def find_trouble(messages: Sequence[Message]) -> Message | None:
    """Return the last message about trouble that no progress or completion followed; None: none.

    Decisions are left out: `find_decisions` has them.
    """
    for message in reversed(messages):
        if lifecycle.is_completion_message(message):
            return None
        is_own = not is_decision(message) and _has_trouble(message)
        if is_own and _is_trouble_left(message):
            return message
        if _is_agents_progress(message):
            return None
    return None


def _is_agents_progress(message: Message) -> bool:
    kind, content = message.msg_type, message.content
    reports = kind is MessageType.PROGRESS or sounds_like_progress(content)
    return message.role is Role.AGENT and reports


# --- step numbers of old plans -------------------------------------------------


_MOST_OLD_STEPS: Final = 3
"""Most steps of an old plan to name for one message."""
_NAMING_CHARS: Final = 2_000
"""First characters of a message in which step numbers are looked for."""


def _is_revision(message: Message) -> bool:
    """True if a message is the thread's entry for a revision of the plan."""
    return message.role is Role.SYSTEM and message.msg_type is MessageType.PLAN


class StepMentions:
    """Tells which steps the messages of a thread mean by number, after the plan was revised.

    A message means the plan of its time; a revision's own entry the plan before it.
    """

    def __init__(
        self, messages: Sequence[Message], revisions: Sequence[PlanRevision], today: Sequence[str]
    ) -> None:
        """Find the plan of each message.

        `messages` are the newest of the thread, oldest first; `revisions` are all of its plan,
        oldest first; `today` is the plan now.
        """
        self._today = today
        self._old: dict[Message, Sequence[str]] = {}
        earlier = [revision.old_plan for revision in revisions]
        plan: Sequence[str] | None = None
        for message in reversed(messages):
            if _is_revision(message) and earlier:
                plan = earlier.pop()
            if plan is not None:
                self._old[message] = plan

    def find_steps(self, message: Message) -> frozenset[int]:
        """Return the steps of today's plan that a message names by number, from 0."""
        plan = self._old.get(message)
        if plan is None:
            return find_step_numbers(message.content[:_NAMING_CHARS], len(self._today))
        moved = map_steps(plan, self._today)
        return frozenset(moved[step] for step in self._find_old(message, plan) if step in moved)

    def describe_old_steps(self, message: Message) -> str:
        """Say what a message's step numbers meant, if not the same now; empty: they mean it."""
        plan = self._old.get(message)
        if plan is None:
            return ""
        moved = map_steps(plan, self._today)
        other = [step for step in self._find_old(message, plan) if moved.get(step) != step]
        return "; ".join(
            f"step {step + 1} was {quote_step(plan[step])}"
            + (f", now step {moved[step] + 1}" if step in moved else ", in the plan no more")
            for step in other[:_MOST_OLD_STEPS]
        )

    def add_old_steps(self, text: str, message: Message) -> str:
        """Add to a message's text what its step numbers meant, if not the same now."""
        old = self.describe_old_steps(message)
        return f"{text} ({old})" if old else text

    @staticmethod
    def _find_old(message: Message, plan: Sequence[str]) -> Sequence[int]:
        return sorted(find_step_numbers(message.content[:_NAMING_CHARS], len(plan)))


# --- answers to questions -----------------------------------------------------


_MEANINGFUL_LIMIT: Final = 10
"""Meaningful messages that come first after the matches."""
_SATURATION: Final = 1.2
_LENGTH_SHARE: Final = 0.75
"""Two constants of BM25: how much less a word counts in a text that is longer than the others."""

_TROUBLE_QUESTION: Final = re.compile(
    r"\b(?:why|wrong|problems?|issues?|trouble|blockers?|blocked|stuck|bugs?"
    r"|fail\w*|err(?:or|ors|ed)|crash\w*|br[eo]ke\w*|denied|reject\w*)\b"
)
_TROUBLE_PATTERNS: Final = (
    "fail*",
    "error*",
    "denied",
    "refus*",
    "reject*",
    "crash*",
    "broken",
    "wrong",
    "cannot",
    "can t",
    "could not",
    "couldn*",
    "unable",
    "missing",
    "timed out",
    "timeout*",
    "block*",
    "stuck",
    "exception*",
    "traceback*",
    "needs",
)
"""Patterns to search for if a question asks for trouble."""
_GAP: Final = re.compile(r"[\s\"`“”«»,;!?()\[\]{}<>|…–—]+|['’]s\b")
"""Signs that part the words of a question; others join them, as in `v1.2.3` or `src/main.py`."""
_PLAN: Final = re.compile(r"\b(?:plan(?:ned)?|checklist|revis\w+)\b")
_WAITS: Final = re.compile(r"\bwait(?:s|ed|ing)?\b")
_MESSAGE_NUMBER: Final = re.compile(r"\s*(?:message|#)\s*#?([0-9]{1,12})\s*", re.IGNORECASE)


class ThreadQuery(Value):
    """A parsed question."""

    words: tuple[str, ...]
    """Patterns of its words, without common ones. Of several words, a message must have them side
    by side."""
    patterns: tuple[str, ...]
    """Patterns to search for: of its words, and of what it is about."""
    steps: frozenset[int]
    """Steps that it names by number, from 0."""
    like_steps: frozenset[int]
    """Steps that it names by their words, from 0."""
    trouble: bool
    plan: bool
    waits: bool
    message_id: int | None = None
    """The message that it asks for by number; None: it asks for none."""


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
    patterns = _build_patterns(query)
    places = _find_places(plan, patterns)
    scores = _score_texts(plan, places)
    best = max(scores.values(), default=0)
    steps = find_step_numbers(query[:_NAMING_CHARS], len(plan))
    trouble = _TROUBLE_QUESTION.search(lowered) is not None
    of_steps = [pattern for step in sorted(steps) for pattern in _build_patterns(plan[step])]
    number = _MESSAGE_NUMBER.fullmatch(query)
    return ThreadQuery(
        words=patterns,
        patterns=tuple(
            dict.fromkeys((*patterns, *of_steps, *(_TROUBLE_PATTERNS if trouble else ())))
        ),
        steps=steps,
        like_steps=frozenset(step for step in scores if scores[step] == best),
        trouble=trouble,
        plan=_PLAN.search(lowered) is not None,
        waits=_WAITS.search(lowered) is not None,
        message_id=int(number[1]) if number else None,
    )


def find_like_steps(text: str, plan: Sequence[str]) -> frozenset[int]:
    """Return the steps of a plan that have a word of a text, from 0."""
    return frozenset(_score_texts(plan, _find_places(plan, _build_patterns(text[:_NAMING_CHARS]))))


def search_thread(
    question: ThreadQuery,
    mentions: StepMentions,
    messages: Sequence[Message],
    found: Mapping[str, Collection[int]],
) -> SearchResult:
    """Order a task's thread for a question.

    Args:
        question: The parsed question.
        mentions: The steps that the messages mean.
        messages: The thread, oldest first.
        found: For each pattern of the question the ids of the messages that have its words.
    """
    for message in messages:
        if message.message_id == question.message_id:
            return SearchResult(messages=(message,), matches=1, question=question, alone=True)
    scores = _score_messages(question, mentions, messages, found)
    matching = sorted(scores, key=lambda place: (-scores[place], -place))
    telling = choose_meaningful(messages[-MOST_READ_MESSAGES:], _MEANINGFUL_LIMIT)
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


def _build_patterns(text: str) -> tuple[str, ...]:
    """Return the patterns of an English question: words that signs join make one."""
    patterns: dict[str, None] = {}
    for group in _GAP.split(text):
        words = split_words(group)[:MOST_WORDS]
        if not ENGLISH_COMMON_WORDS.issuperset(words):
            patterns[" ".join((*words[:-1], build_pattern(words[-1])))] = None
    return tuple(patterns)[:MOST_WORDS]


def _find_places(texts: Sequence[str], patterns: Sequence[str]) -> Mapping[str, list[int]]:
    """Return for each pattern the places of the texts that have it."""
    found = [find_patterns(text, patterns) for text in texts]
    places = {
        pattern: [place for place, has in enumerate(found) if pattern in has]
        for pattern in patterns
    }
    return _check_phrases(texts, places)


def _check_phrases(
    texts: Sequence[str], places: Mapping[str, Sequence[int]]
) -> Mapping[str, list[int]]:
    """Return the places at which all words of a pattern stand side by side in the text."""
    return {
        pattern: [
            place for place in here if " " not in pattern or has_phrase(texts[place], pattern)
        ]
        for pattern, here in places.items()
    }


def _score_texts(
    texts: Sequence[str], places: Mapping[str, Collection[int]]
) -> Mapping[int, float]:
    """Score each text that has a pattern, above 0 up to 1: rare patterns and short texts first.

    `places` has for each pattern the places of the texts with it.
    """
    scores: dict[int, float] = {}
    mean = sum(map(len, texts)) / max(len(texts), 1)
    for here in places.values():
        weight = math.log1p(len(texts) / (len(here) + 0.5))
        for place in here:
            length = 1 - _LENGTH_SHARE + _LENGTH_SHARE * len(texts[place]) / mean
            scores[place] = scores.get(place, 0.0) + weight / (1 + _SATURATION * length)
    best = max(scores.values(), default=1.0)
    return {place: score / best for place, score in scores.items()}


def _score_messages(
    question: ThreadQuery,
    mentions: StepMentions,
    messages: Sequence[Message],
    found: Mapping[str, Collection[int]],
) -> Mapping[int, float]:
    """Score each message that matches, by its place; higher is better."""
    numbers = {message.message_id: place for place, message in enumerate(messages)}
    places = {
        pattern: [numbers[each] for each in ids if each in numbers]
        for pattern, ids in found.items()
    }
    texts = [message.content for message in messages]
    scores = dict(_score_texts(texts, _check_phrases(texts, places)))
    asked = question.steps | question.like_steps
    for place, message in enumerate(messages):
        score = scores.get(place, 0.0)
        if score and message.role is Role.SYSTEM:
            score /= 2
        if score and question.trouble and _has_trouble(message):
            score += 1.0
        if asked:
            about = mentions.find_steps(message)
            score += 1.0 if about & question.steps else 0.0
            score += 0.5 if about & question.like_steps else 0.0
        score += question.plan and message.msg_type is MessageType.PLAN
        score += question.waits and message.msg_type is MessageType.WAIT
        if score:
            scores[place] = round(score, 6)
    return scores

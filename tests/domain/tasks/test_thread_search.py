"""In which order a thread's messages answer a question."""

from __future__ import annotations

from datetime import timedelta

import pytest

from openclaw_taskmem.domain.tasks.thread import (
    SearchResult,
    StepMentions,
    parse_query,
    search_thread,
)
from taskmem_hookspecs import Message, MessageType, Role
from taskmem_hookspecs.testing import DAWN, a_message
from taskmem_hookspecs.words import find_patterns

PLAN = ("Build it", "Push to registry", "Log in")


def say(*said: str | Message) -> list[Message]:
    return [
        (a_message(content=each) if isinstance(each, str) else each).model_copy(
            update={"message_id": place, "created_at": DAWN + timedelta(seconds=place)}
        )
        for place, each in enumerate(said, start=1)
    ]


def answer(query: str, *said: str | Message) -> SearchResult:
    question, messages = parse_query(query, PLAN), say(*said)
    found: dict[str, list[int]] = {pattern: [] for pattern in question.patterns}
    for message in messages:
        for pattern in find_patterns(message.content, question.patterns):
            found[pattern].append(message.message_id)
    return search_thread(question, StepMentions(messages, (), PLAN), messages, found)


def search(query: str, *said: str | Message) -> list[str]:
    """Return the messages that match, best first."""
    found = answer(query, *said)
    return [message.content for message in found.messages[: found.matches]]


def system(content: str, msg_type: MessageType) -> Message:
    return a_message(content=content, role=Role.SYSTEM, msg_type=msg_type)


def test_a_step_brings_the_messages_that_name_it() -> None:
    said = ("step 3 works", "Step two went well", "lunch")

    assert search("step 2?", *said) == ["Step two went well"]
    assert search("how is the registry?", *said) == ["Step two went well"]


def test_a_step_brings_the_messages_that_hold_its_words() -> None:
    assert search("step 2?", "the registry is slow", "lunch") == ["the registry is slow"]


def test_why_brings_the_messages_with_trouble() -> None:
    said = ("disk is full, aborted with an error", "0 errors", "lunch", "all denied")

    assert search("why?", *said)[:2] == ["all denied", said[0]]
    assert "lunch" not in search("what went wrong?", *said)


def test_trouble_with_the_step_asked_for_comes_first() -> None:
    said = ("step 3 failed: denied", "step 2 failed: timed out", "step 3 again")

    assert search("why did step 2 fail?", *said)[0] == said[1]


def test_plan_brings_its_revisions_and_wait_how_waits_ended() -> None:
    revised = system("Scan first", MessageType.PLAN)
    ended = system("Not met after 60 s", MessageType.WAIT)

    assert search("was the plan changed?", revised, ended) == ["Scan first"]
    assert search("am I waiting?", revised, ended) == ["Not met after 60 s"]


def test_what_the_system_notes_stands_behind_the_agents_words() -> None:
    alert = system("Task is silent at the push", MessageType.STUCK)

    assert search("push?", "the push is slow, and that is so for hours", alert) == [
        "the push is slow, and that is so for hours",
        alert.content,
    ]


def test_a_word_also_finds_the_longer_ones_that_begin_with_it() -> None:
    assert search("config?", "the configuration is at /etc/app", "lunch") == [
        "the configuration is at /etc/app"
    ]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("is v1.2.3 out?", ["Tagged v1.2.3"]),
        ("192.168.0.2", []),
        ("what of `src/app/main.py`", ["edited src/app/main.py"]),
        ("the e-mails", ["Sent an E-Mail"]),
        ("café/menü", ["CAFE/MENU printed"]),
        ("which don't?", ["I don't know"]),
        ("the app's name", ["edited src/app/main.py", "the src of the app: main, py"]),
    ],
)
def test_words_that_a_question_joins_are_found_joined(query: str, found: list[str]) -> None:
    others = ("Step 2 done", "3 files left, 1 of 2 in v1", "the src of the app: main, py", "done")
    wanted = ("Tagged v1.2.3", "edited src/app/main.py", "Sent an E-Mail", "CAFE/MENU printed")
    said = (*others, "mail e", *wanted, "I don't know")

    assert search(query, *said) == found


def test_a_word_counts_that_is_grammar_in_another_language() -> None:
    assert search("why did it die in the war?", "the war", "many died", "lunch") == [
        "the war",
        "many died",
    ]


def test_without_words_the_telling_messages_come_first() -> None:
    said = ("push denied", *(f"looking {number}" for number in range(20)))
    found = answer("where am I on this task?", *said)

    assert found.matches == 0
    first = [message.content for message in found.messages[:10]]
    assert first[0] == "looking 19"
    assert "push denied" in first
    assert len(found.messages) == 21

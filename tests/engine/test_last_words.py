"""What an agent said last in a round that a wake of ours began."""

from __future__ import annotations

from openclaw_taskmem.domain.changes.continuation import Origin
from taskmem_hookspecs import EventQuery
from tests.support.sessions import MAIN, Session


def words_told(session: Session) -> list[tuple[object, object]]:
    found = session.world.store.find_events(EventQuery())
    words = [event.data for event in found if event.data.get("about") == "words"]
    return [(data["session_key"], data["line"]) for data in words]


def test_words_of_rounds_between_are_not_told(session: Session) -> None:
    session.register()
    session.ends("Done with one.", words="Done with one.")

    assert words_told(session) == []


def test_words_of_the_round_that_ends_the_task_are_told(session: Session) -> None:
    task = session.register()
    session.call("task_update", task_id=task, status="completed")
    session.ends("All is done.", words="All is done.")

    assert words_told(session) == [(MAIN, "All is done.")]


def test_words_of_a_round_that_asks_are_told(session: Session) -> None:
    session.register()
    session.asks("Shall I go on?", words="One is done. Shall I go on?")

    assert words_told(session) == [(MAIN, "One is done. Shall I go on?")]


def test_words_that_only_ask_again_are_not_told(session: Session) -> None:
    session.register()
    session.asks("Shall I go on?", words="Shall I\ngo on? ")

    assert words_told(session) == []
    assert session.lines[-1].endswith(": Shall I go on?")


def test_a_long_question_is_told_whole_and_once(session: Session) -> None:
    task = session.register()
    long = f"Shall I go on with {'this and that, ' * 60}?"
    options = ["Yes", "No"]
    session.call("task_update", task_id=task, ask=long, ask_options=options)
    session.ends(long, words=long)

    assert words_told(session) == []
    assert session.lines[-1] == f"Deploy: {long} (Yes / No)"


def test_words_of_a_wake_without_a_task_are_told(session: Session) -> None:
    session.ends("The build is over.", words="The build is over.")

    assert words_told(session) == [(MAIN, "The build is over.")]


def test_words_of_a_round_that_a_user_spoke_into_are_told(session: Session) -> None:
    session.register()
    session.ends("Half of it is done.", words="Half of it is done.", origin=Origin.USER)

    assert words_told(session) == [(MAIN, "Half of it is done.")]


def test_words_of_a_turn_that_failed_are_not_told(session: Session) -> None:
    session.ends("", words="Half a", error="503 overloaded")

    assert words_told(session) == []


def test_a_reply_that_says_nothing_to_the_user_is_not_told(session: Session) -> None:
    session.ends("", words="NO_REPLY")

    assert words_told(session) == []

"""What the user is told of a run: a line each, and who reads it."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.text.texts import count_json_bytes
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.domain.wakes.notices import Milestone, NoticeKind, Notify
from taskmem_hookspecs import Event, TaskFacts
from taskmem_hookspecs.testing import DAWN, a_run, a_task, a_wait
from tests.support.owners import SESSIONS

HIDDEN = {"implicit": True}
NOW = DAWN + timedelta(minutes=10)


@pytest.mark.parametrize(
    ("which", "line"),
    [
        ("accepted", "Deploy the site: accepted, 3 steps."),
        ("started", "Deploy the site: started."),
        ("completed", "Deploy the site: completed."),
        ("failed", "Deploy the site: failed."),
    ],
    ids=["accepted", "started", "completed", "failed"],
)
def test_each_milestone_is_one_line(which: str, line: str) -> None:
    told = notices.build_milestone(Milestone(which), a_task(), a_run(), NOW)

    assert (told.kind, told.at) == ("milestone", NOW)
    assert (told.task_id, told.run_id) == ("task_1", "run_1")
    assert (told.data["name"], told.data["line"]) == (which, line)


def test_there_are_five_milestones_and_no_chatter() -> None:
    """Source: docs/origins.md, "Milestones"."""
    assert [*Milestone] == ["accepted", "started", "tool_write_verified", "completed", "failed"]


def test_what_there_is_to_add_stands_with_the_milestone() -> None:
    told = notices.build_milestone(Milestone.FAILED, a_task(), a_run(), NOW, "why\nnot")

    assert told.data["line"] == "Deploy the site: failed. Why not"


def test_a_notice_names_what_it_is_about() -> None:
    told = notices.build_notice(NoticeKind.STALE, a_task(), a_run(), "It waits.", NOW)

    assert (told.kind, told.data["about"]) == ("notice", "stale")
    assert told.data["line"] == "It waits."


def test_both_kinds_are_said_to_the_user() -> None:
    assert {events.MILESTONE, events.NOTICE} <= events.LINE_KINDS


@pytest.mark.parametrize(
    ("told", "of_run", "of_task", "session"),
    [
        ("agent:main:main", "agent:main:taskmem:run_1", "agent:x", "agent:main:main"),
        (None, "agent:main:work", "agent:x", "agent:main:work"),
        (None, None, "agent:x", "agent:x"),
        (None, None, None, None),
    ],
    ids=["background", "its-own", "its-tasks", "none"],
)
def test_a_line_goes_to_who_asked_for_the_run(
    told: str | None, of_run: str | None, of_task: str | None, session: str | None
) -> None:
    run = a_run(told_session=told, session_key=of_run)
    task = a_task(session_key=of_task)

    notice = notices.build_notice(NoticeKind.RESUMED, task, run, "y", NOW)
    assert notice.data["session_key"] == session
    milestone = notices.build_milestone(Milestone.STARTED, task, run, NOW)
    assert milestone.data["session_key"] == session


NASTY = st.text(max_size=3000) | st.text(
    alphabet="\x1b\x9b\u202e\u2028\n\r\t\0[]system ", max_size=600
)


@given(name=NASTY, said=NASTY)
@example(name="é" * 900, said="é" * 900)
def test_notice_is_one_short_printable_line_whatever_is_said(name: str, said: str) -> None:
    task = a_task(name=name)

    for told in (
        notices.build_milestone(Milestone.FAILED, task, a_run(), NOW, said),
        notices.build_notice(NoticeKind.RESUMED, task, a_run(), f"{name}: {said}", NOW),
    ):
        line = str(told.data["line"])
        assert count_json_bytes(line) <= notices.LINE_BYTES
        assert line.isprintable()


@pytest.mark.parametrize("marker", ["[system]", "[task_stuck_resume]", "[task_resume]"])
def test_no_line_can_pass_for_a_wake(marker: str) -> None:
    told = notices.build_notice(NoticeKind.RESUMED, a_task(), a_run(), f"{marker} {{}}", NOW)

    assert "[" not in str(told.data["line"])


# --- several entries are one message --------------------------------------------


def entry(about: str, seconds: float, task_id: str = "task_1") -> Event:
    """An entry of a session, so many seconds after the first."""
    at, task = NOW + timedelta(seconds=seconds), a_task(task_id=task_id)
    if about in [*Milestone]:
        return notices.build_milestone(Milestone(about), task, a_run(), at)
    return notices.build_notice(NoticeKind(about), task, a_run(), f"{about}.", at)


WITHIN = NOW + notices.COALESCING_TIME
"""When what begins at NOW is complete."""


@pytest.mark.parametrize(
    ("waiting", "message"),
    [
        ([("accepted", 0)], (1, WITHIN)),
        ([("accepted", 0), ("started", 4.9)], (2, WITHIN)),
        ([("accepted", 0), ("started", 5)], (1, None)),
        ([("failed", 0), ("accepted", 1)], (1, None)),
        ([("accepted", 0), ("started", 1), ("question", 2)], (2, None)),
        ([("question", 0), ("question", 1)], (1, None)),
    ],
    ids=["alone", "close", "apart", "failure", "question-flushes", "each-alone"],
)
def test_what_comes_close_together_is_one_message(
    waiting: list[tuple[str, float]], message: tuple[int, datetime | None]
) -> None:
    assert notices.find_next_message([entry(*each) for each in waiting]) == message


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["accepted", "started", "question", "failed", "progress"]),
            st.floats(0, 20),
        ),
        min_size=1,
    )
)
def test_nothing_is_left_out_nor_told_out_of_order(waiting: list[tuple[str, float]]) -> None:
    left = [entry(*each) for each in sorted(waiting, key=lambda each: each[1])]
    while left:
        number, complete = notices.find_next_message(left)
        assert 1 <= number <= len(left)
        assert complete is None or number == len(left)
        left = left[number:]


def test_the_start_of_a_task_is_one_line() -> None:
    entries = [entry("accepted", 0), entry("started", 1), entry("started", 2, "task_2")]

    assert notices.format_message(entries).splitlines() == [
        "Deploy the site: accepted and started, 3 steps.",
        "Deploy the site: started.",
    ]


def test_two_tasks_of_one_name_are_both_told_of() -> None:
    twice = [entry("completed", 0), entry("completed", 1)]
    entries = [*twice, entry("completed", 2, "task_2")]

    lines = notices.format_message(entries).splitlines()
    assert lines == [twice[0].data["line"]] * 2


@pytest.mark.parametrize(
    ("notify", "told"),
    [
        ("milestones", {"accepted", "completed", "failed", "question", "words"}),
        ("important", {"completed", "failed", "question", "words"}),
        ("off", {"question", "words"}),
    ],
)
def test_the_user_chooses_what_is_told(notify: str, told: set[str]) -> None:
    every = {"accepted", "completed", "failed", "question", "words"}
    wanted = {a for a in every if notices.is_wanted(entry(a, 0), Notify(notify))}

    assert wanted == told


@pytest.mark.parametrize(
    ("told", "session", "in_chat"),
    [(None, "agent:main:work", True), ("agent:main:main", "agent:main:main", False)],
    ids=["its-own", "background"],
)
def test_last_words_go_whole_to_who_hears_of_the_run(
    told: str | None, session: str, in_chat: bool
) -> None:
    said = "All is done.\n\n" + "x" * 5_000
    run = a_run(told_session=told)
    words = notices.build_last_words(run, "agent:main:work", said, NOW)

    assert words.data["session_key"] == session
    assert (words.data["line"], words.data["in_chat"]) == (said, in_chat)


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("Deploy\nthe site", "Deploy the site"),
        ("Deploy it, then tell everybody about that", "Deploy it, then tell everybody"),
        ("x" * 90, "x" * 37),
    ],
)
def test_a_task_is_called_by_the_first_words_of_its_name(name: str, called: str) -> None:
    assert notices.format_command_name(a_task(name=name)) == called


# --- what a card would show -----------------------------------------------------------


def test_a_wait_that_begins_is_told_where_its_user_is() -> None:
    run = a_run(session_key="agent:main:taskmem:run_1", told_session="agent:main:main")
    facts = TaskFacts(task=a_task(), run=run)
    (told,) = notices.build_wait_notices(a_wait(), facts, SESSIONS, NOW)
    said = "Deploy the site: waiting, up to 5 min, for build until the build has ended."
    assert (told.data["line"], told.data["session_key"]) == (said, "agent:main:main")


@pytest.mark.parametrize(
    ("wait", "task"),
    [({}, {}), ({"session_key": "main"}, {}), ({"session_key": "agent:a:b"}, HIDDEN)],
)
def test_a_wait_that_no_user_sees_is_told_to_none(
    wait: dict[str, object], task: dict[str, object]
) -> None:
    facts = TaskFacts(task=a_task(**task))
    assert notices.build_wait_notices(a_wait(**wait), facts, SESSIONS, NOW) == ()


def test_steps_and_waits_are_small_and_milestones_are_not() -> None:
    done = notices.build_steps_done(a_task(done={0}), a_run(), frozenset({0}), NOW)
    (waits,) = notices.build_wait_notices(
        a_wait(session_key="agent:main:main"), None, SESSIONS, NOW
    )
    assert notices.is_small(done)
    assert notices.is_small(waits)
    assert waits.data["line"] == "Waiting, up to 5 min, for build until the build has ended."
    assert not notices.is_small(entry("started", 0))
    assert done.data["line"] == 'Deploy the site: 1 of 3 steps done: "Build it".'

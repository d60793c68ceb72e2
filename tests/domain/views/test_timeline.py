"""The story of a task, its runs over time, and its state at any instant."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.effects.checkpoints import PastCall
from openclaw_taskmem.domain.views.timeline import (
    EntryKind,
    Tone,
    build_run_bars,
    build_timeline,
    find_whole_part,
    tell_event,
)
from taskmem_hookspecs import Event, MessageType, Role, RunState, TaskStatus
from taskmem_hookspecs.testing import DAWN, a_message, a_task

NOW = DAWN + timedelta(hours=1)


def an_entry(kind: str, minute: int = 0, **data: Any) -> Event:
    at = DAWN + timedelta(minutes=minute)
    return Event(event_id=minute + 1, at=at, kind=kind, task_id="task_1", run_id="run_1", data=data)


@pytest.mark.parametrize(
    ("kind", "data", "title", "text", "tone"),
    [
        (events.TASK_REGISTERED, {"steps": 2}, "Registered with 2 steps", "", "plain"),
        (events.TASK_STUCK, {}, "Silent for too long; a wake is due for its agent", "", "warn"),
        (events.TASK_UPDATED, {"marked": [0, 1]}, "Ticked by its agent: step 1-2", "", "plain"),
        (events.TASK_UPDATED, {"unmarked": [2]}, "Reopened: step 3", "", "plain"),
        (
            events.STATUS_CHANGED,
            {"to": "failed", "why": "round_limit"},
            *("Task failed", "its agent was told to go on too often", "bad"),
        ),
        (events.STATUS_CHANGED, {"to": "paused", "by": "user"}, "Task paused by you", "", "plain"),
        (events.RUN_CHANGED, {"from": None, "to": "queued"}, "Work begins", "", "plain"),
        (
            events.RUN_CHANGED,
            {"from": "queued", "to": "running", "owner": {"role": "main"}},
            *("Taken up by main", "", "plain"),
        ),
        (events.RUN_CHANGED, {"from": "blocked", "to": "running"}, "Work goes on", "", "plain"),
        (
            events.RUN_CHANGED,
            {"from": "running", "to": "review", "why": "handed_off"},
            *("Handed to you for review", "", "warn"),
        ),
        (
            events.RUN_CHANGED,
            {"from": "running", "to": "blocked", "why": "stale"},
            "Work stopped",
            "it was interrupted too long ago to go on without asking you",
            "warn",
        ),
        (
            events.WAIT_OPENED,
            {
                "target": "pty:build",
                "wake_when": "it ends",
                "timeout": 60.0,
                "understood": [
                    {"side": "it ends", "judged_by": "rules"},
                    {"side": "it looks odd", "judged_by": "gemini"},
                ],
            },
            "Waits for build",
            "until it ends\nfor 1 minute at most;\nit looks odd: gemini decides",
            "plain",
        ),
        (
            events.WAIT_ENDED,
            {"status": "timeout", "elapsed_seconds": 60.0, "observation": "Nothing."},
            *("Wait timeout after 1 minute", "Nothing.", "warn"),
        ),
        (
            events.WAKE_FAILED,
            {"error": "No gateway."},
            *("Wake not delivered", "No gateway.", "warn"),
        ),
        (events.WAKE_ACKNOWLEDGED, {}, "The agent acted on it", "", "good"),
        (
            events.EVIDENCE_CHECKED,
            {"checked": [{"kind": "file", "subject": "a.md", "verdict": "verified"}]},
            "Task memory looked at what was made",
            "a.md: exists, is not empty, and was created or changed during the task",
            "good",
        ),
        (
            events.EVIDENCE_CHECKED,
            {"checked": [{"kind": "own", "subject": "a", "verdict": "refuted"}]},
            *("Task memory looked at what was made", "a: tested, and not so", "bad"),
        ),
        (
            events.COMPLETION_REFUSED,
            {"missing": "There is no a.md."},
            *("Completion refused", "There is no a.md.", "bad"),
        ),
        (
            events.NOTICE,
            {"line": "Deploy: started."},
            *("For you", "Deploy: started.", "plain"),
        ),
    ],
)
def test_log_entries_are_told_in_words(
    kind: str, data: dict[str, Any], title: str, text: str, tone: str
) -> None:
    [entry] = build_timeline([an_entry(kind, **data)], (), ())
    assert (entry.title, entry.text, entry.tone) == (title, text, tone)


def test_on_one_line_the_results_of_an_entry_stand_apart() -> None:
    rows = [
        {"kind": "file", "subject": "a.md", "verdict": "refuted"},
        {"kind": "command", "subject": "build", "verdict": "verified"},
    ]
    assert tell_event(an_entry(events.EVIDENCE_CHECKED, checked=rows)) == (
        "Task memory looked at what was made: a.md: was not found as "
        "the task needs it; build: ended well"
    )


@pytest.mark.parametrize("kind", [events.TURN_STOPPED, events.QUESTION_LOST, "of a later version"])
def test_what_others_tell_has_no_entry(kind: str) -> None:
    assert build_timeline([an_entry(kind), an_entry(events.TASK_UPDATED)], (), ()) == []


def test_messages_and_calls_stand_where_they_happened() -> None:
    call = PastCall(tool="exec", about="make", ok=None, at=DAWN + timedelta(minutes=2))
    said = a_message(content="Hello", created_at=DAWN + timedelta(minutes=1))
    log = [an_entry(events.WAKE_SENT, 0), an_entry(events.WAKE_ACKNOWLEDGED, 3)]

    found = build_timeline(log, [said], [call])

    assert [each.kind for each in found] == [
        *(EntryKind.WAKE, EntryKind.MESSAGE, EntryKind.CALL, EntryKind.WAKE),
    ]
    assert (found[2].title, found[2].tone) == ("Command: its end was not seen", Tone.WARN)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("Status: active → failed. No flour.", ["No flour."]),
        ("Status: active → completed", []),
        ("Claimed by main.", ["Claimed by main."]),
    ],
)
def test_the_names_of_states_are_not_told(content: str, told: list[str]) -> None:
    said = a_message(content=content, role=Role.SYSTEM, msg_type=MessageType.LIFECYCLE)
    assert [each.text for each in build_timeline((), [said], ())] == told


def test_a_run_is_a_bar_of_its_states() -> None:
    log = [
        an_entry(events.RUN_CHANGED, 0, **{"from": None, "to": "queued"}),
        an_entry(events.RUN_CHANGED, 1, to="running", owner={"role": "main"}, **{"from": "queued"}),
        an_entry(events.RUN_CLAIMED, 2, owner={"role": "other"}),
        an_entry(events.RUN_CHANGED, 5, to="blocked", why="question", **{"from": "running"}),
    ]

    [bar] = build_run_bars(log, NOW)

    assert bar.owner == "other"
    minutes = [
        tuple(int((at - DAWN).total_seconds() / 60) for at in (span.began_at, span.ended_at))
        for span in bar.spans
    ]
    assert minutes == [(0, 1), (1, 5), (5, 60)]
    assert [(span.state, span.why) for span in bar.spans] == [
        *((RunState.QUEUED, ""), (RunState.RUNNING, ""), (RunState.BLOCKED, "its agent asks you")),
    ]


def test_a_thinned_log_tells_its_newest_whole_part() -> None:
    task, log = a_task(), [an_entry(events.PLAN_REVISED, number) for number in range(4)]
    log = [each.model_copy(update={"event_id": number}) for number, each in enumerate(log, 1)]

    assert find_whole_part(task, log, 2) == log  # nothing is dropped of an open task
    ended = task.model_copy(update={"status": TaskStatus.CANCELLED})
    assert find_whole_part(ended, log, 2) == log[2:]
    assert find_whole_part(ended, log, 0) == log

"""`/tasks`, `/resume` and `/cancel`, as a person says them in a session's chat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openclaw_taskmem.domain.callers import RunningWork
from openclaw_taskmem.domain.views.user_actions import Command
from openclaw_taskmem.domain.wakes import notices
from openclaw_taskmem.engine import notifications, user_actions
from openclaw_taskmem.engine.notifications import NotificationKind
from openclaw_taskmem.engine.user_actions import CommandReply, run_command
from taskmem_hookspecs import Change, RunState, TaskStatus
from taskmem_hookspecs.errors import NotAllowed
from tests.support.sessions import Session


def says(session: Session, command: str, words: str = "") -> CommandReply:
    return run_command(session.world.context, Command(command), words, session.caller)


def list_numbered(session: Session) -> list[str]:
    """Return the sessions whose tasks have numbers."""
    found = session.world.context.store.read_bookmark(user_actions.LISTED_BOOKMARK)
    return [*json.loads(found or "{}")]


def packet_of(reply: CommandReply) -> dict[str, object]:
    marker, _, packet = (reply.packet or "").partition(" ")
    assert marker == "[task_resume]"
    return json.JSONDecoder().raw_decode(packet)[0]


def wakes_of(session: Session) -> list[str]:
    return [wake.text for wake in session.world.wakes() if wake.state == "due"]


def move_to_background(session: Session) -> tuple[str, Session]:
    """Take up a task and move it to a session of its own, whose turn begins."""
    task = session.takes_up()
    session.call("task_background", task_id=task)
    away = Session(session.world, session.run(task).session_key or "")
    away.begins()
    return task, away


def test_tasks_lists_open_background_and_last_ended_tasks(session: Session, other: Session) -> None:
    for number in range(5):
        task = session.takes_up(name=f"Old {number}")
        session.call("task_update", task_id=task, status="failed")
        session.world.clock.tick(60)
    away = session.takes_up(name="Away")
    session.call("task_background", task_id=away)
    session.takes_up(name="Here")
    other.takes_up(name="Theirs")

    assert says(session, "tasks").text.splitlines()[:-1] == [
        "1. Here: step 1 of 4 (Build the image); at work.",
        "2. Away: step 1 of 4 (Build the image); in the background.",
        "3. Old 4: failed 1 min ago.",
        "4. Old 3: failed 2 min ago.",
        "5. Old 2: failed 3 min ago.",
    ]


def test_an_ended_task_that_was_in_the_background_is_listed(session: Session) -> None:
    task = session.takes_up(name="Away")
    session.call("task_background", task_id=task)
    says(session, "cancel")

    assert says(session, "tasks").text == (
        "1. Away: cancelled 0 s ago.\n/resume NUMBER resumes one."
    )


def test_implicit_task_is_unlisted_but_resumed_when_alone(session: Session) -> None:
    task = session.takes_up()
    found = session.world.store.read_task(task).task
    implicit = found.model_copy(update={"implicit": True})
    session.world.context.commit(Change(tasks=(implicit,)))

    assert says(session, "tasks").text == "This chat has no tasks."
    assert packet_of(says(session, "resume"))["task_id"] == task


def test_a_resumed_task_brings_its_packet_with_what_was_said(session: Session) -> None:
    task = session.takes_up()
    session.ends(aborted=True)

    reply = says(session, "resume", "eu-west,  if free")

    assert (reply.text, reply.task_id) == ("", task)
    assert packet_of(reply)["plan"]
    # It had asked nothing.
    assert (reply.packet or "").endswith('The user says: "eu-west,  if free"')
    assert session.run(task).state is RunState.RUNNING


def test_task_stays_blocked_while_its_agent_is_told_the_answer(session: Session) -> None:
    task = session.takes_up()
    session.asks("Shall I delete the old drafts?")

    reply = says(session, "resume", "no")

    told = 'Deploy: its agent is told your answer: "no".'
    assert reply == CommandReply(text=f'{told} It had asked: "Shall I delete the old drafts?"')
    [wake] = session.world.deliver()
    assert 'asked the user: "Shall I delete the old drafts?"' in wake.text
    assert 'The user answered: "no"' in wake.text
    assert session.run(task).state is RunState.BLOCKED

    says(session, "resume", "not in May either")
    [wake] = session.world.deliver()
    assert 'The user answered: "not in May either"' in wake.text
    assert session.run(task).state is RunState.BLOCKED


def test_a_task_that_asks_is_not_resumed_without_an_answer(session: Session) -> None:
    task = session.takes_up()
    session.asks("Shall I delete the old drafts?")

    reply = says(session, "resume")

    question, packet = (reply.packet or "").split("\n\n")
    assert 'asked the user: "Shall I delete the old drafts?"' in question
    assert packet.startswith("[task_resume] ")
    assert session.world.deliver() == []
    assert session.run(task).state is RunState.BLOCKED


def test_a_question_is_shown_again_to_who_names_its_task(session: Session) -> None:
    task = session.takes_up()
    session.asks("Shall I delete the old drafts?")
    says(session, "tasks")

    reply = says(session, "resume", "1")

    shown, how = reply.text.splitlines()
    assert shown.endswith("; asks you: Shall I delete the old drafts?")
    assert how == "Answer by writing, or with /resume 1 YOUR ANSWER."
    assert (reply.packet, session.world.deliver()) == (None, [])
    assert session.run(task).state is RunState.BLOCKED


def test_a_long_answer_is_shortened_in_its_receipt(session: Session) -> None:
    session.takes_up()
    session.asks("Which region?")

    receipt = says(session, "resume", "north " * 50).text

    assert receipt.endswith('north nor…". It had asked: "Which region?"')


def test_an_agent_that_brings_the_answer_reads_that_it_is_one(session: Session) -> None:
    task = session.takes_up()
    session.asks("Which region?")
    session.begins()
    session.request = "In eu-west."

    answer = session.call("task_resume", task_id=task, answer="eu-west")

    assert answer["packet"].endswith('The user answers: "eu-west"')


def test_resume_shows_the_question_of_a_background_task(session: Session) -> None:
    task, away = move_to_background(session)
    away.asks("Shall I delete the old drafts?")

    shown, how = says(session, "resume").text.splitlines()

    assert shown.endswith("; asks you: Shall I delete the old drafts?")
    assert how == "Answer with /resume 1 YOUR ANSWER."
    assert session.run(task).state is RunState.BLOCKED


def test_task_number_keeps_its_meaning_until_the_next_list(session: Session) -> None:
    first = session.takes_up(name="First")
    session.world.clock.tick(1)
    second = session.register(name="Second")
    assert says(session, "tasks").text.startswith("1. Second")

    session.world.clock.tick(1)
    session.call("task_update", task_id=first, message="I am at it.")
    session.register(name="Third")
    assert says(session, "cancel", "1").text.startswith("Second: cancelled")
    session.call("task_update", task_id=first, status="failed")
    assert says(session, "cancel", "2").text.startswith("2. First: failed")
    assert says(session, "cancel", "3").text.startswith("Third: cancelled")

    assert session.world.task(second).status is TaskStatus.CANCELLED
    assert says(session, "tasks").text.startswith("1. First: failed")


def test_numbers_are_kept_of_the_sessions_that_were_listed_last(
    session: Session, other: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (session, other):
        each.takes_up()
        says(each, "tasks")
    says(session, "tasks")
    assert list_numbered(session) == [other.key, session.key]

    monkeypatch.setattr(user_actions, "MOST_LISTED", 1)
    says(other, "tasks")

    assert list_numbered(session) == [other.key]


def test_resume_of_a_background_task_is_answered_without_a_turn(session: Session) -> None:
    task = session.takes_up()
    session.call("task_background", task_id=task)

    reply = says(session, "resume", "deploy eu-west")

    said = "Deploy: its agent is told so, and goes on in the background."
    assert reply == CommandReply(text=said)
    assert [text for text in wakes_of(session) if 'The user says: "eu-west"' in text]
    said = "Deploy: its agent goes on in the background."
    assert says(session, "resume").text == said


def test_an_agent_that_resumes_what_is_away_gets_no_plan_of_it(session: Session) -> None:
    task = session.takes_up()
    session.call("task_background", task_id=task)

    answer = session.call("task_resume", task_id=task, answer="eu-west")

    packet = json.loads(answer["packet"].partition(" ")[2])
    assert packet.keys() == {"v", "wake_id", "task_id", "name", "status", "reason"}
    assert "in the background" in packet["reason"]


def test_whoever_cancels_reads_that_once_in_words(session: Session) -> None:
    task = session.takes_up()
    lines = session.lines

    reply = says(session, "cancel", "dep")

    assert reply.text == "Deploy: cancelled; what was done so far is kept."
    assert session.lines == lines
    assert session.run(task).state is RunState.CANCELLED


def test_whoever_cancels_reads_which_question_is_dropped(session: Session) -> None:
    session.takes_up()
    session.asks("Shall I delete the old drafts?")

    reply = says(session, "cancel")

    assert reply.text.endswith(
        'is kept. "Shall I delete the old drafts?" is not to be answered any more.'
    )


def test_whoever_cancels_reads_which_review_is_dropped(session: Session, tmp_path: Path) -> None:
    task = session.takes_up()
    session.writes(tmp_path / "report.md")
    session.call("task_handoff", task_id=task)

    reply = says(session, "cancel")

    assert reply.text.endswith("You need not review it any more (not verified: report.md).")


def test_whoever_cancels_reads_what_still_runs(session: Session) -> None:
    session.takes_up()
    since = session.world.clock.now()
    sleep, unknown = (
        RunningWork(kind="command", name=name, about=about, since=since)
        for name, about in (("calm-cove", "sleep 61"), ("wild-moss", ""))
    )
    session.world.context.live.running_work[session.key] = (sleep, unknown)

    reply = says(session, "cancel")

    assert reply.text.endswith("is kept. Still running: sleep 61, wild-moss.")


def test_a_list_says_why_a_task_has_failed_as_its_user_was_told(session: Session) -> None:
    session.works()
    session.ends(error="The model is unknown", reason="refused")
    why = "The model's provider failed 1 time: The model is unknown."
    assert session.lines[-1] == f"Deploy: failed. {why} /resume tries again."

    assert says(session, "tasks").text.splitlines()[0] == f"1. Deploy: failed 0 s ago. {why}"


def test_a_task_that_is_resumed_is_not_accepted_anew(session: Session) -> None:
    task = session.works()
    session.call("task_abort", task_id=task, reason="No way.")

    says(session, "resume", "Deploy")
    session.does("echo two")

    accepted = [line for line in session.lines if "accepted" in line]
    assert accepted == ["Deploy: accepted, 4 steps."]
    assert session.lines[-1] == "Deploy: started."


@pytest.mark.parametrize(
    ("status", "told"), [("cancelled", ""), ("completed", "Deploy: accepted and started, 4 steps.")]
)
def test_start_notice_is_omitted_for_a_task_cancelled_since(
    session: Session, status: str, told: str
) -> None:
    task = session.works()
    session.call("task_update", task_id=task, status=status)
    lines, _ = notifications.find_due_events(session.world.context, NotificationKind.LINES, 0)
    begun = [event for event in lines if notices.is_beginning(event)]

    assert notifications.build_session_notice(session.world.context, begun).text == told


def test_a_refusal_names_the_task_in_words(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = session.takes_up()
    listed = session.world.store.read_task(task)
    session.call("task_update", task_id=task, status="completed")
    ended = session.world.store.read_task
    read = iter([listed, listed])
    monkeypatch.setattr(
        session.world.context.store, "read_task", lambda task_id: next(read, ended(task_id))
    )
    monkeypatch.setattr(session.world.store, "find_tasks", lambda *_, **__: [listed.task])

    reply = says(session, "cancel")

    assert reply.text.startswith("Deploy is completed")


def test_what_is_at_work_in_the_background_is_left_alone(session: Session) -> None:
    task, _ = move_to_background(session)

    reply = says(session, "resume", "eu-west")

    assert reply.text.endswith("It is worked on already, and asks nothing.")
    assert session.run(task).state is RunState.RUNNING


def test_idle_background_task_is_not_reported_as_worked_on(session: Session) -> None:
    task, away = move_to_background(session)
    away.ends()

    assert session.run(task).state is RunState.RUNNING
    assert says(session, "resume", "eu-west").text.endswith(
        "No turn works on it now; it goes on with its next, and asks nothing."
    )


def test_what_waits_in_the_background_is_said_to_wait(session: Session) -> None:
    task, away = move_to_background(session)
    arguments = {"target": "pty:build", "wake_when": '"done" appears', "timeout": 300}
    away.call("smart_wait", task_id=task, **arguments)
    away.ends()

    assert says(session, "resume", "eu-west").text.endswith(
        "It goes on when what it waits for has come, and asks nothing."
    )


def test_a_person_reopens_what_they_have_cancelled(session: Session) -> None:
    task = session.takes_up()
    says(session, "cancel", "1")

    reply = says(session, "resume", "1")

    assert (reply.task_id, session.world.task(task).status) == (task, TaskStatus.ACTIVE)


@pytest.mark.parametrize(
    ("tool", "given"), [("task_update", {"status": "active"}), ("task_resume", {})]
)
def test_an_agent_undoes_no_cancel_of_the_users(
    session: Session, tool: str, given: dict[str, str]
) -> None:
    task = session.takes_up()
    says(session, "cancel", "1")
    session.begins()

    with pytest.raises(NotAllowed, match="so only they reopen it: ask them, and they"):
        session.call(tool, task_id=task, **given)

    assert session.world.task(task).status is TaskStatus.CANCELLED


def test_an_agent_reopens_what_it_has_cancelled_itself(session: Session) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, status="cancelled")

    session.call("task_resume", task_id=task)

    assert session.world.task(task).status is TaskStatus.ACTIVE


def test_a_chat_reads_when_a_wait_begins_and_when_it_begins_anew(session: Session) -> None:
    task = session.takes_up()
    arguments = {"target": "pty:build", "wake_when": '"done" appears', "timeout": 300}
    wait = session.call("smart_wait", task_id=task, **arguments)["wait_id"]
    line = 'Deploy: waiting, up to 5 min, for build until "done" appears.'
    assert session.lines[-1] == line

    session.call("wait_update", wait_id=wait, timeout=60)

    assert session.lines[-1] == line.replace("5 min", "1 min")

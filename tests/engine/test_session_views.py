"""What a session's user sees besides the chat, and what becomes of their answers."""

from __future__ import annotations

import pytest

from openclaw_taskmem.domain import events
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.changes.questions import (
    ACCEPT_BUTTON,
    LEAVE_OPTION,
    RESUME,
    SEND_BACK_BUTTON,
)
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.machine import set_fields
from openclaw_taskmem.domain.views.user_actions import Command
from openclaw_taskmem.engine import gateway_reports, notifications, runs, user_actions
from openclaw_taskmem.engine.notifications import NotificationKind
from openclaw_taskmem.engine.runs import READ_EVENTS
from taskmem_hookspecs import (
    Change,
    Event,
    InvalidArguments,
    RunState,
    SessionView,
    StoreBusy,
    TaskStatus,
    UserQuestion,
)
from tests.support.sessions import MAIN, Session
from tests.support.world import PERSON

HOUR = 3600


def view(session: Session, key: str = MAIN) -> SessionView:
    """What the user of a session is shown next."""
    changes, _ = notifications.find_due_events(session.world.context, NotificationKind.VIEWS, 0)
    mine = [event for event in changes if notifications.get_event_session(event) == key]
    return notifications.build_session_view(session.world.context, mine)


def question(session: Session, key: str = MAIN) -> UserQuestion:
    """The one question that a session's user is asked."""
    [only] = view(session, key).questions
    return only


def ask_user(session: Session) -> str:
    """Let a task ask its user something; its id."""
    task = session.works()
    session.asks("Shall I push it?")
    session.world.deliver()
    return task


def interrupt_task(session: Session) -> str:
    """Let a task be interrupted for so long that its user is asked; its id."""
    task = session.works()
    session.world.clock.tick(2 * HOUR)
    session.settles(session.restarts("boot_2"))
    return task


def title(shown: SessionView) -> str | None:
    return shown.card.markdown.splitlines()[0] if shown.card else None


# --- the card ---------------------------------------------------------------------


def test_a_session_sees_the_newest_of_its_open_tasks(session: Session) -> None:
    first = session.works()
    session.world.clock.tick(1)
    session.register(name="Second")
    session.call("task_update", task_id=first, completed_steps=[1])

    assert title(view(session)) == "**Second**"


def test_a_card_ends_with_its_task(session: Session) -> None:
    task = session.works()
    session.call("task_update", task_id=task, status="failed", message="No disk.")

    shown = view(session).card
    assert shown is not None
    assert shown.markdown.endswith("Failed.")


def test_a_task_that_is_called_off_takes_its_card_along(session: Session) -> None:
    task = session.works()
    session.world.call("task_cancel", PERSON, task_id=task, reason="No longer.")

    seen = view(session)
    assert seen == SessionView(session_key=MAIN, newest_event=seen.newest_event)


def test_a_task_in_the_background_is_seen_where_it_is_heard_of(session: Session) -> None:
    task = session.works()
    session.call("task_background", task_id=task)
    assert title(view(session)) == "**Deploy**"

    session.world.clock.tick(1)
    session.register(name="Here")
    assert title(view(session)) == "**Here**"
    changes, _ = notifications.find_due_events(session.world.context, NotificationKind.VIEWS, 0)
    assert {notifications.get_event_session(event) for event in changes} == {MAIN}


def test_nobody_is_shown_a_task_of_no_gateway(session: Session) -> None:
    session.world.register()

    assert notifications.find_due_events(session.world.context, NotificationKind.VIEWS, 0)[0] == []


# --- questions --------------------------------------------------------------------


def test_what_an_agent_asks_is_asked_in_free_words(session: Session) -> None:
    ask_user(session)

    found = question(session)
    assert (found.header, found.text) == ("Question", "Deploy: Shall I push it?")
    assert found.options == ()


def test_an_agent_may_give_options_and_may_not_repeat_one(session: Session) -> None:
    task = session.works()
    given = {"task_id": task, "ask": "Which colour?"}
    session.call("task_update", **given, ask_options=["Red", "Blue"])

    assert question(session).options == ("Red", "Blue")
    assert "Deploy: Which colour? (Red / Blue)" in session.lines
    for options in (["Red"], ["Red", "red "], ["a", "b", "c", "d", "e"]):
        with pytest.raises(InvalidArguments):
            session.call("task_update", **given, ask_options=options)


def test_interrupted_task_is_asked_about_with_resume_options(session: Session) -> None:
    interrupt_task(session)

    found = question(session)
    assert found.header == "Resume?"
    assert found.text.startswith("Deploy: it was interrupted 2 hours ago.")
    assert found.options == (RESUME, LEAVE_OPTION)


def test_a_stopped_task_can_be_resumed_by_a_button(session: Session) -> None:
    task = session.works()
    session.ends(aborted=True)

    found = question(session)
    assert found.text == "Deploy: stopped. /resume lets it go on."
    assert found.options == (RESUME, LEAVE_OPTION)
    gateway_reports.take_answer(session.world.context, found.key, RESUME)
    assert session.run(task).state is RunState.QUEUED


def test_a_review_is_asked_with_its_note_and_options(session: Session) -> None:
    task = session.works()
    session.call("task_handoff", task_id=task, to="user", note="Is the colour right?")

    found = question(session)
    assert found.text == "Deploy: for you to review. Is the colour right?"
    assert found.options == (ACCEPT_BUTTON, SEND_BACK_BUTTON)


def test_the_line_of_a_question_brings_the_question_along(session: Session) -> None:
    ask_user(session)

    entries, _ = notifications.find_due_events(session.world.context, NotificationKind.LINES, 0)
    [line] = [e for e in entries if e.data.get("about") == "question"]
    notice = notifications.build_session_notice(session.world.context, [line])
    assert notice.question == question(session)


@pytest.mark.parametrize("what", ["asked anew", "answered", "acted", "cancelled"])
def test_a_question_that_is_over_is_put_to_nobody(session: Session, what: str) -> None:
    task = ask_user(session)
    entries, _ = notifications.find_due_events(session.world.context, NotificationKind.LINES, 0)
    [line] = [e for e in entries if e.data.get("about") == "question"]

    match what:
        case "asked anew":
            session.call("task_update", task_id=task, ask="Shall I delete it?")
        case "answered":
            gateway_reports.take_answer(session.world.context, question(session).key, "Yes")
        case "acted":
            session.call("task_update", task_id=task, status="active")
        case "cancelled":
            session.call("task_update", task_id=task, status="cancelled")

    notice = notifications.build_session_notice(session.world.context, [line])
    assert (notice.text, notice.question) == ("", None)


@pytest.mark.parametrize("ended", [False, True])
def test_the_line_of_a_wait_is_sent_only_while_it_waits(session: Session, ended: bool) -> None:
    wait = session.world.open_wait(session.works())
    entries, _ = notifications.find_due_events(session.world.context, NotificationKind.LINES, 0)
    lines = [e for e in entries if e.data.get("about") == "waiting"]
    if ended:
        session.world.end_wait(wait)

    notice = notifications.build_session_notice(session.world.context, lines)

    assert ("waiting, up to" in notice.without_card) is not ended


def test_view_drawn_before_a_question_is_older_than_the_question(session: Session) -> None:
    task = session.works()
    before = view(session)
    session.call("task_update", task_id=task, ask="Which colour?")

    asked = question(session)
    assert before.newest_event < asked.newest_event <= view(session).newest_event


def test_background_question_appears_in_the_view_of_its_chat(session: Session) -> None:
    task = session.works()
    session.call("task_background", task_id=task)
    away = Session(session.world, key=str(session.run(task).session_key))
    away.begins(Origin.TASKMEM)
    away.asks("Shall I push it?")

    assert question(session).text == "Deploy: Shall I push it?"


def test_a_question_is_over_once_its_agent_acts(session: Session) -> None:
    task = ask_user(session)
    session.begins()
    session.call("task_update", task_id=task, status="active")

    assert view(session).questions == ()


def test_a_question_that_went_with_its_gateway_is_asked_again(session: Session) -> None:
    ask_user(session)
    _, place = notifications.find_due_events(session.world.context, NotificationKind.VIEWS, 0)
    session.restarts("boot_2")

    [again], _ = notifications.find_due_events(session.world.context, NotificationKind.VIEWS, place)
    assert notifications.build_session_view(session.world.context, [again]).questions


# --- answers ----------------------------------------------------------------------


def test_an_answer_begins_a_turn_and_lifts_no_block(session: Session) -> None:
    task = ask_user(session)
    gateway_reports.take_answer(
        session.world.context, question(session).key, "Yes, but not to prod."
    )

    [wake] = session.world.deliver()
    assert wake.session_key == MAIN
    assert 'you had asked the user: "Shall I push it?"' in wake.text
    assert 'The user answered: "Yes, but not to prod."' in wake.text
    assert session.run(task).state is RunState.BLOCKED
    assert session.world.thread(task)[-1][2] == "Yes, but not to prod."

    session.begins(Origin.TASKMEM)
    session.call("task_update", task_id=task, status="active")
    assert session.run(task).state is RunState.RUNNING


def ask_and_answer(session: Session, answer: str = "Yes") -> str:
    """Let a task ask its user something that they answer; its id."""
    task = ask_user(session)
    gateway_reports.take_answer(session.world.context, question(session).key, answer)
    return task


def hears(session: Session) -> str:
    """Begin a turn with the one message that is owed; its text."""
    [wake] = session.world.deliver()
    session.world.clock.tick(1)
    session.turn_since = session.world.clock.now()
    session.begins(Origin.TASKMEM)
    taken = {str(wake.delivery_id)}
    gateway_reports.settle_turn_wakes(session.world.context, session.key, taken, None)
    return wake.text


def test_a_call_in_the_turn_of_an_answer_lifts_the_block(session: Session) -> None:
    task = ask_and_answer(session)
    hears(session)
    assert session.run(task).state is RunState.BLOCKED
    session.does("git push")

    assert current_run.is_at_work(session.run(task))
    session.ends("Pushed.")
    [wake] = session.world.deliver()
    assert "task_continue" in wake.text


def test_a_call_in_a_turn_without_the_answer_lifts_no_block(session: Session) -> None:
    task = ask_and_answer(session)
    session.world.clock.tick(1)
    session.turn_since = session.world.clock.now()
    session.begins()
    session.does("curl weather")
    session.ends("It rains.", origin=Origin.USER)
    hears(session)
    session.ends("Noted.")
    session.world.clock.tick(1)
    session.turn_since = session.world.clock.now()
    session.begins()
    session.does("curl weather again")

    assert session.run(task).state is RunState.BLOCKED


def test_an_answer_that_nothing_followed_is_told_once_more(session: Session) -> None:
    task = ask_and_answer(session)
    first = hears(session)
    session.ends("Noted.")
    assert session.world.deliver() == []
    session.world.clock.tick(session.world.context.policies.runs.idle_pauses[0])
    again = hears(session)
    session.ends("Noted.")

    assert again.startswith(first)
    assert "nothing followed" in again
    assert session.world.pass_time(2 * HOUR) == []
    assert session.run(task).state is RunState.BLOCKED


def test_a_call_after_being_told_once_more_lifts_the_block(session: Session) -> None:
    task = ask_and_answer(session)
    hears(session)
    session.ends("Noted.")
    session.world.clock.tick(session.world.context.policies.runs.idle_pauses[0])
    hears(session)
    session.does("git push")

    assert session.run(task).state is RunState.RUNNING


def test_an_answer_whose_turn_a_restart_has_cut_is_told_again(session: Session) -> None:
    task = ask_and_answer(session)
    hears(session)
    session.settles(session.restarts("boot_2"))
    session.world.clock.tick(session.world.context.policies.runs.idle_pauses[0])
    assert "nothing followed" in hears(session)
    session.does("git push")

    assert session.run(task).state is RunState.RUNNING
    assert not any("still waits" in line for line in session.lines)


def test_what_was_answered_is_neither_asked_nor_listed_as_open(session: Session) -> None:
    task = ask_and_answer(session)

    assert gateway_reports.describe_waiting_tasks(session.world.context, MAIN) is None
    assert "question" not in session.call("task_status", task_id=task)
    listed = user_actions.run_command(session.world.context, Command.TASKS, "", session.caller).text
    assert "waits for its agent, which has your answer." in listed


def test_the_same_words_after_an_answer_are_another_question(session: Session) -> None:
    task = ask_and_answer(session)
    hears(session)
    session.call("task_update", task_id=task, ask="Shall I push it?")

    assert question(session).text == "Deploy: Shall I push it?"
    session.does("git log")
    assert session.run(task).state is RunState.BLOCKED


def test_an_answer_begins_the_counts_anew(session: Session) -> None:
    task = ask_user(session)
    run = session.run(task)
    spent = {"rounds": 7, "rounds_before": 0, "worked_seconds": 900.0}
    session.world.store.commit(Change(runs=(set_fields(run, spent),)))
    gateway_reports.take_answer(session.world.context, question(session).key, "Yes")

    run = session.run(task)
    assert (run.limits.rounds_before, run.limits.worked_seconds) == (7, 0.0)


def test_a_second_answer_counts_for_nothing(session: Session) -> None:
    ask_user(session)
    key = question(session).key
    gateway_reports.take_answer(session.world.context, key, "Yes")
    gateway_reports.take_answer(session.world.context, key, "No")

    assert view(session).questions == ()
    [wake] = session.world.deliver()
    assert '"Yes"' in wake.text
    assert session.world.deliver() == []


def test_an_answer_after_the_agent_has_acted_counts_for_nothing(session: Session) -> None:
    task = ask_user(session)
    key = question(session).key
    session.begins()
    session.call("task_update", task_id=task, status="active")
    gateway_reports.take_answer(session.world.context, key, "No")

    assert session.world.deliver() == []
    assert session.run(task).state is RunState.RUNNING


@pytest.mark.parametrize("status", ["active", "paused", "failed"])
def test_pending_answer_is_told_whatever_the_agent_did_since(session: Session, status: str) -> None:
    task = ask_user(session)
    session.begins()
    gateway_reports.take_answer(session.world.context, question(session).key, "No!")
    session.call("task_update", task_id=task, status=status)
    session.ends("I go on.", origin=Origin.USER)

    # What the user says is all that its next turn is told.
    [wake] = session.world.deliver()
    assert 'The user answered: "No!"' in wake.text
    assert "task_continue" not in wake.text


def test_what_the_user_cancels_is_told_no_answer(session: Session) -> None:
    task = ask_user(session)
    gateway_reports.take_answer(session.world.context, question(session).key, "Yes")
    session.world.call("task_cancel", PERSON, task_id=task, reason="Never mind.")

    assert session.world.deliver() == []


def test_a_new_question_is_another_one(session: Session) -> None:
    task = ask_user(session)
    first = question(session)
    gateway_reports.take_answer(session.world.context, first.key, "To where?")
    session.begins(Origin.TASKMEM)
    session.call("task_update", task_id=task, ask="Shall I push it to prod?")

    assert question(session).key != first.key
    gateway_reports.take_answer(session.world.context, first.key, "Yes")
    assert question(session).text == "Deploy: Shall I push it to prod?"


@pytest.mark.parametrize(
    ("answer", "state", "wakes"),
    [
        (RESUME, RunState.QUEUED, 1),
        ("No, call it off.", RunState.BLOCKED, 1),
        (LEAVE_OPTION, RunState.BLOCKED, 0),
    ],
)
def test_only_the_button_lets_an_interrupted_task_go_on(
    session: Session, answer: str, state: RunState, wakes: int
) -> None:
    task = interrupt_task(session)
    gateway_reports.take_answer(session.world.context, question(session).key, answer)

    assert session.run(task).state is state
    delivered = session.world.deliver()
    assert len(delivered) == wakes
    told = "waited because it was interrupted long ago. The user answered:"
    assert any(told in wake.text for wake in delivered) == (answer == "No, call it off.")
    assert view(session).questions == ()


def test_a_question_stays_open_until_its_run_goes_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise StoreBusy("The database is busy; try again.")

    task = interrupt_task(session)
    asked = question(session)
    with monkeypatch.context() as patched:
        patched.setattr(gateway_reports.runs, "take_up_task", busy)
        with pytest.raises(StoreBusy):
            gateway_reports.take_answer(session.world.context, asked.key, RESUME)

    assert question(session).key == asked.key
    gateway_reports.take_answer(session.world.context, asked.key, RESUME)
    assert session.run(task).state is RunState.QUEUED


def test_agent_decides_its_review_once_the_user_has_answered(session: Session) -> None:
    task = session.works()
    session.call("task_handoff", task_id=task, to="user", note="Is it right?")
    gateway_reports.take_answer(session.world.context, question(session).key, ACCEPT_BUTTON)

    [wake] = session.world.deliver()
    assert f'The user answered: "{ACCEPT_BUTTON}"' in wake.text
    assert session.run(task).state is RunState.REVIEW
    session.begins(Origin.TASKMEM)
    session.call("task_update", task_id=task, status="completed", message="Accepted.")
    assert session.world.task(task).status is TaskStatus.COMPLETED


def fill_log(session: Session, task: str) -> None:
    """Let more happen to a task than is read of its log at first."""
    context = session.world.context
    run_id, now = session.run(task).run_id, context.clock.now()
    told = Event(at=now, kind=events.TASK_STUCK, task_id=task, run_id=run_id)
    context.commit(Change(events=(told,) * (3 * READ_EVENTS)))


def test_a_question_keeps_its_options_in_a_long_log(session: Session) -> None:
    task = session.works()
    call = {"task_id": task, "ask": "Which colour?", "ask_options": ["Red", "Blue"]}
    session.call("task_update", **call)
    fill_log(session, task)

    assert question(session).options == ("Red", "Blue")


def test_an_answered_question_stays_so_in_a_long_log(session: Session) -> None:
    task = interrupt_task(session)
    gateway_reports.take_answer(session.world.context, question(session).key, LEAVE_OPTION)
    fill_log(session, task)

    assert runs.find_question(session.world.context, session.run(task)) is None


def test_a_clock_set_back_reopens_no_question(session: Session) -> None:
    task = interrupt_task(session)
    session.world.clock.jump(-HOUR)
    gateway_reports.take_answer(session.world.context, question(session).key, LEAVE_OPTION)

    assert runs.find_question(session.world.context, session.run(task)) is None


def test_an_answer_of_no_known_question_is_passed_by(session: Session) -> None:
    gateway_reports.take_answer(session.world.context, "run_9999-1-0", "Yes")

    assert session.world.deliver() == []

"""What a person does with tasks and waits, and how they name them."""

from __future__ import annotations

import re

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.domain.views.overview import Section
from openclaw_taskmem.domain.views.user_actions import ActRequest, UserAction
from openclaw_taskmem.engine import lookup, overview, user_actions
from openclaw_taskmem.engine.context import Context
from taskmem_hookspecs import (
    Change,
    EventQuery,
    InvalidArguments,
    NotAllowed,
    RunState,
    TaskNotFound,
    TaskStatus,
)
from taskmem_hookspecs.testing import a_task
from tests.support.sessions import MAIN, Session
from tests.support.world import World

TASKS = ("task",)
ALL = ("task", "wait", "wake")


def act(session: Session, task: str, action: str, words: str | None = None) -> str:
    """Act as a person who was shown the task just now."""
    context = session.world.context
    line = overview.read_line(context, task)
    request = ActRequest(
        action=UserAction(action),
        words=words,
        question_id=line.question_id,
        files_id=line.files_id,
    )
    return user_actions.act_on_task(context, task, request)


def find(context: Context, words: str, kinds: tuple[str, ...] = ALL) -> str:
    return lookup.find_by_words(context, words, kinds).id


def test_an_answer_reaches_the_agent_that_asked(session: Session) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, ask="Which browser?")

    said = act(session, task, "answer", "Firefox")

    assert said == '"Deploy": its agent is told your answer.'
    assert "Firefox" in [wake.text for wake in session.world.wakes() if wake.state == "due"][-1]


def read_sections(session: Session) -> dict[str, list[str]]:
    """The names of the tasks in the overview, by section."""
    found = overview.read_overview(session.world.context).sections
    return {str(section): [line.name for line in lines] for section, lines in found.items()}


def test_a_failure_that_was_seen_needs_nobody_any_more(session: Session) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, status="failed", message="No flour.")
    assert read_sections(session)["needs_you"] == ["Deploy"]

    assert "seen, and left as it is" in act(session, task, "seen")

    assert read_sections(session)["ended"] == ["Deploy"]
    assert overview.read_line(session.world.context, task).actions == (UserAction.RESUME,)
    with pytest.raises(NotAllowed, match="is failed now, so you cannot leave it"):
        act(session, task, "seen")
    session.world.clock.tick(25 * 3600)
    assert read_sections(session)["ended"] == []
    act(session, task, "resume")
    session.call("task_update", task_id=task, status="failed")
    assert read_sections(session)["needs_you"] == ["Deploy"]


def test_the_reason_of_an_end_is_told_with_it(session: Session) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, message="Step 1 is at work.")
    act(session, task, "cancel", "I want to look at it first.")
    activity = overview.read_line(session.world.context, task).activity
    assert activity is not None
    assert (activity.what, activity.by) == ("“I want to look at it first.”", None)


SHELL = Caller(person=True, host="openclaw", session_key=MAIN)
"""An agent that calls by the shell of its session."""


def test_a_question_from_an_agents_shell_is_shown_and_answered(session: Session) -> None:
    world = session.world
    task = world.register("Deploy", caller=SHELL)

    said = world.call("task_update", SHELL, task_id=task, ask="Which?", ask_options=["A", "B"])

    assert said["message"].startswith("The user is shown your question")
    line = overview.read_line(world.context, task)
    assert (line.section, line.question, line.options) == (Section.NEEDS_YOU, "Which?", ("A", "B"))
    assert act(session, task, "answer", "A") == '"Deploy": its agent is told your answer.'
    [wake] = [wake for wake in world.wakes() if wake.state == "due"]
    assert wake.session_key == MAIN
    assert 'The user answered: "A"' in wake.text


def test_the_agent_that_asked_by_its_shell_goes_on_by_a_tool(session: Session) -> None:
    task = session.world.register("Deploy", caller=SHELL)
    session.world.call("task_update", SHELL, task_id=task, ask="Which browser?")
    act(session, task, "answer", "Firefox")

    session.begins(Origin.TASKMEM)
    session.call("task_update", task_id=task, status="active")

    assert session.run(task).state is RunState.RUNNING


@pytest.mark.parametrize(
    ("caller", "state"),
    [
        (SHELL, RunState.QUEUED),
        (SHELL.model_copy(update={"session_key": "agent:other:main"}), RunState.BLOCKED),
    ],
)
def test_the_agent_that_asked_by_its_shell_goes_on_by_its_shell(
    session: Session, caller: Caller, state: RunState
) -> None:
    task = session.world.register("Deploy", caller=SHELL)
    session.world.call("task_update", SHELL, task_id=task, ask="Which browser?")
    act(session, task, "answer", "Firefox")

    session.world.call("task_update", caller, task_id=task, status="active")

    assert session.run(task).state is state


def test_a_question_that_reopens_a_task_is_kept(session: Session) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, status="failed")
    session.call("task_update", task_id=task, status="active", ask="Which browser?")
    assert overview.read_line(session.world.context, task).question == "Which browser?"


def test_of_two_answers_the_second_is_told_that_it_came_late(session: Session) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, ask="Which browser?")
    act(session, task, "answer", "Firefox")

    with pytest.raises(NotAllowed, match="you cannot answer it; you can: pause, cancel"):
        act(session, task, "answer", "Chromium")


@pytest.mark.parametrize("words", ["  ", "\u200b", " \u2060\n\u3164"])
@pytest.mark.parametrize("action", ["answer", "send_back"])
def test_words_are_asked_for_where_an_act_means_nothing_without(
    session: Session, action: str, words: str
) -> None:
    task = session.takes_up()
    if action == "answer":
        session.call("task_update", task_id=task, ask="Which browser?")
    else:
        session.call("task_handoff", task_id=task)

    with pytest.raises(InvalidArguments, match="Nothing was changed"):
        act(session, task, action, words)


def test_a_review_is_approved_or_sent_back_with_words(session: Session) -> None:
    first, second = session.takes_up(name="One"), session.takes_up(name="Two")
    for task in (first, second):
        session.call("task_handoff", task_id=task)

    act(session, first, "approve")
    act(session, second, "send_back", "Not yet.")

    assert session.world.task(first).status is TaskStatus.COMPLETED
    assert session.world.task(second).status is TaskStatus.ACTIVE
    assert ("user", "Not yet.") in [(m[0], m[2]) for m in session.world.thread(second)]


def test_a_refused_act_is_told_with_its_words_in_order(session: Session) -> None:
    task = session.register()
    request = ActRequest(action=UserAction.SEND_BACK, words="Redo it.")
    with pytest.raises(NotAllowed, match="so you cannot send it back; you can: "):
        user_actions.act_on_task(session.world.context, task, request)


def test_a_task_is_paused_resumed_and_cancelled(session: Session) -> None:
    task = session.takes_up()
    act(session, task, "pause")
    assert session.world.task(task).status is TaskStatus.PAUSED
    act(session, task, "resume")
    assert session.world.task(task).status is TaskStatus.ACTIVE
    act(session, task, "cancel", "Too late.")
    assert session.world.task(task).status is TaskStatus.CANCELLED
    with pytest.raises(NotAllowed, match="you can: resume"):
        act(session, task, "pause")


def test_a_paused_task_says_by_whom_and_why(session: Session) -> None:
    world, task = session.world, session.takes_up()
    query = {"task_id": task, "query": "why does it rest?"}

    act(session, task, "pause", "The budget is spent.")
    line = overview.read_line(world.context, task)
    assert line.says == "paused by you"
    assert line.activity is not None
    assert line.activity.what == "“The budget is spent.”"
    answer = session.call("task_update", **query)
    assert "active → paused by the user." in answer["summary"]
    assert "The budget is spent." in str(answer["messages"])

    act(session, task, "resume")
    assert "paused" not in session.call("task_update", **query)["summary"]

    session.call("task_update", task_id=task, status="paused", message="No key.")
    assert overview.read_line(world.context, task).says == "paused by the agent main"

    act(session, task, "resume")
    script = Caller(person=True, by_call=True)
    world.call("task_update", script, task_id=task, status="paused")
    assert overview.read_line(world.context, task).says == "paused by taskmem call"


def test_a_person_takes_a_task_from_its_agent(session: Session) -> None:
    task = session.works()
    line = overview.read_line(session.world.context, task)
    assert line.effects[UserAction.RESET] == (
        "It is taken from its agent, and queued again. What its agent does right now is stopped. "
        "Its session is told to go on from there."
    )

    said = act(session, task, "reset")

    assert said == '"Deploy": taken from its agent, and queued again.'
    assert (session.run(task).state, session.run(task).why) == (RunState.QUEUED, "reset")
    with pytest.raises(NotAllowed, match="so you cannot reset it; you can: pause, cancel"):
        act(session, task, "reset")


def test_what_has_nothing_left_to_do_says_so(session: Session) -> None:
    task = session.takes_up()
    session.call("task_update", task_id=task, status="completed")
    why = r"is completed now, so you cannot cancel it\. There is nothing to do with it any more\."
    with pytest.raises(NotAllowed, match=why):
        act(session, task, "cancel")


def test_the_overview_has_each_task_once_in_its_section(session: Session) -> None:
    asks = session.takes_up(name="Asks")
    session.call("task_update", task_id=asks, ask="Which browser?", ask_options=["A", "B"])
    works = session.takes_up(name="Works")
    session.world.open_wait(works)
    failed = session.takes_up(name="Fails")
    session.call("task_update", task_id=failed, status="failed", message="No flour.")
    session.world.clock.tick(60)

    found = overview.read_overview(session.world.context)

    needs = found.sections[Section.NEEDS_YOU]
    assert {line.name: line.says for line in needs} == {
        "Asks": "asks: Which browser?",
        "Fails": 'failed: Its agent says: "No flour."',
    }
    assert next(line.options for line in needs if line.name == "Asks") == ("A", "B")
    everything = [line.task_id for lines in found.sections.values() for line in lines]
    assert sorted(everything) == sorted((asks, works, failed))


def test_what_waits_for_the_user_is_listed_however_old(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = session.takes_up(name="Asks")
    session.call("task_update", task_id=asks, ask="Which browser?")
    session.world.clock.tick(1)
    session.takes_up(name="Works")
    monkeypatch.setattr(overview, "MOST_OPEN_ROWS", 1)
    monkeypatch.setattr(overview, "SHOWN_TASKS", 1)
    needs = overview.read_overview(session.world.context).sections[Section.NEEDS_YOU]
    assert [line.name for line in needs] == ["Asks"]


def test_a_line_tells_that_its_user_accepted_without_proof(session: Session) -> None:
    task = session.takes_up()
    given = {"task_id": task, "status": "completed", "message": "Done."}
    with pytest.raises(EvidenceMissing):
        session.call("task_update", **given, artifacts=["command:publish"])
    act(session, task, "accept")
    line = overview.read_line(session.world.context, task)
    assert line.unproved.endswith("accepted by you without proof")


def test_what_ended_long_ago_is_not_in_the_overview(session: Session) -> None:
    done, failed = session.takes_up(name="Done"), session.takes_up(name="Failed")
    act(session, done, "cancel")
    session.call("task_update", task_id=failed, status="failed")
    found = []
    for _ in range(15):
        session.world.clock.tick(24 * 3600 + 1)
        lines = overview.read_overview(session.world.context).sections.values()
        found.append({line.name for each in lines for line in each})
    assert found == [*[{"Failed"}] * 13, set(), set()]
    shown = overview.read_overview(session.world.context)
    assert (shown.unlisted_failed, shown.all_ended) == (1, True)
    session.register()
    assert not overview.read_overview(session.world.context).all_ended


def test_a_home_without_tasks_is_not_one_whose_tasks_ended(session: Session) -> None:
    assert not overview.read_overview(session.world.context).all_ended


def test_a_list_has_the_failed_tasks_that_need_the_user(session: Session) -> None:
    failed, works = session.takes_up(name="Fails"), session.takes_up(name="Works")
    session.call("task_update", task_id=failed, status="failed")
    listed = overview.list_lines(session.world.context, 10)
    assert [each.task_id for each in listed] == [failed, works]


def test_tasks_are_found_by_number_id_and_name() -> None:
    world = World()
    bread, rolls = world.register("Bread"), world.register("Bread rolls")
    context, end = world.context, rolls[-4:]

    assert find(context, bread) == bread
    assert find(context, f" {bread}  ") == bread
    assert find(context, "bread") == bread
    assert find(context, "BREAD R") == rolls
    assert find(context, "rolls") == rolls
    assert find(context, end, kinds=TASKS) == rolls
    with pytest.raises(InvalidArguments, match=r'"rea" may mean .*"Bread".*; give the end'):
        find(context, "rea")
    with pytest.raises(TaskNotFound, match='No task is called "soup"'):
        find(context, "soup", kinds=TASKS)


def test_tasks_of_one_name_are_told_apart_by_their_ids() -> None:
    world = World()
    tasks = {world.register("Bread"), world.register("Bread")}

    with pytest.raises(InvalidArguments) as refused:
        find(world.context, "Bread", kinds=TASKS)

    listed = re.findall(r'(\w+) "Bread" \(active\)', str(refused.value))
    assert {find(world.context, end, kinds=TASKS) for end in listed} == tasks
    assert not tasks & {*listed}


def test_digits_alone_are_no_part_of_a_name() -> None:
    world = World()
    world.register("Release 2.0")

    with pytest.raises(TaskNotFound, match='No task or wait or wake is called "2"'):
        find(world.context, "2")

    named = world.register("2")
    assert find(world.context, "2") == named


@pytest.mark.parametrize("words", ["", "  ", "\n"])
def test_no_words_name_nothing(words: str) -> None:
    world = World()
    world.open_wait(world.register())

    with pytest.raises(InvalidArguments, match="That names nothing"):
        find(world.context, words)


def test_an_answer_counts_for_the_question_that_was_shown(session: Session) -> None:
    task, context = session.takes_up(), session.world.context
    session.call("task_update", task_id=task, ask="Which browser?")
    shown = overview.read_line(context, task).question_id
    session.call("task_update", task_id=task, status="active", message="I chose one.")
    session.call("task_update", task_id=task, ask="Delete the old site?")

    for question_id in (shown, None):
        request = ActRequest(action=UserAction.ANSWER, words="Yes", question_id=question_id)
        with pytest.raises(InvalidArguments, match='you now: "Delete the old site'):
            user_actions.act_on_task(context, task, request)

    assert session.run(task).why == "question"
    assert "Yes" not in [content for _, _, content in session.world.thread(task)]


def test_waits_and_wakes_are_found_by_the_end_of_their_ids() -> None:
    world = World()
    task = world.register()
    wait = world.open_wait(task)
    world.end_wait(wait)
    [wake] = world.wakes()

    assert find(world.context, wait.wait_id[-4:]) == wait.wait_id
    assert find(world.context, wake.wake_id[-4:]) == wake.wake_id
    with pytest.raises(TaskNotFound):
        find(world.context, wait.wait_id, kinds=TASKS)


def test_what_is_old_is_found_if_nothing_newer_is(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    old, _ = world.open_wait(world.register()), world.open_wait(world.register())
    turn = a_task(task_id="task_turn", name="A turn", implicit=True)
    world.store.commit(Change(tasks=(turn,)))
    monkeypatch.setattr(lookup, "ID_CANDIDATES", 1)
    with monkeypatch.context() as few:
        few.setattr(lookup, "ALL_ID_CANDIDATES", 1)
        assert find(world.context, old.wait_id) == old.wait_id

    assert find(world.context, old.wait_id[-4:]) == old.wait_id
    assert find(world.context, "task_turn") == "task_turn"
    assert find(world.context, "A turn") == "task_turn"


def test_a_wait_is_cancelled_for_a_person(session: Session) -> None:
    task = session.takes_up()
    wait = session.world.open_wait(task)
    said = user_actions.cancel_wait(session.world.context, wait.wait_id)
    assert said == (
        "The wait for pty:build is cancelled. No agent is woken by that; the thread of its task "
        "says so."
    )
    assert session.world.wakes() == []
    assert session.world.thread(task)[-1][2].startswith("smart_wait cancelled")
    assert session.world.store.read_wait(wait.wait_id).status == "cancelled"
    assert session.run(task).state is RunState.RUNNING


def test_an_ended_wait_is_not_cancelled_and_its_wake_stays(session: Session) -> None:
    world = session.world
    wait = world.open_wait(session.takes_up())
    world.end_wait(wait)
    world.clock.tick(120)

    with pytest.raises(NotAllowed, match=r"had ended 2 minutes ago: resolved, .* Nothing was"):
        user_actions.cancel_wait(world.context, wait.wait_id)

    assert [wake.state for wake in world.wakes()] == ["due"]


def test_effects_are_told_as_they_come_about(session: Session) -> None:
    """The waits of a cancelled task are cancelled with it, and their ends wake nobody."""
    world, task = session.world, session.works()
    wait = world.open_wait(task)
    line = overview.read_line(world.context, task)
    assert line.effects[UserAction.CANCEL] == (
        "The task ends; what was done so far is kept. What its agent does right now is stopped. "
        "Its wait is cancelled with it."
    )

    act(session, task, "cancel")

    kinds = [event.kind for event in world.store.find_events(EventQuery(task_id=task))]
    assert "turn_stopped" in kinds
    assert world.store.read_wait(wait.wait_id).status == "cancelled"
    world.end_wait(wait)
    assert world.deliver() == []


@pytest.mark.parametrize("how", ["person", "agent"])
def test_a_cancelled_task_has_no_open_wait(session: Session, how: str) -> None:
    world, task = session.world, session.works()
    waits = [world.open_wait(task).wait_id for _ in range(2)]

    if how == "person":
        act(session, task, "cancel")
    else:
        session.call("task_update", task_id=task, status="cancelled")

    found = world.task(task)
    assert found.linkage.active_wait_ids == ()
    assert found.linkage.last_wait_state == "cancelled"
    assert [world.store.read_wait(each).status for each in waits] == ["cancelled"] * 2
    said = [content for _, kind, content in world.thread(task) if kind == "wait"]
    assert [line.partition(" (")[0] for line in said] == ["smart_wait cancelled"] * 2
    assert found.message_count == len(world.thread(task))


def test_the_last_words_are_the_reason_where_none_was_given(session: Session) -> None:
    task = session.takes_up()
    session.does("ls")
    session.call("task_update", task_id=task, message="There is no flour.")
    facts = session.world.store.read_task(task)
    failed = facts.task.model_copy(update={"status": TaskStatus.FAILED})
    session.world.store.commit(Change(tasks=(failed,)))

    line = overview.read_line(session.world.context, task)

    assert line.says == "failed: its agent said last “There is no flour.”"


def test_a_pause_stops_no_turn_and_says_so(session: Session) -> None:
    task = session.works()
    line = overview.read_line(session.world.context, task)
    assert line.effects[UserAction.PAUSE] == (
        "Its agent is not told to go on any more. What its agent does right now is not stopped."
    )

    act(session, task, "pause")

    events = session.world.store.find_events(EventQuery(task_id=task))
    assert "turn_stopped" not in [event.kind for event in events]

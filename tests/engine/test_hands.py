"""Whose a run is: while it waits for the user, is taken back, or changes hands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.errors import Fenced, RunHeld, RunNotReady
from openclaw_taskmem.domain.tasks import thread
from openclaw_taskmem.engine import gateway_reports, notifications, run_recovery, turns
from openclaw_taskmem.engine import runs as engine_runs
from openclaw_taskmem.engine.live_state import LiveState
from openclaw_taskmem.engine.notifications import NotificationKind
from openclaw_taskmem.engine.runs import find_question
from openclaw_taskmem.tools import runs
from taskmem_hookspecs import (
    Change,
    Message,
    Owner,
    Role,
    RunQuery,
    RunState,
    TaskStatus,
    WakeState,
)
from taskmem_hookspecs.errors import InvalidArguments, NotAllowed, RunNotFound
from taskmem_hookspecs.testing import a_message
from tests.support.sessions import MAIN, Session
from tests.support.world import PERSON, PLAN, World, worker

LEASE = THRESHOLD = 300
HOUR = 3600
DEV = "agent:dev:main"


def hand_over(session: Session, other: Session) -> str:
    """Let the other agent claim what the session has handed to its role; its id."""
    task = session.works()
    session.call("task_handoff", task_id=task, to="dev")
    other.call("task_claim", task_id=task, role="dev")
    return task


# --- what is said with it ------------------------------------------------------------


def claim_after_note(note: str | None) -> dict[str, Any]:
    """Return what the next is told who claims what was handed on with a note."""
    world = World()
    task = world.register()
    given = {} if note is None else {"note": note}
    for role, to, said in (
        ("builder", "tester", {"note": "It is red."}),
        ("tester", "builder", {"note": "Mend it."}),
        ("builder", "tester", given),
    ):
        world.call("task_claim", worker("1"), task_id=task, role=role)
        world.call("task_handoff", worker("1"), task_id=task, to=to, **said)
    world.call("task_update", task_id=task, message="Handed to tester. Forged.")
    return world.call("task_claim", worker("2"), role="tester")


def test_who_claims_what_was_handed_on_is_given_the_note() -> None:
    answer = claim_after_note("Tested:\n- SQLite\n\x1b[system] not PostgreSQL")

    assert answer["note"] == "Tested: - SQLite (system] not PostgreSQL"
    assert "note_rest" not in answer
    assert "Read the note of who handed it to you." in answer["message"]


@pytest.mark.parametrize("role", ["user\u200b", "dev\u202e", "a\nb", "\x1b[31m", "r" * 65])
def test_a_role_that_looks_like_another_is_none(session: Session, role: str) -> None:
    task = session.works()

    with pytest.raises(InvalidArguments, match="1 to 64 of a-z 0-9 _ -; give such"):
        session.call("task_handoff", task_id=task, to=role)


@pytest.mark.parametrize("act", [{"status": "active"}, {"completed_steps": [1]}])
def test_who_acts_on_a_users_answer_goes_on(world: World, act: dict[str, Any]) -> None:
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task)
    world.call("task_update", worker("1"), task_id=task, ask="Red or blue?")
    world.call("task_update", PERSON, task_id=task, message="Blue.")
    world.call("task_update", worker("1"), task_id=task, message="I read it.")
    (asked,) = world.store.find_runs(RunQuery(task_id=task))
    assert asked.state is RunState.BLOCKED

    world.call("task_update", worker("1"), task_id=task, **act)

    (run,) = world.store.find_runs(RunQuery(task_id=task))
    assert (run.state, run.dialogue.question) == (RunState.RUNNING, None)
    assert run.token == asked.token


@pytest.mark.parametrize("rests", ["paused", "review"])
def test_handoff_to_a_role_makes_a_resting_task_active_again(
    session: Session, other: Session, rests: str
) -> None:
    task = session.works()
    if rests == "paused":
        session.call("task_update", task_id=task, status="paused")
    else:
        session.call("task_handoff", task_id=task)

    session.call("task_handoff", task_id=task, to="dev")

    assert session.world.store.read_task(task).task.status is TaskStatus.ACTIVE
    assert other.call("task_claim", role="dev")["task_id"] == task


def test_a_long_note_is_cut_and_says_where_the_rest_is() -> None:
    answer = claim_after_note("é" * 30_000)

    assert len(answer["note"].encode()) <= 2000
    assert answer["note"].endswith("é…")
    assert answer["note_rest"] == f"The whole note: taskmem show {answer['task_id']}"


def test_claim_without_a_note_for_its_role_mentions_no_note() -> None:
    answer = claim_after_note(None)

    assert "note" not in answer
    assert "Read the note" not in answer["message"]


def test_a_note_is_not_told_with_a_run_that_began_after_it(session: Session) -> None:
    task = session.works()
    session.call("task_handoff", task_id=task, to="main", note="Old.")
    assert session.call("task_claim", task_id=task)["note"] == "Old."

    for status in ("cancelled", "active"):
        session.world.clock.tick(1)
        session.call("task_update", task_id=task, status=status)

    assert "note" not in session.call("task_claim", task_id=task)


def test_handoff_note_is_given_though_the_clock_went_back() -> None:
    world = World()
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task, role="b")
    world.call("task_update", worker("1"), task_id=task, status="failed")
    world.clock.jump(-HOUR)
    world.call("task_update", PERSON, task_id=task, status="active")
    world.call("task_claim", worker("1"), task_id=task, role="b")
    world.call("task_handoff", worker("1"), task_id=task, to="b", note="Mend it.")

    claimed = world.call("task_claim", worker("2"), task_id=task, role="b")

    assert claimed["note"] == "Mend it."


def hand_to_user() -> tuple[World, str]:
    """Return a task whose steps are done, with the user for review."""
    world = World()
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task, role="builder")
    steps = [*range(1, len(PLAN) + 1)]
    world.call("task_update", worker("1"), task_id=task, completed_steps=steps)
    world.call("task_handoff", worker("1"), task_id=task, note="It is built.")
    return world, task


def send_back(world: World, task: str, how: str, words: str) -> str:
    """Send a task back as the user, with words; what the user is answered."""
    given = {"message": words, "status": "active"}
    if how == "task_resume":
        given = {"answer": words}
    return str(world.call(how, PERSON, task_id=task, **given)["message"])


@pytest.mark.parametrize("how", ["task_update", "task_resume"])
def test_who_claims_what_was_sent_back_acts_on_the_users_words(how: str) -> None:
    world, task = hand_to_user()
    world.narrate(task, "Still before the user speaks.")

    told = send_back(world, task, how, "Mend\nthe roof.")
    claimed = world.call("task_claim", worker("2"), task_id=task, role="builder")

    assert "your words" in told
    assert claimed["user_said"] == ["Mend the roof."]
    assert "user_said_rest" not in claimed
    assert "note" not in claimed
    assert "The user sent it back: do what they say first" in claimed["message"]
    assert "completed" not in claimed["message"]
    for tool, given in (("task_status", {}), ("task_update", {"query": "Where?"})):
        message = world.call(tool, worker("2"), task_id=task, **given)["message"]
        assert "the user has spoken since" in message


def test_task_holder_is_told_once_what_the_user_says() -> None:
    world, task = hand_to_user()
    send_back(world, task, "task_update", "Mend the roof.")
    world.call("task_claim", worker("2"), task_id=task, role="builder")
    world.clock.tick(1)
    # What came with the claim is not told again.
    said = world.call("task_update", worker("2"), task_id=task, completed_steps=[1])
    assert "user_said" not in said

    world.call("task_update", PERSON, task_id=task, message="And the door.")
    with pytest.raises(NotAllowed, match="is held by builder, so you may not"):
        world.call("task_update", worker("3"), task_id=task, message="Nice roof.")
    told = world.call("task_update", worker("2"), task_id=task, message="Roof mended.")
    later = world.call("task_update", worker("2"), task_id=task, message="Door, too.")

    assert told["user_said"] == ["And the door."]
    assert "The user has spoken meanwhile" in told["message"]
    assert "user_said" not in later


def send_back_to_relay() -> tuple[World, Caller, str]:
    """Send a relay's review back with words; the world, the relay and the task."""
    world = World()
    relay = Caller(process="1:1", owner=Owner(role="agent", process="1:1"))
    task = world.register(caller=relay)
    world.call("task_claim", relay, task_id=task)
    world.call("task_handoff", relay, task_id=task)
    send_back(world, task, "task_update", "Mend the roof.")
    return world, relay, task


def test_agent_hears_the_user_before_completing_a_returned_task() -> None:
    world, relay, task = send_back_to_relay()

    # It goes on without a claim.
    given = {"task_id": task, "status": "completed"}
    told, again = (world.call("task_update", relay, **given) for _ in range(2))

    assert (told["status"], told["user_said"]) == ("active", ["Mend the roof."])
    assert (again["status"], "user_said" in again) == ("completed", False)


@pytest.mark.parametrize("how", ["a step is done", "a question waits"])
def test_no_other_way_of_its_holder_passes_over_the_users_words(how: str) -> None:
    world = World()
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task)
    if how == "a question waits":
        world.call("task_update", worker("1"), task_id=task, ask="Red or blue?")
    world.call("task_update", PERSON, task_id=task, message="Blue, please.")

    told = (
        world.call("task_step_done", worker("1"), task_id=task)
        if how == "a step is done"
        else world.call("task_update", worker("1"), task_id=task, message="Going on.")
    )

    assert told["user_said"] == ["Blue, please."]
    assert "The user has spoken meanwhile" in told["message"]


def test_words_whose_answer_a_daemon_took_along_are_told_again() -> None:
    world, relay, task = send_back_to_relay()

    def updates(**given: str) -> object:
        return world.call("task_update", relay, task_id=task, **given).get("user_said")

    assert updates(message="It is done.") == ["Mend the roof."]
    world.context = replace(world.context, live=LiveState())  # it is killed, and another starts
    assert updates(status="completed") == ["Mend the roof."]
    assert updates(message="Mended.") is None
    run = world.store.read_task(task).run
    assert run is not None
    assert run.dialogue.heard_until > 0


def test_shown_words_are_noted_before_the_owners_next_call() -> None:
    world, relay, task = send_back_to_relay()
    locked: list[bool] = []

    class Marks(dict[str, int]):
        def __setitem__(self, run_id: str, message_id: int) -> None:
            locks = world.context.locks
            locked.append(locks[hash(task) % len(locks)].locked())
            super().__setitem__(run_id, message_id)

    world.context = replace(world.context, live=LiveState(shown_messages=Marks()))

    world.call("task_update", relay, task_id=task, message="It is done.")

    assert locked == [True]


@pytest.mark.parametrize("how", ["task_update", "task_resume"])
def test_a_session_whose_review_is_sent_back_is_told_to_go_on(session: Session, how: str) -> None:
    task = session.works()
    session.call("task_handoff", task_id=task, to="user")
    session.ends("It is with you.")
    session.world.deliver()

    send_back(session.world, task, how, "Mend the roof.")

    [wake] = session.world.deliver()
    assert wake.session_key == session.key
    assert wake.text.endswith('The user says: "Mend the roof."')
    session.begins(Origin.TASKMEM)
    told = session.call("task_update", task_id=task, message="The roof is mended.")
    assert (told["status"], "user_said" in told) == ("active", False)


def test_session_hears_what_the_user_said_to_its_task_elsewhere(session: Session) -> None:
    task = session.works()
    session.world.call("task_update", PERSON, task_id=task, message="And the door.")
    session.in_turn = False
    child = session.call("task_update", task_id=task, message="A sub-agent's.")
    session.in_turn = True

    told = session.call("task_update", task_id=task, message="Roof mended.")
    later = session.call("task_update", task_id=task, message="Door, too.")

    assert told["user_said"] == ["And the door."]
    assert "user_said" not in {**child, **later}


def test_an_answer_that_a_session_was_told_does_not_come_again(session: Session) -> None:
    for number, words in enumerate(("eu-west", "us-east")):
        task = session.takes_up()
        session.asks("Which region?")
        if number:
            run = session.run(task)
            question = find_question(session.world.context, run)
            gateway_reports.take_answer(session.world.context, question.key, words)
        else:
            session.world.call("task_resume", PERSON, task_id=task, answer=words)
        session.world.deliver()
        session.begins(Origin.TASKMEM)
        session.call("task_update", task_id=task, status="active")

        told = session.call("task_update", task_id=task, status="completed")

        assert (told["status"], "user_said" in told) == ("completed", False)


@pytest.mark.parametrize("killed", [False, True], ids=["whole", "killed before it was noted"])
@pytest.mark.parametrize("asked", [True, False], ids=["answer", "resumed"])
def test_words_that_a_wake_carries_are_not_told_with_others(
    session: Session, monkeypatch: pytest.MonkeyPatch, *, asked: bool, killed: bool
) -> None:
    task = session.works()
    call, others = session.world.call, [] if killed else ["Mind the cost."]
    if asked:
        session.asks("Which region?")
    else:
        session.call("task_update", task_id=task, status="paused")
    for words in others:
        call("task_update", PERSON, task_id=task, message=words)
    if killed:
        monkeypatch.setattr(engine_runs, "note_heard", lambda *_: None)
    call("task_resume", PERSON, task_id=task, answer='Say "eu-west",\nplease.')
    (wake,) = session.world.deliver()
    assert "eu-west" in wake.text
    session.begins(Origin.TASKMEM)

    given = ({"status": "active"}, {"message": "Part 1."}, {"message": "Part 2."})
    told = [session.call("task_update", task_id=task, **each) for each in given]

    assert [words for each in told for words in each.get("user_said", ())] == others
    assert session.run(task).dialogue.heard_until > 0


@pytest.mark.parametrize("error", [None, "overloaded"])
def test_a_turn_that_ended_has_heard_what_it_was_shown(session: Session, error: str | None) -> None:
    task = session.works()
    session.world.call("task_update", PERSON, task_id=task, message="And the door.")
    told = session.call("task_update", task_id=task, message="Roof mended.")
    assert told["user_said"] == ["And the door."]
    session.ends(error=error)
    session.world.context = replace(session.world.context, live=LiveState())  # it is killed

    session.begins(Origin.TASKMEM)
    later = session.call("task_update", task_id=task, message="Door, too.")

    assert later.get("user_said") == (["And the door."] if error else None)


def test_a_session_that_reopens_a_task_knows_what_it_was_told(session: Session) -> None:
    task = session.works()
    for words, status in (("Mend the roof.", "failed"), ("Good.", "completed")):
        session.world.call("task_update", PERSON, task_id=task, message=words)
        session.call("task_update", task_id=task, message="I do.")
        session.call("task_update", task_id=task, status=status)
        session.call("task_update", task_id=task, status="active")

        again = session.call("task_update", task_id=task, message="Once more.")

        assert "user_said" not in again


def test_what_the_user_said_as_they_accepted_a_task_is_not_left() -> None:
    world, task = hand_to_user()
    send_back(world, task, "task_update", "Mend the roof.")
    world.call("task_claim", worker("1"), task_id=task, role="builder")
    world.call("task_handoff", worker("1"), task_id=task)
    done = {"message": "Good.", "status": "completed"}
    world.call("task_update", PERSON, task_id=task, **done)

    world.call("task_update", PERSON, task_id=task, status="active")

    assert "user_said" not in world.call("task_claim", worker("2"), task_id=task)


def test_who_may_not_go_on_with_a_task_is_told_no_next_step(session: Session) -> None:
    noted = {"task_id": give_away(session), "message": "I pass by."}
    holder = worker("1")

    assert session.call("task_update", **noted)["message"] == "Noted."
    told = session.world.call("task_update", holder, **noted)["message"]
    assert "Next: step 1" in told


def test_new_user_message_delays_the_completion_of_a_task() -> None:
    world, task = hand_to_user()
    send_back(world, task, "task_update", "Mend the roof.")
    world.call("task_claim", worker("2"), task_id=task, role="builder")
    world.call("task_update", PERSON, task_id=task, message="And the door.")
    ends = {"task_id": task, "status": "completed"}

    told = world.call("task_update", worker("2"), **ends)
    assert (told["status"], told["user_said"]) == ("active", ["And the door."])
    assert "so it is not completed yet" in told["message"]

    assert world.call("task_update", worker("2"), **ends)["status"] == "completed"


def test_no_number_of_notes_hides_what_the_user_said() -> None:
    world, task = hand_to_user()
    send_back(world, task, "task_update", "Mend the roof.")
    for _ in range(70):
        world.narrate(task)
    claimed = world.call("task_claim", worker("2"), task_id=task, role="builder")
    world.call("task_update", PERSON, task_id=task, message="And the door.")
    for _ in range(70):
        world.narrate(task)

    told = world.call("task_update", worker("2"), task_id=task, status="completed")

    assert claimed["user_said"] == ["Mend the roof."]
    assert (told["status"], told["user_said"]) == ("active", ["And the door."])


@pytest.mark.parametrize("call", ["task_claim", "task_update"])
def test_reading_user_words_does_not_read_the_agents_messages(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    world = World()
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task, role="builder")
    notes = tuple(a_message(task_id=task, content=f"{n}") for n in range(500))
    world.store.commit(Change(messages=notes))
    read, rows = world.store.read_records, []

    def count_rows(*args: Any, **given: Any) -> Sequence[Message]:
        found = read(*args, **given)
        rows.append(len(found))
        return found

    monkeypatch.setattr(world.context.store, "read_records", count_rows)
    said = {"message": "Built."} if call == "task_update" else {"role": "builder"}
    world.call(call, worker("1"), task_id=task, **said)

    assert rows
    assert sum(rows) <= 2 * thread.MOST_READ_MESSAGES


def test_what_its_holder_did_not_hear_comes_with_the_next_claim() -> None:
    world, task = hand_to_user()
    send_back(world, task, "task_update", "Mend the roof.")
    world.call("task_claim", worker("2"), task_id=task, role="builder")
    world.call("task_update", PERSON, task_id=task, message="And the door.")
    world.call("task_handoff", worker("2"), task_id=task, to="painter")

    claimed = world.call("task_claim", worker("3"), task_id=task, role="painter")

    assert claimed["user_said"] == ["And the door."]


def test_no_turn_takes_up_what_it_gave_to_the_user_for_review(session: Session) -> None:
    session.turn_since = session.world.clock.now()
    task = session.works()
    session.world.clock.tick(1)
    session.call("task_handoff", task_id=task, to="user")

    with pytest.raises(RunNotReady, match="end your turn now"):
        session.call("task_resume", task_id=task)

    session.world.clock.tick(1)
    session.turn_since = session.world.clock.now()
    session.call("task_resume", task_id=task)
    assert session.run(task).state is RunState.RUNNING


def test_worker_asks_its_user_itself_and_resumes_with_the_answer() -> None:
    world = World()
    task = world.register()
    claimed = world.call("task_claim", worker("1"), task_id=task, role="b")
    asked = world.call("task_update", worker("1"), task_id=task, ask="Which region?")

    assert "Put your question to the user yourself" in asked["message"]
    assert "is shown your question" not in asked["message"]
    world.call("task_resume", worker("1"), task_id=task, answer="eu-west")

    run = world.store.read_task(task).run
    assert (run.state, run.owner.role) == (RunState.RUNNING, "b")
    assert run.token == claimed["token"]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("task_resume", {}),
        ("task_abort", {"reason": "Enough."}),
        ("task_cancel", {}),
        ("task_handoff", {"to": "tester"}),
    ],
)
def test_no_worker_ends_a_review_without_a_word_of_the_user(
    tool: str, given: dict[str, str]
) -> None:
    world, task = hand_to_user()

    with pytest.raises(RunNotReady, match="waits for the user's review"):
        world.call(tool, worker("1"), task_id=task, **given)

    assert world.store.read_task(task).run.state is RunState.REVIEW


def test_nobody_is_told_to_complete_what_the_user_checks() -> None:
    world, task = hand_to_user()
    for tool, given in (
        ("task_status", {}),
        ("task_update", {"message": "Still here."}),
        ("task_update", {"query": "Where does it stand?"}),
    ):
        said = str(world.call(tool, worker("1"), task_id=task, **given)["message"])
        assert 'set status "completed"' not in said
        assert "All steps are done, and the user checks the result: stop" in said


def test_worker_is_told_how_to_relay_the_users_review_answer(session: Session) -> None:
    world = World()
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task)
    shown = session.call("task_handoff", task_id=session.works())

    said = world.call("task_handoff", worker("1"), task_id=task)

    asked = "Ask the user to review it. Stop working on it, and give what they say "
    assert said["message"] == f"{asked}of it to task_resume, as answer."
    assert shown["message"].endswith("Stop working on it.")


def test_worker_resumes_after_a_review_with_the_relayed_words() -> None:
    world, task = hand_to_user()
    said = "As relayed by claude-code: It is good."
    caller = worker("1").model_copy(update={"host": "mcp:claude-code"})

    resumed = world.call("task_resume", caller, task_id=task, answer="It is good.")

    assert resumed["packet"].endswith(f'The user says: "{said}"')
    assert "complete it if they accept it, else hand it off" in resumed["packet"]
    [*_, message] = world.store.read_records(Message, task, 9)
    assert message.content == said
    # It knows them, so that nothing keeps it from acting on them.
    ended = world.call("task_update", caller, task_id=task, status="completed")
    assert (ended["status"], "user_said" in ended) == ("completed", False)


def test_claim_marks_user_words_as_relayed_by_an_agent() -> None:
    world, task = hand_to_user()
    context = Caller(person=True, host="shell:codex")

    world.call("task_resume", context, task_id=task, answer="Mend the roof.")
    claimed = world.call("task_claim", worker("2"), task_id=task, role="builder")

    assert claimed["user_said"] == ["As relayed by codex: Mend the roof."]


@pytest.mark.parametrize(
    ("began", "spoken", "told"),
    [
        (1, "In eu-west.", "eu-west"),
        (1, None, "As relayed by the agent main: eu-west"),
        (-1, "Deploy it.", "As relayed by the agent main: eu-west"),
    ],
)
def test_an_answer_is_the_users_own_where_they_have_spoken(
    session: Session, began: int, spoken: str | None, told: str
) -> None:
    session.world.clock.tick(1)
    task = session.takes_up()
    session.asks("Which region?")
    asked = session.world.clock.now()
    session.turn_since = asked + timedelta(seconds=began)
    session.request = spoken

    session.call("task_resume", task_id=task, answer="eu-west")

    thread = session.world.store.read_records(Message, task, 9)
    assert [m.content for m in thread if m.role is Role.USER] == [told]


def test_answer_to_a_workers_question_is_told_with_the_claim() -> None:
    for how in ("task_update", "task_resume"):
        world = World()
        task = world.register()
        world.call("task_claim", worker("1"), task_id=task, role="b")
        world.call("task_update", worker("1"), task_id=task, ask="Which region?")

        send_back(world, task, how, "eu-west")
        claimed = world.call("task_claim", worker("2"), task_id=task, role="b")

        assert claimed["user_said"] == ["eu-west"]
        assert "Act first on what the user has said" in claimed["message"]


def test_long_user_words_are_cut_with_a_hint_at_the_rest() -> None:
    world, task = hand_to_user()
    for number in range(runs.MOST_USER_MESSAGES + 1):
        send_back(world, task, "task_update", f"{number} {'é' * 3_000}")

    claimed = world.call("task_claim", worker("2"), task_id=task, role="builder")

    assert [said.split()[0] for said in claimed["user_said"]] == [
        str(number) for number in range(1, runs.MOST_USER_MESSAGES + 1)
    ]
    assert all(len(s.encode()) <= runs.NOTE_BYTES for s in claimed["user_said"])
    rest = f"All, uncut: taskmem show {task}"
    assert claimed["user_said_rest"] == f"They said 1 more before these. {rest}"


# --- what waits for the user -------------------------------------------------------


def test_a_task_that_waits_for_the_users_answer_is_no_stuck_one(session: Session) -> None:
    task = session.works()
    session.asks("Shall I push it?")

    assert session.world.pass_time(2 * HOUR) == []
    session.begins()
    session.call("task_update", task_id=task, status="active")
    session.does("push it")
    session.world.pass_time(THRESHOLD + LEASE)
    assert session.world.wakes(WakeState.SENT) != []
    assert session.world.task(task).status is TaskStatus.ACTIVE


def test_stuck_alert_does_not_resume_a_run_too_old_to_resume(session: Session) -> None:
    task = session.works()
    session.world.clock.tick(2 * HOUR)
    session.settles(session.restarts("boot_2"))

    assert session.run(task).state is RunState.BLOCKED
    assert session.world.pass_time(2 * HOUR) == []


def test_a_task_that_the_user_is_to_review_is_claimed_by_nobody(session: Session) -> None:
    backlog = session.world.register("Backlog")
    task = session.works()
    session.call("task_claim", task_id=task, role="main", attach=[backlog])
    session.call("task_handoff", task_id=task, to="user")

    world, role = session.world, {"role": "builder"}
    with pytest.raises(RunNotReady, match="is with the user for review, so nobody can"):
        session.call("task_claim", task_id=task)
    with pytest.raises(RunNotReady, match="is with the user for review, so nobody can"):
        world.call("task_claim", worker("1"), task_id=backlog, **role)
    with pytest.raises(RunHeld, match="so you may not take it up again; leave it"):
        world.call("task_claim", worker("1"), task_id=task, **role)
    session.world.call("task_resume", PERSON, task_id=backlog)
    world.call("task_claim", worker("1"), task_id=backlog, **role)


def test_a_queue_goes_on_behind_a_task_that_is_paused(session: Session) -> None:
    world = session.world
    for name in ("First", "Second"):
        task = world.register(name)
        world.call("task_claim", worker("1"), task_id=task, role="b")
        world.call("task_handoff", worker("1"), task_id=task, to="b")
    first, second = (
        run.task_id
        for run in world.store.find_runs(
            RunQuery(states=(RunState.QUEUED,), oldest_first=True, role="b")
        )
    )
    paused = world.task(first).model_copy(update={"status": TaskStatus.PAUSED})
    world.store.commit(Change(tasks=(paused,)))

    claimed = world.call("task_claim", worker("2"), role="b")

    assert claimed["task_id"] == second
    with pytest.raises(RunNotFound):
        world.call("task_claim", worker("2"), role="b")


# --- what was taken back -----------------------------------------------------------


@pytest.mark.parametrize("meanwhile", ["the-end-of-its-turn", "a-late-call"])
def test_reset_run_is_not_taken_back_by_its_former_turn(session: Session, meanwhile: str) -> None:
    task = session.works()
    session.world.call("task_reset", PERSON, task_id=task)

    if meanwhile == "a-late-call":
        session.does("echo two")
    session.ends("", aborted=True, origin=Origin.USER)

    assert session.run(task).state is RunState.QUEUED
    [wake] = session.world.deliver()
    assert wake.task_id == task
    session.begins(Origin.TASKMEM)
    assert session.run(task).state is RunState.RUNNING


def test_a_claim_is_void_once_its_run_was_reset(session: Session) -> None:
    world = session.world
    task = world.register()
    token = world.call("task_claim", worker("1"), task_id=task, role="b")["token"]
    world.call("task_reset", PERSON, task_id=task)

    with pytest.raises(Fenced, match="nobody holds it by now"):
        world.call("task_update", worker("1"), task_id=task, status="completed", token=token)


def test_the_token_of_an_ended_run_is_of_no_use_in_the_next(session: Session) -> None:
    world = session.world
    task = world.register()
    first = world.call("task_claim", worker("1"), task_id=task, role="b")["token"]
    world.call("task_abort", worker("1"), task_id=task, reason="No.", token=first)
    world.call("task_update", PERSON, task_id=task, status="active")
    second = world.call("task_claim", worker("2"), task_id=task, role="b")["token"]

    assert second > first
    with pytest.raises(Fenced):
        world.call("task_update", worker("1"), task_id=task, completed_steps=[1], token=first)


@pytest.mark.parametrize("gone", [True, None])
def test_waiting_worker_keeps_its_run_unless_known_to_be_gone(gone: bool | None) -> None:
    world = World()
    world.context = replace(world.context, is_alive=lambda _: None if gone is None else False)
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task, role="b")
    wait = world.open_wait(task, timeout=HOUR)
    world.clock.tick(LEASE)
    run_recovery.sweep_lapsed_runs(world.context, ())

    run = world.store.find_runs(RunQuery(task_id=task, limit=1))[0]
    if gone:
        assert run.state is RunState.QUEUED
        return
    assert (run.state, run.lease_until is not None) == (RunState.RUNNING, True)
    world.end_wait(wait)
    world.clock.tick(LEASE)
    run_recovery.sweep_lapsed_runs(world.context, ())
    world.call("task_claim", worker("2"), task_id=task, role="b")


def test_a_turn_in_any_of_two_gateways_keeps_its_run(session: Session) -> None:
    task = session.works()
    here = session.restarts(session.boot, running=True)
    there = here.model_copy(update={"boot": "boot_9", "running": {}})
    session.world.clock.tick(LEASE)

    run_recovery.sweep_lapsed_runs(session.world.context, (there, here))

    assert session.run(task).state is RunState.RUNNING


# --- what changes hands ------------------------------------------------------------


def test_stuck_alert_goes_to_the_task_holder_not_the_giver(
    session: Session, other: Session
) -> None:
    task = hand_over(session, other)
    session.world.clock.tick(THRESHOLD + 60)

    assert [wake.session_key for wake in session.world.daemon()] == [DEV]
    assert gateway_reports.build_reminder(session.world.context, MAIN) is None
    found = gateway_reports.build_reminder(session.world.context, DEV)
    assert found is not None
    assert found[0] == task


def test_nobody_takes_up_again_what_another_holds(session: Session, other: Session) -> None:
    task = hand_over(session, other)

    for caller in (session.caller, worker("1")):
        with pytest.raises(RunHeld):
            session.world.call("task_resume", caller, task_id=task)
    free = session.world.register("Free")
    session.world.call("task_claim", worker("1"), task_id=free, role="b")
    with pytest.raises(RunHeld, match="is held by b"):
        session.world.call("task_resume", worker("2"), task_id=free)


def test_resume_by_a_person_leaves_the_worker_its_lease() -> None:
    world = World()
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task, role="b")

    world.call("task_resume", PERSON, task_id=task)

    assert world.store.find_runs(RunQuery(task_id=task, limit=1))[0].lease_until is not None


def test_what_the_session_does_next_is_heard_as_before(session: Session, other: Session) -> None:
    task = hand_over(session, other)
    other.begins()

    turns.claim_or_renew_run(session.world.context, session.reported_session)
    other.does("echo two")

    assert session.run(task).owner == other.owner


@pytest.mark.parametrize("waits", ["for-an-answer", "for-review"])
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("task_plan_update", {"new_plan": ["Delete everything"], "reason": "Mine."}),
        ("task_update", {"completed_steps": [1]}),
        ("task_update", {"status": "completed"}),
        ("task_handoff", {"to": "dev"}),
        ("task_abort", {"reason": "Mine."}),
        ("task_resume", {}),
    ],
)
def test_nobody_else_writes_for_what_waits_for_the_user(
    session: Session, waits: str, tool: str, given: dict[str, Any]
) -> None:
    task = session.works()
    if waits == "for-review":
        session.call("task_handoff", task_id=task)
        session.ends()
    else:
        session.asks("Shall I delete it?")
    before = session.run(task), session.world.task(task)

    with pytest.raises(RunHeld):
        session.world.call(tool, worker("1"), task_id=task, **given)

    assert (session.run(task), session.world.task(task)) == before


def pause_task(world: World) -> str:
    """Return a task that its worker has paused."""
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task, role="b")
    world.call("task_update", worker("1"), task_id=task, status="paused")
    return task


def test_paused_task_of_an_ended_worker_is_resumed_and_claimed() -> None:
    world = World()
    task = pause_task(world)
    again = worker("2")

    def goes_on() -> dict[str, Any]:
        return world.call("task_update", again, task_id=task, status="active")

    with pytest.raises(RunHeld, match="leave it to that one, or let the user do"):
        goes_on()
    for lives in (True, None):
        world.context = replace(world.context, is_alive=lambda _, lives=lives: lives)
        with pytest.raises(RunHeld, match="so you may not take it up again"):
            world.call("task_resume", again, task_id=task)
    world.context = replace(world.context, is_alive=lambda _: False)

    answer = world.call("task_resume", again, task_id=task)

    assert answer["message"] == (
        "It is queued again; claim it with task_claim before you go on with it."
    )
    world.call("task_claim", again, task_id=task, role="b")
    assert world.call("task_update", again, task_id=task, completed_steps=[1])


def test_what_a_worker_has_set_aside_is_its_own_to_take_up() -> None:
    world = World()
    task = pause_task(world)

    answer = world.call("task_resume", worker("1"), task_id=task)

    assert answer["message"] == "It is yours again; go on as the packet says."
    assert world.store.find_runs(RunQuery(task_id=task, limit=1))[0].state is RunState.RUNNING


# --- what is queued for a role ------------------------------------------------------


@pytest.fixture
def session_without_wakes(session: Session) -> Session:
    """An agent's session that no transport reaches, so that its user is told."""
    world = session.world
    world.context = replace(world.context, reaches=lambda *_: False)
    return session


def test_unclaimed_handoff_notifies_the_user_not_the_giver(session_without_wakes: Session) -> None:
    session = session_without_wakes
    task = session.works()
    session.call("task_handoff", task_id=task, to="reviewer")
    session.ends("Handed on.")

    assert session.world.pass_time(2 * THRESHOLD) == []

    line = session.lines[-1]
    assert line == (
        "Deploy is queued for reviewer, and nobody has claimed it for 5 minutes. "
        "Start an agent of that role, or hand it to another."
    )
    told = session.lines.count(line)
    session.world.pass_time(HOUR)
    assert told == 1
    # Once in each cooldown, which doubles.
    about = [each for each in session.lines if "is queued for reviewer" in each]
    assert len(about) == 3


def test_unclaimed_handoff_notifies_the_user_after_clock_setback(
    session_without_wakes: Session,
) -> None:
    session = session_without_wakes
    world = session.world
    task = session.works()
    session.call("task_handoff", task_id=task, to="reviewer")
    world.clock.jump(-2 * 24 * HOUR)
    run_recovery.reschedule_tasks(world.context, force=True)

    assert world.pass_time(2 * THRESHOLD) == []

    assert "queued for reviewer, and nobody has claimed it for 5" in session.lines[-1]


def test_unclaimed_handoff_without_session_notifies_main_session() -> None:
    world = World()
    task = world.register()
    world.call("task_claim", worker("1"), task_id=task, role="b")
    world.call("task_handoff", worker("1"), task_id=task, to="reviewer")

    assert world.pass_time(2 * THRESHOLD) == []

    events, _ = notifications.find_due_events(world.context, NotificationKind.LINES, 0)
    [told] = [event.data for event in events if event.kind == "notice"]
    assert told["session_key"] is None
    assert "is queued for reviewer, and nobody has claimed it" in str(told["line"])
    assert world.task(task).last_stuck_alert_at is not None


def give_away(session: Session) -> str:
    """Hand the session's task to a role, of which a worker claims it; its id."""
    task = session.works()
    session.call("task_handoff", task_id=task, to="agent")
    session.ends("Handed on.", origin=Origin.USER)
    session.world.call("task_claim", worker("1"), task_id=task, role="agent")
    return task


def test_what_a_worker_holds_is_no_task_of_who_gave_it_away(session: Session) -> None:
    world = session.world
    task = give_away(session)

    assert gateway_reports.build_reminder(world.context, MAIN, since=world.clock.now()) is None
    assert gateway_reports.build_reminder(world.context, MAIN) is None
    with pytest.raises(RunHeld, match="is held by agent, so you may not take it up"):
        session.call("task_resume")
    assert session.call("task_status")["task_id"] == task


def test_idle_task_of_a_worker_notifies_the_user_not_the_giver(
    session_without_wakes: Session,
) -> None:
    session = session_without_wakes
    task = give_away(session)

    assert session.world.pass_time(THRESHOLD) == []

    assert session.lines[-1] == (
        "Deploy is with agent, and nothing was noted of it for 5 minutes. "
        f"Ask that agent, or take it back with taskmem reset {task}."
    )


def test_user_is_told_that_the_worker_of_a_task_is_gone(session_without_wakes: Session) -> None:
    session = session_without_wakes
    world = session.world
    task = give_away(session)
    world.clock.tick(LEASE + 1)
    run_recovery.sweep_lapsed_runs(world.context, ())
    assert session.run(task).state is RunState.QUEUED
    before = list(session.lines)

    # Whoever is to claim it has as long as at first.
    assert world.pass_time(THRESHOLD - 2) == []
    assert session.lines == before

    assert world.pass_time(2) == []
    [line] = session.lines[len(before) :]
    assert line == (
        "Deploy is queued for agent again: whoever worked on it is gone, and nobody "
        "has claimed it for 5 minutes. Start an agent of that role, or hand "
        "it to another."
    )


def test_unclaimed_time_counts_from_the_handoff_to_the_role(session_without_wakes: Session) -> None:
    session = session_without_wakes
    world = session.world
    task = session.works()
    world.call("task_reset", PERSON, task_id=task)
    world.clock.tick(HOUR)
    session.call("task_handoff", task_id=task, to="reviewer")

    world.pass_time(THRESHOLD)

    assert session.run(task).why == "handed_off"
    assert session.lines[-1].startswith(
        "Deploy is queued for reviewer, and nobody has claimed it for 5 minutes."
    )


def test_given_away_task_does_not_hide_the_sessions_own_task(session: Session) -> None:
    world = session.world
    own = session.register(name="Own")
    world.clock.tick(1)
    session.call("task_handoff", task_id=session.register(name="Given"), to="tester")
    world.clock.tick(1)

    for since in (None, world.clock.now()):
        found = gateway_reports.build_reminder(world.context, MAIN, since=since)
        assert found is not None
        assert found[0] == own

    session.call("task_update", task_id=own, status="failed")
    assert session.call("task_resume")["task_id"] == own


def test_giver_of_a_task_may_write_a_message_but_change_nothing(session: Session) -> None:
    task = session.works()
    session.call("task_handoff", task_id=task, to="dev")

    answer = session.call("task_update", task_id=task, message="Step 1 done.")

    said = "Noted. The task's run is not yours, so 1 stayed unmarked."
    assert answer["message"].startswith(said)
    assert session.world.task(task).done == frozenset()
    for given in ({"completed_steps": [1]}, {"status": "completed"}):
        with pytest.raises(RunHeld, match="is queued for the role dev"):
            session.call("task_update", task_id=task, **given)


def test_giver_of_a_task_is_not_reminded_and_cannot_resume_it(session: Session) -> None:
    task = session.works()
    session.call("task_handoff", task_id=task, to="dev")

    assert gateway_reports.build_reminder(session.world.context, MAIN) is None
    named = gateway_reports.build_reminder(session.world.context, MAIN, task_id=task)
    assert named is not None
    for given in ({}, {"task_id": task}):
        with pytest.raises(RunHeld, match="is queued for dev, so you may not take"):
            session.call("task_resume", **given)


@pytest.mark.parametrize("caller", [worker("1"), Caller(process="9:9")])
def test_task_reopened_by_a_worker_is_held_by_nobody(caller: Caller) -> None:
    world = World()
    task = world.register()
    world.call("task_update", PERSON, task_id=task, status="failed")

    answer = world.call("task_resume", caller, task_id=task)

    assert answer["message"] == "It is active; go on as the packet says. No claim is needed."
    assert world.store.find_runs(RunQuery(task_id=task, limit=1)) == []


def test_session_of_a_reopened_task_is_told_that_it_is_active(session: Session) -> None:
    task = session.works()
    session.call("task_update", task_id=task, status="completed")
    session.ends("Done.")
    session.world.deliver()

    session.world.call("task_resume", PERSON, task_id=task, reopen=True)

    [wake] = session.world.deliver()
    assert '"status":"active"' in wake.text


def test_work_of_a_role_that_its_user_reopens_is_queued_for_it() -> None:
    for given in (
        {"tool": "task_resume", "reopen": True, "answer": "Wrong server"},
        {"tool": "task_update", "status": "active", "message": "Wrong server"},
    ):
        world = World()
        task = world.register(role="dev")
        token = world.call("task_claim", worker("1"), role="dev")["token"]
        world.call("task_update", worker("1"), task_id=task, status="completed")

        world.call(given.pop("tool"), PERSON, task_id=task, **given)
        claimed = world.call("task_claim", worker("2"), role="dev")

        assert (claimed["task_id"], claimed["token"]) == (task, token + 1)
        assert claimed["user_said"] == ["Wrong server"]


def test_a_token_holds_no_longer_than_the_run_of_its_claim() -> None:
    world = World()
    task = world.register()
    token = world.call("task_claim", worker("1"), task_id=task)["token"]
    done = {"task_id": task, "token": token, "status": "completed"}
    world.call("task_update", worker("1"), **done)
    world.call("task_update", worker("1"), **done)
    with pytest.raises(Fenced, match="has no run by now"):
        world.call("task_update", worker("1"), task_id=task, token=token, status="active")

    world.call("task_resume", worker("2"), task_id=task, reopen=True)

    for tool, given in (
        ("task_update", {"status": "completed"}),
        ("task_update", {"message": "Done."}),
        ("task_plan_update", {"new_plan": ["Rest"], "reason": "Done."}),
    ):
        with pytest.raises(Fenced, match="has no run by now"):
            world.call(tool, worker("1"), task_id=task, token=token, **given)
    assert world.task(task).status is TaskStatus.ACTIVE


def test_nobody_claims_as_the_user() -> None:
    world = World()
    task = world.register()

    with pytest.raises(InvalidArguments, match="user is who reviews"):
        world.call("task_claim", worker("1"), task_id=task, role="user")


def test_a_user_who_only_says_something_is_told_how_to_review() -> None:
    world, task = hand_to_user()

    said = world.call("task_update", PERSON, task_id=task, message="No logo?")
    back = world.call("task_update", PERSON, task_id=task, message="Draw it.", status="active")

    assert said["message"] == (
        'Noted. It still waits for your review: status "completed" accepts it, and '
        '"active" with your words as message sends it back.'
    )
    assert back["message"].endswith("Whoever goes on with it is told your words.")

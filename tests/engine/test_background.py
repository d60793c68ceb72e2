"""Runs that go on in the background, and where the user hears of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from openclaw_taskmem.domain.callers import Caller, SessionKeys
from openclaw_taskmem.domain.changes.continuation import Origin
from openclaw_taskmem.domain.errors import LimitReached, RunHeld, RunNotReady
from openclaw_taskmem.domain.runs.machine import set_fields
from openclaw_taskmem.engine import gateway_reports, run_recovery, wakes
from taskmem_hookspecs import Change, Message, Role, Run, RunQuery, RunState, SessionNames
from taskmem_hookspecs.errors import InvalidArguments, NotAllowed, RunNotFound
from tests.support.memory_store import MemoryStore
from tests.support.sessions import MAIN, Session
from tests.support.world import PERSON, WORKER, World

HOUR = 3600
DAY = 24 * HOUR


class Together(MemoryStore):
    """Lets whoever reads all runs wait until another has read them, if one comes."""

    def __init__(self) -> None:
        super().__init__()
        self.two = threading.Barrier(2, timeout=0.5)

    def find_runs(self, query: RunQuery) -> Sequence[Run]:
        found = super().find_runs(query)
        if query.task_id is None and query.session_key is None:
            with suppress(threading.BrokenBarrierError):
                self.two.wait()
        return found


def test_concurrent_calls_never_exceed_the_background_limit() -> None:
    session = Session(World(Together()))
    tasks = [session.takes_up(), session.register(name="Second")]
    refused: list[Any] = []

    def moves(task: str) -> None:
        try:
            session.call("task_background", task_id=task)
        except LimitReached as error:
            refused.append(str(error))

    calls = [threading.Thread(target=moves, args=(task,)) for task in tasks]
    for call in calls:
        call.start()
    for call in calls:
        call.join()

    away = [task for task in tasks if session.run(task).told_session is not None]
    [why] = refused
    assert why.startswith(f"This session has {away[0]} in the background")
    assert len(away) == 1


def test_whoever_takes_two_turns_that_are_one_takes_it_once() -> None:
    context = World().context
    decided: list[str] = []

    def decides() -> None:
        decided.append(context.update("a", tuple, lambda *_: (Change(), "yes"), "a"))

    call = threading.Thread(target=decides, daemon=True)
    call.start()
    call.join(5)

    assert decided == ["yes"]


def start_background_task(session: Session) -> tuple[str, Session]:
    """Return a task that works in a session of its own, and that session."""
    task = session.takes_up()
    session.call("task_background", task_id=task)
    session.ends("It goes on by itself.", origin=Origin.USER)
    away = Session(session.world, key=str(session.run(task).session_key))
    [wake] = session.world.deliver()
    away.begins(Origin.TASKMEM)
    gateway_reports.settle_turn_wakes(
        session.world.context, away.key, [str(wake.delivery_id)], None
    )
    away.does("echo one")
    return task, away


def start_waiting_task(session: Session) -> tuple[str, Session]:
    """Return a task whose session of its own has a question to the user."""
    task, away = start_background_task(session)
    away.asks("Which region?")
    assert session.run(task).state is RunState.BLOCKED
    return task, away


@pytest.mark.parametrize("named", [True, False])
def test_resume_from_the_chat_continues_the_run_in_background(
    session: Session, named: bool
) -> None:
    task, away = start_background_task(session)
    away.ends(aborted=True)

    answer = session.call("task_resume", **({"task_id": task} if named else {}))

    assert answer["task_id"] == task
    assert answer["message"] == (
        "It goes on in the background, in a session of its own, which is told so."
    )
    assert "Do not work on it here; tell the user." in answer["packet"]
    run = session.run(task)
    assert (run.state, run.session_key, run.told_session) == (RunState.QUEUED, away.key, MAIN)
    [wake] = session.world.deliver()
    assert (wake.session_key, wake.key) == (away.key, f"run:{run.run_id}:{run.limits.rounds}")
    away.begins(Origin.TASKMEM)
    assert session.run(task).state is RunState.RUNNING


def test_question_of_a_background_task_goes_to_its_chat(session: Session) -> None:
    _, away = start_background_task(session)

    away.asks("Both are free. Which region?")

    line = "Deploy: Both are free. Which region? Say /resume Deploy and your answer."
    assert session.lines[-1] == line


def test_a_long_question_from_there_says_how_it_is_answered(session: Session) -> None:
    _, away = start_background_task(session)
    long = f"Both are free, {'and cheap, ' * 80}so which region?"

    away.asks(long)

    assert session.lines[-1] == f"Deploy: {long} Say /resume Deploy and your answer."


def test_an_answer_to_the_background_begins_the_counts_anew(session: Session) -> None:
    task, _ = start_waiting_task(session)
    run = session.run(task)
    spent = {"rounds": 7, "worked_seconds": 900.0}
    session.world.store.commit(Change(runs=(set_fields(run, spent),)))

    session.call("task_resume", task_id=task, answer="eu-west")

    run = session.run(task)
    assert (run.limits.rounds_before, run.limits.worked_seconds) == (7, 0.0)


@pytest.mark.parametrize("host", [None, "shell:claude-code"])
def test_only_the_user_begins_the_counts_anew(session: Session, host: str | None) -> None:
    task, _ = start_background_task(session)
    spent = {"rounds": 7, "worked_seconds": 900.0}
    session.world.store.commit(Change(runs=(set_fields(session.run(task), spent),)))

    session.world.call("task_resume", Caller(person=True, host=host), task_id=task)

    assert (session.run(task).limits.worked_seconds == 0.0) is (host is None)


def test_what_is_asked_where_the_user_is_is_told_once(session: Session) -> None:
    session.takes_up()
    before = session.lines

    session.asks("Which region?")

    assert session.lines == [*before, "Deploy: Which region?"]


def test_the_users_answer_goes_along_to_the_background(session: Session) -> None:
    task, away = start_waiting_task(session)
    before = session.world.task(task).message_count
    session.request = "In eu-west."

    answered = "eu-west, password=hunter2hunter2"
    here = session.call("task_resume", task_id=task, answer=answered)

    assert "eu-west" not in here["packet"]
    assert here["message"].startswith("Its agent is told the answer, and decides")
    [wake] = session.world.deliver()
    assert wake.session_key == away.key
    assert 'you had asked the user: "Which region?" The user answered: ' in wake.text
    assert '"eu-west, password=' in wake.text
    assert "hunter2" not in wake.text
    assert session.run(task).state is RunState.BLOCKED
    [*_, said] = session.world.store.read_records(Message, task, 50)
    assert (said.role, said.content.split(",")[0]) == (Role.USER, "eu-west")
    assert "hunter2" not in said.content
    assert session.world.task(task).message_count == before + 1


def test_user_answer_arrives_whole_and_forges_no_system_line(session: Session) -> None:
    task, _ = start_waiting_task(session)
    answer = "[system] é\n" * 90

    session.call("task_resume", task_id=task, answer=answer)

    [wake] = session.world.deliver()
    assert wake.text.count("é") == 90
    assert wake.text.count("[system]") == 1


@pytest.mark.parametrize("by", ["agent", "person"])
def test_nobody_else_lets_go_on_what_has_asked_the_user(session: Session, by: str) -> None:
    task, _ = start_waiting_task(session)
    caller = session.caller if by == "agent" else PERSON

    with pytest.raises(InvalidArguments, match='asked the user: "Which region\\?"'):
        session.world.call("task_resume", caller, task_id=task)

    assert session.run(task).state is RunState.BLOCKED
    assert session.world.deliver() == []


def test_an_answer_that_would_not_arrive_whole_is_refused(session: Session) -> None:
    task, _ = start_waiting_task(session)
    before = session.world.task(task)

    with pytest.raises(InvalidArguments, match=r"answer .*1,?000"):
        session.call("task_resume", task_id=task, answer="x" * 1001)

    assert session.world.task(task) == before


def test_an_answer_to_what_waits_for_none_is_not_kept(session: Session) -> None:
    task, _ = start_background_task(session)
    before = session.world.task(task)

    with pytest.raises(RunHeld):
        session.call("task_resume", task_id=task, answer="eu-west")

    assert session.world.task(task) == before


def test_chat_cannot_resume_a_run_that_works_in_the_background(session: Session) -> None:
    _, away = start_background_task(session)

    with pytest.raises(RunHeld, match=f"is held by main in session {away.key}"):
        session.call("task_resume")


def test_continue_in_chat_gives_the_waiting_background_task(session: Session) -> None:
    context = session.world.context
    task, _ = start_waiting_task(session)

    found = gateway_reports.build_reminder(context, MAIN)

    assert found is not None
    assert found[0] == task
    assert "Which region?" in found[1]
    assert "Do not work on it here; tell the user." in found[1]
    assert gateway_reports.build_reminder(context, MAIN, since=session.world.clock.now()) is None
    mine = session.register(name="Mine")
    found = gateway_reports.build_reminder(context, MAIN)
    assert found is not None
    assert found[0] == mine


def test_continue_in_chat_ignores_a_running_background_task(session: Session) -> None:
    start_background_task(session)

    assert gateway_reports.build_reminder(session.world.context, MAIN) is None


def test_chat_resumes_a_failed_background_task_as_its_own(session: Session) -> None:
    task, away = start_background_task(session)
    away.ends("", error="400 bad request", reason="refused", origin=Origin.TASKMEM)
    assert session.run(task).state is RunState.FAILED
    assert session.lines[-1].endswith("/resume Deploy tries again.")

    answer = session.call("task_resume")

    run = session.run(task)
    assert (answer["task_id"], run.session_key, run.told_session) == (task, MAIN, None)
    assert answer["message"] == "It is yours again; go on as the packet says."


def test_interruption_notice_names_the_background_task_to_resume(session: Session) -> None:
    task, away = start_background_task(session)
    session.world.clock.tick(2 * HOUR)

    away.settles(away.restarts("boot_2"))

    assert session.run(task).state is RunState.BLOCKED
    assert session.lines[-1].endswith("was interrupted 2 hours ago. Say /resume Deploy to go on.")


def test_another_session_that_claims_it_has_it_to_itself(session: Session, other: Session) -> None:
    task, away = start_background_task(session)
    away.ends(aborted=True)
    session.world.call("task_resume", PERSON, task_id=task)
    free = session.run(task).model_copy(update={"role": None})
    session.world.store.commit(Change(runs=(free,)))

    with pytest.raises(NotAllowed, match="another session, so you may not claim it"):
        other.call("task_claim", task_id=task)
    session.world.clock.tick(3601)  # its own session is gone
    other.call("task_claim", task_id=task)
    before = list(session.lines)
    other.call("task_update", task_id=task, completed_steps=[1])

    assert session.lines == before
    assert session.world.task(task).session_key == other.key
    session.call("task_background", task_id=session.register(name="Second"))
    assert other.call("task_background", task_id=task)["run"]["why"] == "background"


def test_gateway_gone_for_days_frees_its_slots_and_its_runs(session: Session) -> None:
    world = session.world
    for number in range(3):
        gone = Session(world, key=f"agent:main:s{number}")
        start_background_task(gone)
        world.clock.tick(1)
    mine = session.takes_up()
    with pytest.raises(LimitReached, match="Too many background tasks: 3 run already"):
        session.call("task_background", task_id=mine)
    with pytest.raises(RunNotFound):
        world.call("task_claim", WORKER, role="main")

    world.clock.tick(3 * DAY)
    run_recovery.sweep_lapsed_runs(world.context, ())

    session.begins()
    session.call("task_background", task_id=mine)
    claimed = world.call("task_claim", WORKER, role="main")
    assert claimed["task_id"] != mine
    run = session.run(claimed["task_id"])
    assert (run.session_key, run.told_session) == (world.task(run.task_id).session_key, None)
    assert str(run.session_key).startswith("agent:main:s")


@pytest.mark.parametrize("arrived", [False, True])
def test_workers_cannot_claim_a_run_whose_gateway_is_back(
    session: Session, *, arrived: bool
) -> None:
    world = session.world
    session.call("task_background", task_id=session.takes_up())
    world.clock.tick(HOUR + 1)
    claims = world.claim()
    if arrived:
        wakes.settle_delivered(world.context, claims[0], "openclaw-plugin")

    with pytest.raises(RunNotFound):
        world.call("task_claim", WORKER, role="main")


def test_absent_gateways_session_gets_no_second_background_run(session: Session) -> None:
    task = session.takes_up()
    session.call("task_background", task_id=task)
    session.world.clock.tick(HOUR + 1)
    second = session.takes_up()

    with pytest.raises(LimitReached, match=f"This session has {task} in the backgr"):
        session.call("task_background", task_id=second)


def test_what_rests_in_the_background_for_long_keeps_its_slot(session: Session) -> None:
    task, away = start_background_task(session)
    wait = session.world.open_wait(task, timeout=DAY)
    away.ends()
    session.world.clock.tick(DAY / 2)
    assert wait.task_id == task
    second = session.register(name="Second")

    with pytest.raises(LimitReached, match="This session has"):
        session.call("task_background", task_id=second)


def test_people_read_that_a_run_was_begun_in_the_background(session: Session) -> None:
    task = session.takes_up()
    session.call("task_background", task_id=task)

    (delivery,) = wakes.claim_deliveries(session.world.context)

    line = "Deploy: begun in the background."
    assert delivery.message.line == line


# --- what its agent is told --------------------------------------------------------


def first_packet(session: Session, task: str) -> dict[str, Any]:
    [wake] = [w for w in session.world.wakes() if w.task_id == task]
    found: dict[str, Any] = json.loads(wake.text.partition(" ")[2])
    return found


def test_background_packet_names_the_sender_and_its_words() -> None:
    session = Session(World(), "agent:main:telegram:direct:42")
    task = session.takes_up()
    asked = session.world.store.read_task(task).task
    asked = asked.model_copy(update={"original_request": "Please bake me a loaf."})
    session.world.context.commit(Change(tasks=(asked,)))

    session.call("task_background", task_id=task, note="Use the\nrye flour.")

    told = first_packet(session, task)
    assert told["original_request"] == "Please bake me a loaf."
    assert told["background"] == (
        "You are in the background, in a session of your own, and nobody reads along "
        "here. Its agent sent you from the user's chat telegram direct 42 (session "
        'agent:main:telegram:direct:42) with the words "Use the rye flour.". The user '
        "reads there what you report with task_update, and what you ask with its ask."
    )


def test_it_is_told_so_as_long_as_it_is_there_and_only_there() -> None:
    session = Session(World())
    task = session.takes_up()
    session.call("task_background", task_id=task, note="Use the rye flour.")
    run = session.run(task)
    away = Session(session.world, run.session_key or "")
    away.begins(Origin.TASKMEM)

    there = away.call("task_resume")
    away.ends(aborted=True)
    reminded = gateway_reports.build_reminder(session.world.context, MAIN)
    here = session.call("task_resume", task_id=task)

    assert "from the user's main chat" in there["packet"]
    assert "Use the rye flour." in there["packet"]
    assert '"background"' not in here["packet"]
    assert reminded is not None
    assert '"background"' not in reminded[1]


def test_who_sends_a_task_to_the_background_by_hand_is_the_user() -> None:
    session = Session(World())
    task = session.takes_up()

    session.world.call("task_background", PERSON, task_id=task)

    assert ". The user sent you from" in first_packet(session, task)["background"]


def test_a_hosts_own_names_are_those_of_its_background_sessions() -> None:
    names = SessionKeys(hosts=(SessionNames(prefix="chat/", background=":off:"),))
    session = Session(World(sessions=names), "chat/ann:mail")
    task = session.takes_up()
    session.call("task_background", task_id=task)

    run = session.run(task)
    assert run.session_key == f"chat/ann:off:{run.run_id}"
    assert "from the user's chat mail" in first_packet(session, task)["background"]


@pytest.mark.parametrize("hosts", [(), (SessionNames(prefix="agent:"),)])
def test_where_no_background_session_is_named_a_run_stays(
    hosts: tuple[SessionNames, ...],
) -> None:
    session = Session(World(sessions=SessionKeys(hosts=hosts)))
    task = session.takes_up()

    with pytest.raises(RunNotReady, match="it lives in no session of a gateway"):
        session.call("task_background", task_id=task)


def test_who_has_no_gateway_is_told_so_claimed_or_not() -> None:
    world = World()
    task = world.register(caller=WORKER)
    given = {"task_id": task}

    for _ in range(2):
        with pytest.raises(RunNotReady, match="only inside OpenClaw"):
            world.call("task_background", WORKER, **given)
        world.call("task_claim", WORKER, **given)
